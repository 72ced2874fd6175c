"""The worked example and other drawings of Chapter 2, Primer EZ. All functions return the figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from .style import COLORS, NEW, PLAIN, WIDTH, panel_grid, styled


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
