"""On the site: what pages say that is known from the chapters and the package, so that nobody has to keep it in step.

- Each module of the package has a page, ``book/api/NAME.md``, which is made anew in each build.
- An entry of the package's pages ends with the section that explains it, or that first uses it, if one does.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from inspect import isclass
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import efficient_transformers
from tools.notebooks import chapters, folding, run_notebooks

ROOT = Path(__file__).parents[2]
API = ROOT / "book" / "api"
PACKAGE = "efficient_transformers"
FOLDERS = ("layers", "models", "training", "judging", "book", "support", "")  # of the package, in the order of the page
EXERCISE = re.compile(r"^### (Exercise \d+\.\d+): (.+)\n\s*\*(\w+) · (\w+)\*\s*$", re.MULTILINE)
DIFFICULTIES = ("easy", "medium", "hard")
BUILT_AS = re.compile(r"The book builds it as ``(\w+)``")
PLACE = re.compile(rf"\((?P<equation>{folding.NUMBER})\)|Section (?P<section>{folding.NUMBER})")
CODE = re.compile(r"\{(?:class|func)\}`(\w+)`")


def exercises() -> str:
    """A table of its exercises for each chapter, the easy ones first."""
    parts = []
    for name in run_notebooks.chapters():
        number, title = chapters.title(name)
        found = sorted(EXERCISE.findall(chapters.prose(name)), key=lambda row: (DIFFICULTIES.index(row[-1]), row[0]))
        head = [f"## {number}. {title}", "", "| | What | Kind | Difficulty |", "| --- | --- | --- | --- |"]
        parts.append("\n".join([*head, *(f"| {' | '.join(row)} |" for row in found)]))
    return "\n\n".join(parts)


@cache
def documented() -> dict[str, ModuleType]:
    """The modules that have a page of the package, by its name."""
    homes = [import_module(f"{PACKAGE}.{folder}".rstrip(".")) for folder in FOLDERS]
    return {
        info.name: import_module(f"{home.__name__}.{info.name}")
        for home in homes
        for info in iter_modules(home.__path__)
        if info.name not in FOLDERS and not info.name.startswith("_")
    }


def entries(module: ModuleType) -> dict[str, Any]:
    """What the page of a module lists: all that it exports, or all classes and functions but checks."""
    exported = getattr(module, "__all__", vars(module))
    return {
        name: value
        for name, value in vars(module).items()
        if name in exported
        and callable(value)
        and value.__doc__
        and (name in efficient_transformers.__all__ or not name.startswith(("_", "check_")))
        if getattr(value, "__module__", "").startswith(module.__name__)
    }


def stub(name: str) -> str:
    """The page of a module, whose entries have the names by which a reader imports them."""
    module = documented()[name]
    lines = [f".. automodule:: {module.__name__}"]
    exported = {
        entry for entry, value in entries(module).items() if getattr(efficient_transformers, entry, None) is value
    }
    if exported:
        lines += ["   :no-members:", ""]
        for entry, value in sorted(entries(module).items(), key=lambda item: item[0] not in exported):
            home = PACKAGE if entry in exported else module.__name__
            lines.append(f".. auto{'class' if isclass(value) else 'function'}:: {home}.{entry}")
            if isclass(value) and any(base.__module__.startswith(PACKAGE) for base in value.__bases__):
                lines.append("   :show-inheritance:")
    return "\n".join([f"# {name}", "", "```{eval-rst}", *lines, "```", ""])


def write_stubs(app: Any, config: Any) -> None:
    """A page for each module, before the table of contents is read; what is as it was stays untouched."""
    API.mkdir(exist_ok=True)
    for path in API.glob("*.md"):
        if path.stem not in documented():
            path.unlink()
    for name in documented():
        path, text = API / f"{name}.md", stub(name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def modules() -> str:
    """For each folder of the package, a table of its modules with the first sentences of their docstrings."""
    parts: dict[str, dict[str, str | None]] = {}
    for name, module in documented().items():
        parts.setdefault(module.__name__.rpartition(".")[0], {})[f"[{name}](api/{name}.md)"] = module.__doc__
    return "\n\n".join(
        f"## {folder}\n\n{(import_module(folder).__doc__ or '').strip()}\n\n{table_of(docs)}"
        for folder, docs in parts.items()
    )


def table_of(docs: dict[str, str | None]) -> str:
    """A table of modules with the first sentences of their docstrings."""
    says = {link: (doc or "").strip().partition("\n")[0].replace(":func:", "") for link, doc in docs.items()}
    return "\n".join(
        ["| Module | What it is |", "| --- | --- |", *(f"| {link} | {doc} |" for link, doc in says.items())]
    )


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
            section, equations = at["section"] or sections[at["equation"]], [n for n in [at["equation"]] if n]
            for name in CODE.findall(cells[code]):
                found.setdefault(name, chapters.Explanation("Taught", section, equations))
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
    if what in ("class", "function"):
        lines += ["", explained(name.split(".")[-1], "\n".join(lines)), ""]
