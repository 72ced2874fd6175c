"""On the site: what needs more room than a line of prose is wide, that is, takes the margin too.

There are two widths, which static/layout.css has. How many characters fit the narrow one was measured in a browser;
tests/site/test_layout.py looks at the pages, so that a wrong guess is found.
"""

from __future__ import annotations

import re
from typing import Any

from bs4 import BeautifulSoup
from docutils import nodes

from tools.site.cells import code_cells

CODE = 82  # characters of a line
RESULTS = 88  # characters of a table of numbers, each column with the space around it
SPACE = 4
COLUMNS = 5  # of a table of words, or four of which one has names of the code, which break badly


def results(html: str) -> int:
    """How wide a table of results is, in characters: its headings break, the rest does not."""
    table = BeautifulSoup(html, "html.parser")
    rows = [[len(cell.get_text()) for cell in row.select("th, td")] for row in table.select("tbody tr")]
    words = [max(map(len, re.split(r"[ -]", cell.get_text()))) for cell in table.select("thead th")]
    return sum(max(column) + SPACE for column in zip(words, *rows, strict=True))


def mark_wide(app: Any, doctree: nodes.document) -> None:
    for cell in code_cells(doctree):
        lines = [line for code in cell.findall(nodes.literal_block) for line in code.astext().splitlines()]
        if max(map(len, lines), default=0) > CODE:
            cell["classes"].append("wide")
    for raw in doctree.findall(nodes.raw):
        if 'class="results"' in raw.astext() and results(raw.astext()) > RESULTS:
            holder = raw.parent if isinstance(raw.parent, nodes.figure) else raw
            holder["classes"].append("wide")
    for table in doctree.findall(nodes.table):
        columns = next(table.findall(nodes.tgroup)).get("cols", 0)
        if columns >= COLUMNS or (columns == COLUMNS - 1 and next(table.findall(nodes.literal), None)):
            table["classes"].append("wide")
