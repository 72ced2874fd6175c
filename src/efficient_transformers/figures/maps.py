"""Matrices as images: weights, masks, leak maps. All functions return the figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from .style import DIVERGING, SEQUENTIAL, bare_grid, nth_color, styled


@styled
def heatmaps(
    matrices: Mapping[str, Tensor],
    xlabel: str,
    ylabel: str,
    diverging: bool = False,
    limit: float | None = None,
    columns: int = 4,
    ticks: Sequence[str] | None = None,
    colorbar: str = "",
) -> Figure:
    """Matrices side by side, on one color scale, which ends at ``limit``; ``diverging`` puts 0 in its middle."""
    n = len(matrices)
    wide, high = min(n, columns), -(-n // columns)
    rows, cols = next(iter(matrices.values())).shape
    size = min(9.6 / wide, 4.0)
    shape = (size * wide + (0.9 if colorbar else 0), size * high * min(1.2, max(0.45, rows / cols)) + 0.5)
    figure, axes = plt.subplots(high, wide, figsize=shape, squeeze=False, layout="constrained")
    largest = limit or max(m.abs().max().item() for m in matrices.values())
    scale = {"vmin": -largest if diverging else 0.0, "vmax": largest, "cmap": DIVERGING if diverging else SEQUENTIAL}
    for ax, (title, matrix) in zip(axes.flat, matrices.items(), strict=False):
        image = ax.imshow(matrix.detach().float().cpu().numpy(), aspect="auto", interpolation="nearest", **scale)
        ax.set_title(title)
        ax.set_xlabel(xlabel)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if ticks is not None:
            ax.set_xticks(range(len(ticks)), ticks, fontsize=6)
            ax.set_yticks(range(len(ticks)), ticks, fontsize=6)
            ax.tick_params(length=0)
    for ax in axes[:, 0]:
        ax.set_ylabel(ylabel)
    for ax in axes.flat[n:]:
        ax.axis("off")
    if colorbar:
        figure.colorbar(image, ax=axes, label=colorbar)
    return figure


@styled
def leak_maps(maps: Mapping[str, Tensor]) -> Figure:
    """Leak maps side by side: colored where an output depends on an input, red where that input is in its future."""
    n = len(maps)
    figure, axes = plt.subplots(1, n, figsize=(min(3.0 * n, 9.6), 3.1), squeeze=False, layout="constrained")
    colors = ListedColormap(["white", "#4C78A8", "#D62728"])
    for ax, (title, values) in zip(axes[0], maps.items(), strict=True):
        depends = values > 0
        kind = depends.int() + (depends & torch.ones_like(depends).triu(1)).int()
        T = len(values)
        ax.imshow(kind.numpy(), cmap=colors, vmin=0, vmax=2)
        bare_grid(ax, T, T)
        ax.set(title=title, xlabel="input position")
    axes[0, 0].set_ylabel("output position")
    return figure


@styled
def masks(matrices: Mapping[str, Tensor]) -> Figure:
    """Boolean masks side by side, queries by keys, colored where a query sees a key."""
    figure, axes = plt.subplots(1, len(matrices), figsize=(9.6, 3.4), squeeze=False, layout="constrained")
    for ax, (title, mask) in zip(axes[0], matrices.items(), strict=True):
        ax.imshow(mask.int().numpy(), cmap=ListedColormap(["white", "#4C78A8"]), vmin=0, vmax=1)
        bare_grid(ax, mask.shape[0], mask.shape[1])
        ax.set(title=title, xlabel="key", ylabel="query")
    return figure


@styled
def kernel_map(groups: Mapping[str, Tensor], centers: Tensor) -> Figure:
    """The group of each kernel, heads by channels, and the mean kernel ``[groups, kernel_size]`` of each group."""
    n, width = centers.shape
    colors = ListedColormap([nth_color(i) for i in range(n)])
    figure, axes = plt.subplot_mosaic(
        [[name, "means"] for name in groups],
        figsize=(9.6, 0.95 * len(groups) + 0.8),
        layout="constrained",
        width_ratios=(3, 1),
    )
    for name, group in groups.items():
        ax = axes[name]
        ax.imshow(group.numpy(), cmap=colors, vmin=-0.5, vmax=n - 0.5, aspect="auto", interpolation="nearest")
        bare_grid(ax, group.shape[0], group.shape[1], color="white", lw=0.7)
        ax.set_ylabel(f"{name}\nhead")
    ax.set_xlabel("channel of the head")
    for i, center in enumerate(centers):
        axes["means"].plot(range(width), center, marker="o", color=nth_color(i))
    axes["means"].axhline(0, color="#777777", lw=0.8)
    axes["means"].set(xlabel="tokens back", title="mean kernel of each group")
    axes["means"].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


@styled
def spatial_weights(weight: Tensor, limit: float, rows: Sequence[int], back: int = 16) -> Figure:
    """A causal spatial matrix as an image, and beside it some of its rows and their mean, aligned at the diagonal."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained", width_ratios=(1, 1.35))
    w = weight.detach().float().cpu().tril()
    image = left.imshow(w.numpy(), cmap=DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest")
    left.set(xlabel="position that is read, s", ylabel="position of the gate, t")
    figure.colorbar(image, ax=left, shrink=0.8)
    for i, t in enumerate(rows):
        right.plot(range(back), w[t].flip(0)[-1 - t :][:back], color=nth_color(i), lw=1, label=f"row {t}")
    mean = [w.diagonal(-j).mean() for j in range(back)]
    right.plot(range(back), mean, "k.-", label="mean of all rows")
    right.axhline(0, color="#777777", lw=0.8)
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set(xlabel="tokens back, t - s", ylabel="weight", ylim=(-limit, limit))
    right.legend(fontsize=8)
    return figure


@styled
def pixel_filters(weight: Tensor, side: int) -> Figure:
    """Rows of a two-sided spatial matrix over an image, each as an image, placed where its own pixel is."""
    w = weight.detach().float().cpu().view(side, side, side, side)
    figure, ax = plt.subplots(figsize=(6, 6), layout="constrained")
    gap = side + 1
    canvas = torch.full((side * gap - 1, side * gap - 1), torch.nan)
    for y in range(side):
        for x in range(side):
            canvas[y * gap : y * gap + side, x * gap : x * gap + side] = w[y, x]
            ax.plot(x * gap + x, y * gap + y, "k.", markersize=2)
    limit = w.abs().quantile(0.995).item()
    ax.imshow(canvas.numpy(), cmap=DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest")
    ax.axis("off")
    return figure
