"""Primer EZ, its variations, and the full Primer.

What is notable:
- the activation is squared: ``max(x, 0) ** 2``;
- after the query, key and value projections, a depthwise causal convolution mixes three tokens;
- queries of the full Primer are made from its keys, and its second norm comes after the block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..support.checks import require, require_input, require_int, require_known, require_number
from . import fast
from .attention import MultiHeadAttention
from .cache import Cache
from .convolution import CausalDepthwiseConv, Init, Sharing, check_conv
from .family import Family, Sizes
from .fast import on_cpu
from .transformer import FeedForward, TransformerLayer

Subset = Literal["", "q", "k", "v", "qk", "qv", "kv", "qkv"]
SUBSETS: tuple[str, ...] = get_args(Subset)


@on_cpu(fast.squared_relu)
def squared_relu(x: Tensor) -> Tensor:
    r""":math:`\max(x, 0)^2`, element by element."""
    return F.relu(x).square()


class SquaredReLU(nn.Module):
    r"""The activation :math:`y = \max(x, 0)^2`, element by element.

    Source: So et al., Primer, 2021, abstract and released code.
    """

    def forward(self, x: Tensor) -> Tensor:
        return squared_relu(x)


class MultiDConvHeadAttention(MultiHeadAttention):
    """Multi-head attention whose queries, keys and values pass through a causal depthwise convolution.

    Args:
        d_model, n_heads: as for :class:`MultiHeadAttention`.
        convolve: which of ``"q"``, ``"k"`` and ``"v"``, in this order; ``""`` is plain attention.
        dropout: as for :class:`MultiHeadAttention`.
        **options: of :class:`CausalDepthwiseConv`.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``.

    Raises:
        TypeError, ValueError: if ``convolve`` is not one of the eight subsets, and as for the attention and the
            convolution.

    Source: So et al., 2021, abstract and released code.
    """

    def __init__(
        self, d_model: int, n_heads: int, convolve: Subset = "qkv", *, dropout: float = 0.0, **options: Any
    ) -> None:
        super().__init__(d_model, n_heads, dropout=dropout)
        require_known("convolve", convolve, SUBSETS)
        self.conv_q, self.conv_k, self.conv_v = (
            CausalDepthwiseConv(d_model, n_heads, **options) if name in convolve else None for name in "qkv"
        )

    def project(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Tensor, Tensor]:
        pairs = zip(super().project(x), (self.conv_q, self.conv_k, self.conv_v), strict=True)
        q, k, v = (z if conv is None else conv(z, cache) for z, conv in pairs)  # (B, T, D) each
        return q, k, v


class GatedFeedForward(FeedForward):
    r"""The position-wise network :math:`W_2\,(f(W_3 x) \odot W_1 x)`; SwiGLU when :math:`f` is SiLU.

    Args:
        d_model, d_ff, activation: as for :class:`FeedForward`; at 2/3 of its ``d_ff``, the parameters are equal.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``.

    Source: Shazeer, GLU Variants Improve Transformer, 2020.
    """

    def __init__(self, d_model: int, d_ff: int, activation: nn.Module) -> None:
        super().__init__(d_model, d_ff, activation)
        self.gate = nn.Linear(d_model, d_ff, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        require_input("x", x, self.d_model, is_sequence=False)
        return self.down(self.activation(self.gate(x)) * self.up(x))


class SharedQueryKeyAttention(MultiHeadAttention):
    r"""Attention whose queries are made from its keys: :math:`K = \mathrm{conv}(x W_K)`, then :math:`Q = K W_Q`.

    Args:
        d_model, n_heads: as for :class:`MultiHeadAttention`.
        **options: of :class:`CausalDepthwiseConv`.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``.

    Source: the paper's released code, ``share_qk_rep``.
    """

    def __init__(self, d_model: int, n_heads: int, **options: Any) -> None:
        super().__init__(d_model, n_heads)
        self.conv_k = CausalDepthwiseConv(d_model, n_heads, **options)
        self.conv_v = CausalDepthwiseConv(d_model, n_heads, **options)

    def project(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Tensor, Tensor]:
        k = self.conv_k(self.key(x), cache)  # (B, T, D)
        return self.query(k), k, self.conv_v(self.value(x), cache)


class PrimerNorm(nn.Module):
    r"""Primer's norm: :math:`y = g\,(x - \mu) / \sqrt{\mathrm{mean}(x\,(x - \mu)) + \epsilon} + b`.

    The mean :math:`\mu` is over the channels. Since :math:`\mathrm{mean}(x (x - \mu))` is the variance, this is
    LayerNorm. The variance is computed as :math:`\mathrm{mean}((x - \mu)^2)`: as it is written in the released code,
    rounding can bring it below :math:`-\epsilon`, and the norm to NaN, where the mean is far from 0.

    Args:
        d_model: channels.
        eps: the number :math:`\epsilon`.

    Shapes:
        ``[..., d_model]`` to the same shape.

    Raises:
        TypeError: if ``d_model`` is not an int, ``eps`` not a number, or the input not of floating-point numbers.
        ValueError: if ``d_model`` is below 1, or ``eps`` is not above 0.

    Source: the paper's released code, ``primer_norm``.
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        require_int("d_model", d_model, at_least=1)
        require_number("eps", eps)
        require(eps > 0, "eps", eps, "more than 0")
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        require_input("x", x, len(self.weight), is_sequence=False)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # half precision cannot hold the sums
        centered = wide - wide.mean(-1, keepdim=True)
        variance = centered.square().mean(-1, keepdim=True)  # the same, and never below 0 by rounding
        return (centered * (variance + self.eps).rsqrt() * self.weight + self.bias).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


class PrimerLayer(TransformerLayer):
    r"""Primer's placement of norms: :math:`h = x + A(N(x))` as before, but then :math:`y = h + N(F(h))`.

    Args and shapes:
        As for :class:`TransformerLayer`.

    Source: the paper's released code, ``PrePostNormLayerStack``.
    """

    def __init__(self, attention: nn.Module, feed_forward: nn.Module, d_model: int, *, dropout: float = 0.0) -> None:
        super().__init__(attention, feed_forward, d_model, dropout=dropout)
        self.norm1, self.norm2 = PrimerNorm(d_model), PrimerNorm(d_model)  # type: ignore[assignment]

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        require_input("x", x, self.d_model)
        x = x + self.dropout(self.attention(self.norm1(x), cache))  # (B, T, D)
        return x + self.dropout(self.norm2(self.feed_forward(x)))

    def branch_ends(self) -> list[nn.Module]:
        """The attention's last projection alone: the second norm would divide zeros by almost zero."""
        return super().branch_ends()[:1]


Activation = Literal["squared-relu", "relu", "gelu", "swiglu"]
ACTIVATIONS: dict[str, Callable[[int, int], nn.Module]] = {
    "squared-relu": lambda d_model, d_ff: FeedForward(d_model, d_ff, SquaredReLU()),
    "relu": lambda d_model, d_ff: FeedForward(d_model, d_ff, nn.ReLU()),
    "gelu": lambda d_model, d_ff: FeedForward(d_model, d_ff, nn.GELU()),
    "swiglu": lambda d_model, d_ff: GatedFeedForward(d_model, round(2 * d_ff / 3), nn.SiLU()),  # equal parameters
}


@dataclass(frozen=True, kw_only=True)
class PrimerEZFamily(Family):
    """Primer EZ: squared ReLU, and convolutions after the attention's projections.

    Args:
        activation: of the feed-forward networks; ``"swiglu"`` is gated, with 2/3 of ``d_ff``.
        convolve: as for :class:`MultiDConvHeadAttention`.
        kernel_size, sharing, dilation, bias, init: as for :class:`CausalDepthwiseConv`; without effect where
            ``convolve`` is empty, so that subsets can be tried side by side.
    """

    activation: Activation = "squared-relu"
    convolve: Subset = "qkv"
    kernel_size: int = 3
    sharing: Sharing = "heads"
    dilation: int = 1
    bias: bool = False
    init: Init = "official"

    def __post_init__(self) -> None:
        require_known("activation", self.activation, ACTIVATIONS)
        require_known("convolve", self.convolve, SUBSETS)
        check_conv(self.kernel_size, self.sharing, self.dilation, self.bias, self.init)

    def make_layer(self, sizes: Sizes) -> nn.Module:
        D = sizes.d_model
        attention = MultiDConvHeadAttention(
            D,
            sizes.n_heads,
            self.convolve,
            kernel_size=self.kernel_size,
            sharing=self.sharing,
            dilation=self.dilation,
            bias=self.bias,
            init=self.init,
        )
        return TransformerLayer(attention, ACTIVATIONS[self.activation](D, sizes.d_ff), D, dropout=sizes.dropout)


@dataclass(frozen=True, kw_only=True)
class PrimerFamily(Family):
    """The full Primer: Primer EZ, queries made from keys, Primer's norm and its placement.

    Args:
        kernel_size, sharing: as for :class:`CausalDepthwiseConv`.
    """

    kernel_size: int = 3
    sharing: Sharing = "none"

    def __post_init__(self) -> None:
        check_conv(self.kernel_size, self.sharing, dilation=1, bias=False, init="official")

    def make_layer(self, sizes: Sizes) -> nn.Module:
        D = sizes.d_model
        attention = SharedQueryKeyAttention(D, sizes.n_heads, kernel_size=self.kernel_size, sharing=self.sharing)
        return PrimerLayer(attention, FeedForward(D, sizes.d_ff, SquaredReLU()), D, dropout=sizes.dropout)
