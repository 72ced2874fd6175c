"""On the site: a module's source as rows, each with what is said and the lines of which it is said.

What is notable:
- a docstring is the note of its class or function, a block of comments that of the lines below it; what stands at a
  line's end stays there, most often a shape;
- each line of the source is in one row, and has an anchor;
- a name is a link to where it is defined, found in syntax trees alone: nothing is guessed, and nothing runs.
"""

from __future__ import annotations

import ast
import html
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby, takewhile
from pathlib import Path

from pygments.lexers import PythonLexer
from pygments.token import STANDARD_TYPES

PACKAGE = Path(__file__).parents[2] / "src" / "efficient_transformers"
FOLDERS = ("layers", "")  # of the package, which have modules that are shown
PLAIN = ("", "n", "p", "w")  # tokens that no style colors
Definition = ast.ClassDef | ast.FunctionDef
Place = tuple[str, str]  # a module, and the anchor of a name in it


@cache
def source_of(module: str) -> str:
    found = (PACKAGE / folder / f"{module}.py" for folder in FOLDERS)
    return next(path for path in found if path.exists()).read_text(encoding="utf-8")


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(source_of(module))


@dataclass
class Row:
    """What is said, and the lines of code beside it; ``silent`` are lines that are said, or empty."""

    name: str = ""  # of what is defined, a method's after its class's
    definition: Definition | None = None
    comment: list[str] = field(default_factory=list)
    code: list[int] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)

    @property
    def is_waiting(self) -> bool:
        """Whether a comment here is the first that is said of a function."""
        node = self.definition
        if not isinstance(node, ast.FunctionDef) or ast.get_docstring(node) or self.comment:
            return False
        return self.code[-1] < node.body[0].lineno


def first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])


def definitions(tree: ast.AST, within: str = "", inside: bool = False) -> Iterator[tuple[str, Definition, bool]]:
    """All classes and functions by name, and whether they are inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            name = f"{within}.{node.name}".lstrip(".")
            yield name, node, inside
            yield from definitions(node, name, inside or isinstance(node, ast.FunctionDef))


def starts(tree: ast.Module) -> dict[int, Row]:
    """The rows that begin with a definition, or with what is assigned after one, by their first lines.

    What is said of a class is said of its methods up to the first that has a docstring of its own.
    """
    found = {}
    silent = {id(method) for _, node, _ in definitions(tree) for method in takewhile(is_silent, methods(node))}
    for name, node, inside in definitions(tree):
        if id(node) not in silent and not (inside and is_silent(node)):
            found[first_line(node)] = Row(name, node)
    for before, node in zip(tree.body, tree.body[1:], strict=False):
        kinds = ast.Import | ast.ImportFrom | Definition
        if isinstance(before, kinds) and not isinstance(node, kinds):
            found[first_line(node)] = Row()
    return found


def is_silent(node: Definition) -> bool:
    return not ast.get_docstring(node)


def methods(node: Definition) -> list[Definition]:
    inner = node.body if isinstance(node, ast.ClassDef) else []
    return [method for method in inner if isinstance(method, ast.FunctionDef)]


def docstring_lines(tree: ast.Module) -> set[int]:
    said = [tree, *(node for _, node, _ in definitions(tree))]
    bodies = [node.body[0] for node in said if ast.get_docstring(node)]
    return {line for body in bodies for line in range(body.lineno, (body.end_lineno or 0) + 1)}


def rows(module: str) -> list[Row]:
    """The rows of a module; its docstring is said of its first lines."""
    source, tree = source_of(module), tree_of(module)
    lines, begins, said = source.splitlines(), starts(tree), docstring_lines(tree)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    whole = (t for t in tokens if t.type == tokenize.COMMENT and not t.line[: t.start[1]].strip())
    comments = {token.start[0]: token.string.lstrip("# ") for token in whole}
    found = [Row()]
    for number, line in enumerate(lines, start=1):
        row = found[-1]
        if number in begins:
            found.append(begins[number])
        elif number in comments and number - 1 not in comments and not row.is_waiting:
            found.append(Row())
        row = found[-1]
        if number in comments:
            row.comment.append(comments[number])
        (row.silent if number in said or number in comments or not line else row.code).append(number)
    for row in found:  # empty lines between lines of code are code
        inner = [
            n for n in row.silent if n not in said and not lines[n - 1] and row.code and row.code[0] < n < row.code[-1]
        ]
        row.silent = [n for n in row.silent if n not in inner]
        row.code = sorted(row.code + inner)
    return found


def assigned(module: str) -> dict[str, int]:
    """The names that a module assigns at its top, with their lines."""
    found = {}
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
                found[alias.asname or alias.name] = (node.module, alias.name) if node.module else (alias.name, "")
    return found


def class_of(place: Place) -> ast.ClassDef | None:
    module, name = place
    return next((n for n in tree_of(module).body if isinstance(n, ast.ClassDef) and n.name == name), None)


def method(place: Place, name: str) -> Place | None:
    """Where a class, or one that it inherits from, defines a method."""
    node = class_of(place)
    if node and any(isinstance(inner, ast.FunctionDef) and inner.name == name for inner in node.body):
        return place[0], f"{place[1]}.{name}"
    return overridden(place, name)


def overridden(place: Place, name: str) -> Place | None:
    """Where a class from which a class inherits defines a method."""
    node = class_of(place)
    bases = [base.id for base in node.bases if isinstance(base, ast.Name)] if node else []
    known = (defined(place[0])[base] for base in bases if base in defined(place[0]))
    return next((found for base in known if (found := method(base, name))), None)


class Links(ast.NodeVisitor):
    """Where names in a module lead to, by line and column."""

    def __init__(self, module: str, pages: frozenset[str]) -> None:
        self.module, self.pages = module, pages
        self.lines = source_of(module).splitlines()
        self.known: dict[str, Place] = {n: place for n, place in defined(module).items() if place[0] in pages}
        self.found: dict[tuple[int, int], Place] = {}
        self.visit(tree_of(module))

    def add(self, node: ast.expr | ast.alias, place: Place | None, back: str = "") -> None:
        """Link a node, or the ``back`` of it, unless it leads to where it stands itself."""
        line = (node.end_lineno if back else node.lineno) or 0
        column = ((node.end_col_offset or 0) - len(back.encode())) if back else node.col_offset
        column = len(self.lines[line - 1].encode()[:column].decode())
        if place:
            self.found[line, column] = place

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
        self.add(node, self.known.get(node.name))

    def visit_Name(self, node: ast.Name) -> None:
        place = self.known.get(node.id)
        if place and place[1].rpartition(".")[2] in ("", node.id) and isinstance(node.ctx, ast.Load):
            self.add(node, place)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and (of := self.known.get(node.value.id)):
            self.add(node, method(of, node.attr) if of[1] else defined(of[0]).get(node.attr), back=node.attr)
        self.visit(node.value)


def line_anchors(module: str) -> dict[int, list[str]]:
    """The names that are defined on a line without a row of their own."""
    found: dict[int, list[str]] = {}
    have_rows = {row.name for row in starts(tree_of(module)).values()}
    own = {name: first_line(node) for name, node, inside in definitions(tree_of(module)) if not inside}
    for name, line in (own | assigned(module)).items():
        if name not in have_rows:
            found.setdefault(line, []).append(name)
    return found


def pieces(module: str) -> Iterator[tuple[int, int, str, str]]:
    """Line, column, style and text of what a source is made of; of a decorator, its sign and its name."""
    line, column = 1, 0
    for kind, text in PythonLexer(stripnl=False).get_tokens(source_of(module)):
        style = STANDARD_TYPES.get(kind, "")
        for part in re.findall(r"\n|^@|[^\n]+", text):
            if part == "\n":
                line, column = line + 1, 0
            else:
                yield line, column, "" if style in PLAIN else style, part
                column += len(part)


@cache
def code(module: str, pages: frozenset[str]) -> list[str]:
    """Each line of a module's source as HTML."""
    links, anchors = Links(module, pages).found, line_anchors(module)
    made: dict[int, list[tuple[str, str]]] = {}
    for number, column, style, part in pieces(module):
        shown = html.escape(part, quote=False)
        if place := links.get((number, column)):
            to, anchor = place
            shown = f'<a href="{"" if to == module else f"{to}.html"}{f"#{anchor}" if anchor else ""}">{shown}</a>'
        made.setdefault(number, []).append((style, shown))
    finished = []
    for number, line in enumerate(source_of(module).splitlines(), start=1):
        names = "".join(f'<span id="{name}"></span>' for name in anchors.get(number, []))
        shown = ""
        for style, run in groupby(made.get(number, []), key=lambda piece: piece[0]):
            text = "".join(part for _, part in run)
            shown += f'<span class="{style}">{text}</span>' if style else text
        finished.append(
            f'<span class="line" id="L{number}" style="--indent: {len(line) - len(line.lstrip())}">{names}'
            f'<a class="number" href="#L{number}" data-number="{number}" tabindex="-1" aria-hidden="true"></a>'
            f"{shown}\n</span>"
        )
    return finished
