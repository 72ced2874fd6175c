"""On the site: minus signs in tables; on a phone, a table of words becomes one column, its headings repeated.

What is notable:
- a notebook's table has hyphens, which a reader can copy into Python; here a number has a minus sign;
- what becomes one column has four columns or more;
- each cell carries its heading in ``data-label``, which page.css shows where the page is narrow;
- roles say that it is a table, since a browser forgets that when rows and cells are displayed as blocks.
"""

from __future__ import annotations

import re
from typing import Any

from bs4 import BeautifulSoup
from docutils import nodes

TABLE = re.compile(r'<table class="(?:[\w-]+ )*table">.*?</table>', re.DOTALL)
ROLES = {"table": "table", "thead, tbody": "rowgroup", "tr": "row", "th": "columnheader", "td": "cell"}
LEAST = 4  # columns
HYPHEN = re.compile(r"(?<![\w.)])-(?=\.?\d)")  # that stands for a minus sign


def stacked(table: re.Match[str]) -> str:
    """The table with its headings in its cells; as it is, if it has few columns."""
    made = BeautifulSoup(table[0], "html.parser")
    headings = [" ".join(heading.get_text().split()) for heading in made.select("thead th")]
    if len(headings) < LEAST:
        return table[0]
    made.table["class"].append("stacks")  # type: ignore[index, union-attr]
    for kind, role in ROLES.items():
        for element in made.select(kind):
            element["role"] = role
    for row in made.select("tbody tr"):
        for cell, heading in zip(row.select("td"), headings, strict=True):
            if cell.get_text(strip=True):
                cell["data-label"] = heading
    return str(made)


def stack_tables(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        context["body"] = TABLE.sub(stacked, context["body"])


def set_minus_signs(app: Any, doctree: nodes.document) -> None:
    for raw in doctree.findall(nodes.raw):
        if 'class="results"' in raw.astext():
            raw[:] = [nodes.Text(HYPHEN.sub("−", raw.astext()))]
