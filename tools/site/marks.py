"""On the site: what stands in a page's text in the place of a comment ``<!-- mark -->``, so that it is in step.

Those of the landing page become a block of HTML; all others stand in Markdown, or in a block of HTML already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tools.site import landing, models, one_token, pages, source, writing

MARKS: dict[str, Callable[[], str]] = {
    "exercises": pages.exercises,
    "modules": pages.modules,
    "sources": source.listed,
    "shipped models": models.options,
    "table of models": models.table,
    "one token": one_token.settings,
    "models of one token": lambda: models.options(one_token.SHOWN),
}
BLOCKS = {
    "facts": landing.facts,
    "block": landing.block,
    "leak lab": landing.leak_lab,
    "writing": writing.strip,
    "models": landing.models_on_pages,
    "chapters": landing.cards,
}


def fill(app: Any, docname: str, source: list[str]) -> None:
    for mark, made in (MARKS | BLOCKS).items():
        asked = f"<!-- {mark} -->"
        if docname.startswith("book/") and asked in source[0]:
            source[0] = source[0].replace(asked, f"```{{raw}} html\n{made()}\n```" if mark in BLOCKS else made())
