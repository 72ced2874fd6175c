"""Matrices as images: weights, masks, leak maps. All functions return the figure."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from .style import WIDTH, fixed_ticks, fold, legend_above, panel_grid, styled

CLEAR = "#FFFFFF00"
PAST, FUTURE = "#4C78A8", "#D62728"


@styled
def leak_maps(maps: Mapping[str, Tensor]) -> Figure:
    """Leak maps side by side: colored where an output depends on an input, red where that input is in its future."""
    figure, axes = panel_grid(len(maps), 2.8 if len(maps) > 1 else 3.6)
    across = WIDTH / min(2, len(maps)) - 0.6
    colors = ListedColormap([CLEAR, PAST, FUTURE])
    for i, (ax, (title, values)) in enumerate(zip(axes, maps.items(), strict=True)):
        depends = values > 0
        kind = depends.int() + depends.int().triu(1)
        T = len(values)
        ax.imshow(kind.numpy(), cmap=colors, vmin=0, vmax=2)
        number(ax, T, min(across, 2.0) / T)
        ax.set(title=fold(title, across), xlabel="input position", ylabel="output position" if i % 2 == 0 else "")
    leak = any((values.triu(1) > 0).any() for values in maps.values())
    entries = {"reads this input": Patch(fc=PAST)} | ({"reads its future: a leak": Patch(fc=FUTURE)} if leak else {})
    legend_above(figure, entries)
    return figure


def number(ax: Axes, T: int, cell: float) -> None:
    """Number the ``T × T`` places of an image, ``cell`` inches each, all or every second, fourth, …; frame it."""
    step = next(s for s in (1, 2, 4, 5, 8, 10, 16, 20, 32, 64, 128, T) if s * cell >= 0.27 or s >= T)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks([i - 0.5 for i in range(1, T)], minor=True)
        fixed_ticks(axis, range(0, T, step), [str(i) for i in range(0, T, step)])
    ax.grid(which="minor", color="#CCCCCC", lw=0.5)
    ax.tick_params(which="both", length=0)
    for spine in ax.spines.values():
        spine.set_visible(True)
