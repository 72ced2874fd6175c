"""The SVGs beside the notebooks: drawn with the stored PNGs, smaller than those, and shown by the site."""

from __future__ import annotations

import base64
import gzip
import re
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest

from tools.notebooks import folding, pictures, run_notebooks

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html" / "notebooks"


def stored():
    """The metadata of every numbered picture of the notebooks, by its anchor, and the bytes of its PNG."""
    for name in run_notebooks.notebooks():
        for cell, following in pairwise(nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", 4).cells):
            caption = folding.CAPTION.match(following.source.lstrip())
            for output in (each for o in cell.get("outputs", []) for each in folding.opened(o)):
                if "image/png" in output.get("data", {}):
                    about = output.metadata.get("image/png", {})
                    assert "svg" not in about
                    if caption:
                        drawn = base64.b64decode(output.data["image/png"])
                        if "width" in about:  # an explorer's frame has none
                            assert abs(int.from_bytes(drawn[16:20], "big") - 2 * about["width"]) <= 1, "not sharp"
                        png = len(drawn)
                        yield name, folding.anchor(caption), about, png


def test_each_svg_was_drawn_with_its_png_and_is_smaller():
    found = set()
    for _, anchor, about, png in stored():
        if "vector" in about:
            svg = (pictures.VECTORS / f"{anchor}.svg").read_text(encoding="utf-8")
            found.add(anchor)
            assert pictures.fingerprint(svg) == about["vector"], f"{anchor} is of another run; run `make notebooks`"
            assert pictures.rounded(svg) == svg
            assert len(gzip.compress(svg.encode())) < png
    assert found == {path.stem for path in pictures.VECTORS.iterdir()}


@pytest.mark.site
def test_the_site_shows_the_svg():
    for name, anchor, about, _ in stored():
        page = (SITE / f"{name}.html").read_text(encoding="utf-8")
        figure = re.search(rf'<figure[^>]*id="{anchor}".*?</figure>', page, re.DOTALL)[0]
        assert (f'/_images/{anchor}.svg"' in figure) == ("vector" in about)
