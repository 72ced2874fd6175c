"""Chapters and studies: text and notebook agree, classes are the package's, each cell runs and gives what is stored."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from efficient_transformers.book import results
from tools.make import lab, repository
from tools.notebooks import drift, folding, run_notebooks

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CHAPTERS, NOTEBOOKS = run_notebooks.chapters(), run_notebooks.notebooks()


@cache
def notebook(name):
    return nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", 4)


def code_cells(name):
    return [c for c in notebook(name).cells if c.cell_type == "code"]


def is_panel(cell):
    return "interact(" in cell.source


def test_pytest_with_nbval_alone_executes_every_cell():
    """Only collected, without the tests beside them: what it takes from the configuration is what a reader's takes."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", "--collect-only", "-q", "--ignore-glob=tests/*"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = Counter(re.findall(r"^notebooks/(.+)\.ipynb::Cell \d+$", ran.stdout, re.MULTILINE))
    assert found == {name: len(code_cells(name)) for name in NOTEBOOKS}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_text_and_notebook_agree_and_every_cell_was_executed(name):
    assert run_notebooks.differences(name) == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_definition_with_a_name_of_the_package_equals_the_one_in_the_package(name):
    assert drift.drifts(ROOT / "book" / f"{name}.md") == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_cell_is_skipped_and_no_output_ignored_but_before_an_assertion(name):
    cells = [cell for cell in code_cells(name) if not is_panel(cell)]  # nbval sees what is stored as its picture
    tags = [c.metadata.get("tags", []) for c in cells]
    assert not [t for t in tags if {"nbval-skip", "raises-exception"} & set(t)]
    for i in (i for i, t in enumerate(tags) if "nbval-ignore-output" in t):
        following = ast.parse(cells[i + 1].source)
        asserts = any(isinstance(n, ast.Assert) for n in ast.walk(following)) or "assert_" in cells[i + 1].source
        assert asserts, f"cell {i + 1} must assert what the text says about cell {i}"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_figures_have_alt_text_and_outputs_are_clean(name):
    for cell in code_cells(name):
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr"
            data = output.get("data", {})
            if "image/png" in data:
                alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
                if name := folding.asked(cell.source):
                    assert alt == results.find(name).picture
                assert len(alt) > 40, cell.source
                assert cell.metadata["alt"] == alt, "where nbconvert reads it"
            assert "<matplotlib" not in data.get("text/plain", "")
            assert "<Axes" not in data.get("text/plain", "")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_setup_cell_installs_what_the_chapter_needs(name):
    setup = [c for c in code_cells(name) if "%pip" in c.source]
    assert len(setup) == 1
    assert setup[0].metadata["tags"] == ["remove-cell"]
    assert f'%pip install -q "efficient-transformers-annotated @ git+{repository.address()}"' in setup[0].source


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_of_a_panel_of_ipywidgets_a_picture_is_stored_and_no_widget(name):
    for cell in code_cells(name):
        assert not [output for output in cell.outputs if any("widget" in kind for kind in output.get("data", {}))]
    for cell in filter(is_panel, code_cells(name)):
        assert "jupyter" not in cell.metadata, "neither code nor picture is collapsed"
        assert ["image/png" in output.data for output in cell.outputs] == [True]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_links_lead_to_other_notebooks_or_pages_of_the_book(name):
    here = (ROOT / "notebooks" / f"{name}.ipynb").parent
    links = [
        link for cell in notebook(name).cells for link in LINK.findall(cell.source) if cell.cell_type == "markdown"
    ]
    for link in (link for link in links if not re.match(r"https?://|#", link)):
        target = (here / link.partition("#")[0]).resolve()
        assert target.is_file(), link
        assert target.is_relative_to(ROOT / "notebooks") or target.is_relative_to(ROOT / "book"), link


def test_a_notebook_links_to_its_own_page_once_there_is_an_address(monkeypatch):
    before = run_notebooks.source("studies/s4-gates")
    monkeypatch.setattr(repository, "known", lambda: "https://github.com/somebody/some-book")
    linked, page = run_notebooks.source("studies/s4-gates"), "https://somebody.github.io/some-book/notebooks/studies/s4"
    assert linked.cells[0].source.startswith(before.cells[0].source)
    assert linked.cells[0].source.endswith(f"[This page in the book]({page}-gates.html)")
    assert folding.unfold(linked) == folding.unfold(before)


def test_the_copy_for_jupyterlab_is_trusted_and_what_a_reader_changed_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    changed = tmp_path / "work" / f"{CHAPTERS[0]}.ipynb"
    changed.parent.mkdir()
    changed.write_text("mine", encoding="utf-8")
    lab.copy(tmp_path / "work")
    assert changed.read_text(encoding="utf-8") == "mine"
    notary = NotebookNotary()
    for name in NOTEBOOKS[1:]:
        assert notary.check_signature(nbformat.read(tmp_path / "work" / f"{name}.ipynb", 4))
