"""On the site: what pages say that is known from the chapters and the package, so that nobody has to keep it in step.

- ``<!-- exercises -->`` in a page becomes the exercises of each chapter; ``<!-- modules -->`` the documented modules.
- Each entry of the package's pages ends with the section that explains it, or that first uses it.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.notebooks import chapters, run_notebooks

ROOT = Path(__file__).parents[2]
PACKAGE = "efficient_transformers"
DOCUMENTED = re.compile(r"automodule:: ([\w.]+)")
FOLDERS = ("layers", "", "training", "studies", "book")  # of the package, in the order of the page
DIFFICULTIES = ("easy", "medium", "hard")
TAUGHT_AS = {  # the names of the plain forms that a chapter builds
    "rotate": "turn_pairs",
    "MultiHeadAttention": "PlainAttention",
    "FeedForward": "PlainFeedForward",
    "TransformerLayer": "PlainLayer",
    "LearnedPositions": "AddedPositions",
    "LanguageModel": "PlainLanguageModel",
    "generate": "write_on",
    "Cache": "GrowingCache",
    "leak_map": "influence",
    "SquaredReLU": "squared_relu",
    "CausalDepthwiseConv": "causal_depthwise_conv",
    "MultiDConvHeadAttention": "EZAttention",
    "SharedQueryKeyAttention": "QueriesFromKeys",
    "PrimerNorm": "ReleasedNorm",
    "PrimerLayer": "NormAfterLayer",
    "AvgPoolShortening": "MeanShortening",
    "LinearPoolingShortening": "ProjectedShortening",
    "NaiveUpSampling": "CopyUpSampling",
    "LinearUpSampling": "ProjectedUpSampling",
    "CrossAttention": "PlainCrossAttention",
    "AttentionBasedShortening": "AttentionShortening",
    "AttentionBasedUpSampling": "AttentionUpSampling",
    "Hourglass": "PlainHourglass",
    "SpatialGatingUnit": "SplitGate",
    "GMLPBlock": "PlainBlock",
    "TinyAttention": "OneSmallHead",
    "toeplitz": "full",
}
SECTIONS = {  # what a chapter explains without the package's name
    "causal_mask": "1.2",
    "Metrics": "1.7",
    "Vocabulary": "1.6",
    "parameter_groups": "1.7",
    "muon": "6.5",
    "PrimerEZFamily": "2.5",
    "PrimerFamily": "3.5",
    "ShiftRight": "4.2",
    "Shortening": "4.3",
    "GMLPFamily": "5.2",
}
MODULES = {  # for the other entries of a module: a section, or the page that is about what it does
    "attention": "1.4",
    "checkpoint": "scaling-out",
    "compare": "7.6",
    "corpus": "1.6",
    "cost": "4.8",
    "decoding": "1.9",
    "diagrams": "1.5",
    "digits": "S4.11",
    "evaluation": "1.7",
    "evidence": "6.1",
    "execution": "scaling-out",
    "explorer": "1.10",
    "factors": "6.7",
    "family": "2.5",
    "fast": "2.11",
    "figures": "how-this-book-is-made",
    "files": "scaling-out",
    "generation": "1.9",
    "hf": "scaling-out",
    "hourglass": "4.5",
    "inspection": "1.5",
    "instruments": "1.8",
    "judgment": "7.7",
    "labml": "from-labml",
    "logs": "scaling-out",
    "masking": "S4.10",
    "models": "1.6",
    "plan": "7.6",
    "pretrained": "write-with-it",
    "protocol": "6.7",
    "rules": "6.7",
    "runs": "write-with-it",
    "saving": "write-with-it",
    "screening": "7.3",
    "sides": "7.8",
    "sources": "6.7",
    "subwords": "scaling-out",
    "records": "S2.1",
    "tokens": "scaling-out",
    "transformer": "1.6",
    "trials": "6.7",
}


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
    return chapters.explanations()


def explained(module: str, name: str) -> str:
    """The sentence that says where the book explains an entry of a module of the package.

    Raises:
        KeyError: if neither a chapter nor the lists above say where.
    """
    plain = TAUGHT_AS.get(name)
    if found := explanations()[plain] if plain else explanations().get(name):
        equations = "".join(f", ({number})" for number in found.equations)
        return f"{'Taught' if plain else found.how} in Section {found.section}{equations}."
    place = SECTIONS.get(name) or MODULES[module]
    return f"See Section {place}." if place[-1].isdigit() else f"See :doc:`/book/{place}`."


def part_list(lines: list[str]) -> None:
    """Part the list of a docstring from the words before it."""
    if "What is notable:" in lines:
        lines.insert(lines.index("What is notable:") + 1, "")


def explain(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Part an entry's list from its words, and say where the book explains it."""
    part_list(lines)
    # Plain Sphinx also asks for what a module imports, before it leaves it out.
    if what in ("class", "function") and name.startswith(f"{obj.__module__}."):
        _, *inside = obj.__module__.split(".")
        module = inside[1] if inside[0] in FOLDERS else inside[0]
        lines += ["", explained(module, name.split(".")[-1]), ""]
