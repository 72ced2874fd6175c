"""The worked example and other drawings of Chapter 3, Primer's variations. All functions return the figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import NullLocator
from torch import Tensor

from .style import COLORS, GREY, NEW, PLAIN, WIDTH, fixed_ticks, nth_color, panel_grid, styled

PRIMER = COLORS["Primer EZ"]
OPEN = GREY


@styled
def knobs() -> Figure:
    """One layer from the bottom to the top, and beside each part what this chapter changes there."""
    rows = (
        ("norm", PLAIN, ""),
        ("to query, key and value", PLAIN, "queries made from keys? §3.4"),
        ("convolutions", NEW, "of which of the three? §3.2\nor one in front? §3.8"),
        ("attention", PLAIN, ""),
        ("norm", PLAIN, "another formula?\nafter the network? §3.4"),
        ("up to more channels", PLAIN, ""),
        ("squared ReLU", NEW, "or SwiGLU? §3.3"),
        ("down again", PLAIN, ""),
    )
    figure, ax = plt.subplots(figsize=(WIDTH, 5.8), layout="constrained")
    x, half, ys = 1.55, 0.98, [7.9, 6.9, 5.9, 4.9, 3.1, 2.1, 1.1, 0.1]
    ax.plot([x, x], [9.0, -1.5], color=GREY, lw=1, zorder=0)
    for top, bottom in ((8.6, 4.15), (3.8, -0.65)):  # the stream goes round each branch
        ax.plot([x, 0.25, 0.25, x], [top, top, bottom, bottom], color=GREY, lw=1, zorder=0)
    for y, (label, color, question) in zip(ys, rows, strict=True):
        box = FancyBboxPatch((x - half, y - 0.27), 2 * half, 0.54, boxstyle="round,pad=0.02", fc=color, ec=GREY, lw=0.8)
        ax.add_patch(box)
        ax.text(x, y, label, ha="center", va="center", color="black")
        if question:
            ax.plot([x + half + 0.05, x + half + 0.3], [y, y], color=PRIMER, lw=1)
            ax.text(x + half + 0.37, y, question, va="center")
    for y in (4.15, -0.65):
        ax.plot(x, y, "o", markersize=14, mfc=PLAIN, mec=GREY)
        ax.text(x, y, "+", ha="center", va="center", color="black")
    ax.text(x, 9.15, "stream x", ha="center", va="top")
    ax.annotate("", (x, -1.6), (x, -1.4), arrowprops={"arrowstyle": "->", "color": GREY})
    ax.set(xlim=(0, 5.6), ylim=(9.6, -1.7))
    ax.axis("off")
    return figure


@styled
def waves(pairs: Mapping[str, tuple[Tensor, Tensor]], marked: Sequence[int] = ()) -> Figure:
    """For each wave a panel: what goes into a kernel, ``[T]``, and what comes out, in numbers at some tokens."""
    figure, axes = plt.subplots(
        len(pairs), 1, figsize=(WIDTH, 1.55 * len(pairs) + 0.5), sharex=True, layout="constrained"
    )
    for ax, (title, (into, out)) in zip(axes, pairs.items(), strict=True):
        t = range(len(into))
        ax.axhline(0, color=OPEN, lw=0.6)
        ax.plot(t, into, "o-", color=OPEN, lw=1, mfc="none", label="in")
        ax.plot(t, out, "o-", color=PRIMER, lw=1.4, label="out")
        numbers = [f"{out[token].item():.2f} at token {token}".replace("-", "−") for token in marked]
        ax.set_title(": ".join([title, ", ".join(numbers)] if numbers else [title]), loc="left")
        ax.set(ylim=(-1.25, 1.25), yticks=(-1, 0, 1), ylabel="value")
    axes[-1].set(xlabel="token t", xticks=range(len(into)))
    figure.legend(*axes[0].get_legend_handles_labels(), ncols=2, loc="outside upper right")
    return figure


@styled
def arrows(kernel: Tensor, waves: Mapping[str, float]) -> Figure:
    """For each wave, by its cycles per token, a panel: the weights of a kernel ``[W]`` as arrows, and their sum."""
    figure, axes = plt.subplots(1, len(waves), figsize=(WIDTH, 1.5), layout="constrained")
    for ax, (title, f) in zip(axes, waves.items(), strict=True):
        turns = torch.exp(-2j * torch.pi * f * torch.arange(len(kernel)))
        ends = [0j, *(kernel * turns).cumsum(0).tolist()]
        lift = 0.06j * (max(abs(end.imag) for end in ends) < 0.01)  # along one line they would hide each other
        for lag, (tail, head) in enumerate(pairwise(ends), 1):
            arrow(ax, tail + lift * lag, head + lift * lag, OPEN, 1.4)
        arrow(ax, 0j, ends[-1], PRIMER, 2.4)
        ax.plot(0, 0, "o", color=OPEN, markersize=4)
        ax.set_title(f"{title}\n{abs(ends[-1]):.2f} is left")
        ax.set(xlim=(-0.08, 0.92), ylim=(-0.22, 0.24), aspect="equal")
        ax.axis("off")
    return figure


def arrow(ax: Axes, tail: complex, head: complex, color: str, width: float) -> None:
    """An arrow in the plane of complex numbers."""
    style = {"arrowstyle": "-|>", "color": color, "lw": width, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 11}
    ax.annotate("", (head.real, head.imag), (tail.real, tail.imag), arrowprops=style)


@styled
def shares(steps: Sequence[int], kinds: Mapping[str, Sequence[float]], chance: float) -> Figure:
    """What share of each kind of kernel does something, in percent, by training step; and of random kernels."""
    figure, (ax,) = panel_grid(1, 2.9)
    ax.axhline(100 * chance, color=GREY, lw=1, ls="--")
    ax.text(steps[0], 100 * chance + 1.5, "random kernels", color=GREY, va="bottom")
    for i, (kind, values) in enumerate(kinds.items()):
        color = nth_color((1, 0, 2)[i])
        ax.plot(steps, [100 * value for value in values], "o-", color=color, markersize=4.5)
        ax.text(steps[-1] * 1.07, 100 * values[-1], kind, color=color, va="top")
    ax.set(
        xscale="log",
        xlim=(steps[0] / 1.1, steps[-1] * 1.9),
        ylim=(-2, 70),
        xlabel="training steps",
        ylabel="kernels (%)",
    )
    ax.xaxis.set_minor_locator(NullLocator())
    fixed_ticks(ax.xaxis, list(steps), [f"{step:,}" for step in steps])
    return figure
