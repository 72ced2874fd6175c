"""On the page What did not work: the questions whose answer nobody expected, by the parts of the book."""

from __future__ import annotations

from typing import Any

from efficient_transformers.book import results

PAGE, MARK = "book/what-did-not-work", "<!-- nulls -->"
PARTS = {"1": "The baseline", "2": "Primer", "3": "Hourglass", "4": "gMLP"}  # by the study that has the runs
OTHERS = "All together"


def by_part() -> dict[str, list[str]]:
    """The names of the questions."""
    parts: dict[str, list[str]] = {}
    for name, says in results.written()["questions"].items():
        if "expected" in says:
            parts.setdefault(PARTS.get(says["study"].partition(".")[0].removeprefix("S"), OTHERS), []).append(name)
    return {part: parts[part] for part in (*PARTS.values(), OTHERS) if part in parts}


def page() -> str:
    lines = []
    for part, names in by_part().items():
        lines += [f"## {part}", *(f"```{{answer}} {name} expected\n```" for name in names)]
    return "\n\n".join(lines)


def fill(app: Any, docname: str, source: list[str]) -> None:
    if docname == PAGE:
        count = str(sum(map(len, by_part().values())))
        source[0] = source[0].replace(MARK, page()).replace("<!-- how many -->", count)
