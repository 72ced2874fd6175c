"""On the site: a question whose answer is a number is answered on the page, by what the package's check says.

What is notable:
- rules and words come from `efficient_transformers.book.exercises`, so that a page and a notebook say the same;
- the form stands in the page from the start, and is not shown where no script would answer.
"""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any

from docutils import nodes

from efficient_transformers.book.exercises.numbers import QUESTIONS
from tools.site import cells

CALL = re.compile(r'^check\("([\d.]+)", answer\)$', re.MULTILINE)


def form(number: str) -> str:
    """The question of an exercise: a field for each number, a button, and room for what is said."""
    known = QUESTIONS[number].for_page(number)
    fields = "".join(
        f'<label>{escape(label)} <input inputmode="decimal" autocomplete="off" size="8"></label>'
        for label in known["labels"]
    )
    return (
        f'<form class="question" aria-label="Answer of Exercise {number}" data-known="{escape(json.dumps(known))}">'
        f'{fields}<button>Check</button><output aria-live="polite"></output></form>'
    )


def ask(app: Any, doctree: nodes.document) -> None:
    """Put the form behind the cell that checks an answer in a notebook."""
    for cell in cells.code_cells(doctree):
        if (found := CALL.search(cell.astext())) and found[1] in QUESTIONS:
            cell.parent.insert(cell.parent.index(cell) + 1, nodes.raw("", form(found[1]), format="html"))
