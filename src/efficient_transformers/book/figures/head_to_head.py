"""Drawings of Chapter 6, Head to head. All functions return the figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from .charts import logarithmic
from .style import GREY, OTHERS, WIDTH, fixed_ticks, legend_above, looks, panel_grid, plain, styled, thin


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
    axes[-1].set_xlabel("tokens")
    legend_above(figure, shown)
    return figure
