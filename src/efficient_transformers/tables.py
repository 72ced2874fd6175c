"""Tables as plain text."""

from __future__ import annotations

from collections.abc import Iterable


def aligned(rows: Iterable[Iterable[object]]) -> str:
    """Rows of cells as lines, each column as wide as its widest cell."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)
