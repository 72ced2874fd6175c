"""On the site: differences as a small picture: a row for each, with a line at no difference.

What is notable:
- what a row shows is what Figure 6.3 shows: dots for seeds, a bar for the interval, a diamond for the mean, which is
  filled where the interval leaves 0 out, and gray and hollow where it does not; a difference of single runs is one
  dot, without a verdict;
- it is text and boxes of the page, placed in percent: it turns dark and grows with the reader's letters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

from efficient_transformers.studies.evidence import Comparison

Row = Comparison | float  # what was compared with several seeds, or a difference of two runs
CLASSES = {"lower": "lower", "not told apart": "unsure", "higher": "higher"}  # by verdict; of intervals.css


def signed(value: float) -> str:
    """With its sign, which a zero has not."""
    text = f"{value:+.3f}"
    return text.replace("-", "−") if float(text) else text[1:]


def mean(row: Row) -> float:
    return row.mean if isinstance(row, Comparison) else row


def verdict(row: Row) -> str:
    """Which of :data:`CLASSES` the first of two has; a difference of single runs has a direction only."""
    if isinstance(row, Comparison) and not row.told_apart:
        return "not told apart"
    return "lower" if mean(row) < 0 else "higher"


def parts(row: Row) -> list[float]:
    """All numbers that a row shows."""
    return [row.low, row.high, *row.values] if isinstance(row, Comparison) else [row]


def said(name: str, row: Row) -> str:
    interval = f", interval {signed(row.low)} to {signed(row.high)}" if isinstance(row, Comparison) else ""
    return f"{name}: {signed(mean(row))}{interval}"


def drawn(rows: Mapping[str, Row], about: str) -> str:
    """The picture, as HTML; ``about`` is what it shows, in words."""
    numbers = [0.0, *(number for row in rows.values() for number in parts(row))]
    left, width = min(numbers), max(numbers) - min(numbers)

    def place(number: float) -> str:
        return f"{100 * (number - left) / width:.1f}%"

    lines = [
        f'<div class="{CLASSES[verdict(row)]}"><span>{escape(name)}</span><b>{signed(mean(row))}</b>'
        f'<span class="axis"><s style="left:{place(0)}"></s>{marks(row, place)}</span></div>'
        for name, row in rows.items()
    ]
    label = escape(f"{about} {'; '.join(said(*item) for item in rows.items())}.")
    side = "← lower loss" if left < -0.4 * width else '<span class="right">higher loss →</span>'  # where there is room
    ends = f'<div class="ends">{side}<b style="left:{place(0)}">0</b></div>'
    return f'<div class="intervals" role="img" aria-label="{label}">{"".join(lines)}{ends}</div>'


def marks(row: Row, place: Callable[[float], str]) -> str:
    if not isinstance(row, Comparison):
        return f'<i class="one" style="left:{place(row)}"></i>'
    dots = "".join(f'<i style="left:{place(value)}"></i>' for value in row.values)
    bar = f'<u style="left:{place(row.low)};right:{100 - float(place(row.high)[:-1]):.1f}%"></u>'
    return f'{bar}{dots}<em{" class=sure" if row.told_apart else ""} style="left:{place(row.mean)}"></em>'
