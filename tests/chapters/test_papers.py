"""The page of the papers: what a row of its equations names exists, and one without code says why; all is cited."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.notebooks import chapters, run_notebooks, tested
from tools.site import pages

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "book" / "papers.md").read_text(encoding="utf-8")
HEAD = "| The paper's place | Ours | Code | Test | The same? |"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.count("|") == HEAD.count("|") and line != HEAD and not line.startswith("| ---")
]
EQUATIONS = {number for name in run_notebooks.chapters() for number in chapters.equations(name)}
MODULES = pages.documented().values()


SECTIONS = set(chapters.sections())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_a_row_names_exists(row):
    place, ours, code, tests, verdict = row
    assert place
    assert re.match(r"same|differs|left out: \w|ours", verdict), "a verdict"
    if verdict.startswith("differs"):
        assert ": " in verdict, "what differs says why"
    for number in re.findall(r"\((\d+\.\d+)\)", ours):
        assert number in EQUATIONS
    for number in re.findall(r"Section (\d+\.\d+)", ours):
        assert number in SECTIONS
    named = re.findall(r"\{(?:class|func)\}`(\w+)`", code)
    assert all(any(hasattr(module, name) for module in MODULES) for name in named), named
    held = re.findall(r"`(test_\w+)`", tests)
    assert [name for name in held if name not in tested.places()] == []
    assert verdict.startswith("left out") or (named and held), "what is there is held by a test"


def test_every_entry_of_the_bibliography_is_cited_in_a_page():
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "book").glob("*.md"))
    numbers = re.findall(r"eprint = \{(.+?)\}", (ROOT / "book" / "references.bib").read_text(encoding="utf-8"))
    assert [number for number in numbers if number not in pages] == []


def test_each_equation_of_the_papers_chapters_has_a_row_or_is_named_as_ours():
    rows = {number for row in ROWS for number in re.findall(r"\((\d+\.\d+)\)", row[1])}
    ours = re.search(r"^Ours, without a row: (.*)$", TEXT, re.MULTILINE)[1]
    named = set(re.findall(r"\((\d+\.\d+)\)", ours))
    numbered = {number for number in EQUATIONS if number[0] in "2345"}
    assert numbered - rows == named
