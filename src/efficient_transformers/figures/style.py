"""How every figure of the book looks: one color for each model, one style, no change to the user's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

# One color per model in the whole book (Okabe and Ito's palette, which color-blind readers can tell apart).
COLORS = {"transformer": "#0072B2", "primer-ez": "#D55E00", "primer": "#CC79A7", "hourglass": "#009E73"}
COLORS |= {"baseline": COLORS["transformer"], "Primer EZ": COLORS["primer-ez"], "full Primer": COLORS["primer"]}
COLORS |= {"gmlp": "#222222", "gMLP": "#222222"}
OTHERS = ["#E69F00", "#56B4E9", "#332288", "#882255", "#999933", "#117733"]  # for what is not a model
NEW, PLAIN = "#F7D9C4", "#EDEFF2"  # boxes: what a chapter adds, and what was there
DIVERGING, SEQUENTIAL = "RdBu_r", "Blues"

STYLE = Path(__file__).parents[1] / "book.mplstyle"
P = ParamSpec("P")
R = TypeVar("R")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Draw in the book's style, and leave the user's as it is."""

    @wraps(draw)
    def in_style(*args: P.args, **kwargs: P.kwargs) -> R:
        with plt.style.context(STYLE):
            return draw(*args, **kwargs)

    return in_style


def nth_color(i: int) -> str:
    """The ``i``-th color for what is not a model."""
    return OTHERS[i % len(OTHERS)]


def bare_grid(ax: Axes, rows: int, columns: int, color: str = "#CCCCCC", lw: float = 0.5) -> None:
    """Lines between the places of an image, and no ticks."""
    ax.set_xticks([i - 0.5 for i in range(1, columns)], [])
    ax.set_yticks([i - 0.5 for i in range(1, rows)], [])
    ax.grid(color=color, lw=lw)
    ax.tick_params(length=0)
