"""How every figure of the book looks: one color for each model, one style, no change to the user's own.

The house rule: at most ``WIDTH`` inches wide and no text below the style's 12 points, so that a phone shows no letter
smaller than 9 pixels. Panels stand two to a row, ticks are thinned and not shrunk, legends cover nothing.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.ticker import FixedFormatter, FixedLocator

# One color and one marker per model in the whole book, both readable on white and, inverted by the site, on dark.
MODELS = {
    "transformer": ("#0072B2", "o"),
    "primer-ez": ("#D55E00", "s"),
    "primer": ("#CC79A7", "D"),
    "swiglu": ("#6E6A00", "p"),
    "hourglass": ("#009E73", "^"),
    "gmlp": ("#8C3A00", "P"),
    "dense-gmlp": ("#222222", "v"),
    "amlp": ("#A0185F", "*"),
    "dense-amlp": ("#5B3FA8", "X"),
}
NAMES = {name: name for name in MODELS} | {  # what tables and legends call them
    "baseline": "transformer",
    "Transformer": "transformer",
    "Primer EZ": "primer-ez",
    "full Primer": "primer",
    "SwiGLU": "swiglu",
    "Hourglass": "hourglass",
    "gMLP": "gmlp",
    "dense gMLP": "dense-gmlp",
    "aMLP": "amlp",
    "dense aMLP": "dense-amlp",
}
COLORS = {label: MODELS[name][0] for label, name in NAMES.items()}
OTHERS = ["#00687F", "#C2185B", "#9C7A00", "#332288", "#4D7F17", "#7B6F8A"]  # for what is not a model
SHAPES = "<>dh8H"  # their markers; a model has none of these
VARIANTS = ["squared ReLU alone", "only v", "convolutions alone", "random start, bias", "GELU", "only q"]  # keep theirs
DASHES = ["-", "--", "-.", ":", (0, (7, 2, 1, 2, 1, 2)), (0, (2, 2))]
GREY = "#777777"
NEW, PLAIN = "#F7D9C4", "#EDEFF2"  # boxes: what a chapter adds, and what was there
DIVERGING = "RdBu_r"

WIDTH = 5.6  # inches
EM = 12 / 72  # the height of a line of text without its spacing, in inches; a letter is about half as wide
STYLE = Path(__file__).parents[1] / "book.mplstyle"
fontManager.addfont(STYLE.with_name("book-sans.ttf"))  # the letters of the site
styled = plt.style.context(STYLE)  # a decorator: draws in the book's style, and leaves the user's as it is


def nth_color(i: int) -> str:
    """The ``i``-th color for what is not a model."""
    return OTHERS[i % len(OTHERS)]


def looks(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Color and marker of each label, and a dash that its neighbors do not have: a model's own, or the next free."""
    free = [i for i in range(len(OTHERS)) if i >= len(VARIANTS) or VARIANTS[i] not in labels] or [0]
    found: dict[str, dict[str, Any]] = {}
    strangers = 0
    for n, label in enumerate(labels):
        if label in NAMES:
            color, marker = MODELS[NAMES[label]]
        else:
            i = VARIANTS.index(label) if label in VARIANTS else free[strangers % len(free)]
            strangers += label not in VARIANTS
            color, marker = nth_color(i), SHAPES[i % len(SHAPES)]
        found[label] = {"color": color, "marker": marker, "linestyle": DASHES[n % len(DASHES)]}
    return found


def panel_grid(n: int, height: float, columns: int = 2, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure of ``n`` panels, at most ``columns`` to a row, each row ``height`` inches high."""
    wide = min(n, columns)
    high = -(-n // wide)
    figure, grid = plt.subplots(
        high, wide, figsize=(WIDTH, high * height), squeeze=False, layout="constrained", **options
    )
    axes = list(grid.flat)
    for empty in axes[n:]:
        empty.remove()
    return figure, axes[:n]


def fold(text: str, inches: float) -> str:
    """The text in lines that fit; a unit in parentheses goes to a line of its own first."""
    letters = max(6, int(inches / (0.47 * EM)))
    if len(text) <= letters:
        return text
    lines = text.replace(" (", "\n(").split("\n")
    return "\n".join("\n".join(textwrap.wrap(line, letters, break_long_words=False)) for line in lines)


def thin(labels: Sequence[str], inches: float) -> list[str]:
    """Every label where they fit beside each other within ``inches``, else every second one, or third, …"""
    need = (0.52 * max(map(len, labels), default=0) + 0.5) * EM
    step = max(1, -int(-need * len(labels) // inches))
    return [label if i % step == 0 else "" for i, label in enumerate(labels)]


def plain(value: float, _: object = None) -> str:
    """A number as a tick label without superscripts, which a phone would show too small."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}".replace("e-0", "e-")


def fixed_ticks(axis: Any, places: Sequence[float], labels: Sequence[str]) -> None:
    """These ticks and no others, on a logarithmic axis too."""
    kept = [(place, label) for place, label in zip(places, labels, strict=True) if label]
    axis.set_major_locator(FixedLocator([place for place, _ in kept]))
    axis.set_major_formatter(FixedFormatter([label for _, label in kept]))


def legend_above(figure: Figure, entries: Mapping[str, Any]) -> None:
    """A legend on top, in as many columns as fit; the figure grows by it."""
    widest = max(len(label) for label in entries) * 0.47 * EM + 0.5
    columns = max(1, min(len(entries), int(WIDTH / widest)))
    rows = -(-len(entries) // columns)
    columns = -(-len(entries) // rows)  # rows of equal length
    figure.set_figheight(figure.get_figheight() + 1.45 * EM * rows)
    spacing = {"columnspacing": 1.2, "handlelength": 2.2, "handletextpad": 0.5, "borderaxespad": 0.2}
    figure.legend(list(entries.values()), list(entries), loc="outside upper center", ncols=columns, **spacing)
