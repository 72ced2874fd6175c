"""Where a definition of a chapter or study is no longer that of the package: file, line and a diff; for `make quick`.

Compared is what runs: docstrings, annotations, comments, the decorators of fast forms and the check of a layer's input
may differ.
"""

from __future__ import annotations

import ast
import difflib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tools.notebooks import folding

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "efficient_transformers"
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(?:---\n.*?^---\n|(?::\S[^\n]*\n)*)(.*?)^```$", re.MULTILINE | re.DOTALL)
Definition = ast.ClassDef | ast.FunctionDef


def running(node: Definition) -> list[str]:
    """The lines of a definition that run."""
    for child in ast.walk(node):
        if isinstance(child, Definition) and ast.get_docstring(child) is not None:
            child.body = child.body[1:] or [ast.Pass()]
        if isinstance(child, ast.FunctionDef):
            child.returns = None
            child.body = [line for line in child.body if not ast.unparse(line).startswith("require_input(")]
            child.decorator_list = [d for d in child.decorator_list if not ast.unparse(d).startswith("on_cpu(")]
        if isinstance(child, ast.arg):
            child.annotation = None
    return ast.unparse(node).splitlines()


def definitions(tree: ast.Module) -> Iterator[Definition]:
    return (node for node in tree.body if isinstance(node, Definition))


@cache
def package() -> dict[str, list[tuple[str, list[str]]]]:
    """Where the package defines a name, and what runs there; the book's own modules have names of their own."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    for path in sorted({*PACKAGE.rglob("*.py")} - {*(PACKAGE / "book").rglob("*.py")}):
        for node in definitions(ast.parse(path.read_text(encoding="utf-8"))):
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            found.setdefault(node.name, []).append((place, running(node)))
    return found


def drifts(path: Path) -> list[str]:
    """What differs, for each definition with a name of the package."""
    text, found = path.read_text(encoding="utf-8"), []
    for cell in CELL.finditer(text):
        before = text.count("\n", 0, cell.start(1))
        for node in definitions(folding.tree(cell[1])):
            ours, theirs = running(node), package().get(node.name, [])
            if theirs and not any(lines == ours for _, lines in theirs):
                place, lines = theirs[0]
                here = f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{before + node.lineno}"
                found.append("\n".join(difflib.unified_diff(lines, ours, place, here, lineterm="")))
    return found


def main() -> None:
    found = [drift for path in sorted((ROOT / "book").rglob("*.md")) for drift in drifts(path)]
    sys.exit("\n\n".join(found) or 0)


if __name__ == "__main__":
    main()
