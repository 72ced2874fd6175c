"""What every chapter owes its reader: equations with code, parts built before they are used, figures that say what they
show, scaffolding that is folded. Read from the text; nothing is executed."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from itertools import pairwise

import pytest
from torch import nn

import efficient_transformers
from tools.notebooks import chapters, folding, run_notebooks
from tools.site import pages

NAMES = run_notebooks.chapters()
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
    nodes = (node for cell in chapters.cells(name) for made in cell.definitions() for node in ast.walk(made))
    said = (ast.get_docstring(node) or "" for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef))
    assert set(numbers) <= {number for text in said for number in chapters.NUMBER.findall(text.partition("\n")[0])}


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
            if "fold" in cell.node.metadata.get("tags", []) or "answer = None" in cell.node.source:
                continue
            early += [(name, cell.section, layer) for layer in sorted(used - built)]
    assert early == []


@every_text
def test_every_picture_and_table_has_its_number_and_a_caption(name):
    numbers = {"Figure": [], "Table": []}
    for cell, following in pairwise(chapters.cells(name)):
        caption = None if following.is_code else folding.CAPTION.match(following.node.source.lstrip())
        if not cell.is_code:
            continue
        last = cell.tree.body[-1] if cell.tree.body else None
        is_table = isinstance(last, ast.Expr) and ast.unparse(last).startswith("Table(")
        if PICTURE.search(cell.node.source) or is_table:
            assert caption, f"no caption after the cell that begins with {first_line(cell)!r}"
            assert caption["kind"] == ("Table" if is_table else "Figure")
        if caption:
            numbers[caption["kind"]].append(caption["number"])
    for kind, found in numbers.items():
        assert found == [f"{run_notebooks.number(name)}.{i}" for i in range(1, len(found) + 1)], (
            f"{kind}s in their order"
        )


def test_the_book_explains_each_layer_that_the_package_exports():
    sections = set(chapters.sections())
    layers = package_layers() & set(dir(efficient_transformers))
    assert len(layers) > 20
    for name in layers:
        says = pages.explained(name, getattr(efficient_transformers, name).__doc__)
        assert re.search(rf"in Section ({folding.NUMBER})", says)[1] in sections, name


@every_text
def test_a_chapter_is_markdown_that_every_viewer_shows(name):
    """No directive and no role: JupyterLab, Colab and GitHub would print them."""
    assert re.findall(r"^\s*:{3,}.*|^\s*```\{.*|\{[\w:.-]+\}`[^`]*`", chapters.prose(name), re.MULTILINE) == []
