"""The names of labml's pages on Primer EZ, its variations, the hourglass and gMLP, upon the layers of this book.

What is notable:
- names, arguments and starting values are those of labml-nn 0.5.1, and weights of its layers load by their own keys;
- tensors are ``[seq, batch, channels]`` as there, and without a mask all tokens see all, but in an hourglass;
- outputs and gradients are labml's, to rounding; attention is fused, and keeps no map of its weights in ``attn``;
- what raises NotImplementedError there works here;
- a weight, a mask or an input of another shape is a ValueError that says what was expected.

Source: ``labml_nn.transformers`` of labml-nn 0.5.1, its ``primer_ez``, ``primer_ez.variations``, ``hour_glass`` and
``gmlp``, and what they take from ``mha``, ``feed_forward`` and ``models``.

See :doc:`/book/from-labml`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import resampling, transformer
from .layers.attention import Attention, causal_mask
from .layers.convolution import depthwise_conv
from .layers.gmlp import SpatialGatingUnit
from .layers.primer import SquaredReLU as SquaredReLU  # the same there and here
from .layers.transformer import check_room
from .support.checks import require, require_int


class Loading(nn.Module):
    """A module that says in one sentence which weight has another shape."""

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load the weights of labml's layer; raise ValueError for one of another shape."""
        for name, ours in self.state_dict().items():
            shape, expected = tuple(state_dict.get(name, ours).shape), tuple(ours.shape)
            require(shape == expected, f"the shape of {name}", shape, f"{expected}, as this {type(self).__name__} has")
        return super().load_state_dict(state_dict, strict, assign)


def check_mask(mask: Tensor, queries: int, keys: int, batch: int) -> None:
    """Raise unless ``mask`` is bool ``[queries, keys, batch]``; queries and batch may be 1, for all of them."""
    kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
    require(kind == torch.bool, "mask", kind, "a torch.bool tensor, True where a query sees a key", TypeError)
    fits = mask.dim() == 3 and mask.shape[0] in (1, queries) and mask.shape[1] == keys and mask.shape[2] in (1, batch)
    expected = f"({queries}, {keys}, {batch}), or 1 in place of the first or the last"
    require(fits, "mask.shape", tuple(mask.shape), expected)


def sequence_first(layer: nn.Module, *inputs: Tensor) -> Tensor:
    """A layer of this book, which has the batch first, of ``[seq, batch, channels]``."""
    return layer(*(x.transpose(0, 1) for x in inputs)).transpose(0, 1)


# Primer EZ and its variations


class DepthWise(Loading):
    r"""What the convolutions share: :math:`y_{t,h,c} = b_{h,c} + \sum_{j=0}^{W-1} w_{h,c,W-1-j}\, x_{t-j,h,c}`.

    ``[seq, batch, heads, d_k]`` to the same: :class:`CausalDepthwiseConv` with ``bias=True, init="random"`` and the
    parameters of ``nn.Conv1d``, whose kernels count from the oldest token. A ``kernel_size`` of 1 works, too.
    """

    def __init__(self, heads: int | None, d_k: int | None, kernel_size: int) -> None:
        super().__init__()
        for name, size in (("heads", heads), ("d_k", d_k), ("kernel_size", kernel_size)):
            require_int(name, 1 if size is None else size, at_least=1)  # None is one kernel for all
        self.heads, self.d_k, self.kernel_size = heads, d_k, kernel_size
        kernels = (heads or 1) * (d_k or 1)
        self.conv = nn.Conv1d(kernels, kernels, kernel_size, groups=kernels)

    def forward(self, x: Tensor) -> Tensor:
        H, K = self.heads or x.shape[-2], self.d_k or x.shape[-1]
        expected = f"[seq, batch, {self.heads or 'heads'}, {self.d_k or 'd_k'}]"
        require(x.dim() == 4 and x.shape[2:] == (H, K), "x.shape", tuple(x.shape), expected)
        parameters = (p.view(self.heads or 1, self.d_k or 1, -1) for p in self.conv.parameters())
        kernel, bias = (p.expand(H, K, -1).flatten(0, 1) for p in parameters)  # (HK, W) and (HK, 1)
        z = F.pad(x.flatten(2).transpose(0, 1), (0, 0, self.kernel_size - 1, 0))  # (B, W-1+T, HK)
        return depthwise_conv(z, kernel.unsqueeze(1), bias.flatten(), 1).transpose(0, 1).reshape(x.shape)


class SpatialDepthWiseConvolution(DepthWise):
    """A kernel for each of the ``d_k`` channels of a head, the same in all heads: ``sharing="heads"``."""

    def __init__(self, d_k: int, kernel_size: int = 3) -> None:
        super().__init__(None, d_k, kernel_size)


class SpatialDepthWiseSharedConvolution(DepthWise):
    """One kernel for all channels: ``sharing="all"``."""

    def __init__(self, kernel_size: int = 3) -> None:
        super().__init__(None, None, kernel_size)


class SpatialDepthWisePerHeadConvolution(DepthWise):
    """A kernel for each channel of each head: ``sharing="none"``."""

    def __init__(self, heads: int, d_k: int, kernel_size: int = 3) -> None:
        super().__init__(heads, d_k, kernel_size)


class MultiHeadAttention(Loading, Attention):
    r""":math:`\mathrm{softmax}(Q K^\top / \sqrt{d_k})\, V\, W_O + b_O` in each head: no positions, biases everywhere.

    ``query`` ``[m, batch, d_model]``, ``key`` and ``value`` ``[n, batch, d_model]`` to ``[m, batch, d_model]``. The
    mask is bool ``[m or 1, n, batch or 1]``, True where a query sees a key. Weights are dropped in training.
    """

    def __init__(self, heads: int, d_model: int, dropout_prob: float = 0.1) -> None:
        super().__init__(d_model, heads, rotary=False, causal=False, dropout=dropout_prob)
        self.heads, self.d_k = heads, d_model // heads
        for name in ("query", "key", "value"):
            parts = OrderedDict(linear=nn.Linear(d_model, d_model), parted=nn.Unflatten(-1, (heads, self.d_k)))
            setattr(self, name, self.prepare(nn.Sequential(parts)))
        self.output = nn.Linear(d_model, d_model)

    def prepare(self, projection: nn.Module) -> nn.Module:
        """What makes queries, keys or values: ``[seq, batch, d_model]`` to ``[seq, batch, heads, d_k]``."""
        return projection

    def forward(self, *, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            check_mask(mask, len(query), len(key), query.shape[1])
            mask = mask.permute(2, 0, 1).unsqueeze(1)  # (B or 1, 1, m or 1, n)
        heads = (self.query(query), self.key(key), self.value(value))  # (T, B, H, K) each
        q, k, v = (z.permute(1, 2, 0, 3) for z in heads)  # (B, H, T, K) each
        return self.attend(q, k, v, mask=mask).transpose(0, 1)  # (m, B, D)


class MultiDConvHeadAttention(MultiHeadAttention):
    """:class:`MultiHeadAttention` with a :class:`SpatialDepthWiseConvolution` after each projection."""

    def prepare(self, projection: nn.Module) -> nn.Module:
        return nn.Sequential(projection, SpatialDepthWiseConvolution(self.d_k))


class MultiDSharedConvHeadAttention(MultiHeadAttention):
    """:class:`MultiHeadAttention` with a :class:`SpatialDepthWiseSharedConvolution` after each projection."""

    def prepare(self, projection: nn.Module) -> nn.Module:
        return nn.Sequential(projection, SpatialDepthWiseSharedConvolution())


class MultiDPHConvHeadAttention(MultiHeadAttention):
    """:class:`MultiHeadAttention` with a :class:`SpatialDepthWisePerHeadConvolution` after each projection."""

    def prepare(self, projection: nn.Module) -> nn.Module:
        return nn.Sequential(projection, SpatialDepthWisePerHeadConvolution(self.heads, self.d_k))


# The hourglass


class FeedForward(Loading):
    r""":math:`W_2\, f(W_1 x + b_1) + b_2`, with dropout of hidden channels; ``[..., d_model]`` to the same."""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1, activation: nn.Module | None = None) -> None:
        super().__init__()
        self.layer1, self.layer2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.activation, self.dropout = activation or nn.ReLU(), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer2(self.dropout(self.activation(self.layer1(x))))


class TransformerLayer(Loading):
    r"""A pre-norm layer, :math:`h = x + A(\mathrm{LN}(x))`, then :math:`y = h + F(\mathrm{LN}(h))`, with a mask."""

    def __init__(
        self, *, d_model: int, self_attn: MultiHeadAttention, feed_forward: nn.Module, dropout_prob: float
    ) -> None:
        super().__init__()
        self.size, self.self_attn, self.feed_forward = d_model, self_attn, feed_forward
        self.norm_self_attn, self.norm_ff = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout_prob)

    def forward(self, *, x: Tensor, mask: Tensor | None) -> Tensor:
        z = self.norm_self_attn(x)
        x = x + self.dropout(self.self_attn(query=z, key=z, value=z, mask=mask))
        return x + self.dropout(self.feed_forward(self.norm_ff(x)))


def subsequent_mask(seq_len: int) -> Tensor:
    """Nobody sees the future: :func:`causal_mask` as ``[seq, seq, 1]``."""
    return causal_mask(seq_len, seq_len).unsqueeze(-1)


class AutoregressiveMask(nn.Module):
    """The :func:`subsequent_mask` of ``x`` ``[seq, ...]``."""

    def forward(self, x: Tensor) -> Tensor:
        return subsequent_mask(len(x)).to(x.device)


class ShiftRight(nn.Module):
    """``shift`` zeros before a sequence ``[seq, ...]``, and as many tokens less at its end; the book's drops none."""

    def __init__(self, shift: int) -> None:
        super().__init__()
        require_int("shift", shift, at_least=0)
        self.shift = shift

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.new_zeros(self.shift, *x.shape[1:]), x])[: len(x)]


class AvgPoolShortening(nn.Module):
    """Means of ``k`` tokens of a shifted sequence ``[seq, batch, d_model]``, the last one of those that are left."""

    def __init__(self, k: int) -> None:
        super().__init__()
        require_int("k", k, at_least=1)
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        return sequence_first(resampling.AvgPoolShortening(x.shape[-1], self.k, causal=False), x)


class NaiveUpSampling(nn.Module):
    """For token ``t`` of ``x`` the shortened vector ``t // k``, which the hourglass adds to ``x``."""

    def __init__(self, k: int) -> None:
        super().__init__()
        require_int("k", k, at_least=1)
        self.k = k

    def forward(self, x: Tensor, x_short: Tensor) -> Tensor:
        return x_short[torch.arange(len(x), device=x.device) // self.k]


class LinearPoolingShortening(nn.Module):
    """The book's, in the place of :class:`AvgPoolShortening`; labml's raises an error, as the next three."""

    def __init__(self, k: int, d_model: int) -> None:
        super().__init__()
        self.layer = resampling.LinearPoolingShortening(d_model, k, causal=False)

    def forward(self, x: Tensor) -> Tensor:
        return sequence_first(self.layer, x)


class AttentionBasedShortening(nn.Module):
    """The book's, in the place of :class:`AvgPoolShortening`."""

    def __init__(self, k: int, n_heads: int, d_model: int, d_ff: int) -> None:
        super().__init__()
        pool, feed_forward = resampling.AvgPoolShortening(d_model, k), transformer.FeedForward(d_model, d_ff, nn.ReLU())
        self.layer = resampling.AttentionBasedShortening(pool, n_heads, feed_forward)

    def forward(self, x: Tensor) -> Tensor:
        # The book's shifts by itself: first back to where the tokens were, with zeros for those that were dropped.
        shift = min(self.layer.factor - 1, len(x))
        return sequence_first(self.layer, torch.cat([x[shift:], torch.zeros_like(x[:shift])]))


class LinearUpSampling(nn.Module):
    """The book's, in the place of :class:`NaiveUpSampling`."""

    def __init__(self, k: int, d_model: int) -> None:
        super().__init__()
        self.layer: Any = resampling.LinearUpSampling(d_model, k)

    def forward(self, x: Tensor, x_short: Tensor) -> Tensor:
        return sequence_first(self.layer, x, x_short) - x  # which the hourglass adds


class AttentionBasedUpSampling(LinearUpSampling):
    """The book's, from a linear one on, in the place of :class:`NaiveUpSampling`."""

    def __init__(self, k: int, n_heads: int, d_model: int, d_ff: int) -> None:
        super().__init__(k, d_model)
        feed_forward = transformer.FeedForward(d_model, d_ff, nn.ReLU())
        self.layer = resampling.AttentionBasedUpSampling(self.layer, n_heads, feed_forward)


class HourGlass(Loading):
    r"""A layer :math:`B`, a shortened layer or hourglass :math:`I`, a layer :math:`A`, all of them causal.

    :math:`y = A(h + U(I(S(h))))` with :math:`h = B(x)`: ``[seq, batch, d_model]`` to the same. There is one of
    ``shortening_factors`` for each level, from the outside to the inside. Where one does not divide the length, outputs
    depend on the length, as labml's do; those of :class:`Hourglass` never.
    """

    def __init__(
        self, n_heads: int, d_model: int, dropout: float, d_ff: int, shortening_factors: Sequence[int]
    ) -> None:
        super().__init__()
        require(len(shortening_factors) > 0, "shortening_factors", shortening_factors, "at least one factor")
        k, *inner = shortening_factors

        def layer() -> TransformerLayer:
            attention, network = MultiHeadAttention(n_heads, d_model, dropout), FeedForward(d_model, d_ff, dropout)
            return TransformerLayer(d_model=d_model, self_attn=attention, feed_forward=network, dropout_prob=dropout)

        self.mask, self.pre, self.shift_right = AutoregressiveMask(), layer(), ShiftRight(k - 1)
        self.shortening: nn.Module = AvgPoolShortening(k)
        self.hour_glass = HourGlass(n_heads, d_model, dropout, d_ff, inner) if inner else None
        if not inner:
            self.shortened = layer()
        self.up_sampling: nn.Module = NaiveUpSampling(k)
        self.post = layer()

    def forward(self, x: Tensor) -> Tensor:
        x = self.pre(x=x, mask=self.mask(x))
        short = self.shortening(self.shift_right(x))
        inside = self.hour_glass
        short = self.shortened(x=short, mask=self.mask(short)) if inside is None else inside(short)
        x = x + self.up_sampling(x, short)
        return self.post(x=x, mask=self.mask(x))


# gMLP


class SpacialGatingUnit(Loading, SpatialGatingUnit):
    r""":math:`Z_1 \odot (W\,\mathrm{LN}(Z_2) + b)`, with :math:`W` uniform within 0.01 and :math:`b = 1` at the start.

    ``[seq, batch, d_z]`` to ``[seq, batch, d_z / 2]``, for at most ``seq_len`` tokens. The mask is bool
    ``[seq or 1, seq, 1]``, True where the token of a row sees that of a column.
    """

    def __init__(self, d_z: int, seq_len: int) -> None:
        super().__init__(d_z, seq_len, causal=False)
        nn.init.uniform_(self.weight, -0.01, 0.01)
        nn.init.ones_(self.bias)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        T = len(z)
        check_room(self, T, self.max_seq_len)
        matrix = self.matrix(T)
        if mask is not None:
            check_mask(mask, T, T, 1)
            matrix = matrix * mask.squeeze(2)
        passed, mixed = z.chunk(2, dim=-1)  # (T, B, d_z / 2) each
        return passed * (torch.tensordot(matrix, self.norm(mixed), 1) + self.bias[:T, None, None])


class GMLPBlock(Loading):
    r""":math:`y = x + W_2\, s(\mathrm{GELU}(W_1\, \mathrm{LN}(x) + b_1)) + b_2` with a :class:`SpacialGatingUnit`.

    ``[seq, batch, d_model]`` to the same, with the unit's mask.
    """

    def __init__(self, d_model: int, d_ffn: int, seq_len: int) -> None:
        super().__init__()
        self.size, self.norm, self.proj1 = d_model, nn.LayerNorm(d_model), nn.Linear(d_model, d_ffn)
        self.sgu, self.proj2 = SpacialGatingUnit(d_ffn, seq_len), nn.Linear(d_ffn // 2, d_model)

    def forward(self, *, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x + self.proj2(self.sgu(F.gelu(self.proj1(self.norm(x))), mask))
