"""Curves, points and intervals. All functions return what they drew."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from torch import Tensor

from ...judging.evidence import Comparison, signed
from ...training.loop import Metrics
from .style import (
    DASHES,
    EM,
    GREY,
    OTHERS,
    WIDTH,
    fixed_ticks,
    fold,
    legend_above,
    looks,
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
    *,
    marker: str = "",
    log: bool = False,
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
        places = sorted({float(n) for x, _ in lines.values() for n in x})
        few = len(places) < 9
        if log:
            logarithmic(ax, places if few else [], wide)
        elif few and all(n.is_integer() for n in places):
            fixed_ticks(ax.xaxis, places, thin([plain(n) for n in places], wide))
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
def plot_losses(
    runs: Mapping[str, Metrics],
    ax: Axes | None = None,
    *,
    against: str = "step",
    target: float | None = None,
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
        ax.axhline(target, color=GREY, lw=1, ls="--")
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
def compare_losses(runs: Mapping[str, Metrics], target: float | None = None) -> Figure:
    """The same runs against steps and against time, where the loss is below 2.6, so that the ends can be told apart.

    Of two runs, a dotted line leads down from where the second reaches the target before its end; it is labeled with
    the share that this is of the first.
    """
    figure, axes = panel_grid(2, 2.9, sharey=True)
    for ax, against in zip(axes, ("step", "seconds"), strict=True):
        plot_losses(runs, ax, against=against, target=target).legend_ = None
        ax.set_ylim(ax.get_ylim()[0], 2.6)
        if target is not None and len(runs) == 2:
            first, second = runs.values()
            if reached := [r[against] for r in second[:-1] if r["validation_loss"] <= target]:
                low, color = ax.get_ylim()[0], ax.lines[1].get_color()
                ax.plot([reached[0]] * 2, [low, target], color=color, ls=":", lw=1.4)
                share = f"{reached[0] / first[-1][against]:.0%} "
                ax.text(reached[0], low, share, ha="right", va="bottom", color=color)
    axes[1].set_ylabel("")
    handles, labels = axes[0].get_legend_handles_labels()
    legend_above(figure, dict(zip(labels, handles, strict=True)))
    return figure


@styled
def differences(rows: Mapping[str, Comparison], xlabel: str, unsure: Collection[str] = ()) -> Figure:
    """One row for each comparison: a dot per seed, the mean, and its interval; gray where the interval holds 0.

    Left of 0 it is teal, right of it crimson. Rows named in ``unsure`` are gray too, whatever their interval: those
    whose verdict another grouping of the pairs would undo.
    """
    names = [fold(name, 1.9) for name in rows]
    figure, ax = row_panel(names, 1.0)
    for y, (name, row) in enumerate(rows.items()):
        hollow = name in unsure or row.low <= 0 <= row.high
        draw_row(ax, y, row, GREY if hollow else OTHERS[0] if row.mean < 0 else OTHERS[1])
    longest = max(len(line) for name in names for line in name.split("\n"))
    ax.set_xlabel(fold(xlabel, WIDTH - 0.3 - 0.46 * EM * longest))
    ax.xaxis.set_major_locator(MaxNLocator(5))
    return figure


def row_panel(names: Sequence[str], around: float) -> tuple[Figure, Axes]:
    """A panel with a row for each name, from the top, and a line at 0; ``around`` inches are for all else."""
    lines = 1 + max(name.count("\n") for name in names)
    figure, (ax,) = panel_grid(1, (0.22 + 0.08 * lines) * len(names) + around)
    ax.axvline(0, color=GREY, lw=0.8, zorder=2.5)
    ax.set_yticks(range(len(names)), names, linespacing=1.0)
    ax.set_ylim(len(names) - 0.4, -0.6)
    return figure, ax


def draw_row(ax: Axes, y: float, row: Comparison, color: str) -> None:
    """A dot for each seed, the interval, and the mean, hollow if gray."""
    ax.plot(row.values, [y] * len(row.values), "o", color=color, alpha=0.4, markersize=4.5)
    ax.plot([row.low, row.high], [y, y], color=color, lw=2)
    ax.plot(row.mean, y, "D", color=color, markersize=6.5, mfc="white" if color == GREY else color)


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


FARTHEST = 0.2
"""Nats: all strips reach so far to both sides of 0, and what lies beyond is an arrow at the edge."""


def beyond(row: Comparison) -> list[float]:
    """Where a comparison lies beyond the scale: its mean, or else the ends of its bar and dots."""
    ends = (min(row.low, *row.values), max(row.high, *row.values))
    return [end for end in ((row.mean,) if abs(row.mean) > FARTHEST else ends) if abs(end) > FARTHEST]


@styled
def strips(rows: Mapping[str, tuple[Comparison, str]]) -> Figure:
    """One row for each comparison: a dot per seed, the mean, its interval, and its word; filled if better or worse."""
    figure, ax = row_panel([fold(name, 1.6) for name in rows], 0.8)
    for y, (row, word) in enumerate(rows.values()):
        color = {"better": OTHERS[0], "worse": OTHERS[1]}.get(word, GREY)
        if abs(row.mean) <= FARTHEST:
            draw_row(ax, y, row, color)
        for end in beyond(row):
            ax.plot(math.copysign(FARTHEST, end), y, "<" if end < 0 else ">", color=color, markersize=8)
        text = f"{word} {signed(row.mean)}"
        ax.annotate(text, (1.02, y), xycoords=("axes fraction", "data"), va="center", color=color)
    ax.set(xlim=(-1.04 * FARTHEST, 1.04 * FARTHEST), xticks=[-0.2, -0.1, 0, 0.1, 0.2])
    ax.set_xlabel("difference in loss (nats); left is better")
    return figure
