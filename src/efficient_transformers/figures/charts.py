"""Curves, points and intervals. All functions return what they drew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator
from torch import Tensor

from ..corpus import Corpus
from ..study import Difference
from ..training import Metrics
from .style import COLORS, nth_color, styled


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
