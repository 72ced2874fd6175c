"""Drawings that know the layers: data flow, hierarchies, who shares which kernel. All return the matplotlib figure.

Data flows from the bottom to the top, as in the papers, and each drawing is as wide as a phone can show.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch import nn

from ..layers.attention import MultiHeadAttention
from ..layers.family import parameter_count
from ..layers.gmlp import GMLPBlock
from ..layers.primer import MultiDConvHeadAttention
from ..layers.transformer import FeedForward, TransformerLayer
from .figures.style import NEW, PLAIN, WIDTH, styled

Point = tuple[float, float]
STREAM = 0.3  # where the residual stream runs, in inches from the left
STEP = 0.66  # from a box to the next one above


class Sketch:
    """A canvas measured in inches, with boxes, arrows and signs."""

    def __init__(self) -> None:
        self.figure = plt.figure()
        self.ax = self.figure.add_axes((0, 0, 1, 1))
        self.ax.axis("off")

    def box(self, at: Point, label: str, count: int = 0, new: bool = False, width: float = 1.3) -> None:
        """A box around its label and its number of parameters; what a chapter adds stands out."""
        x, y = at
        corner = (x - width / 2 + 0.04, y - 0.18)
        shape = FancyBboxPatch(corner, width - 0.08, 0.36, "round,pad=0.04", fc=NEW if new else PLAIN, ec="black")
        self.ax.add_patch(shape)
        text = f"{label}\n{count:,}" if count else label
        self.ax.text(x, y, text, ha="center", va="center", linespacing=1.05)

    def line(self, *points: Point) -> None:
        """A line through the points, with its head at the last one."""
        self.ax.plot(*zip(*points[:-1], strict=True), "k-", lw=1, zorder=0, solid_capstyle="butt")
        style = {"arrowstyle": "-|>", "lw": 1, "shrinkA": 0, "shrinkB": 0, "color": "black", "mutation_scale": 9}
        self.ax.annotate("", points[-1], points[-2], arrowprops=style, zorder=0)

    def above(self, at: Point, label: str, count: int = 0, gap: float = STEP, **look: Any) -> None:
        """A box, and an arrow to it from the one below."""
        self.line((at[0], at[1] - gap + 0.22), (at[0], at[1] - 0.22))
        self.box(at, label, count, **look)

    def sign(self, at: Point, sign: str) -> None:
        """What is done where two lines meet."""
        circle = {"boxstyle": "circle,pad=0.18", "fc": "white", "ec": "black"}
        self.ax.text(*at, sign, ha="center", va="center", bbox=circle)

    def enter(self, x: float, y: float) -> None:
        """A branch leaves the stream, below the box at ``(x, y)``."""
        self.line((STREAM, y - 0.42), (x, y - 0.42), (x, y - 0.22))

    def leave(self, x: float, y: float) -> None:
        """A branch ends in the stream, above the box at ``(x, y)``."""
        self.line((x, y + 0.22), (x, y + 0.4), (STREAM + 0.14, y + 0.4))
        self.sign((STREAM, y + 0.4), "+")

    def under(self, top: float) -> Figure:
        """The figure, with the residual stream from x at the bottom to y at the top."""
        self.line((STREAM, 0.3), (STREAM, top - 0.28))
        self.ax.text(STREAM, 0.15, "x", ha="center", va="center")
        self.ax.text(STREAM, top - 0.15, "y", ha="center", va="center")
        self.ax.set(xlim=(0, WIDTH), ylim=(0, top))
        self.figure.set_size_inches(WIDTH, top)
        return self.figure


@styled
def draw_layer(layer: TransformerLayer) -> Figure:
    """The data flow of a layer, upwards, with the parameters of each box; what is not baseline stands out."""
    attention, feed_forward = layer.attention, layer.feed_forward
    if not isinstance(attention, MultiHeadAttention) or not isinstance(feed_forward, FeedForward):
        kinds = f"{type(attention).__name__} and {type(feed_forward).__name__}"
        raise TypeError(f"the layer has {kinds}; expected MultiHeadAttention and FeedForward")
    convolved = isinstance(attention, MultiDConvHeadAttention)
    sketch = Sketch()
    left, middle, right = (1.45, 3.05, 4.65)
    columns = (left, middle, right)
    y = 0.85
    sketch.enter(middle, y)
    sketch.box((middle, y), "norm", parameter_count(layer.norm1))
    y += STEP
    for x, name in zip(columns, ("query", "key", "value"), strict=True):
        sketch.box((x, y), name, parameter_count(getattr(attention, name)))
        below = y - STEP / 2
        sketch.line((middle, below - 0.11), (middle, below), (x, below), (x, y - 0.22))
    if convolved:
        y += STEP
        for x, name in zip(columns, ("conv_q", "conv_k", "conv_v"), strict=True):
            sketch.above((x, y), name, parameter_count(getattr(attention, name)), new=True)
    y += STEP
    for x in columns[:2]:
        sketch.above((x, y), "rotate")
    sketch.line((right, y - STEP + 0.22), (right, y + STEP - 0.22))
    y += STEP
    for x in columns[:2]:
        sketch.line((x, y - STEP + 0.22), (x, y - 0.22))
    sketch.box((middle, y), "causal attention", width=right - left + 1.3)
    y += STEP
    sketch.above((middle, y), "output", parameter_count(attention.output))
    sketch.leave(middle, y)
    y += STEP + 0.4
    sketch.enter(middle, y)
    activation = feed_forward.activation
    name = type(activation).__name__.replace("SquaredReLU", "squared ReLU")
    sketch.box((middle, y), "norm", parameter_count(layer.norm2))
    for part, label, new in (
        (feed_forward.up, "up", False),
        (None, name, not isinstance(activation, nn.ReLU)),
        (feed_forward.down, "down", False),
    ):
        y += STEP
        sketch.above((middle, y), label, parameter_count(part) if part is not None else 0, new=new)
    sketch.leave(middle, y)
    return sketch.under(y + 1.0)


@styled
def draw_block(block: GMLPBlock) -> Figure:
    """The data flow of a gMLP block with a split gate, upwards, with the parameters of each box."""
    gate, sketch = block.gate, Sketch()
    first, second, third = 1.35, 2.95, 4.75  # Z1, Z2, attention
    y = 0.85
    sketch.enter(second, y)
    sketch.box((second, y), "norm", parameter_count(block.norm))
    split = y + STEP / 2
    y += STEP
    sketch.above((second, y), "up", parameter_count(block.up))
    y += STEP
    sketch.above((second, y), "GELU")
    fork = y + STEP / 2
    y += STEP + 0.2
    norm = y
    sketch.above((second, y), "norm", parameter_count(gate.norm), gap=STEP + 0.2)
    y += STEP
    sketch.above((second, y), "W, along tokens", gate.weight.numel(), new=True, width=1.5)
    y += STEP
    sketch.above((second, y), "+ b", gate.bias.numel())
    y += STEP
    product = y - 0.1
    if block.attention is not None:
        plus = y - 0.1
        product += 0.55
        sketch.line((second, split), (third, split), (third, norm - 0.22))
        sketch.box((third, norm), "tiny attention", parameter_count(block.attention), new=True, width=1.4)
        sketch.line((third, norm + 0.22), (third, plus), (second + 0.14, plus))
        sketch.line((second, y - STEP + 0.22), (second, plus - 0.14))
        sketch.line((second, plus), (second, product), (first + 0.14, product))
        sketch.sign((second, plus), "+")
    else:
        sketch.line((second, y - STEP + 0.22), (second, product), (first + 0.14, product))
    sketch.line((second, fork), (first, fork), (first, product - 0.14))
    sketch.ax.text(first - 0.08, fork + 0.7, "Z₁: half\nof the\nchannels", ha="right", va="center")
    sketch.ax.text(second + 0.1, fork + 0.02, "Z₂: the others", ha="left", va="bottom")
    sketch.sign((first, product), "×")
    y = product + 0.6
    sketch.line((first, product), (first, y - 0.22))
    sketch.box((first, y), "down", parameter_count(block.down))
    sketch.leave(first, y)
    return sketch.under(y + 1.0)
