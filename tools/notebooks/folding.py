"""Fold a cell with one tag, ``fold``: the one place that knows what follows from it.

What is notable:
- the text of a chapter carries the tag alone; `fold` writes, into the notebook, the title line that a folded cell shows
  and what Colab and JupyterLab want, and `unfold` takes both away again;
- a title is made from what is there, the caption after the cell, its assertions, its imports, so it is never stale;
- doing it twice is the same as doing it once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from nbformat import NotebookNode

TITLE = re.compile(r"#@title (.+)\n")
CAPTION = re.compile(r"\*\*(?P<name>(?P<kind>Figure|Table) (?P<number>\d+\.\d+))\.\*\*\s+(?P<words>\S[^\n]*)")
MADE = re.compile(r"#@title (code of (Figure|Table) \d+\.\d+|✓ checked: \d+ assertions?|imports)\n")
MAGIC = re.compile(r"^(\s*)[%!].*$", re.MULTILINE)
# Matplotlib draws for screens with two dots per pixel. In the setup cell, so that Colab's readers have it too.
SHARP = '%config InlineBackend.figure_formats = ["retina"]  # sharp pictures\n'


def tree(source: str) -> ast.Module:
    """The syntax tree of a cell; magics become `pass`."""
    return ast.parse(MAGIC.sub(r"\1pass", source))


def assertions(source: str) -> int:
    """How many stand in the cell, ``torch.testing.assert_close`` and its like included."""
    nodes = ast.walk(tree(source))
    return sum(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1].startswith("assert_"))
        for node in nodes
    )


def only_imports(source: str) -> bool:
    """Whether the cell imports, and at most seeds a generator besides."""
    statements = tree(source).body
    rest = [s for s in statements if not isinstance(s, (ast.Import, ast.ImportFrom))]
    return len(rest) < len(statements) and all("manual_seed" in ast.unparse(s) for s in rest)


def anchor(caption: re.Match[str]) -> str:
    """Where the site puts a picture or table with this caption: ``fig-4-2``."""
    return f"{caption['kind'][:3].lower()}-{caption['number'].replace('.', '-')}"


def captioned(notebook: NotebookNode) -> Iterator[tuple[NotebookNode, re.Match[str]]]:
    """The code cells that a caption follows, with it."""
    for cell, following in pairwise(notebook.cells):
        caption = CAPTION.match(following.source.lstrip())
        if cell.cell_type == "code" and caption:
            yield cell, caption


def is_folded(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and "fold" in cell.metadata.get("tags", [])


def made_title(source: str, following: str) -> str | None:
    """What a cell with this source, before a cell with that text, is called; None if an author has to say it."""
    if caption := CAPTION.match(following.lstrip()):
        return f"code of {caption['name']}"
    if count := assertions(source):
        return f"✓ checked: {count} assertion{'s' * (count > 1)}"
    return "imports" if only_imports(source) else None


def fold(notebook: NotebookNode) -> list[str]:
    """Derive titles and metadata, and sharp pictures in the setup cell; what is wrong, if anything is."""
    unfold(notebook)
    wrong = []
    for cell, following in zip(notebook.cells, [*notebook.cells[1:], None], strict=True):
        if cell.cell_type == "code" and "%pip" in cell.source:
            cell.source = SHARP + cell.source
        if not is_folded(cell):
            continue
        cell.metadata["cellView"] = "form"  # Colab
        cell.metadata["jupyter"] = {"source_hidden": True}  # JupyterLab
        if TITLE.match(cell.source):
            continue
        title = made_title(cell.source, following.source if following else "")
        if title:
            cell.source = f"#@title {title}\n{cell.source}"
        else:
            wrong.append(
                f"the folded cell that begins with {cell.source.splitlines()[0]!r} needs a first line '#@title ...': "
                "no caption stands after it, and it neither asserts nor only imports"
            )
    return wrong


def unfold(notebook: NotebookNode) -> list[tuple[str, str, NotebookNode]]:
    """Take away what `fold` wrote; an author's own title stays. Kind, source and metadata of each cell are left."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = cell.source.removeprefix(SHARP)
            if is_folded(cell) and (title := MADE.match(cell.source)):
                cell.source = cell.source[title.end() :]
            for name in ("cellView", "jupyter"):
                cell.metadata.pop(name, None)
    return [(cell.cell_type, cell.source, cell.metadata) for cell in notebook.cells]
