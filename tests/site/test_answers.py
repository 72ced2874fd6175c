"""A question, its answer and its runs on the site: wherever it is asked, words, picture and link are right."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from docutils import nodes

from efficient_transformers.book import results
from efficient_transformers.judging.evidence import Comparison
from tools.notebooks import folding
from tools.site import answers, cells

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
NAMES = list(results.written()["questions"])
BLOCK = re.compile(r"^```\{answer\} (\S+)", re.MULTILINE)


def page(name):
    return BeautifulSoup((SITE / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


def asked_in_notebooks():
    """The names that cells ask, by the notebook's name."""
    found = {}
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        asked = [folding.asked(cell.source) for cell in cells if cell.cell_type == "code"]
        found[path.relative_to(ROOT).with_suffix("").as_posix()] = [name for name in asked if name]
    return found


def test_each_question_is_asked():
    blocks = {name for path in (ROOT / "book").glob("*.md") for name in BLOCK.findall(path.read_text(encoding="utf-8"))}
    assert {*NAMES} == blocks.union(*asked_in_notebooks().values())


MODELS = (results.Model("<new>", 0.004, {7: 1.2, 3: 1.4}), results.Model("old", 0.00566, {3: 1.7, 7: 1.1}))


def test_a_question_opens_to_its_runs():
    row = results.Row(Comparison([-0.3, 0.1], -0.1, -0.19, 0.1, 0.5, False, 0.1), "cannot tell", MODELS)
    found = BeautifulSoup(answers.table("short", row), "html.parser")
    lines = [[cell.get_text(" ") for cell in line.select("th, td")] for line in found.select("tr")]
    assert found.caption.get_text() == "short"
    assert lines == [
        ["", "<new> rate 0.004", "old rate 0.00566", "difference"],
        ["seed 3", "1.400", "1.700", "−0.300"],
        ["seed 7", "1.200", "1.100", "+0.100"],
        ["mean", "1.300", "1.400", "−0.100 −0.190 to +0.100"],
    ]


def test_a_picture_has_each_row_where_its_numbers_are():
    row = Comparison(values=[-0.3, 0.1], mean=-0.1, low=-0.19, high=0.1, p=0.5, told_apart=False, error=0.1)
    far = Comparison(values=[0.5, 0.5], mean=0.5, low=0.4, high=0.6, p=0.01, told_apart=True, error=0.1)
    rows = {"a": results.Row(row, "cannot tell", MODELS), "b": results.Row(far, "worse", MODELS)}
    found = BeautifulSoup(answers.picture(results.Answer("Who?", rows, "No.", "S1.1")), "html.parser")
    lines = found.select(".intervals > div")
    places = [[mark["style"] for mark in line.select("[style]")] for line in lines]
    assert places[0] == ["left:50%", "left:2.5%;right:25.0%", "left:75.0%", "left:25.0%", "left:0.0%"]
    assert places[1] == ["left:50%", "left:100.0%"]
    assert [line["class"] for line in lines] == [["cannot-tell"], ["worse"], ["ends"]]
    assert found.div["aria-label"] == (
        "Who? a: cannot tell −0.100, interval −0.190 to +0.100; b: worse +0.500, interval +0.400 to +0.600."
    )


def test_the_text_that_tells_an_answer_joins_its_output():
    cell = nodes.container(nb_element="cell_code", cell_metadata={"predicted": True})
    cell += nodes.container("", nodes.paragraph("", "42"), nb_element="cell_code_output")
    cell += nodes.paragraph("", "code of the picture")  # below it, where a picture folds its code
    check = nodes.container(classes=["tag_fold"])
    opens = nodes.raw("", "<details><summary>Guess first, then open</summary>", format="html")
    closes, after = nodes.raw("", "</details>", format="html"), nodes.paragraph("", "Go on.")
    page = nodes.section("", cell, check, opens, nodes.paragraph("", "It is 42."), closes, after)
    cells.close_answers(None, page)
    assert [child.astext() for child in cell] == [cells.ANSWER, "42", "It is 42.", "</details>", "code of the picture"]
    assert list(page) == [cell, check, after]


@pytest.mark.site
@pytest.mark.parametrize("notebook", [name for name, asked in asked_in_notebooks().items() if asked])
def test_a_cell_that_asks_gives_way_to_its_question(notebook):
    tree = page(notebook)
    asked = asked_in_notebooks()[notebook]
    assert [block["id"] for block in tree.select(".result")] == [f"question-{name}" for name in asked]
    assert "results.answer(" not in tree.article.get_text()
    keys = [block.select(":scope > .more") for block in tree.select(".result")]
    notes = [key[0].get_text() if key else "" for key in keys]
    found = [results.find(name) for name in asked]
    timed = [
        re.search(r"\b(short|long|longest)\b(?! time)", f"{one.question} {one.sentence} {[*one.rows]}") for one in found
    ]
    assert ["A dot is the difference in loss" in note for note in notes] == [True] + [False] * (len(keys) - 1)
    first = next((i for i, found in enumerate(timed) if found), None)  # the lengths stand where they are first needed
    assert [i for i, note in enumerate(notes) if "means 500 steps" in note] == [] if first is None else [first]
    far = [i for i, block in enumerate(tree.select(".result")) if block.select(".axis b")]
    assert [i for i, note in enumerate(notes) if "< and > stand" in note] == far[:1]  # and marks beyond the scale, too
    for block, name in zip(tree.select(".result"), asked, strict=True):
        said(block, results.find(name))


def said(block, found):
    text = re.sub(r"\s+", " ", block.select_one(".words").get_text())
    plain = text.replace("’", "'").replace("“", '"').replace("”", '"')
    assert found.sentence.replace("’", "'").replace("“", '"').replace("”", '"') in plain
    words = [row.select_one("b").get_text() for row in block.select(".intervals > div:not(.ends)")]
    assert words == [str(row) for row in found.rows.values()]
    links = [link.get_text() for link in block.select("details.runs .more a")]
    assert links == [f"Section {found.study}", "What the names mean"]
    assert [table.caption.get_text() for table in block.select("details:not([open]) > table")] == [*found.rows]


@pytest.mark.site
def test_what_did_not_work_has_each_question_with_another_expectation():
    names = BLOCK.findall((ROOT / "book" / "what-did-not-work.md").read_text(encoding="utf-8"))
    assert {*names} == {name for name, says in results.written()["questions"].items() if "expected" in says}
    tree = page("book/what-did-not-work")
    blocks = tree.select(".result")
    assert [block["id"] for block in blocks] == [f"question-{name}" for name in names]
    assert f"{len(names)} with their runs" in tree.article.get_text()
    for block, name in zip(blocks, names, strict=True):
        said(block, results.find(name))
        assert results.written()["questions"][name]["expected"][:12].split("’")[0] in block.get_text()


def test_an_unknown_name_stops_the_build():
    with pytest.raises(ValueError, match="name is 'nobody'"):
        answers.shown("nobody")
