"""On the site: what pages say that is known from the chapters and the package, so that nobody has to keep it in step.

- ``<!-- exercises -->`` in a page becomes the exercises of each chapter; ``<!-- modules -->`` the documented modules.
- Each entry of the package's pages ends with the section that explains it, or that first uses it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import chapters
import run_notebooks

ROOT = Path(__file__).parents[1]
PACKAGE = "efficient_transformers"
DIFFICULTIES = ("easy", "medium", "hard")


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


def modules() -> str:
    """A table of the documented modules, each with the first sentence of its docstring."""
    rows = []
    for path in (ROOT / "book" / "api").glob("*.md"):
        says = (import_module(f"{PACKAGE}.{path.stem}").__doc__ or "").strip().splitlines()[0]
        rows.append(f"| [{path.stem}](api/{path.name}) | {says.replace(':func:', '')} |")
    return "\n".join(["| Module | What it is |", "| --- | --- |", *sorted(rows)])


def fill_page(app: Any, docname: str, source: list[str]) -> None:
    for mark, made in (("<!-- exercises -->", exercises), ("<!-- modules -->", modules)):
        if docname.startswith("book/") and mark in source[0]:
            source[0] = source[0].replace(mark, made())


@cache
def explanations() -> dict[str, chapters.Explanation]:
    return chapters.explanations()


def explain(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Say where the book explains an entry; and part the list of a module's docstring from the words before it."""
    if what == "module" and "What is notable:" in lines:
        lines.insert(lines.index("What is notable:") + 1, "")
    found = explanations().get(name.split(".")[-1])
    if what in ("class", "function") and found:
        equations = "".join(f", ({number})" for number in found.equations)
        lines += ["", f"{found.how} in Section {found.section}{equations}.", ""]


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", fill_page)
    app.connect("autodoc-process-docstring", explain, priority=900)  # after napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}
