"""On the site: what pages say that is known from the chapters and the package, so that nobody has to keep it in step.

- ``<!-- exercises -->`` in a page becomes the exercises of each chapter; ``<!-- modules -->`` the documented modules.
- An entry of the package's pages ends with the section that explains it, or that first uses it, if one does.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.notebooks import chapters, folding, run_notebooks

ROOT = Path(__file__).parents[2]
PACKAGE = "efficient_transformers"
DOCUMENTED = re.compile(r"automodule:: ([\w.]+)")
FOLDERS = ("layers", "", "training", "studies", "book")  # of the package, in the order of the page
DIFFICULTIES = ("easy", "medium", "hard")
BUILT_AS = re.compile(r"The book builds it as ``(\w+)``")
PLACE = re.compile(rf"\((?P<equation>{folding.NUMBER})\)|Section (?P<section>{folding.NUMBER})")
CODE = re.compile(r"\{(?:class|func)\}`(\w+)`")


def exercises() -> str:
    """A table of its exercises for each chapter, the easy ones first."""
    parts = []
    for name in run_notebooks.chapters():
        found = sorted(chapters.exercises(name), key=lambda e: ([*DIFFICULTIES, ""].index(e.difficulty), e.number))
        if not found:
            continue
        number, title = chapters.title(name)
        rows = [f"| Exercise {e.number} | {e.title} | {e.kind} | {e.difficulty} |" for e in found]
        head = [f"## {number}. {title}", "", "| | What | Kind | Difficulty |", "| --- | --- | --- | --- |"]
        parts.append("\n".join([*head, *rows]))
    return "\n\n".join(parts)


def documented(page: Path) -> ModuleType:
    """The module that a page of the package is about."""
    return import_module(DOCUMENTED.findall(page.read_text(encoding="utf-8"))[0])


def rank(folder: str) -> int:
    """The place of a folder of the package on its page."""
    return FOLDERS.index(folder.removeprefix(PACKAGE).removeprefix("."))


def modules() -> str:
    """For each folder of the package, a table of its modules with the first sentences of their docstrings."""
    tables: dict[str, list[str]] = {}
    for path in sorted((ROOT / "book" / "api").glob("*.md")):
        module = documented(path)
        says = (module.__doc__ or "").strip().splitlines()[0]
        folder = module.__name__.rpartition(".")[0]
        tables.setdefault(folder, []).append(f"| [{path.stem}](api/{path.name}) | {says.replace(':func:', '')} |")
    parts = []
    for folder in sorted(tables, key=rank):
        about = (import_module(folder).__doc__ or "").strip()
        head = [f"## {folder}", "", about, "", "| Module | What it is |", "| --- | --- |"]
        parts.append("\n".join([*head, *tables[folder]]))
    return "\n\n".join(parts)


def fill_page(app: Any, docname: str, source: list[str]) -> None:
    for mark, made in (("<!-- exercises -->", exercises), ("<!-- modules -->", modules)):
        if docname.startswith("book/") and mark in source[0]:
            source[0] = source[0].replace(mark, made())


@cache
def explanations() -> dict[str, chapters.Explanation]:
    """Where the book explains a name: as a chapter says, after the papers' page, and before that of labml."""
    return rows_of("from-labml", 2, 1) | chapters.explanations() | rows_of("papers", 1, 2)


def rows_of(page: str, place: int, code: int) -> dict[str, chapters.Explanation]:
    """Where the first row of a page's tables that has an entry in one cell says, in another, that it is taught."""
    sections = {
        number: cell.section
        for name in run_notebooks.notebooks()
        for cell in chapters.cells(name)
        for number in chapters.TAG.findall("" if cell.is_code else cell.node.source)
    }
    found: dict[str, chapters.Explanation] = {}
    for line in (ROOT / "book" / f"{page}.md").read_text(encoding="utf-8").splitlines():
        cells = line.strip("|").split("|") if line.startswith("|") else []
        if len(cells) > max(place, code) and (at := PLACE.search(cells[place])):
            section = at["section"] or sections[at["equation"]]
            for name in CODE.findall(cells[code]):
                found.setdefault(
                    name, chapters.Explanation("Taught", section, [at["equation"]] if at["equation"] else [])
                )
    return found


def explained(name: str, doc: str) -> str:
    """The sentence that says where the book explains an entry of the package, or ""."""
    plain = BUILT_AS.search(doc)
    found = explanations().get(plain[1] if plain else name)
    if not found:
        return ""
    equations = "".join(f", ({number})" for number in found.equations)
    return f"{'Taught' if plain else found.how} in Section {found.section}{equations}."


def part_list(lines: list[str]) -> None:
    """Part the list of a docstring from the words before it."""
    if "What is notable:" in lines:
        lines.insert(lines.index("What is notable:") + 1, "")


def explain(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Part an entry's list from its words, and say where the book explains it."""
    part_list(lines)
    # Plain Sphinx also asks for what a module imports, before it leaves it out.
    if what in ("class", "function") and name.startswith(f"{obj.__module__}."):
        lines += ["", explained(name.split(".")[-1], "\n".join(lines)), ""]
