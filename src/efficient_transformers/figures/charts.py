"""Curves, points and intervals. All functions return what they drew."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from torch import Tensor

from ..corpus import Corpus
from ..study import Difference
from ..training import Metrics
from .labels import place_labels
from .style import (
    COLORS,
    DASHES,
    EM,
    GREY,
    OTHERS,
    WIDTH,
    fixed_ticks,
    fold,
    legend_above,
    looks,
    nth_color,
    panel_grid,
    plain,
    styled,
    thin,
)

Line = tuple[Sequence[float] | Tensor, Sequence[float] | Tensor]


@styled
def curves(
    panels: Mapping[str, Mapping[str, Line]],
    xlabel: str,
    ylabel: str,
    marker: str = "",
    log: bool = False,
    ylim: tuple[float | None, float | None] | None = None,
) -> Figure:
    """Panels of labelled curves; a curve with a model's name has the model's color, and with ``marker`` its marker."""
    labels = list(dict.fromkeys(itertools.chain.from_iterable(panels.values())))
    look = looks(labels)
    wide = WIDTH / min(2, len(panels)) - 0.7
    titles = [fold(title, wide) for title in panels]
    figure, axes = panel_grid(len(panels), 2.9 + 1.2 * EM * max(title.count("\n") for title in titles))
    shown = {}
    for ax, title, lines in zip(axes, titles, panels.values(), strict=True):
        for label, (x, y) in lines.items():
            (line,) = ax.plot(x, y, label=label, color=look[label]["color"], marker=marker)
            if marker and len(labels) > 1:
                line.set_marker(look[label]["marker"])
            elif not marker:
                line.set_linestyle(look[label]["linestyle"])
            shown[label] = line
        ax.set(title=title, xlabel=fold(xlabel, wide))
        if ylim is not None:
            ax.set_ylim(*ylim)
        few = len(x) < 9
        if log:
            logarithmic(ax, [float(n) for n in x] if few else [], wide)
        elif few and all(float(n).is_integer() for n in x):
            fixed_ticks(ax.xaxis, [float(n) for n in x], thin([plain(float(n)) for n in x], wide))
    if any(len(lines) > 1 for lines in panels.values()):
        legend_above(figure, shown)
    axes[0].set_ylabel(fold(ylabel, 2.3))
    return figure


def logarithmic(ax: Axes, x: Sequence[float], wide: float) -> None:
    """Both axes logarithmic, with ticks at ``x`` and numbers that are written out."""
    ax.set(xscale="log", yscale="log")
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        decades = math.log10(high / low)
        if decades < 0.8:
            axis.set_major_locator(MaxNLocator(5))
        elif decades < 1.8:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
        else:
            axis.set_major_locator(LogLocator(numticks=7))
        axis.set_major_formatter(FuncFormatter(plain))
        axis.set_minor_formatter(NullFormatter())
    if x:
        fixed_ticks(ax.xaxis, x, thin([plain(n) for n in x], wide))
        ax.xaxis.set_minor_locator(NullLocator())


@styled
def dots(values: Mapping[str, Sequence[Sequence[float]]], places: Sequence[str], xlabel: str, ylabel: str) -> Figure:
    """For each label and place a column of dots, one per seed, and a line through their means."""
    figure, (ax,) = panel_grid(1, 2.9)
    shown = {}
    for n, (label, look) in enumerate(looks(list(values)).items()):
        x = [i + 0.07 * (n - (len(values) - 1) / 2) for i in range(len(places))]  # labels side by side
        color, marker, dash = look["color"], look["marker"], look["linestyle"]
        for place, column in zip(x, values[label], strict=True):
            ax.plot([place] * len(column), column, marker, color=color, alpha=0.6, markersize=5)
        means = [sum(column) / len(column) for column in values[label]]
        (shown[label],) = ax.plot(x, means, color=color, lw=1.2, ls=dash, label=label)
    fixed_ticks(ax.xaxis, range(len(places)), thin(places, WIDTH - 0.8))
    ax.set(xlabel=fold(xlabel, WIDTH - 0.8), ylabel=fold(ylabel, 2.3))
    legend_above(figure, shown)
    return figure


@styled
def plot_losses(
    runs: Mapping[str, Metrics],
    ax: Axes | None = None,
    against: str = "step",
    target: float | None = None,
    target_name: str = "",
) -> Axes:
    """Validation loss of each run against ``"step"`` or ``"seconds"``; ``target`` draws a level to reach."""
    figure = None
    if ax is None:
        figure, (ax,) = panel_grid(1, 2.9)
    for label, look in looks(list(runs)).items():
        x, y = [r[against] for r in runs[label]], [r["validation_loss"] for r in runs[label]]
        every = -(-len(x) // 12)
        ax.plot(x, y, label=label, color=look["color"], marker=look["marker"], markersize=4.5, markevery=every, lw=1.4)
    if target is not None:
        ax.axhline(target, color=GREY, lw=1, ls="--", label=target_name or "_target")
    unit = {"step": "step", "seconds": "training time (s)"}[against]
    ax.set(xlabel=unit, ylabel="validation loss\n(nats per character)")
    ax.xaxis.set_major_locator(MaxNLocator(5))
    handles, labels = ax.get_legend_handles_labels()
    if figure is None:
        ax.legend(loc="upper right")
    elif len(labels) > 1:
        legend_above(figure, dict(zip(labels, handles, strict=True)))
    return ax


@styled
def compare_losses(runs: Mapping[str, Metrics], target: float | None = None, zoom: float = 2.6) -> Figure:
    """The same runs against steps and against time, below a loss of ``zoom``."""
    figure, axes = panel_grid(2, 2.9, sharey=True)
    for ax, against in zip(axes, ("step", "seconds"), strict=True):
        plot_losses(runs, ax, against, target).legend_ = None
        ax.set_ylim(top=zoom)
    axes[1].set_ylabel("")
    handles, labels = axes[0].get_legend_handles_labels()
    legend_above(figure, dict(zip(labels, handles, strict=True)))
    return figure


@styled
def filters(kernels: Mapping[str, Tensor]) -> Figure:
    """Kernels ``[kernel_size]`` as filters: the weights by lag, and the gain by frequency."""
    figure, (left, right) = panel_grid(2, 2.7)
    frequency = torch.linspace(0, 0.5, 101)
    shown = {}
    wide = 0.8 / len(kernels)
    for i, (label, kernel) in enumerate(kernels.items()):
        w = kernel.detach().float().cpu()
        place = torch.arange(len(w)) + wide * (i - (len(kernels) - 1) / 2)
        left.bar(place.tolist(), w.tolist(), width=0.9 * wide, color=nth_color(i), label=label)
        turns = torch.exp(-2j * torch.pi * frequency[:, None] * torch.arange(len(w)))  # (F, W)
        (shown[label],) = right.plot(
            frequency, (turns @ w.to(turns.dtype)).abs(), color=nth_color(i), ls=DASHES[i % len(DASHES)], lw=2
        )
    left.axhline(0, color=GREY, lw=0.8)
    left.set(xlabel="tokens back", ylabel="weight", ylim=(-1.1, 1.1))
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_above(figure, shown)
    right.set(xlabel="frequency\n(cycles per token)", ylabel="gain", ylim=(0, 2))
    return figure


@styled
def differences(rows: Mapping[str, Difference], xlabel: str) -> Figure:
    """One row for each comparison: a dot per seed, the mean, and its interval; grey where the interval holds 0."""
    figure, (ax,) = panel_grid(1, 0.3 * len(rows) + 1.0)
    for y, row in enumerate(rows.values()):
        color = GREY if not row.is_clear else OTHERS[0] if row.mean < 0 else OTHERS[1]
        ax.plot(row.values, [y] * len(row.values), "o", color=color, alpha=0.4, markersize=4.5)
        ax.plot([row.low, row.high], [y, y], color=color, lw=2)
        ax.plot(row.mean, y, "D", color=color, markersize=6.5, mfc=color if row.is_clear else "white")
    ax.axvline(0, color=GREY, lw=0.8)
    names = [fold(name, 1.9) for name in rows]
    longest = max(len(line) for name in names for line in name.split("\n"))
    ax.set_yticks(range(len(rows)), names, linespacing=0.85)
    ax.set(xlabel=fold(xlabel, WIDTH - 0.3 - 0.55 * EM * longest), ylim=(len(rows) - 0.4, -0.6))
    ax.xaxis.set_major_locator(MaxNLocator(5))
    return figure


@styled
def scatter(points: Mapping[str, tuple[float, float]], xlabel: str, ylabel: str) -> Figure:
    """Labelled points. A label stands beside its point, or where there is room, at the end of a line to it."""
    figure, (ax,) = panel_grid(1, 3.2 + 0.08 * len(points))
    ax.axhline(0, color=GREY, lw=0.8)
    for label, (x, y) in points.items():
        ax.plot(x, y, "o", color=COLORS.get(label, OTHERS[0]))
    ax.set(xlabel=fold(xlabel, WIDTH - 0.8), ylabel=fold(ylabel, 2.3))
    ax.margins(x=0.08, y=0.12)
    place_labels(figure, ax, points)
    return figure


@styled
def by_depth(x: Sequence[float], lines: Sequence[Sequence[float]], xlabel: str, ylabel: str, name: str) -> Figure:
    """A line for each block of a model, from the first (purple) to the last (green), with its number at its end."""
    figure, (ax,) = panel_grid(1, 3.8)
    colors = plt.get_cmap("viridis")(torch.linspace(0, 0.58, len(lines)).tolist())
    gap = 0.055  # between labels, as a share of the axis
    order = sorted(range(len(lines)), key=lambda i: lines[i][-1])
    heights: list[float] = []
    for i in order:
        heights.append(max(heights[-1] + gap if heights else -1.0, lines[i][-1]))
    top = 1.0
    for j in reversed(range(len(heights))):  # those that were pushed above the axis come down again
        heights[j] = min(heights[j], top)
        top = heights[j] - gap
    for i, height in zip(order, heights, strict=True):
        ax.plot(x, lines[i], color=colors[i], marker=".", ls=DASHES[i % 3])
        ax.text(x[-1] + 0.03 * (x[-1] - x[0]), height, f"{name} {i + 1}", va="center", color=colors[i])
    ax.set(xlabel=xlabel, ylabel=ylabel, ylim=(0, 1.02))
    return figure


@styled
def plot_corpus(corpus: Corpus) -> Figure:
    """What a corpus holds: how often each character comes, most frequent first, and how much is held out."""
    parts = [corpus.train, corpus.validation]
    share = torch.bincount(torch.cat(parts)).double()
    share, order = (share / share.sum()).sort(descending=True)
    shown = {" ": "space", "\n": "line"}
    characters = [corpus.vocabulary.characters[i] for i in order.tolist()]
    n = len(characters)
    per_row = 27
    figure, axes = panel_grid(-(-n // per_row), 1.35, columns=1, sharey=True)
    for row, ax in enumerate(axes):
        here = slice(row * per_row, (row + 1) * per_row)
        labels = [shown.get(c, c.replace("$", r"\$")) for c in characters[here]]
        ax.bar(range(len(labels)), share[here].tolist(), color="#7F8FA6")
        ax.set_xticks(range(len(labels)), labels)
        ax.tick_params(axis="x", length=0)
        for c, tick in zip(characters[here], ax.get_xticklabels(), strict=True):
            tick.set_rotation(90 if c in shown else 0)
        ax.set(yscale="log", xlim=(-1, min(n, per_row)))
        ax.yaxis.set_major_locator(LogLocator(numticks=4))
        ax.yaxis.set_major_formatter(FuncFormatter(plain))
        ax.yaxis.set_minor_formatter(NullFormatter())
    axes[0].set_title(fold(f"{n} characters; {len(parts[0]):,} to train on, {len(parts[1]):,} held out", WIDTH))
    figure.supylabel("share of the text")
    return figure
