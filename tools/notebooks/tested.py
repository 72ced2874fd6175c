"""Which tests there are, and what each names: all that pages say of tests.

python -m tools.notebooks.tested    # prints it: a site is older than a test when this has changed
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tools.make import repository

ROOT = Path(__file__).parents[2]


@cache
def parsed() -> dict[str, ast.Module]:
    """The files of tests."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


@cache
def places() -> dict[str, tuple[str, int]]:
    """File and line of each test, by ``name`` and ``file::name``; and of each file, by its name."""
    found: dict[str, tuple[str, int]] = {}
    for path, tree in parsed().items():
        file = Path(path).name
        found[file] = (path, 0)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.setdefault(node.name, (path, node.lineno))
                found[f"{file}::{node.name}"] = (path, node.lineno)
    return found


def names() -> Iterator[tuple[str, set[str]]]:
    """The tests of the package, and what each names: what it imports, and what is ``fast``'s."""
    for path, tree in parsed().items():
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        known = {alias.name for node in imports for alias in node.names}
        for test in tree.body if path.startswith("tests/package/") else []:
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                plain = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
                fast = {
                    n.attr for n in ast.walk(test) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "fast"
                }
                yield test.name, known & plain | fast


if __name__ == "__main__":
    for place, (file, line) in places().items():
        print(place, file, line if repository.known() else "")
    for test, used in names():
        print(test, *sorted(used))
