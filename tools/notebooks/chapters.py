"""Chapters and studies as data: sections, definitions, equations, figures, read from their text.

Pages are made from it (tools.site.pages), and tests hold the texts to it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from nbformat import NotebookNode

from tools.notebooks import folding, run_notebooks

SECTION = re.compile(rf"^## ({folding.NUMBER}) (.+)$", re.MULTILINE)
TAG = re.compile(rf"\\tag\{{({folding.NUMBER})\}}")
NUMBER = re.compile(rf"\(({folding.NUMBER})\)")
TITLE = re.compile(r"^# (S?\d+)\. (.+)$", re.MULTILINE)
BACKQUOTED = re.compile(r"`([A-Za-z_]\w+)(?:\(.*?\))?`")


@dataclass
class Cell:
    """A cell, the number of the section that it stands in, and its syntax tree where it is code."""

    section: str
    node: NotebookNode

    @property
    def is_code(self) -> bool:
        return self.node.cell_type == "code"

    @property
    def tree(self) -> ast.Module:
        return folding.tree(self.node.source if self.is_code else "")

    def definitions(self) -> list[ast.ClassDef | ast.FunctionDef]:
        return [n for n in self.tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))]


class Explanation(NamedTuple):
    how: str
    section: str
    equations: list[str]


@cache
def cells(name: str) -> list[Cell]:
    """The cells of a chapter or study in their order; those before the first section are in section ''."""
    section, found = "", []
    for node in run_notebooks.source(name).cells:
        if node.cell_type == "markdown" and (headings := SECTION.findall(node.source)):
            section = headings[-1][0]
        found.append(Cell(section, node))
    return found


def prose(name: str) -> str:
    return "\n\n".join(cell.node.source for cell in cells(name) if not cell.is_code)


def title(name: str) -> tuple[str, str]:
    """Number and title of a chapter or study."""
    return TITLE.findall(prose(name))[0]


def equations(name: str) -> list[str]:
    """The numbers of its equations, in their order."""
    return TAG.findall(prose(name))


def sections() -> list[str]:
    """The numbers of all sections of all chapters and studies."""
    return [number for name in run_notebooks.notebooks() for number, _ in SECTION.findall(prose(name))]


@cache
def imports(name: str) -> set[str]:
    """The names that a chapter imports from the package."""
    nodes = (node for cell in cells(name) if cell.is_code for node in ast.walk(cell.tree))
    ours = (n for n in nodes if isinstance(n, ast.ImportFrom) and str(n.module).startswith("efficient_transformers"))
    return {alias.asname or alias.name for node in ours for alias in node.names}


def explanations() -> dict[str, Explanation]:
    """Where the names of the package are explained: where a chapter first defines one, with its docstring's equations.

    Studies come after the chapters. If none does: where prose first has it in backquotes; else, where a cell first uses
    it after the chapter has imported it, or the module that it is of, from the package.
    """
    defined: dict[str, Explanation] = {}
    mentioned: dict[str, Explanation] = {}
    used: dict[str, Explanation] = {}
    found = ((imports(name), cell) for name in run_notebooks.notebooks() for cell in cells(name) if cell.section)
    for imported, cell in found:
        for node in cell.definitions():
            equations = NUMBER.findall(ast.get_docstring(node) or "")
            defined.setdefault(node.name, Explanation("Built", cell.section, equations))
        for word in [] if cell.is_code else BACKQUOTED.findall(cell.node.source):
            mentioned.setdefault(word, Explanation("Explained", cell.section, []))
        for part in ast.walk(cell.tree):
            if isinstance(part, ast.Attribute) and ast.unparse(part.value) in imported:
                used.setdefault(part.attr, Explanation("Used", cell.section, []))
            elif isinstance(part, ast.Name) and part.id in imported:
                used.setdefault(part.id, Explanation("Used", cell.section, []))
    return used | mentioned | defined
