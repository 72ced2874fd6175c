"""The baseline: a decoder-only Transformer, of which every later chapter changes one part.

What is notable:
- LayerNorm before each block (pre-norm), so that nothing but additions happens to the stream;
- no biases in the projections;
- layers know nothing of each other: a stack of them is a loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..support.checks import require, require_bool, require_input, require_int, require_module, require_probability
from .attention import MultiHeadAttention
from .cache import Cache
from .family import Family, Sizes


class FeedForward(nn.Module):
    r"""The position-wise network :math:`W_2\, f(W_1 x)`.

    Args:
        d_model: channels of the input and of the output.
        d_ff: channels between the two projections.
        activation: the function :math:`f`, a module.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``.

    Raises:
        TypeError, ValueError: for a size that is not an int or below 1, an activation that is not a module.

    Source: Vaswani et al., 2017, section 3.3, without biases.
    """

    def __init__(self, d_model: int, d_ff: int, activation: nn.Module) -> None:
        super().__init__()
        require_int("d_model", d_model, at_least=1)
        require_int("d_ff", d_ff, at_least=1)
        require_module("activation", activation)
        self.d_model = d_model
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.activation = activation
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        require_input("x", x, self.d_model, is_sequence=False)
        return self.down(self.activation(self.up(x)))


class TransformerLayer(nn.Module):
    r"""A pre-norm layer: :math:`h = x + A(\mathrm{LN}(x))`, then :math:`y = h + F(\mathrm{LN}(h))`.

    Args:
        attention: the sequence-mixing block :math:`A`; called with ``(x, cache)``.
        feed_forward: the position-wise block :math:`F`.
        d_model: channels of the input and of the output.
        dropout: probability of dropping each channel of what a block adds.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``.

    Raises:
        TypeError: for blocks that are not modules, or a size that is not an int.
        ValueError: for a size below 1, a block of another ``d_model``, or a dropout that is not a probability.

    Source: Xiong et al., On Layer Normalization in the Transformer Architecture, 2020.
    The book builds it as ``PlainLayer``.
    """

    def __init__(self, attention: nn.Module, feed_forward: nn.Module, d_model: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        check_layer(attention, feed_forward, d_model, dropout)
        self.d_model = d_model
        self.attention, self.feed_forward = attention, feed_forward
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        require_input("x", x, self.d_model)
        x = x + self.dropout(self.attention(self.norm1(x), cache))  # (B, T, D)
        return x + self.dropout(self.feed_forward(self.norm2(x)))

    def branch_ends(self) -> list[nn.Module]:
        """The last projections of both branches, which :func:`initialize` starts at zero."""
        return [last_of("attention", self.attention, "output"), last_of("feed_forward", self.feed_forward, "down")]


def last_of(argument: str, block: nn.Module, name: str) -> nn.Module:
    """The last projection of a block, which may be the reader's."""
    last = getattr(block, name, None)
    require(isinstance(last, nn.Module), argument, type(block).__name__, f"a module with {name!r}, its last projection")
    return last  # type: ignore[return-value]


def check_layer(attention: nn.Module, feed_forward: nn.Module, d_model: int, dropout: float) -> None:
    """Raise unless a layer can be made of these."""
    require_int("d_model", d_model, at_least=1)
    for name, block in (("attention", attention), ("feed_forward", feed_forward)):
        require_module(name, block)
        channels = getattr(block, "d_model", d_model)  # a module of the reader's may not say
        require(channels == d_model, f"{name}.d_model", channels, f"{d_model}, as the layer has")
    require_probability("dropout", dropout)


class LearnedPositions(nn.Module):
    """Add a learned vector to each position, as an alternative to rotary positions.

    Args:
        d_model: channels.
        max_seq_len: number of positions.

    Shapes:
        ``[batch, seq, d_model]`` to the same; ``weight`` is ``[max_seq_len, d_model]``.

    Raises:
        TypeError, ValueError: for a size that is not an int or below 1, and for more than ``max_seq_len`` tokens.

    Source: Vaswani et al., 2017, section 3.5. The book builds it as ``AddedPositions``.
    """

    def __init__(self, d_model: int, max_seq_len: int) -> None:
        super().__init__()
        require_int("d_model", d_model, at_least=1)
        require_int("max_seq_len", max_seq_len, at_least=1)
        self.weight = nn.Parameter(0.02 * torch.randn(max_seq_len, d_model))

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        require_input("x", x, self.weight.shape[1])
        T = x.shape[1]
        check_room(self, T, len(self.weight), cache)  # before anything is counted
        start = 0 if cache is None else cache.advance(self, T)
        return x + self.weight[start + torch.arange(T, device=x.device)]  # (B, T, D)

    def extra_repr(self) -> str:
        return "max_seq_len={}, d_model={}".format(*self.weight.shape)


def check_room(layer: nn.Module, T: int, max_seq_len: int, cache: Cache | None = None) -> None:
    """Raise ValueError unless ``layer`` can read ``T`` more tokens."""
    read = 0 if cache is None else cache.tokens_of(layer)
    expected = f"at most max_seq_len={max_seq_len} tokens, those in the cache included"
    require(read + T <= max_seq_len, "the sequence length", read + T, expected)


@dataclass(frozen=True, kw_only=True)
class TransformerFamily(Family):
    """The baseline: rotary attention, ReLU.

    Args:
        rotary: as for :class:`MultiHeadAttention`.
    """

    rotary: bool = True

    def __post_init__(self) -> None:
        require_bool("rotary", self.rotary)

    def make_layer(self, sizes: Sizes) -> nn.Module:
        D = sizes.d_model
        attention = MultiHeadAttention(D, sizes.n_heads, rotary=self.rotary)
        return TransformerLayer(attention, FeedForward(D, sizes.d_ff, nn.ReLU()), D, dropout=sizes.dropout)
