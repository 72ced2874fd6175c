"""The worked example and other drawings of Chapter 5, gMLP. All functions return the figure."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from ...training.loop import Metrics
from .style import DIVERGING, GREY, MODELS, NEW, PLAIN, WIDTH, nth_color, styled


@styled
def written_out(parts: Sequence[tuple[str, Tensor] | str], rows: Sequence[str], shaded: str = "") -> Figure:
    """An equation between small matrices, with every number: operators, and matrices with their names above.

    Args:
        parts: names and matrices ``[rows, columns]``, and the signs between them.
        rows: what each row is called.
        shaded: the name of the matrix whose numbers, unless 0, stand out.
    """
    columns = [0.55 if isinstance(part, str) else part[1].shape[1] for part in parts]
    n = len(rows)
    unit = WIDTH / (sum(columns) + 0.9)
    figure, ax = plt.subplots(figsize=(WIDTH, unit * (n + 1.1)), layout="constrained")
    for y, name in enumerate(rows):
        ax.text(-0.2, y + 0.5, name, ha="right", va="center")
    x = 0.0
    for part, wide in zip(parts, columns, strict=True):
        if isinstance(part, str):
            ax.text(x + wide / 2, n / 2, part, ha="center", va="center", fontsize=15)
        else:
            name, matrix = part
            ax.text(x + wide / 2, -0.25, name, ha="center", va="bottom", fontsize=15)  # for the sake of an index
            for y in range(n):
                for i, value in enumerate(matrix[y].tolist()):
                    color = NEW if name == shaded and value else PLAIN
                    ax.add_patch(Rectangle((x + i + 0.03, y + 0.03), 0.94, 0.94, fc=color))
                    number = f"{value:.2f}".rstrip("0").rstrip(".")
                    ax.text(x + i + 0.5, y + 0.5, number, ha="center", va="center", color="#111111")
        x += wide
    ax.set(xlim=(-0.9, x), ylim=(n + 0.05, -1.0), aspect="equal")
    ax.axis("off")
    return figure


@styled
def loss_in_band(live: Metrics, recorded: Sequence[Metrics], *, margin: float, top: float) -> Figure:
    """The validation loss of a run, and a band of ``margin`` nats to both sides of the mean of recorded runs."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.0), layout="constrained")
    steps = [record["step"] for record in recorded[0]]
    mean = torch.tensor([[record["validation_loss"] for record in run] for run in recorded]).mean(0)
    label = f"recorded ± {margin:g}"
    ax.fill_between(steps, mean - margin, mean + margin, color=GREY, alpha=0.4, lw=0, label=label)
    x, y = ([record[key] for record in live] for key in ("step", "validation_loss"))
    color, marker = MODELS["dense-gmlp"]
    ax.plot(x, y, color=color, marker=marker, label="your run")
    ax.set(xlabel="step", ylabel="validation loss (nats)", ylim=(None, top))
    ax.legend()
    return figure


@styled
def learned_matrix(weight: Tensor, limit: float, rows: Sequence[int], *, back: int = 16) -> Figure:
    """A causal spatial matrix as an image, and below it rows and the mean of all, aligned at the diagonal."""
    figure, (top, below) = plt.subplots(2, 1, figsize=(4.8, 6.0), layout="constrained", height_ratios=(1.5, 1))
    w = weight.detach().float().cpu().tril()
    shown = w.masked_fill(torch.ones_like(w).triu(1).bool(), torch.nan).numpy()  # the future is left empty
    image = top.imshow(shown, cmap=DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest")
    top.set(xlabel="position that is read, s", ylabel="position that reads, t")
    figure.colorbar(image, ax=top, label="weight")
    for i, t in enumerate(rows):
        below.plot(range(back), w[t, : t + 1].flip(0)[:back], color=nth_color(i), lw=1, label=f"row {t}")
    mean = [w.diagonal(-j).mean() for j in range(back)]
    below.plot(range(back), mean, color=GREY, marker=".", lw=2, label="mean")
    below.axhline(0, color=GREY, lw=0.8)
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    below.set(xlabel="tokens back, t − s", ylabel="weight", ylim=(-limit, limit))
    below.legend(ncols=2)
    return figure
