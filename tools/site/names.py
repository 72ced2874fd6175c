"""On the site: where a name in the package's source is defined, by its syntax tree and the classes that it makes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType, ModuleType

PACKAGE = "efficient_transformers"
FOLDERS = ("layers", "support")  # of the package, which have modules that are shown
METHODS = (FunctionType, property, classmethod, staticmethod)
Definition = ast.ClassDef | ast.FunctionDef
Place = tuple[str, str]  # a module, and the anchor of a name in it


def loaded(module: str) -> ModuleType:
    folder = next(folder for folder in FOLDERS if find_spec(f"{PACKAGE}.{folder}.{module}"))
    return import_module(f"{PACKAGE}.{folder}.{module}")


@cache
def source_of(module: str) -> str:
    return inspect.getsource(loaded(module))


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


def assigned(module: str) -> dict[str, int]:
    """The names that a module assigns at its top, with their lines."""
    found: dict[str, int] = {}
    for node in tree_of(module).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {target.id: node.lineno for target in targets if isinstance(target, ast.Name)}
    return found


@cache
def defined(module: str) -> dict[str, Place]:
    """What a name at the top of a module stands for, as far as the package defines it."""
    found: dict[str, Place] = {name: (module, name) for name in assigned(module)}
    for node in tree_of(module).body:
        if isinstance(node, Definition):
            found[node.name] = module, node.name
        elif isinstance(node, ast.ImportFrom) and node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = (
                    (node.module.rpartition(".")[2], alias.name) if node.module else (alias.name, "")
                )
    return found


def method(place: Place, name: str, above: bool = False) -> Place | None:
    """Where a class, or one that it inherits from, defines a method; or those from which it inherits alone."""
    lineage = getattr(getattr(loaded(place[0]), place[1], None), "__mro__", ())[above:]
    ours = (of for of in lineage if of.__module__.startswith(PACKAGE) and isinstance(vars(of).get(name), METHODS))
    return next(((of.__module__.rpartition(".")[2], f"{of.__name__}.{name}") for of in ours), None)


class Links(ast.NodeVisitor):
    """Where names in a module lead to, by line and column."""

    def __init__(self, module: str, pages: frozenset[str]) -> None:
        self.module = module
        self.lines = source_of(module).splitlines()
        self.known: dict[str, Place] = {n: place for n, place in defined(module).items() if place[0] in pages}
        self.found: dict[tuple[int, int], Place] = {}
        self.visit(tree_of(module))

    def add(self, line: int | None, column: int, place: Place | None) -> None:
        """Link what begins at a column, which a syntax tree counts in bytes."""
        if line and place:
            self.found[line, len(self.lines[line - 1].encode()[:column].decode())] = place

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.within(node, {"self": (self.module, node.name)})

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        stored = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        local: dict[str, Place | None] = dict.fromkeys([*stored, *(a.arg for a in arguments if a and a.arg != "self")])
        for argument in filter(None, arguments):  # of a class of the package: its methods are known
            named = {n.id for n in ast.walk(argument.annotation or argument) if isinstance(n, ast.Name)}
            classes = [self.known[n] for n in sorted(named) if n in self.known and method(self.known[n], "__init__")]
            if len(classes) == 1:
                local[argument.arg] = classes[0]
        for outside in [*node.decorator_list, node.args, *filter(None, [node.returns])]:
            self.visit(outside)
        self.within(node, local)

    def within(self, node: Definition, names: dict[str, Place | None]) -> None:
        """Visit what is inside, where names mean something else."""
        outer, self.known = self.known, {n: p for n, p in (self.known | names).items() if p}
        for inner in [*getattr(node, "bases", []), *getattr(node, "keywords", []), *node.body]:
            self.visit(inner)
        self.known = outer

    def visit_alias(self, node: ast.alias) -> None:
        self.add(node.lineno, node.col_offset, self.known.get(node.name))

    def visit_Name(self, node: ast.Name) -> None:
        place = self.known.get(node.id)
        if place and place[1].rpartition(".")[2] in ("", node.id) and isinstance(node.ctx, ast.Load):
            self.add(node.lineno, node.col_offset, place)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and (of := self.known.get(node.value.id)):
            place = method(of, node.attr) if of[1] else defined(of[0]).get(node.attr)
            self.add(node.end_lineno, (node.end_col_offset or 0) - len(node.attr.encode()), place)
        self.visit(node.value)
