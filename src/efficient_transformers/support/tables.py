"""Results as tables: aligned text in a terminal and for tests, HTML in a notebook and on the site."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from .checks import require


def aligned(rows: Iterable[Iterable[object]]) -> str:
    """Rows of cells as lines, each column as wide as its widest cell."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)


class Table:
    """Rows with a heading for each column, which a notebook shows as HTML; the first cell names its row.

    Args:
        columns: the headings.
        rows: the cells, strings or numbers as they are to be read.
        best: the index of the row to mark, or None.

    Raises:
        ValueError: if a row has not one cell for each column.
    """

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, best: int | None = None) -> None:
        self.columns, self.rows, self.best = list(columns), [[str(cell) for cell in row] for row in rows], best
        for row in self.rows:
            require(len(row) == len(self.columns), "row", row, f"one cell for each of {self.columns}")

    def __repr__(self) -> str:
        return aligned([self.columns, *self.rows])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{escape(column)}</th>' for column in self.columns)
        body = []
        for i, (name, *cells) in enumerate(self.rows):
            mark = ' class="best"' if i == self.best else ""
            body.append(f'<tr{mark}><th scope="row">{escape(name)}</th>')
            body.append("".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
        return f'<table class="results"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'
