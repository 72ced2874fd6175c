"""Matrices as images: weights, masks, leak maps. All functions return the figure."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from .style import (
    WIDTH,
    bare_grid,
    fixed_ticks,
    fold,
    legend_above,
    panel_grid,
    styled,
)

CLEAR = "#FFFFFF00"
PAST, FUTURE = "#4C78A8", "#D62728"


@styled
def leak_maps(maps: Mapping[str, Tensor]) -> Figure:
    """Leak maps side by side: colored where an output depends on an input, red where that input is in its future."""
    figure, axes = panel_grid(len(maps), 2.8 if len(maps) > 1 else 3.6)
    across = WIDTH / min(2, len(maps)) - 0.6
    colors = ListedColormap([CLEAR, PAST, FUTURE])
    leak = False
    for i, (ax, (title, values)) in enumerate(zip(axes, maps.items(), strict=True)):
        depends = values > 0
        kind = depends.int() + (depends & torch.ones_like(depends).triu(1)).int()
        leak = leak or bool((kind == 2).any())
        T = len(values)
        ax.imshow(kind.numpy(), cmap=colors, vmin=0, vmax=2)
        bare_grid(ax, T, T)
        number(ax, T, T, min(across, 2.0) / T)
        ax.set(title=fold(title, across), xlabel="input position", ylabel="output position" if i % 2 == 0 else "")
    entries = {"reads this input": Patch(fc=PAST)} | ({"reads its future: a leak": Patch(fc=FUTURE)} if leak else {})
    legend_above(figure, entries)
    return figure


def number(ax: Axes, rows: int, columns: int, cell: float) -> None:
    """Number the places of an image, ``cell`` inches each, every one or every second, fourth, …; draw its frame."""
    for axis, size in ((ax.xaxis, columns), (ax.yaxis, rows)):
        step = next(s for s in (1, 2, 4, 5, 8, 10, 16, 20, 32, 64, 128, size) if s * cell >= 0.27 or s >= size)
        fixed_ticks(axis, range(0, size, step), [str(i) for i in range(0, size, step)])
    for spine in ax.spines.values():
        spine.set_visible(True)
