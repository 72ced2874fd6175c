"""Matrices as images: weights, masks, leak maps. All functions return the figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from .style import (
    DASHES,
    DIVERGING,
    EM,
    GREY,
    SEQUENTIAL,
    SHAPES,
    WIDTH,
    bare_grid,
    fixed_ticks,
    fold,
    legend_above,
    nth_color,
    panel_grid,
    styled,
)

CLEAR = "#FFFFFF00"
PAST, FUTURE = "#4C78A8", "#D62728"
BLANK = set(" \n\t¶↵⏎␣·")


@styled
def heatmaps(
    matrices: Mapping[str, Tensor],
    xlabel: str,
    ylabel: str,
    diverging: bool = False,
    limit: float | None = None,
    columns: int | None = None,
    ticks: Sequence[str] | None = None,
    colorbar: str = "",
    boundaries: Sequence[float] = (),
) -> Figure:
    """Matrices side by side, on one color scale, which ends at ``limit``; ``diverging`` puts 0 in its middle.

    ``ticks``, such as the characters of a line, name the places of each axis that has as many. Characters that do not
    fit are written as words, each at its middle, with a line between words; what fits neither way is thinned, and the
    axis says so. ``boundaries`` are drawn as lines across both axes, such as 3.5 between the places 3 and 4.
    """
    n = len(matrices)
    rows, cols = next(iter(matrices.values())).shape
    wide = min(n, columns or (4 if rows > 3 * cols else 2))  # narrow matrices stand closer
    across = (WIDTH - 0.7 - (0.8 if colorbar else 0)) / wide - 0.1  # of one matrix, in inches
    down = max(0.9, min(across, 3.6) * min(1.5 if wide < 3 else 3.0, max(0.45, rows / cols)))
    extra = 0.3 if any(matrices) else 0.1
    figure, axes = panel_grid(n, down + extra, columns=wide)
    largest = limit or max(m.abs().max().item() for m in matrices.values())
    cmap, smallest = (DIVERGING, -largest) if diverging else (SEQUENTIAL, 0.0)
    scale: dict[str, Any] = {"vmin": smallest, "vmax": largest, "cmap": cmap}
    room = 0.25
    alike = len({matrix.shape for matrix in matrices.values()}) == 1  # inner panels need no numbers of their own
    for i, (ax, (title, matrix)) in enumerate(zip(axes, matrices.items(), strict=True)):
        rows, cols = matrix.shape
        image = ax.imshow(matrix.detach().float().cpu().numpy(), aspect="auto", interpolation="nearest", **scale)
        ax.set_title(fold(title, across))
        first, last = i % wide == 0 or not alike, i + wide >= n or not alike
        ax.set_xlabel(fold(xlabel, across) if last else "")
        ax.set_ylabel(fold(ylabel, down) if first else "")
        for axis, size, inches, outer in ((ax.xaxis, cols, across, last), (ax.yaxis, rows, down, first)):
            if ticks is not None and len(ticks) == size:
                room = max(room, name_places(ax, axis, ticks, inches, outer))
            else:
                most = min(size, 3 if wide > 2 and axis is ax.xaxis else 6)
                axis.set_major_locator(MaxNLocator(most, integer=True, steps=[1, 2, 4, 5, 10]))
                axis.set_tick_params(labelbottom=outer, labelleft=outer)
        for place in boundaries:
            ax.axvline(place, color="black", lw=0.8, ls="--")
            ax.axhline(place, color="black", lw=0.8, ls="--")
    figure.set_figheight(figure.get_figheight() + room + 0.2)
    if colorbar:
        figure.colorbar(image, ax=figure.axes[:n], label=colorbar, aspect=30)
    return figure


def name_places(ax: Axes, axis: Any, names: Sequence[str], inches: float, outer: bool) -> float:
    """Name the places of an axis as well as fits ``inches``; returns how long the longest name is, in inches."""
    across = axis is ax.xaxis
    rotation = 0
    places: Sequence[float] = range(len(names))
    labels = ["␣" if name == " " else name.replace("$", r"\$") for name in names]
    # Letters stand upright, one beside or below the other; words lie along the rows, and upright along the columns.
    longest = max(map(len, names))
    need = (0.6 * longest + 0.25 if across else 1.15) * EM
    if need * len(names) > inches and longest > 1 and across:
        need, rotation = 1.15 * EM, 90
    if need * len(names) > inches:
        words = whole_words(names) if longest == 1 else []
        if len(words) > 1:
            rotation = 90 if across else 0
            places, labels = [(a + b - 1) / 2 for a, b in words], ["".join(names[a:b]) for a, b in words]
            clear = 1.1 * EM * len(names) / inches  # places that a line of text covers
            kept = [0]
            for i in range(1, len(words)):
                if places[i] - places[kept[-1]] >= clear:
                    kept.append(i)
            places, labels = [places[i] for i in kept], [labels[i].replace("$", r"\$") for i in kept]
            (ax.axvline if across else ax.axhline)(-0.5, lw=0)
            for a, _ in words[1:]:
                (ax.axvline if across else ax.axhline)(a - 0.5, color=GREY, lw=0.4, alpha=0.7)
        else:
            step = -int(-need * len(names) // inches)
            places, labels = places[::step], labels[::step]
            if outer:
                axis.set_label_text(f"{axis.get_label_text()}\n(1 name in {step})")
    fixed_ticks(axis, places, labels)
    axis.set_tick_params(length=0, rotation=rotation, **({"labelbottom": outer} if across else {"labelleft": outer}))
    return 0.62 * EM * max(map(len, labels)) if rotation and outer else 0.25


def whole_words(characters: Sequence[str]) -> list[tuple[int, int]]:
    """Start and end of each word in a line of characters."""
    found, start = [], 0
    for i, character in enumerate([*characters, " "]):
        if character in BLANK:
            if i > start:
                found.append((start, i))
            start = i + 1
    return found


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


@styled
def masks(matrices: Mapping[str, Tensor]) -> Figure:
    """Boolean masks, queries by keys, colored where a query sees a key; all places have one size."""
    sizes = [mask.shape for mask in matrices.values()]
    n = len(sizes)
    wide = n if n <= 2 else 2
    columns = [max(shape[1] for shape in sizes[c::wide]) for c in range(wide)]
    rows = [max(shape[0] for shape in sizes[r * wide : (r + 1) * wide]) for r in range(-(-n // wide))]
    cell = min((WIDTH - 0.8 * wide) / sum(columns), 2.6 / max(rows), 0.35)
    figure, axes = panel_grid(
        n, 1.0, wide, width_ratios=[c * cell + 0.75 for c in columns], height_ratios=[r * cell + 0.9 for r in rows]
    )
    figure.set_figheight(sum(r * cell + 0.95 for r in rows))
    for ax, (title, mask) in zip(axes, matrices.items(), strict=True):
        across = mask.shape[1] * cell
        ax.imshow(mask.int().numpy(), cmap=ListedColormap([CLEAR, PAST]), vmin=0, vmax=1)
        bare_grid(ax, mask.shape[0], mask.shape[1])
        number(ax, mask.shape[0], mask.shape[1], cell)
        ax.set(title=fold(title, across + 0.8), xlabel="key", ylabel="query")
    return figure


@styled
def kernel_map(
    groups: Mapping[str, Tensor], centers: Tensor, names: Sequence[str] = (), start: Tensor | None = None
) -> Figure:
    """The group of each kernel, heads by channels, and the mean kernel ``[groups, kernel_size]`` of each group.

    ``names`` calls the groups something else than their number; ``start`` is the kernel that all began with.
    """
    n, width = centers.shape
    colors = ListedColormap([nth_color(i) for i in range(n)])
    ratios = [0.75] * len(groups) + [2.2]
    figure, axes = plt.subplots(
        len(groups) + 1, 1, figsize=(WIDTH, sum(ratios) + 1.2), layout="constrained", height_ratios=ratios
    )
    for ax, (name, group) in zip(axes, groups.items(), strict=False):
        ax.imshow(group.numpy(), cmap=colors, vmin=-0.5, vmax=n - 0.5, aspect="auto", interpolation="nearest")
        bare_grid(ax, group.shape[0], group.shape[1], color="white", lw=0.7)
        ax.set_ylabel(f"{name}\nhead")
    axes[-2].set_xlabel("channel of the head")
    means = axes[-1]
    shown: dict[str, Any] = {}
    for i, center in enumerate(centers):
        name = names[i] if names else f"kind {i + 1}"
        look = {"marker": SHAPES[i % len(SHAPES)], "color": nth_color(i), "ls": DASHES[i % len(DASHES)]}
        (shown[name],) = means.plot(range(width), center, **look)
    if start is not None:
        (shown["at the start"],) = means.plot(range(width), start, color="black", lw=3, alpha=0.35)
    means.axhline(0, color=GREY, lw=0.8)
    means.set(xlabel="tokens back", ylabel="mean kernel\nof each kind")
    means.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_above(figure, shown)
    return figure


@styled
def spatial_weights(weight: Tensor, limit: float, rows: Sequence[int], back: int = 16) -> Figure:
    """A causal spatial matrix as an image, and beside it some of its rows and their mean, aligned at the diagonal."""
    figure, (left, right) = panel_grid(2, 3.9)
    w = weight.detach().float().cpu().tril()
    future = torch.ones_like(w).bool().triu(1)
    image = left.imshow(
        w.masked_fill(future, torch.nan).numpy(), cmap=DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest"
    )
    left.set(xlabel="position that is read, s", ylabel="position of the gate, t")
    for axis in (left.xaxis, left.yaxis):
        axis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 4, 5, 10]))
    figure.colorbar(image, ax=left, location="bottom", ticks=MaxNLocator(3), label="weight", aspect=15)
    shown: dict[str, Line2D] = {}
    for i, t in enumerate(rows):
        last = w[t].flip(0)[-1 - t :][:back]
        (shown[f"row {t}"],) = right.plot(range(len(last)), last, color=nth_color(i), lw=1.4, ls=DASHES[1 + i % 5])
    mean = [w.diagonal(-j).mean() for j in range(back)]
    (shown["mean of all rows"],) = right.plot(range(back), mean, "k.-")
    right.axhline(0, color=GREY, lw=0.8)
    right.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    right.set(xlabel="tokens back, t - s", ylabel="weight", ylim=(-limit, limit))
    legend_above(figure, shown)
    return figure


@styled
def pixel_filters(weight: Tensor, side: int) -> Figure:
    """Rows of a two-sided spatial matrix over an image, each as an image, placed where its own pixel is.

    A square marks the own pixel of each.
    """
    w = weight.detach().float().cpu().view(side, side, side, side)
    figure, (ax,) = panel_grid(1, 6.1)
    gap = side + 1
    places = side * gap - 1
    canvas = torch.full((places, places), torch.nan)
    size = 72 * 5.3 / places  # of a place, in points
    for y in range(side):
        for x in range(side):
            canvas[y * gap : y * gap + side, x * gap : x * gap + side] = w[y, x]
            ax.plot(x * gap + x, y * gap + y, "s", mfc="none", mec="black", markersize=size, mew=max(1.2, size / 12))
    limit = w.abs().quantile(0.995).item()
    image = ax.imshow(canvas.numpy(), cmap=DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest")
    ax.axis("off")
    figure.colorbar(image, ax=ax, location="bottom", label="weight", aspect=40, ticks=MaxNLocator(5), pad=0.01)
    return figure
