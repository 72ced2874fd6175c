"""The page What did not work: each line says what the records say, as its study computes it, and leads there."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup

from efficient_transformers.studies.evidence import Comparison
from tools.site import intervals, nulls

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
PAGE = SITE / f"{nulls.PAGE}.html"
LINES = [line for lines in nulls.SAYS["parts"].values() for line in lines]


def pairs_of(line):
    """The pairs that a line rests on, drawn or not: a list and two models each."""
    return [pair for pairs in (line["rows"].values(), *line.get("also", {}).values()) for pair in pairs]


def named(line):
    return f"{line['section']} {line['came'][:40]}"


@cache
def printed():
    """All that the stored outputs of the studies print, with one space between words."""
    notebooks = [nbformat.read(path, as_version=4) for path in (ROOT / "notebooks" / "studies").glob("*.ipynb")]
    cells = [cell for notebook in notebooks for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    text = "".join(str(output.get("data", {}).get("text/html", output.get("text", ""))) for output in outputs)
    return re.sub(r"\s+", " ", BeautifulSoup(text, "html.parser").get_text(" "))


def as_printed(found: Comparison):
    """The ways in which studies print a comparison, in either direction."""
    mirrored = replace(found, mean=-found.mean, low=-found.high, high=-found.low)
    return [form for side in (found, mirrored) for form in one_way(side)]


def one_way(found: Comparison):
    interval = f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    return [f"{interval}{mark}" for mark in ([""] if found.told_apart else [", not told apart", " *"])] + [
        found.short()
    ]


@pytest.mark.parametrize("line", LINES, ids=named)
def test_a_line_says_what_the_records_say(line):
    assert {line["verdict"], *line.get("also", ())} <= intervals.CLASSES.keys()
    for found in nulls.rows_of(line).values():
        assert found.told_apart == (line["verdict"] != "not told apart") == (not found.low <= 0 <= found.high)
        assert found.mean < 0 if line["verdict"] == "lower" else found.mean > 0 or line["verdict"] == "not told apart"


@pytest.mark.parametrize("line", LINES, ids=named)
def test_its_intervals_are_those_that_a_study_prints(line):
    """So its list is the one that the study has declared, with all of its pairs."""
    for name, *pair in pairs_of(line):
        found = nulls.compared(name)
        comparison = found[tuple(pair)]
        if line["at"] == "fig-s3-3":  # a figure without a table: its interval is in words, of eight pairs
            assert 0.0235 < (comparison.high - comparison.low) / 2 < 0.0255
            assert len(found) == 8
        else:
            assert any(form in printed() for form in as_printed(comparison)), as_printed(comparison)


def test_a_line_that_the_records_do_not_bear_out_stops_the_build():
    for line in LINES:
        for wrong in intervals.CLASSES.keys() - {line["verdict"]}:
            with pytest.raises(ValueError, match=f"expected '{wrong}', one of"):
                nulls.rows_of(copy.deepcopy(line) | {"verdict": wrong})
    with pytest.raises(ValueError, match="'nobody' is not among the runs"):
        nulls.found_in(["500 steps"], "nobody")


@pytest.mark.site
def test_the_page_has_each_line_with_its_picture_and_its_link():
    page = BeautifulSoup(PAGE.read_text(encoding="utf-8"), "html.parser")
    items = page.select(".nulls > li")
    assert len(items) == len(LINES) == int(nulls.count())
    assert f"{len(items)} with their runs, and more at the end" in page.article.get_text()
    assert page.select("#guesses-that-a-closer-look-refuted li")
    for item, line in zip(items, LINES, strict=True):
        rows = nulls.rows_of(line)
        means = [mark.get_text() for mark in item.select(".intervals > div:not(.ends) > b")]
        assert means == [intervals.signed(c.mean) for c in rows.values()]
        assert len(item.select("em.sure")) == (0 if line["verdict"] == "not told apart" else len(rows))
        assert item.select_one("[role=img]")["aria-label"].startswith(line["shows"])
        path, anchor = item.select_one(".more a")["href"].split("#")
        target = BeautifulSoup((PAGE.parent / path).read_text(encoding="utf-8"), "html.parser")
        place = target.find(id=anchor)
        assert place is not None
        heading = place.find_parent("section").find(re.compile("h[23]")).get_text()
        heading = heading if heading.startswith("S") else place.find_parent("section").parent.find("h2").get_text()
        assert heading.startswith(f"{line['section']} "), (heading, line["section"])
        if place.find("table"):  # and not at one that is of something else
            shown = re.sub(r"\s+", " ", place.get_text(" ").replace("\N{MINUS SIGN}", "-"))
            assert any(form in shown for c in rows.values() for form in as_printed(c)), anchor
