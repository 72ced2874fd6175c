"""Drawings of Chapter 1: attention by hand, positions as hands of a clock, a model that grows, landmarks, heads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch
from torch import Tensor

from .style import COLORS, OTHERS, PLAIN, WIDTH, styled

READS, OTHER_READS, INK = COLORS["transformer"], "#8A8A8A", "#4D4D4D"
KEY, QUERY = OTHERS[1], COLORS["transformer"]


@styled
def reading(text: str, values: Tensor, weights: Tensor, outputs: Tensor) -> Figure:
    """What each letter reads: lines from values up to outputs, as wide as the weights, those of the last labelled.

    Args:
        text: T letters.
        values, outputs: numbers at each letter, ``[T, channels]``.
        weights: the weight of each value in each output, ``[T, T]``.
    """
    T = len(text)
    figure, ax = plt.subplots(figsize=(WIDTH, 3.5), layout="constrained")
    for t in range(T):
        last = t == T - 1
        for s in range(t + 1):
            weight, color = weights[t, s].item(), READS if last else OTHER_READS
            ax.plot([s, t], [0.33, 1.67], color=color, lw=9 * weight, alpha=1.0 if last else 0.35, zorder=2 + last)
            if last and weight:
                share = Fraction(weight).limit_denominator(60)
                x, y = s + 0.32 * (t - s), 0.33 + 0.32 * 1.34
                box = {"boxstyle": "round,pad=0.15", "fc": PLAIN, "ec": "none"}
                ax.text(x, y, str(share), ha="center", va="center", color="black", bbox=box, zorder=5)
        for y, what, vector in ((0.0, "v", values[t]), (2.0, "y", outputs[t])):
            ax.add_patch(FancyBboxPatch((t - 0.43, y - 0.31), 0.86, 0.62, "round,pad=0.02", fc=PLAIN, ec=INK, zorder=4))
            numbers = ", ".join(f"{x:.3g}" for x in vector.tolist())
            ax.text(t, y, f"{text[t]}, {t}\n{what} = ({numbers})", ha="center", va="center", color="black", zorder=5)
    ax.set(xlim=(-0.48, T - 0.52), ylim=(-0.4, 2.4))
    ax.axis("off")
    return figure


@styled
def clock_hands(text: str, keys: Sequence[float], query: float) -> Figure:
    """One dial per letter: the hand of its turned key, and the hand of the last letter's turned query; their product.

    Args:
        text: T letters.
        keys: the angle of each turned key, in radians.
        query: the angle of the turned query.
    """
    figure, axes = plt.subplots(1, len(text), figsize=(WIDTH, 2.1), layout="constrained")
    for s, (ax, angle) in enumerate(zip(axes, keys, strict=True)):
        ax.add_patch(Circle((0, 0), 1.0, fc="none", ec=OTHER_READS))
        hands = ((QUERY, query, 6.0, 1), (KEY, angle, 3.0, 2))
        for color, radians, width, order in hands:
            tip = (0.93 * math.cos(radians), 0.93 * math.sin(radians))
            ax.plot([0, tip[0]], [0, tip[1]], color=color, lw=width, solid_capstyle="round", zorder=order)
        ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", title=f"{text[s]}, s = {s}")
        ax.axis("off")
        ax.text(0, -1.2, f"{math.cos(query - angle):+.2f}", ha="center", va="top", color=INK)
    return figure


@styled
def loss_and_landmarks(curve: Mapping[int, float], landmarks: Mapping[str, float], band: tuple[float, float]) -> Figure:
    """Validation loss by step, on a scale that shows the first steps too, with levels to compare it with.

    Args:
        curve: the loss at each step, the last one included.
        landmarks: losses by name, drawn as dashed levels; each name stands where the curve does not cross its level.
        band: between which losses the last one should lie, drawn as a bar.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 3.4), layout="constrained")
    steps, end = list(curve), max(curve)
    for name, loss in landmarks.items():
        ax.axhline(loss, color=OTHER_READS, ls="--", lw=1)
        late = next((s for s in steps if curve[s] < loss), 0) > 20  # where the curve crosses: right of the middle
        ax.text(0 if late else end, loss + 0.02, name, ha="left" if late else "right", va="bottom", color=INK)
    ax.plot(steps, list(curve.values()), color=COLORS["transformer"], marker="o", markersize=4)
    ax.plot([end, end], band, color=OTHERS[1], lw=8, alpha=0.7, solid_capstyle="butt")
    ax.text(end, max(curve[end], band[1]) + 0.05, f"{curve[end]:.2f}", ha="center", va="bottom", color=READS)
    ax.set_xscale("symlog", linthresh=10)
    ticks = [s for s in (0, 10, 50, 100, 200, 500, 1000, 2000) if s <= end]
    ax.set_xticks(ticks, [f"{s:,}" for s in ticks])
    ax.minorticks_off()
    ax.set(xlabel="training step", ylabel="validation loss (nats per character)")
    return figure


@styled
def growing(losses: Mapping[str, float]) -> Figure:
    """Going down like a stair: for each stage of a model that grows, a bar from the loss before it to its own."""
    figure, ax = plt.subplots(figsize=(WIDTH, 0.34 * len(losses) + 0.8), layout="constrained")
    ends = list(losses.values())
    ax.plot(ends[:1], [0], "o", color=READS)
    for place, (before, after) in enumerate(pairwise(ends), start=1):
        ax.barh(place, after - before, left=before, height=0.62, color=READS)
        ax.plot([before, before], [place - 1, place + 0.31], color=INK, lw=0.8)
    for place, loss in enumerate(ends):
        ax.annotate(f"{loss:.2f}", (loss, place), (-6, 0), textcoords="offset points", ha="right", va="center")
    ax.set_yticks(range(len(losses)), list(losses))
    ax.set(xlabel="validation loss, nats per character", xlim=(min(ends) - 0.18, max(ends) + 0.05))
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    return figure
