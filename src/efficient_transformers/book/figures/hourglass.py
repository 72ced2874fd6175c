"""The worked example and other drawings of Chapter 4, Hourglass. All functions return the figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator
from torch import Tensor

from .style import GREY, MODELS, WIDTH, legend_above, panel_grid, styled

FULL, SHORT, LIT = "#EDEFF2", "#CDE8DF", "#F2B880"  # vectors of all tokens, of windows, and what is followed


@styled
def waist(factor: int, costs: Mapping[str, float]) -> Figure:
    """One layer on 24 tokens, six on windows, one on all tokens: a box for each vector, one window followed.

    Window ``j`` ends at token ``j * factor``, for a factor up to 8. Arrows go from the tokens of window 2 to it, and on
    to those that read it. Below are bars of ``costs``, as shares of the first one.
    """
    tokens, window, reach = 24, 2, 7  # the axis begins 7 places before the text, so that frames of all factors agree
    figure, (ax, below) = plt.subplots(2, 1, figsize=(WIDTH, 3.9), height_ratios=(2.9, 1), layout="constrained")
    n = (tokens - 1) // factor + 1
    end = window * factor
    read, readers = range(max(0, end - factor + 1), end + 1), range(end, min(tokens, end + factor))
    for y, lit in ((0, read), (2, readers)):
        for t in range(tokens):
            _box(ax, t, t, y, LIT if t in lit else FULL)
    for j in range(n):
        _box(ax, j * factor - factor + 1, j * factor, 1, LIT if j == window else SHORT)
    middle = end - (factor - 1) / 2
    for t in read:
        _arrow(ax, (t, 0.32), (t + (middle - t) * 0.3, 0.68))
    for t in readers:
        _arrow(ax, (min(t, end), 1.32), (t, 1.68))
    ax.axvline(-0.5, color=GREY, lw=0.8, ls="--")
    ax.text(-0.7, 2.45, "zeros", ha="right", va="bottom")
    ax.text(-0.3, 2.45, "text", ha="left", va="bottom")
    ax.set(xlim=(-reach - 0.6, tokens - 0.4), ylim=(-0.5, 2.9), xlabel="token")
    ax.set_xticks(range(0, tokens, max(factor, 4)))
    ax.set_yticks([0, 1, 2], [f"1 layer,\nlength {tokens}", f"6 layers,\nlength {n}", f"1 layer,\nlength {tokens}"])
    whole = next(iter(costs.values()))
    for y, (name, cost) in enumerate(costs.items()):
        below.barh(y, cost / whole, 0.7, color=LIT if name == "this hourglass" else FULL, ec="#555555", lw=0.6)
        below.text(cost / whole + 0.01, y, f"{cost / whole:.0%}", va="center")
    below.set(xlim=(0, 1.12), ylim=(len(costs) - 0.5, -0.5), xlabel="multiply-adds of a token")
    below.set_yticks(range(len(costs)), list(costs))
    below.set_xticks([])
    for each in (ax, below):
        each.spines["left"].set_visible(False)
        each.tick_params(left=False)
    below.spines["bottom"].set_visible(False)
    return figure


def _box(ax: Axes, first: int, last: int, y: float, color: str, text: str = "") -> None:
    """A box over the tokens ``first`` to ``last``."""
    ax.add_patch(Rectangle((first - 0.44, y - 0.3), last - first + 0.88, 0.6, fc=color, ec="#555555", lw=0.6))
    if text:
        ax.text((first + last) / 2, y, text, ha="center", va="center", color=GREY if color == "none" else "black")


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    ax.annotate(
        "", end, start, arrowprops={"arrowstyle": "->", "lw": 0.9, "color": "#C2570C", "shrinkA": 0, "shrinkB": 0}
    )


@styled
def by_hand(tokens: Tensor, windows: Tensor, inside: Tensor, result: Tensor, k: int) -> Figure:
    """The worked example from the bottom to the top: tokens, means of windows, their running sum, the result.

    ``tokens`` and ``result`` are ``[T]``, ``windows`` and ``inside`` are ``[n]``, with window ``j`` ending at token
    ``j * k``; zeros before the text are drawn as such.
    """
    T, n = len(tokens), len(windows)
    figure, ax = plt.subplots(figsize=(WIDTH, 4.2), layout="constrained")
    for t in range(1 - k, T):
        _box(ax, t, t, 0, "none" if t < 0 else FULL, f"{tokens[t].item() if t >= 0 else 0:g}")
    for j in range(n):
        color = (SHORT, LIT)[j % 2]
        _box(ax, j * k - k + 1, j * k, 1, color, f"mean {windows[j].item():g}")
        before = f"{inside[j - 1].item():g} + {windows[j].item():g} = " if j else "sum "
        _box(ax, j * k - k + 1, j * k, 2, color, f"{before}{inside[j].item():g}")
        readers = range(j * k, min(T, j * k + k))
        for t in readers:
            _box(ax, t, t, 3, color, f"+{inside[j].item():g}")
        _arrow(ax, (j * k, 2.3), ((readers[0] + readers[-1]) / 2, 2.68))
        _arrow(ax, (j * k - (k - 1) / 2, 0.32), (j * k - (k - 1) / 2, 0.68))
        if j:
            _arrow(ax, (j * k - k - 0.6, 2), (j * k - k + 0.54, 2))
    for t in range(T):
        _box(ax, t, t, 4, FULL, f"{result[t].item():g}")
    ax.axvline(-0.5, color=GREY, lw=0.8, ls="--")
    ax.set(xlim=(-k + 0.4, T - 0.4), ylim=(-0.45, 4.45), xlabel="token")
    ax.set_xticks(range(T))
    ax.set_yticks(range(5), ["tokens", "shorten", "inside", "expand", "add"])
    ax.spines["left"].set_visible(False)
    ax.tick_params(left=False)
    return figure


@styled
def who_sees_whom(down: Tensor, up: Tensor, k: int) -> Figure:
    """The masks of shortening ``[n, T]`` and up-sampling ``[T, n]``, with the token of each row and column."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.6), layout="constrained", width_ratios=(2.1, 1))
    n, T = down.shape
    at = {n: [str(j * k) for j in range(n)], T: [str(t) for t in range(T)]}
    for ax, mask, title in zip(axes, (down, up), ("shortening", "up-sampling"), strict=True):
        ax.imshow(mask.int().numpy(), cmap=ListedColormap(["#00000000", "#4C78A8"]), vmin=0, vmax=1)
        for length, name, axis in ((mask.shape[0], "query", ax.set_yticks), (mask.shape[1], "key", ax.set_xticks)):
            axis(range(length), at[length])
            kind = "window's end" if length == n else "token"
            (ax.set_ylabel if name == "query" else ax.set_xlabel)(f"{name}: {kind}")
        ax.tick_params(length=0)
        for edge in range(1, mask.shape[0]):
            ax.axhline(edge - 0.5, color="#BBBBBB", lw=0.5)
        for edge in range(1, mask.shape[1]):
            ax.axvline(edge - 0.5, color="#BBBBBB", lw=0.5)
        ax.set_title(title)
    return figure


@styled
def cost_by_length(lengths: Sequence[int], panels: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Panels one above the other, each a quantity against the length on logarithmic axes, a line for each model."""
    figure, axes = panel_grid(len(panels), 2.6, columns=1, sharex=True)
    looks = ((*MODELS["transformer"], "-"), (*MODELS["transformer"], "--"), (*MODELS["hourglass"], "-"))
    for ax, (title, lines) in zip(axes, panels.items(), strict=True):
        for (label, values), (color, marker, line) in zip(lines.items(), looks, strict=False):
            ax.plot(lengths, values, color=color, ls=line, marker=marker, markersize=5, label=label)
        ax.set(xscale="log", yscale="log", ylabel=title)
        ax.set_xticks(list(lengths), [f"{n:,}" for n in lengths])
        ax.minorticks_off()
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
    axes[-1].set_xlabel("length")
    handles, labels = axes[0].get_legend_handles_labels()
    legend_above(figure, dict(zip(labels, handles, strict=True)))
    return figure
