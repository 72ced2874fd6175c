"""Drawings that know the layers: data flow, hierarchies, who shares which kernel. All return the matplotlib figure."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import nn

from .attention import MultiHeadAttention
from .convolution import CausalDepthwiseConv
from .family import parameter_count
from .figures import NEW, PLAIN, bare_grid, styled
from .gmlp import GMLPBlock
from .hourglass import Hourglass
from .primer import MultiDConvHeadAttention
from .transformer import FeedForward, TransformerLayer


@styled
def draw_layer(layer: TransformerLayer) -> Figure:
    """The data flow of a layer, left to right, with the parameters of each box; what is not baseline stands out."""
    attention, feed_forward = layer.attention, layer.feed_forward
    if not isinstance(attention, MultiHeadAttention) or not isinstance(feed_forward, FeedForward):
        kinds = f"{type(attention).__name__} and {type(feed_forward).__name__}"
        raise TypeError(f"the layer has {kinds}; expected MultiHeadAttention and FeedForward")
    figure, ax = plt.subplots(figsize=(11, 2.8))
    rows = (0.8, 0.0, -0.8)

    def box(x: float, y: float, label: str, module: nn.Module | None = None, new: bool = False) -> None:
        ax.add_patch(FancyBboxPatch((x - 0.36, y - 0.25), 0.72, 0.5, "round,pad=0.02", fc=NEW if new else PLAIN))
        count = 0 if module is None else parameter_count(module)
        ax.text(x, y, f"{label}\n{count:,}" if count else label, ha="center", va="center", fontsize=7)

    def arrow(x0: float, y0: float, x1: float, y1: float) -> None:
        ax.annotate("", (x1 - 0.4, y1), (x0 + 0.4, y0), arrowprops={"arrowstyle": "->", "lw": 0.8})

    def residual(x: float) -> float:
        """The branch that ends left of ``x`` is added to the stream below it."""
        ax.plot([x - 0.6, x], [0, 0], "k-", lw=0.8)
        ax.annotate("", (x, -1.4), (x, 0), arrowprops={"arrowstyle": "->", "lw": 0.8})
        ax.text(x, -1.55, "+", ha="center", va="center", bbox={"boxstyle": "circle", "fc": "white"})
        ax.plot([x + 0.35, x + 0.35], [-1.55, 0], "k-", lw=0.8)
        arrow(x - 0.05, 0, x + 1, 0)
        return x + 1

    box(0, 0, "norm", layer.norm1)
    x = 1.0
    for y, name in zip(rows, ("query", "key", "value"), strict=True):
        box(x, y, name, getattr(attention, name))
        arrow(0, 0, x, y)
    if isinstance(attention, MultiDConvHeadAttention):
        x += 1
        for y, name in zip(rows, ("conv_q", "conv_k", "conv_v"), strict=True):
            box(x, y, name, getattr(attention, name), new=True)
            arrow(x - 1, y, x, y)
    for y in rows[:2]:
        box(x + 1, y, "rotate")
        arrow(x, y, x + 1, y)
        arrow(x + 1, y, x + 2, 0)
    arrow(x, rows[2], x + 2, 0)
    box(x + 2, 0, "causal\nattention")
    arrow(x + 2, 0, x + 3, 0)
    box(x + 3, 0, "output", attention.output)
    x = residual(x + 4)
    activation = feed_forward.activation
    box(x, 0, "norm", layer.norm2)
    box(x + 1, 0, "up", feed_forward.up)
    name = type(activation).__name__.replace("SquaredReLU", "squared\nReLU")
    box(x + 2, 0, name, new=not isinstance(activation, nn.ReLU))
    box(x + 3, 0, "down", feed_forward.down)
    for i in range(3):
        arrow(x + i, 0, x + i + 1, 0)
    ax.plot([x + 3.4, x + 4], [0, 0], "k-", lw=0.8)
    ax.annotate("", (x + 4, -1.4), (x + 4, 0), arrowprops={"arrowstyle": "->", "lw": 0.8})
    ax.text(x + 4, -1.55, "+", ha="center", va="center", bbox={"boxstyle": "circle", "fc": "white"})
    ax.annotate("", (x + 4.8, -1.55), (-1, -1.55), arrowprops={"arrowstyle": "->"}, zorder=0)
    ax.plot([-0.75, -0.75, -0.7], [-1.55, 0, 0], "k-", lw=0.8)
    arrow(-1, 0, 0, 0)
    ax.text(-1.1, -1.55, "x", ha="right", va="center")
    ax.text(x + 4.9, -1.55, "y", va="center")
    ax.set(xlim=(-1.3, x + 5), ylim=(-1.9, 1.2))
    ax.axis("off")
    return figure


@styled
def draw_block(block: GMLPBlock) -> Figure:
    """The data flow of a gMLP block with a split gate, left to right, with the parameters of each box."""
    figure, ax = plt.subplots(figsize=(10, 2.9 if block.attention is None else 3.6))
    gate = block.gate

    def box(x: float, y: float, label: str, count: int = 0, new: bool = False, width: float = 0.76) -> None:
        fill = NEW if new else PLAIN
        ax.add_patch(FancyBboxPatch((x - width / 2, y - 0.27), width, 0.54, "round,pad=0.02", fc=fill))
        ax.text(x, y, f"{label}\n{count:,}" if count else label, ha="center", va="center", fontsize=7.5)

    def line(*points: tuple[float, float], arrow: bool = True) -> None:
        *start, last = points
        ax.plot([x for x, _ in points], [y for _, y in points], "k-", lw=0.8, zorder=0)
        if arrow:
            ax.annotate("", last, start[-1], arrowprops={"arrowstyle": "->", "lw": 0.8})

    def operator(x: float, y: float, sign: str) -> None:
        ax.text(x, y, sign, ha="center", va="center", bbox={"boxstyle": "circle", "fc": "white"}, fontsize=9)

    box(0, 0, "norm", parameter_count(block.norm))
    box(1.1, 0, "up", parameter_count(block.up))
    box(2.2, 0, "GELU")
    line((0.4, 0), (0.7, 0))
    line((1.5, 0), (1.8, 0))
    line((2.6, 0), (2.9, 0), arrow=False)
    line((2.9, 0), (2.9, 0.7), (6.5, 0.7), (6.5, 0.22))
    line((2.9, 0), (2.9, -0.7), (3.1, -0.7))
    ax.text(3.0, 0.78, r"$Z_1$: half of the channels", va="bottom", fontsize=8)
    ax.text(2.84, -0.78, r"$Z_2$", va="top", ha="right", fontsize=8)
    box(3.5, -0.7, "norm", parameter_count(gate.norm))
    box(4.6, -0.7, "W, along\nthe tokens", 0, new=True)
    box(5.7, -0.7, "+ b")
    ax.text(4.6, -1.03, f"{gate.weight.numel():,}", ha="center", va="top", fontsize=7.5)
    ax.text(5.7, -1.03, f"{gate.bias.numel():,}", ha="center", va="top", fontsize=7.5)
    line((3.9, -0.7), (4.2, -0.7))
    line((5.0, -0.7), (5.3, -0.7))
    line((6.1, -0.7), (6.5, -0.7), (6.5, -0.2))
    operator(6.5, 0, "×")
    line((6.65, 0), (7.05, 0))
    box(7.45, 0, "down", parameter_count(block.down))
    bottom = -1.6 if block.attention is None else -2.3
    if block.attention is not None:
        box(3.5, -1.65, "tiny attention", parameter_count(block.attention), new=True, width=1.3)
        line((0.55, 0), (0.55, -1.65), (2.85, -1.65))
        line((4.15, -1.65), (6.5, -1.65), (6.5, -0.86))
        operator(6.5, -0.7, "+")
    line((7.85, 0), (8.4, 0), (8.4, bottom + 0.17))
    operator(8.4, bottom, "+")
    line((-1, bottom), (8.23, bottom))
    line((-0.75, bottom), (-0.75, 0), (-0.4, 0))
    line((8.57, bottom), (9.1, bottom))
    ax.text(-1.08, bottom, "x", ha="right", va="center")
    ax.text(9.15, bottom, "y", va="center")
    ax.set(xlim=(-1.3, 9.4), ylim=(bottom - 0.25, 1.15))
    ax.axis("off")
    return figure


@styled
def draw_hierarchy(body: Hourglass, seq_len: int) -> Figure:
    """The stacks of an hourglass from the input (bottom) to the output (top): a box for each vector that they compute.

    A box covers the tokens of its window; white boxes are zeros before the first token.
    """
    rows: list[tuple[int, int]] = []  # layers and tokens per vector, from the input to the output

    def visit(level: nn.Module, factor: int) -> None:
        if isinstance(level, Hourglass):
            visit(level.before, factor)
            visit(level.inside, factor * level.shorten.factor)
            visit(level.after, factor)
        else:
            rows.append((len(list(level.children())), factor))

    visit(body, 1)
    figure, ax = plt.subplots(figsize=(9.6, 0.52 * len(rows) + 0.7), layout="constrained")
    for y, (layers, factor) in enumerate(rows):
        n = (seq_len - 1) // factor + 1
        shade = (0.9 - 0.2 * len([f for f in {f for _, f in rows} if f < factor]),) * 2
        for j in range(n):
            end = j * factor + 0.5  # window j ends at token j * factor
            box = (end - factor + 0.06, y - 0.36)
            ax.add_patch(Rectangle(box, factor - 0.12, 0.72, fc=(*shade, 1.0), ec="#555555", lw=0.5))
        count = "1 layer" if layers == 1 else f"{layers} layers"
        ax.text(seq_len + 0.2, y, f"{count} at length {n}", va="center", fontsize=9)
    ax.axvspan(-max(f for _, f in rows), -0.5, color="white", alpha=0.75, zorder=2)
    ax.set(xlim=(-max(f for _, f in rows), seq_len * 1.28), ylim=(-0.6, len(rows) - 0.4), xlabel="token")
    ax.set_xticks(range(0, seq_len, max(1, seq_len // 8)))
    ax.set_yticks([0, len(rows) - 1], ["first stack", "last stack"])
    ax.spines["left"].set_visible(False)
    ax.tick_params(left=False)
    return figure


@styled
def sharings(convolutions: Mapping[str, CausalDepthwiseConv]) -> Figure:
    """Which kernel each channel of each head uses: places of one color share it."""
    n = len(convolutions)
    figure, axes = plt.subplots(1, n, figsize=(9.6, 2.2), squeeze=False, layout="constrained")
    for ax, (title, conv) in zip(axes[0], convolutions.items(), strict=True):
        count = conv.weight[..., 0].numel()
        kernel = conv.per_channel(torch.arange(count).view(*conv.weight.shape[:2], 1)).view(conv.n_heads, -1)
        order = (kernel * 0.61803) % 1 if count > 1 else kernel + 0.5  # neighbors far apart on the color circle
        ax.imshow(order.numpy(), cmap="twilight_shifted", vmin=0, vmax=1)
        bare_grid(ax, kernel.shape[0], kernel.shape[1], color="white", lw=1)
        plural = "kernel" if count == 1 else "kernels"
        ax.set(title=f"{title}: {count} {plural}", xlabel="channel of the head")
    axes[0, 0].set_ylabel("head")
    return figure
