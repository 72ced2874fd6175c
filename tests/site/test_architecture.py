"""The picture of the package's floors shows what its modules import."""

from __future__ import annotations

import re
from itertools import product

import grimp
import pytest
from bs4 import BeautifulSoup

from tools.site import architecture


@pytest.fixture(scope="module")
def levels():
    return architecture.floors()


def test_each_folder_and_module_of_the_package_has_a_floor(levels):
    names = [name for level in levels for name in level.names]
    there = {path.parent.name for path in architecture.SOURCE.glob("*/__init__.py")}
    there |= {path.stem for path in architecture.SOURCE.glob("*.py")} - {"__init__"}
    assert sorted(names) == sorted(there)


def test_its_arrows_are_those_that_the_linter_sees_and_lead_down(levels):
    graph = grimp.build_graph(architecture.PACKAGE)

    def modules(level):
        top = [f"{architecture.PACKAGE}.{name}" for name in level.names]
        return [*top, *(module for name in top for module in graph.find_descendants(name))]

    inside = [modules(level) for level in levels]
    pairs = product(range(len(levels)), repeat=2)
    seen = [
        (a, b)
        for a, b in pairs
        if a != b and any(graph.find_modules_directly_imported_by(module) & set(inside[b]) for module in inside[a])
    ]
    assert architecture.arrows(levels) == seen
    assert all(upper < lower for upper, lower in seen)


def test_it_draws_and_says_each_arrow(levels):
    picture = BeautifulSoup(architecture.svg(), "html.parser").svg
    arrows = architecture.arrows(levels)
    assert len(picture.select("path[marker-end]")) == len(arrows)
    for upper in {upper for upper, _ in arrows}:
        below = "; ".join(levels[b].title for a, b in arrows if a == upper)
        assert f"{levels[upper].title} from {below}." in picture["aria-label"]


def test_an_import_within_a_function_and_of_a_module_by_its_name_are_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(architecture, "SOURCE", tmp_path)
    (tmp_path / "book" / "figures").mkdir(parents=True)
    path = tmp_path / "book" / "figures" / "one.py"
    path.write_text(
        "import re\nfrom ... import saving\nfrom . import style\ndef f():\n    from ...layers.cache import Cache\n"
    )
    assert architecture.imported(path) == {"saving", "layers", "book"}


def test_nothing_is_drawn_beyond_its_edge(levels):
    picture = architecture.svg()
    width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', picture).groups())
    assert width <= 358  # the column of a page on a phone of 390 pixels
    points = re.findall(r"M(\S+) (\S+)C(\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\"", picture)
    assert len(points) == len(architecture.arrows(levels))
    for curve in points:
        x1, y1, bend, _, _, _, x2, y2 = map(float, curve)
        assert (x1 + 3 * bend + 3 * bend + x2) / 8 <= width  # the middle of the curve
        assert 0 < y1 < y2 < height
