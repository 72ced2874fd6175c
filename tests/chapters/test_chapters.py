"""What every chapter owes its reader: equations with code, parts built before they are used, figures that say what they
show, scaffolding that is folded, exercises with a heading; and every study. Read from the text; nothing is executed."""

from __future__ import annotations

import ast
import inspect
import re
import sys

import nbformat
import pytest
from torch import nn

import efficient_transformers
from tools.notebooks import chapters, folding, run_notebooks
from tools.site import pages

NAMES = run_notebooks.chapters()
every_chapter = pytest.mark.parametrize("name", NAMES)
every_text = pytest.mark.parametrize("name", run_notebooks.notebooks())
PICTURE = re.compile(r"^plt\.show\(\)|\bExplorer\(", re.MULTILINE)


def package_layers():
    """Every layer of the package, and the cache, by name."""
    modules = [module for name, module in sys.modules.items() if name.startswith("efficient_transformers.")]
    found = {
        name
        for module in [efficient_transformers, *modules]
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__.startswith("efficient_transformers.")
        if issubclass(value, (nn.Module, efficient_transformers.Cache))
    }
    return found - {"LanguageModel"}  # what build_model makes


def first_line(cell):
    return cell.node.source.splitlines()[0]


@every_text
def test_every_numbered_equation_is_implemented_where_a_docstring_names_it(name):
    numbers = chapters.equations(name)
    assert numbers == [f"{run_notebooks.number(name)}.{i}" for i in range(1, len(numbers) + 1)], (
        "numbered in their order"
    )
    assert [number for number in numbers if number not in chapters.implementations(name)] == []


def names_in(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def compared(name):
    """After each code cell: the names whose values an assertion of equality has compared, with what they came from."""
    made = {}
    for cell in (c for c in chapters.cells(name) if c.is_code):
        for node in ast.walk(cell.tree):
            if isinstance(node, (ast.Assign, ast.For, ast.comprehension)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                value = names_in(node.value if isinstance(node, ast.Assign) else node.iter)
                for target in (n for t in targets for n in names_in(t)):
                    made[target] = value | made.get(target, set())
            elif isinstance(node, ast.FunctionDef):
                made[node.name] = names_in(node)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                made.setdefault(ast.unparse(node.args[0]), set()).update(names_in(node.args[1]))
        found = set()
        for call in (n for n in ast.walk(cell.tree) if isinstance(n, ast.Call)):
            if ast.unparse(call.func) in {"torch.testing.assert_close", "torch.equal"}:
                found |= names_in(call)
        while more := set().union(*(made.get(n, set()) for n in found)) - found:
            found |= more
        yield cell, found


def test_no_layer_of_the_package_is_used_before_it_is_built():
    """Built: defined under its name, or shown by an assertion to compute what the reader's own parts compute."""
    layers, built, early = package_layers(), set(), []
    for name in NAMES:
        own = set()
        for cell, agree in compared(name):
            own |= {node.name for node in cell.definitions()}
            used = names_in(cell.tree) & layers
            built |= own & layers | (agree & layers if own & agree else set())
            if not cell.is_teaching or "answer = None" in cell.node.source:
                continue
            early += [(name, cell.section, layer) for layer in sorted(used - built)]
    assert early == []


@every_text
def test_every_picture_and_table_has_its_number_and_a_caption(name):
    numbers = {"Figure": [], "Table": []}
    for cell, caption in chapters.captioned(name):
        last = cell.tree.body[-1] if cell.tree.body else None
        is_table = isinstance(last, ast.Expr) and ast.unparse(last).startswith("Table(")
        if PICTURE.search(cell.node.source) or is_table:
            assert caption, f"no caption after the cell that begins with {first_line(cell)!r}"
            assert caption["kind"] == ("Table" if is_table else "Figure")
        if caption:
            numbers[caption["kind"]].append(caption["number"])
            sentences = re.split(r"[.:;?!]\s", caption["words"])
            assert len(sentences) >= 2 or caption["kind"] == "Table", f"{caption['name']}: a claim, and how to read it"
    for kind, found in numbers.items():
        assert found == [f"{run_notebooks.number(name)}.{i}" for i in range(1, len(found) + 1)], (
            f"{kind}s in their order"
        )
    assert numbers["Figure"], "a chapter draws its idea, a study its answer"


@every_text
def test_pictures_say_in_words_what_they_show(name):
    for cell, _ in chapters.captioned(name):
        if re.search(r"^plt\.show\(\)", cell.node.source, re.MULTILINE):
            alt = cell.node.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
            assert len(alt) > 40, first_line(cell)


@every_text
def test_scaffolding_is_folded_and_nothing_else(name):
    """Imports alone, assertions alone and long code of a picture fold; what implements an equation never does."""
    for cell in (c for c in chapters.cells(name) if c.is_code and c.node.source.strip()):
        source, body = cell.node.source, cell.tree.body
        asserts_alone = all(isinstance(s, ast.Assert) or "assert_" in ast.unparse(s).split("(")[0] for s in body)
        is_drawing = PICTURE.search(source) and len(source.splitlines()) > 8
        if is_drawing or folding.only_imports(source) or asserts_alone:
            assert not cell.is_teaching, f"to be folded: {first_line(cell)!r}"
        elif not cell.is_teaching and folding.is_folded(cell.node):
            taught = [n.name for n in cell.definitions() if chapters.NUMBER.search(ast.get_docstring(n) or "")]
            assert taught == [], f"folded away: {taught}"
    assert run_notebooks.untitled(name) == []


@every_text
def test_folded_cells_are_titled_forms_in_colab_and_collapsed_in_jupyterlab(name):
    stored = nbformat.read(run_notebooks.ROOT / "notebooks" / f"{name}.ipynb", 4)
    folded = [cell for cell in stored.cells if folding.is_folded(cell)]
    assert folded
    for cell in folded:
        assert folding.TITLE.match(cell.source)
        assert cell.metadata["cellView"] == "form"
        assert cell.metadata["jupyter"]["source_hidden"] is True


@every_text
def test_the_text_carries_the_tag_alone(name):
    text = (run_notebooks.ROOT / "book" / f"{name}.md").read_text(encoding="utf-8")
    assert not folding.MADE.search(text)
    assert "cellView" not in text
    assert "source_hidden" not in text
    assert "outputs_hidden" not in text


@every_chapter
def test_exercises_have_headings_kinds_and_difficulties(name):
    found = chapters.exercises(name)
    assert 4 <= len(found) <= 6
    assert [e.number for e in found] == [f"{run_notebooks.number(name)}.{i}" for i in range(1, len(found) + 1)]
    assert {e.kind for e in found} <= {"Repair", "Question", "Build"}
    assert {e.difficulty for e in found} <= {"easy", "medium", "hard"}
    assert sum(e.kind == "Build" for e in found) >= 2


def test_the_book_explains_each_layer_that_the_package_exports():
    sections = set(chapters.sections())
    layers = package_layers() & set(dir(efficient_transformers))
    assert len(layers) > 20
    for name in layers:
        says = pages.explained(name, getattr(efficient_transformers, name).__doc__)
        assert re.search(rf"in Section ({folding.NUMBER})", says)[1] in sections, name


@every_chapter
def test_a_chapter_draws_its_idea_lets_the_reader_predict_and_says_what_came_after(name):
    text = chapters.prose(name)
    assert len(re.findall(r"\bBefore you\b", text)) >= 3
    before = text.partition("| At a glance |")[0]
    assert before != text
    assert folding.CAPTION.search(before), "the idea in a picture stands before the summary"
    after = re.search(r"^## \d+\.\d+ What came after\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    assert len(re.findall(r"^\|", after, re.MULTILINE)) >= 7, "a heading, its line, and at least five rows"


@every_text
def test_a_chapter_is_markdown_that_every_viewer_shows(name):
    """No directive and no role: JupyterLab, Colab and GitHub would print them."""
    assert re.findall(r"^\s*:{3,}.*|^\s*```\{.*|\{[\w:.-]+\}`[^`]*`", chapters.prose(name), re.MULTILINE) == []


@pytest.mark.parametrize("name", run_notebooks.studies())
def test_a_study_has_its_parts(name):
    """The answer before any section; then the figure, the design, the tables, and what stands against them."""
    text, number = chapters.prose(name), run_notebooks.number(name)
    assert chapters.title(name)[0] == number
    sections = [title for _, title in chapters.SECTION.findall(text)]
    assert sections[0] == "The design"
    assert sections[-3:] == ["What would undo it", "What it does not say", "Make it again"]
    before = text.partition("\n## ")[0]
    assert f"**Figure {number}.1.**" in before
    assert "`python experiments/" in text.partition("Make it again")[2] or "```\npython experiments/" in text
    assert chapters.exercises(name) == []


def test_the_readme_names_every_chapter_and_study():
    text = (run_notebooks.ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in run_notebooks.notebooks() if f"](notebooks/{name}.ipynb)" not in text] == []


def test_a_start_that_is_shut_is_told_in_one_section_and_one_study():
    """Everywhere else a gate starts open, as in the paper, and no word has to say so."""
    said = re.compile(r"\b(open|shut)[- ](gate|start)|\b(from|starts?|started) (open|shut)|shut at first|\bb = [01]\b")
    told = {
        part.splitlines()[0]
        for name in run_notebooks.notebooks()
        if name != "studies/s4-gates"
        for part in (run_notebooks.ROOT / "book" / f"{name}.md").read_text(encoding="utf-8").split("\n## ")
        if said.search(part)
    }
    assert told == {"5.4 The start, and whether it matters"}
