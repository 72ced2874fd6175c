"""The worked example and other drawings of Chapter 2, Primer EZ. All functions return the figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from .style import COLORS, GREY, NEW, PLAIN, WIDTH, nth_color, panel_grid, styled


@styled
def glimpses(text: str, rows: Mapping[str, int]) -> Figure:
    """What the last letter of a text finds: an arc to each place with the same letter, as wide as the match.

    Args:
        text: a word, others, and the word again.
        rows: for each title, how many letters a place shows: its own and those before it. The match counts how many
            of them are those of the last place.
    """
    T, last = len(text), text[-1]
    figure, axes = panel_grid(len(rows), 1.45, columns=1)
    for ax, (title, width), name in zip(axes, rows.items(), ("baseline", "Primer EZ"), strict=False):
        alike = {
            t: [t - j for j in range(width) if text[t - j] == text[T - 1 - j]]
            for t in range(width - 1, T)
            if text[t] == last
        }
        matching = {place for places in alike.values() for place in places}
        for t, letter in enumerate(text):
            face = (PLAIN if name == "baseline" else NEW) if t in matching else "none"
            ax.add_patch(Rectangle((t - 0.44, -0.45), 0.88, 0.9, fc=face, ec="#999999", lw=0.6))
            ax.text(t, -0.03, {" ": "␣"}.get(letter, letter), ha="center", va="center", fontsize=14, color="black")
        for t, places in alike.items():
            if t < T - 1:
                top = 0.55 + 0.17 * (T - 1 - t)
                arc = [(t, 0.5), (t, top), (T - 1, top), (T - 1, 0.5)]
                codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
                ax.add_patch(PathPatch(Path(arc, codes), fc="none", ec=COLORS[name], lw=1.6 * len(places)))
            ax.plot([t - width + 0.6, t + 0.4], [-0.6, -0.6], color=COLORS[name], lw=2, solid_capstyle="butt")
            ax.text(t - (width - 1) / 2, -0.72, f"{len(places)} of {width}", ha="center", va="top", color=COLORS[name])
        ax.set(xlim=(-0.6, T - 0.4), ylim=(-1.25, 2.0))
        ax.set_title(title, loc="left")
        ax.axis("off")
    return figure


@styled
def worked_example(
    text: str, names: Sequence[str], vectors: Mapping[str, Tensor], scores: Mapping[str, Tensor]
) -> Figure:
    """Vectors ``[seq, channels]`` of zeros and ones as squares, scores ``[seq]`` with the last character as bars."""
    figure, axes = plt.subplots(
        len(vectors) + 1, 1, figsize=(WIDTH, 1.45 * len(vectors) + 2.0), layout="constrained", sharex=True
    )
    colors = (COLORS["baseline"], COLORS["Primer EZ"])
    for ax, (title, v), color in zip(axes, vectors.items(), colors, strict=False):
        T, C = v.shape
        for t in range(T):
            for c in range(C):
                face = color if v[t, c] else "none"
                ax.add_patch(Rectangle((t - 0.44, c - 0.42), 0.88, 0.84, fc=face, ec="#999999", lw=0.6))
        ax.set(xlim=(-0.6, T - 0.4), ylim=(C - 0.4, -0.6))
        ax.set_yticks(range(C), names)
        ax.set_title(title, loc="left")
        ax.spines[["left", "bottom"]].set_visible(False)
    for i, ((label, score), color) in enumerate(zip(scores.items(), colors, strict=False)):
        place = [t + 0.36 * (i - (len(scores) - 1) / 2) for t in range(len(text))]
        axes[-1].bar(place, score.tolist(), width=0.34, color=color, label=label)
    axes[-1].set_title(f"score of the last {text[-1]} with each key", loc="left")
    axes[-1].set_ylim(0, 1.5 * max(s.max().item() for s in scores.values()))
    axes[-1].yaxis.set_major_locator(MaxNLocator(integer=True))
    axes[-1].legend(ncols=len(scores), loc="upper left")
    for ax in axes:
        ax.set_xticks(range(len(text)), list(text.replace(" ", "␣")))
        ax.tick_params(length=0, labelbottom=True)
    return figure


@styled
def learned_kernels(kernels: Mapping[str, Tensor], start: Tensor) -> Figure:
    """Kernels ``[layers, channels, kernel_size]`` of each kind: a dot per channel, their mean, the start in gray."""
    figure, axes = plt.subplots(
        len(kernels), 1, figsize=(WIDTH, 1.9 * len(kernels) + 0.4), layout="constrained", sharey=True, squeeze=False
    )
    pale = COLORS["Primer EZ"]
    for row, (kind, weights) in enumerate(kernels.items()):
        L, K, W = weights.shape
        ax = axes[row, 0]
        ax.axhline(0, color=GREY, lw=0.8)
        for n in range(L):
            at = [n * (W + 1) + j for j in range(W)]
            for j in range(W):
                spread = [at[j] + 0.5 * (i / max(1, K - 1) - 0.5) for i in range(K)]
                label = "a channel" if row == n == j == 0 else None
                ax.plot(
                    spread, weights[n, :, j].tolist(), "o", markersize=3.5, mew=0, color=pale, alpha=0.5, label=label
                )
            labels = ("start", "mean of the channels") if row == 0 and n == 0 else (None, None)
            ax.plot(at, start.tolist(), color=GREY, marker="s", markersize=4.5, lw=1.2, label=labels[0])
            ax.plot(
                at, weights[n].mean(0).tolist(), color=nth_color(3), marker="D", markersize=5, lw=1.4, label=labels[1]
            )
        ax.set_xticks(
            [n * (W + 1) + j for n in range(L) for j in range(W)], [str(j) for _ in range(L) for j in range(W)]
        )
        ax.set_ylabel("weight")
        ax.set_title(kind, loc="left")
        for n in range(L):
            middle = n * (W + 1) + (W - 1) / 2
            ax.annotate(f"layer {n + 1}", (middle, 1.0), xycoords=("data", "axes fraction"), ha="center", va="top")
    low, high = axes[0, 0].get_ylim()
    axes[0, 0].set_ylim(low, high + 0.2 * (high - low))  # headroom for the names of the layers
    axes[-1, 0].set_xlabel("tokens back")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
