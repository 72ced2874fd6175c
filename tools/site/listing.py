"""On the site: a module's source as rows, each with what is said and the lines of which it is said.

What is notable:
- a docstring is the note of its class or function, a block of comments that of the lines below it; what stands at a
  line's end stays there, most often a shape;
- each line of the source is in one row, and has an anchor;
- a name is a link to where it is defined: names.py finds it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise, takewhile

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from tools.site.code import PLAIN, inserted
from tools.site.names import Definition, anchors, definitions, first_line, leads, source_of, tree_of

END = "\0"  # of a line


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


def starts(tree: ast.Module) -> dict[int, Row]:
    """The rows that begin with a definition, or with what is assigned after one, by their first lines.

    What is said of a class is said of its methods up to the first that has a docstring of its own.
    """
    found = {}
    classes = [node for _, node, _ in definitions(tree) if isinstance(node, ast.ClassDef)]
    methods = [[method for method in node.body if isinstance(method, ast.FunctionDef)] for node in classes]
    silent = {id(method) for inner in methods for method in takewhile(is_silent, inner)}
    for name, node, inside in definitions(tree):
        if id(node) not in silent and not (inside and is_silent(node)):
            found[first_line(node)] = Row(name, node)
    for before, after in pairwise(tree.body):
        kinds = ast.Import | ast.ImportFrom | Definition
        if isinstance(before, kinds) and not isinstance(after, kinds):
            found[first_line(after)] = Row()
    return found


def is_silent(node: Definition) -> bool:
    return not ast.get_docstring(node)


def said_lines(tree: ast.Module) -> set[int]:
    """The lines of strings that stand by themselves: docstrings, and what is said of fields."""
    alone = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    return {line for node in alone for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def said_of_fields(tree: ast.Module) -> dict[int, str]:
    """The strings that stand below the fields of a class, by their lines."""
    found = {}
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for above, below in pairwise(node.body):
            if isinstance(above, ast.AnnAssign) and isinstance(below, ast.Expr):
                found[below.lineno] = f"``{ast.unparse(above.target)}``: {ast.literal_eval(below.value)}"
    return found


def rows(module: str) -> list[Row]:
    """The rows of a module; its docstring is said of its first lines."""
    source, tree = source_of(module), tree_of(module)
    lines, begins, said = source.splitlines(), starts(tree), said_lines(tree)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    whole = (t for t in tokens if t.type == tokenize.COMMENT and not t.line[: t.start[1]].strip())
    comments = {token.start[0]: token.string.lstrip("# ") for token in whole}
    fields = said_of_fields(tree)
    found = [Row()]
    for number in range(1, len(lines) + 1):
        if number in begins:
            found.append(begins[number])
        elif number in comments and number - 1 not in comments and not found[-1].is_waiting:
            found.append(Row())
        row = found[-1]
        if told := comments.get(number) or fields.get(number):
            row.comment.append(told)
        (row.silent if number in said or number in comments else row.code).append(number)
    for row in found:  # empty lines between lines of code are code
        while row.code and not lines[row.code[0] - 1]:
            row.silent.append(row.code.pop(0))
        while row.code and not lines[row.code[-1] - 1]:
            row.silent.append(row.code.pop())
        row.silent.sort()
    return found


def line_anchors(module: str) -> dict[int, list[str]]:
    """The names that are defined on a line without a row of their own."""
    found = defaultdict[int, list[str]](list)
    have_rows = {row.name for row in starts(tree_of(module)).values()}
    for name, line in anchors(module).items():
        if name not in have_rows:
            found[line].append(name)
    return found


@cache
def code(module: str, pages: frozenset[str]) -> list[str]:
    """Each line of a module's source as HTML."""
    source, ids, more, starts = source_of(module), line_anchors(module), defaultdict[int, str](str), [0]
    for number, line in enumerate(source.splitlines(), start=1):
        names = "".join(f'<span id="{name}"></span>' for name in ids[number])
        more[starts[-1]] += (
            f'<span class="line" id="L{number}" style="--indent: {len(line) - len(line.lstrip())}">{names}'
            f'<a class="number" href="#L{number}" data-number="{number}" tabindex="-1" aria-hidden="true"></a>'
        )
        starts.append(starts[-1] + len(line) + 1)
        more[starts[-1]] += f"</span>{END}"
    for (number, column), (to, anchor) in leads(module, pages).items():
        place = starts[number - 1] + column
        more[place] += f'<a href="{"" if to == module else f"{to}.html"}{f"#{anchor}" if anchor else ""}">'
        more[place + len(re.split(r"\W", source[place:], maxsplit=1)[0])] += "</a>"
    colored = highlight(source, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True))
    return inserted(PLAIN.sub(r"\1", colored), more).split(END)
