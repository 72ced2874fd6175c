"""Every kind of figure in the book, one function each. All return the matplotlib figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator
from torch import Tensor

from .corpus import Corpus
from .study import Difference
from .training import Metrics

# One color per model in the whole book (Okabe and Ito's palette, which color-blind readers can tell apart).
COLORS = {"transformer": "#0072B2", "primer-ez": "#D55E00", "primer": "#CC79A7", "hourglass": "#009E73"}
COLORS |= {"baseline": COLORS["transformer"], "Primer EZ": COLORS["primer-ez"], "full Primer": COLORS["primer"]}
COLORS |= {"gmlp": "#222222", "gMLP": "#222222"}
OTHERS = ["#E69F00", "#56B4E9", "#332288", "#882255", "#999933", "#117733"]  # for what is not a model
NEW, PLAIN = "#F7D9C4", "#EDEFF2"  # boxes: what a chapter adds, and what was there
DIVERGING, SEQUENTIAL = "RdBu_r", "Blues"

STYLE = Path(__file__).parent / "book.mplstyle"
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
def curves(
    panels: Mapping[str, Mapping[str, tuple[Sequence[float] | Tensor, Sequence[float] | Tensor]]],
    xlabel: str,
    ylabel: str,
    marker: str = "",
    log: bool = False,
) -> Figure:
    """Panels of labelled curves; a curve with a model's name has the model's color."""
    figure, axes = plt.subplots(
        1, len(panels), figsize=(9.6 if len(panels) > 1 else 6.4, 3.2), squeeze=False, layout="constrained"
    )
    for ax, (title, lines) in zip(axes[0], panels.items(), strict=True):
        for label, (x, y) in lines.items():
            ax.plot(x, y, label=label, marker=marker, color=COLORS.get(label))
        ax.set(title=title, xlabel=xlabel)
        if log:
            ax.set(xscale="log", yscale="log")
            if len(x) < 9:
                ax.set_xticks(list(x), [f"{n:,}" for n in x])
                ax.minorticks_off()
            low, high = ax.get_ylim()
            if high < 20 * low:
                ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                ax.yaxis.set_major_formatter("{x:g}")
        if len(lines) > 1:
            ax.legend()
    axes[0, 0].set_ylabel(ylabel)
    return figure


@styled
def dots(values: Mapping[str, Sequence[Sequence[float]]], places: Sequence[str], xlabel: str, ylabel: str) -> Figure:
    """For each label and place a column of dots, one per seed, and a line through their means."""
    figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for n, (label, columns) in enumerate(values.items()):
        color = COLORS.get(label, nth_color(n))
        for i, column in enumerate(columns):
            ax.plot([i] * len(column), column, "o", color=color, alpha=0.6)
        ax.plot([sum(c) / len(c) for c in columns], color=color, lw=1, label=label)
    ax.set_xticks(range(len(places)), places)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.legend()
    return figure


@styled
def plot_losses(
    runs: Mapping[str, Metrics], ax: Axes | None = None, against: str = "step", target: float | None = None
) -> Axes:
    """Validation loss of each run against ``"step"`` or ``"seconds"``; ``target`` draws a level to reach."""
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for label, run in runs.items():
        x, y = [r[against] for r in run], [r["validation_loss"] for r in run]
        ax.plot(x, y, label=label, color=COLORS.get(label), marker=".", markersize=4)
    if target is not None:
        ax.axhline(target, color="#777777", lw=0.8, ls="--")
    unit = {"step": "step", "seconds": "training time (s)"}[against]
    ax.set(xlabel=unit, ylabel="validation loss (nats per character)")
    ax.legend()
    return ax


@styled
def compare_losses(runs: Mapping[str, Metrics], target: float | None = None, zoom: float = 2.6) -> Figure:
    """The same runs against steps and against time, below a loss of ``zoom``."""
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.2), sharey=True, layout="constrained")
    for ax, against in zip(axes, ("step", "seconds"), strict=True):
        plot_losses(runs, ax, against, target)
        ax.set_ylim(top=zoom)
    axes[1].set_ylabel("")
    return figure


@styled
def filters(kernels: Mapping[str, Tensor]) -> Figure:
    """Kernels ``[kernel_size]`` as filters: the weights by lag, and the gain by frequency."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 2.7), layout="constrained")
    frequency = torch.linspace(0, 0.5, 101)
    for i, (label, kernel) in enumerate(kernels.items()):
        w = kernel.detach().float().cpu()
        place = torch.arange(len(w)) + 0.16 * (i - (len(kernels) - 1) / 2)
        left.bar(place.tolist(), w.tolist(), width=0.15, color=nth_color(i), label=label)
        turns = torch.exp(-2j * torch.pi * frequency[:, None] * torch.arange(len(w)))  # (F, W)
        right.plot(frequency, (turns @ w.to(turns.dtype)).abs(), color=nth_color(i))
    left.axhline(0, color="#777777", lw=0.8)
    left.set(xlabel="tokens back", ylabel="weight", ylim=(-1.1, 1.1))
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.legend(fontsize=8)
    right.set(xlabel="frequency (cycles per token)", ylabel="gain", ylim=(0, 2))
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
def differences(rows: Mapping[str, Difference], xlabel: str) -> Figure:
    """One row for each comparison: a dot per seed, the mean, and its interval; grey where the interval holds 0."""
    figure, ax = plt.subplots(figsize=(8.4, 0.28 * len(rows) + 0.9), layout="constrained")
    for y, row in enumerate(rows.values()):
        color = "#777777" if not row.is_clear else "#0072B2" if row.mean < 0 else "#D55E00"
        ax.plot(row.values, [y] * len(row.values), "o", color=color, alpha=0.35, markersize=4)
        ax.plot([row.low, row.high], [y, y], color=color, lw=1.5)
        ax.plot(row.mean, y, "D", color=color, markersize=5)
    ax.axvline(0, color="#777777", lw=0.8)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set(xlabel=xlabel, ylim=(len(rows) - 0.4, -0.6))
    return figure


@styled
def scatter(points: Mapping[str, tuple[float, float]], xlabel: str, ylabel: str) -> Figure:
    """Labelled points."""
    figure, ax = plt.subplots(figsize=(8.4, 3.6), layout="constrained")
    for label, (x, y) in points.items():
        ax.plot(x, y, "o", color=COLORS.get(label, "#0072B2"))
        ax.annotate(label, (x, y), xytext=(5, 3), textcoords="offset points", fontsize=8)
    ax.axhline(0, color="#777777", lw=0.8)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.margins(x=0.12)
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
def by_depth(x: Sequence[float], lines: Sequence[Sequence[float]], xlabel: str, ylabel: str, name: str) -> Figure:
    """A line for each block of a model, from the first (dark) to the last (light), with its number at its end."""
    figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    colors = plt.get_cmap("viridis")(torch.linspace(0, 0.85, len(lines)).tolist())
    last = -1.0  # the label below; the next one keeps clear of it
    for i in sorted(range(len(lines)), key=lambda i: lines[i][-1]):
        ax.plot(x, lines[i], color=colors[i], marker=".")
        last = max(last + 0.045, lines[i][-1])
        ax.text(x[-1] + 0.02 * (x[-1] - x[0]), last, f"{name} {i + 1}", va="center", fontsize=7)
    ax.set(xlabel=xlabel, ylabel=ylabel, ylim=(0, 1))
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


@styled
def plot_corpus(corpus: Corpus) -> Figure:
    """What a corpus holds: how often each character comes, and how much of the text is held out."""
    parts = {"training": corpus.train, "validation": corpus.validation}
    share = torch.bincount(torch.cat(list(parts.values()))).double()
    share, order = (share / share.sum()).sort(descending=True)
    shown = {" ": "space", "\n": "line"}
    characters = [corpus.vocabulary.characters[i] for i in order.tolist()]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.2), layout="constrained", width_ratios=(4, 1))
    left.bar(range(len(order)), share.tolist(), color="#7F8FA6")
    left.set_xticks(range(len(order)), [shown.get(c, c.replace("$", r"\$")) for c in characters], fontsize=6.5)
    left.tick_params(axis="x", length=0)
    for c, tick in zip(characters, left.get_xticklabels(), strict=True):
        tick.set_rotation(90 if c in shown else 0)
    left.set(yscale="log", ylabel="share of the text", title=f"{len(order)} characters", xlim=(-1, len(order)))
    right.bar(list(parts), [len(part) / 1e6 for part in parts.values()], color="#7F8FA6")
    right.set(ylabel="million characters")
    return figure
