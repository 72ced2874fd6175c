"""Drawings of Chapter 6, Which one, then? All functions return the figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from .charts import logarithmic
from .style import (
    GREY,
    OTHERS,
    WIDTH,
    fixed_ticks,
    legend_above,
    looks,
    panel_grid,
    plain,
    styled,
    thin,
)

Differences = Mapping[int, tuple[float, bool]]  # by steps: the mean, and whether it is sure


@styled
def by_length(panels: Mapping[str, Mapping[str, Differences]], ylabel: str) -> Figure:
    """Differences from a baseline by the length of training: a line for each model with its name at its end.

    A filled mark is sure, a hollow one is not. What stands behind the comma of a name, as in ``"gMLP, 4 blocks"``, is
    a variant: it has the model's color and marker.
    """
    figure, axes = panel_grid(len(panels), 3.7, sharey=True)
    means = [mean for lines in panels.values() for line in lines.values() for mean, _ in line.values()]
    low, high = min(*means, 0), max(*means, 0)
    room = 0.06 * (high - low)
    for ax, (title, lines) in zip(axes, panels.items(), strict=True):
        steps = sorted({n for line in lines.values() for n in line})
        ax.axhline(0, color=GREY, lw=0.8)
        for label, line in lines.items():
            model = label.partition(",")[0]
            look = looks([model])[model]
            ax.plot(list(line), [mean for mean, _ in line.values()], color=look["color"], lw=1.6)
            for n, (mean, sure) in line.items():
                face = look["color"] if sure else "white"
                ax.plot(n, mean, look["marker"], color=look["color"], mfc=face, markersize=7, zorder=3)
        for last in steps:
            ending = {label: line[last][0] for label, line in lines.items() if max(line) == last}
            for label, height in zip(ending, apart(list(ending.values()), 1.05 * room), strict=True):
                color = looks([label.partition(",")[0]])[label.partition(",")[0]]["color"]
                to_mark = {"arrowstyle": "-", "color": color, "lw": 0.7, "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 5}
                place = (1.22 * last, height)
                ax.annotate(label, (last, ending[label]), place, va="center", color=color, arrowprops=to_mark)
        ax.set(title=title, xscale="log", xlim=(0.85 * steps[0], 1.1 * steps[-1]), xlabel="steps")
        ax.minorticks_off()
        fixed_ticks(ax.xaxis, [float(n) for n in steps], [plain(float(n)) for n in steps])
    axes[0].set(ylabel=ylabel, ylim=(low - room, high + room))
    return figure


def apart(heights: Sequence[float], gap: float) -> list[float]:
    """Heights for labels that want to stand at these ones, in their order, no two closer than ``gap``."""
    placed, order = list(heights), sorted(range(len(heights)), key=heights.__getitem__)
    for _ in range(100 * len(placed)):
        for low, high in pairwise(order):
            push = max(0.0, gap - (placed[high] - placed[low])) / 2
            placed[low], placed[high] = placed[low] - push, placed[high] + push
    return placed


@styled
def lottery(gains: Tensor, names: Sequence[str]) -> Figure:
    """How often models without a difference seem to have one: a histogram for each column of ``[trials, 2]``."""
    figure, (ax,) = panel_grid(1, 2.7)
    low, high = gains.min().item(), gains.max().item()
    shown = {}
    for column, name, color, dash in zip(gains.T, names, OTHERS[:2], ("-", "-."), strict=True):
        counts, edges = column.histogram(60, range=(low, high))
        (shown[name],) = ax.plot((edges[:-1] + edges[1:]) / 2, counts / len(column), color=color, lw=1.8, ls=dash)
        ax.axvline(column.mean().item(), color=color, lw=1, ls="--")
    ax.axvline(0, color=GREY, lw=0.8)
    ax.set(xlabel="difference from the baseline (nats)", ylabel="share of the trials", ylim=(0, None))
    ax.yaxis.set_major_locator(MaxNLocator(4))
    legend_above(figure, shown)
    return figure


@styled
def tuning_curves(losses: Mapping[str, Mapping[float, float]]) -> Figure:
    """Loss against the learning rate for each model, with a larger mark at its best."""
    figure, (ax,) = panel_grid(1, 3.3)
    shown = {}
    for (label, found), look in zip(losses.items(), looks(list(losses)).values(), strict=True):
        (shown[label],) = ax.plot(list(found), list(found.values()), lw=1.4, markersize=4, **look)
        best = min(found, key=found.__getitem__)
        ax.plot(best, found[best], look["marker"], color=look["color"], markersize=9)
    rates = sorted({rate for found in losses.values() for rate in found})
    ax.set(xscale="log", xlabel="learning rate", ylabel="validation loss\n(nats per character)")
    whole = [rate for rate in rates if round(rate * 1e3, 6).is_integer()]
    fixed_ticks(ax.xaxis, whole, thin([plain(rate) for rate in whole], WIDTH - 0.8))
    ax.minorticks_off()
    legend_above(figure, shown)
    return figure


@styled
def trade_offs(panels: Mapping[str, Mapping[str, tuple[float, float]]], ylabel: str) -> Figure:
    """The same models in each panel: a cost from left to right, a loss from bottom to top; both better when less.

    The names stand to the right, in the order of the losses.
    """
    high, line = 3.6, 0.2  # inches: the figure, and what a name takes
    figure, axes = panel_grid(len(panels), high, sharey=True)
    for ax, (cost, points) in zip(axes, panels.items(), strict=True):
        for (x, y), look in zip(points.values(), looks(list(points)).values(), strict=True):
            ax.plot(x, y, look["marker"], color=look["color"], markersize=8)
        ax.set(xlabel=cost)
        ax.margins(0.12)
        ax.xaxis.set_major_locator(MaxNLocator(4))
    axes[0].set_ylabel(ylabel)
    bottom, top = axes[-1].get_ylim()
    gap, height, look = line / (high - 0.7) * (top - bottom), bottom, looks(list(points))
    for label, (x, y) in sorted(points.items(), key=lambda point: point[1][1]):
        height = max(height + gap, y)
        axes[-1].annotate(
            label,
            (x, y),
            xytext=(1.08, height),
            textcoords=axes[-1].get_yaxis_transform(),
            va="center",
            color=look[label]["color"],
            arrowprops={"arrowstyle": "-", "color": GREY, "lw": 0.6, "shrinkB": 5, "relpos": (0, 0.5)},
        )
    return figure


@styled
def growth(panels: Mapping[str, Mapping[str, Mapping[int, float]]]) -> Figure:
    """Panels one above the other, each a quantity by length on logarithmic axes, a line for each model."""
    figure, axes = panel_grid(len(panels), 2.7, columns=1, sharex=True)
    shown = {}
    for ax, (title, lines) in zip(axes, panels.items(), strict=True):
        for (label, line), look in zip(lines.items(), looks(list(lines)).values(), strict=True):
            (shown[label],) = ax.plot(list(line), list(line.values()), markersize=4.5, lw=1.4, **look)
        logarithmic(ax, sorted({float(n) for line in lines.values() for n in line}), WIDTH - 0.9)
        ax.set_ylabel(title)
        ax.tick_params(labelbottom=True)
    axes[-1].set_xlabel("tokens")
    legend_above(figure, shown)
    return figure
