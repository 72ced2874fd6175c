"""On the site: where a name in the package's source is defined: by its syntax tree, and by Jedi."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jedi

from tools.site.pages import documented

SOURCE = Path(__file__).parents[2] / "src"
PROJECT = jedi.Project(SOURCE, sys_path=[str(SOURCE)], smart_sys_path=False)  # PyTorch, too, would take minutes
Definition = ast.ClassDef | ast.FunctionDef
Place = tuple[str, str]  # a module, and the anchor of a name in it


@cache
def source_of(module: str) -> str:
    return inspect.getsource(documented()[module])


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(source_of(module))


def definitions(tree: ast.AST, within: str = "", inside: bool = False) -> Iterator[tuple[str, Definition, bool]]:
    """All classes and functions by name, and whether they are inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            name = f"{within}.{node.name}".lstrip(".")
            yield name, node, inside
            yield from definitions(node, name, inside or isinstance(node, ast.FunctionDef))


def first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])


@cache
def anchors(module: str) -> dict[str, int]:
    """What names can lead to on a module's page: classes, functions, what it assigns at its top; and their lines."""
    found = {name: first_line(node) for name, node, inside in definitions(tree_of(module)) if not inside}
    for node in tree_of(module).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {target.id: node.lineno for target in targets if isinstance(target, ast.Name)}
    return found


def leads(module: str, pages: frozenset[str]) -> dict[tuple[int, int], Place]:
    """Where names in a module lead to, by line and column."""
    script, found = jedi.Script(path=documented()[module].__file__, project=PROJECT), {}
    for name in script.get_names(all_scopes=True, definitions=True, references=True):
        for to in name.goto(follow_imports=True):
            home, anchor = to.module_name.rpartition(".")[2], (to.full_name or "").removeprefix(to.module_name)[1:]
            is_itself = (home, to.line, to.column) == (module, name.line, name.column)
            if home in pages and to.full_name and anchor in ("", *anchors(home)) and not is_itself:
                found[name.line, name.column] = home, anchor
    return found
