"""gMLP: tokens are mixed by one learned matrix, which multiplies as a gate; there is no attention.

What is notable:
- a gate starts open, as in the paper: it passes what it gets, up to a spread of 0.001, at any length;
- causal or two-sided is always asked for, never assumed;
- with a cache, a token costs one row of the matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..support.checks import require, require_bool, require_input, require_int, require_known, require_probability
from .attention import Attention
from .cache import Cache
from .family import Family, Sizes, Stack
from .products import fft_product, toeplitz, triangular_product
from .transformer import LearnedPositions, check_room

Gate = Literal["split", "whole", "additive", "linear"]
Weight = Literal["dense", "toeplitz"]
Start = Literal["open", "shut"]
GATES: tuple[str, ...] = get_args(Gate)
WEIGHTS: tuple[str, ...] = get_args(Weight)
STARTS: tuple[str, ...] = get_args(Start)
PRODUCTS = ("split", "whole")  # the gates that multiply


class SpatialGatingUnit(nn.Module):
    r"""The gate that mixes tokens: :math:`s(Z) = Z_1 \odot f(Z_2)` with :math:`f(Z) = W\,\mathrm{LN}(Z) + b`.

    :math:`W`, one matrix for all channels, acts along the sequence. :math:`Z_1` and :math:`Z_2` are the halves of
    the channels. At the start :math:`b = 1` and :math:`W_{ts} \sim \mathcal{N}(0, 0.001^2 / n)`: a normalized channel
    has a mean square of 1, so that a sum over at most :math:`n` tokens has a standard deviation of at most 0.001,
    whatever :math:`n` and however alike the tokens are. So a gate that starts passes :math:`Z_1`. Gates without a
    product pass their input with :math:`b = 0`, and start there.

    Args:
        d_ffn: channels of the input; even for a split gate.
        max_seq_len: the longest sequence, :math:`n`.
        causal: whether position :math:`t` sees the positions :math:`s \le t`, or all of them.
        gate: ``"split"``; ``"whole"``: :math:`Z \odot f(Z)`; ``"additive"``: :math:`Z + f(Z)`; ``"linear"``:
            :math:`f(Z)`, whose :math:`W` starts at the identity.
        weight: ``"dense"``, or ``"toeplitz"``: :math:`W_{ts} = k_{t-s}`, with ``n`` numbers if causal, else
            ``2 * n - 1``.
        start: ``"open"``, or ``"shut"``: a product with :math:`b = 0`, which passes nothing at first.
        fft: apply a Toeplitz :math:`W` by :func:`fft_product`; later pieces of a cache are multiplied directly.

    Shapes:
        ``[batch, seq, d_ffn]`` to ``[batch, seq, d_out]``, where ``d_out`` is ``d_ffn / 2`` if split, else ``d_ffn``.
        ``weight`` is ``[n, n]``, ``[n]`` or ``[2n - 1]``; ``bias`` is ``[n]``.

    Raises:
        TypeError: if a size is not an int, ``causal`` not a bool, or a mask not a boolean tensor.
        ValueError: for an odd ``d_ffn`` with a split gate, an unknown name, a shut start without a product, ``fft``
            with a dense matrix, a sequence longer than ``max_seq_len``, a mask of another shape, or a cache or a mask
            where there can be none.

    Source: Liu et al., Pay Attention to MLPs, 2021, section 2.1.
    """

    def __init__(
        self,
        d_ffn: int,
        max_seq_len: int,
        *,
        causal: bool,
        gate: Gate = "split",
        weight: Weight = "dense",
        start: Start = "open",
        fft: bool = False,
    ) -> None:
        super().__init__()
        require_int("d_ffn", d_ffn, at_least=1)
        require_int("max_seq_len", max_seq_len, at_least=1)
        require_bool("causal", causal)
        check_gate(gate, weight, start, fft)
        require(gate != "split" or d_ffn % 2 == 0, "d_ffn", d_ffn, "an even number, for a split gate")
        self.max_seq_len, self.causal, self.kind, self.fft = max_seq_len, causal, gate, fft
        self.d_out = d_ffn // 2 if gate == "split" else d_ffn
        self.norm = nn.LayerNorm(self.d_out)
        n = max_seq_len
        shape = (n, n) if weight == "dense" else (n,) if causal else (2 * n - 1,)
        self.weight = nn.Parameter(0.001 * n**-0.5 * torch.randn(shape))
        self.bias = nn.Parameter(torch.full((n,), float(gate in PRODUCTS and start == "open")))
        if gate == "linear":
            identity = self.weight.detach().diagonal() if weight == "dense" else self.weight.detach()[-n]
            identity += 1

    def kernel(self, T: int) -> Tensor:
        """A Toeplitz matrix's weights for the offsets from ``1 - T`` to ``T - 1``; zeros for the future if causal."""
        n = self.max_seq_len
        return F.pad(self.weight[:T], (T - 1, 0)) if self.causal else self.weight[n - T : n + T - 1]

    def matrix(self, T: int) -> Tensor:
        """The matrix for ``T`` tokens, ``[T, T]``; of a causal one, only the lower triangle is used."""
        return self.weight[:T, :T] if self.weight.dim() == 2 else toeplitz(self.kernel(T))

    def rows(self, positions: Tensor, S: int) -> Tensor:
        """Rows of a causal matrix, ``[len(positions), S]``, zeros after the diagonal."""
        back = positions[:, None] - torch.arange(S, device=positions.device)  # (T, S), from a row to what it reads
        rows = self.weight[positions, :S] if self.weight.dim() == 2 else self.weight[back.clamp(min=0)]
        return rows.masked_fill(back < 0, 0)

    def mix(self, z: Tensor, cache: Cache | None = None) -> Tensor:
        """:math:`W z`, or with a cache its rows for the new tokens: ``[batch, seq, channels]`` to the same."""
        T = z.shape[1]
        if cache is not None:
            positions = cache.length(self) + torch.arange(T, device=z.device)
            (past,) = cache.append(self, z.unsqueeze(1))  # (B, 1, S, C)
            past = past[:, 0, : self.max_seq_len]
            rows = self.rows(positions, past.shape[1]).to(z.dtype)  # (T, S)
            return torch.bmm(rows.expand(z.shape[0], -1, -1), past)  # matmul would copy what the cache holds
        if self.fft:
            return fft_product(self.kernel(T), z)
        matrix = self.matrix(T).to(z.dtype)  # (T, T)
        return triangular_product(matrix, z) if self.causal else torch.bmm(matrix.expand(z.shape[0], -1, -1), z)

    def check(self, x: Tensor, cache: Cache | None = None, mask: Tensor | None = None) -> None:
        """Raise unless there is room for these tokens, and cache and mask fit."""
        check_mixing(self.causal, x, cache, mask)
        check_room(self, x.shape[1], self.max_seq_len, cache)

    def forward(
        self, z: Tensor, cache: Cache | None = None, mask: Tensor | None = None, *, attended: Tensor | None = None
    ) -> Tensor:
        # What passes is not mixed, and what is mixed is normalized first: without the norm, the gate's spread would
        # depend on its input.
        require_input("z", z, self.d_out * (2 if self.kind == "split" else 1))
        T, start = z.shape[1], 0 if cache is None else cache.length(self)
        self.check(z, cache, mask)
        passed, mixed = z.chunk(2, dim=-1) if self.kind == "split" else (z, z)  # (B, T, d_out) each
        mixed = self.norm(mixed)
        if mask is not None:
            mixed = mixed.masked_fill(~mask.unsqueeze(2), 0)  # a hidden token adds nothing, whatever it holds
        bias = self.bias[:T] if cache is None else self.bias[start + torch.arange(T, device=z.device)]
        f = self.mix(mixed, cache) + bias[:, None]  # (B, T, d_out)
        f = f if attended is None else f + attended
        return f if self.kind == "linear" else passed + f if self.kind == "additive" else passed * f

    def extra_repr(self) -> str:
        kind = "dense" if self.weight.dim() == 2 else "toeplitz"
        sizes = f"max_seq_len={self.max_seq_len}, causal={self.causal}"
        return f"gate={self.kind!r}, weight={kind!r}, {sizes}, fft={self.fft}"


def check_gate(gate: str, weight: str, start: str, fft: bool) -> None:
    """Raise unless there is such a gate."""
    require_known("gate", gate, GATES)
    require_known("weight", weight, WEIGHTS)
    require_known("start", start, STARTS)
    require(
        start == "open" or gate in PRODUCTS,
        "start",
        start,
        f"'open': a gate that is {gate} passes its input in any case",
    )
    require_bool("fft", fft)
    require(not fft or weight == "toeplitz", "fft", fft, "False, for a matrix that is not Toeplitz")


def check_mixing(causal: bool, x: Tensor, cache: Cache | None, mask: Tensor | None) -> None:
    """Raise unless ``cache`` fits a layer that is causal, or ``mask`` one that is not, and the mask fits ``x``."""
    require(causal or cache is None, "cache", cache, "None, for a layer that is not causal")
    if cache is not None:
        cache.check_batch(x.shape[0])
    if mask is not None:
        require(not causal, "mask", mask, "None, for a causal layer")
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        require(kind == torch.bool, "mask", kind, "a torch.bool tensor, True where a token is visible", TypeError)
        require(mask.shape == x.shape[:2], "mask.shape", tuple(mask.shape), f"{tuple(x.shape[:2])}, [batch, seq]")


class TinyAttention(Attention):
    r"""Attention with a single small head, without positions: :math:`\mathrm{softmax}(Q K^\top / \sqrt{A})\, V W_O`.

    :math:`W_O` starts at zero, so that the gate it is added to starts as it would without.

    Args:
        d_model: channels of the input.
        d_out: channels of the output.
        d_attention: channels of queries, keys and values, :math:`A`.
        causal: whether position :math:`t` sees the positions :math:`s \le t`, or all of them.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_out]``; the mask is bool ``[batch, seq]``. Where no token is
        visible, the output is 0.

    Raises:
        TypeError, ValueError: for sizes below 1, and masks and caches as for :class:`SpatialGatingUnit`.

    Source: Liu et al., 2021, section 4.3 (aMLP).
    """

    def __init__(self, d_model: int, d_out: int, d_attention: int = 64, *, causal: bool) -> None:
        require_int("d_attention", d_attention, at_least=1)
        super().__init__(d_model, 1, rotary=False, causal=causal, d_attention=d_attention, d_out=d_out)
        nn.init.zeros_(self.output.weight)

    def forward(self, x: Tensor, cache: Cache | None = None, mask: Tensor | None = None) -> Tensor:
        require_input("x", x, self.d_model)
        check_mixing(self.causal, x, cache, mask)
        start = 0 if cache is None else cache.length(self)
        q, k, v = (self.split(z) for z in (self.query(x), self.key(x), self.value(x)))  # (B, 1, T, A) each
        if mask is not None:
            mask = mask[:, None, None, :]  # (B, 1, 1, T)
            k, v = (z.masked_fill(~mask.mT, 0) for z in (k, v))  # a weight of 0 would not stop what is not a number
        return self.attend(q, k, v, start=start, cache=cache, mask=mask)  # (B, T, d_out)


class GMLPBlock(nn.Module):
    r"""A residual block: :math:`y = x + W_2\, s(\mathrm{GELU}(W_1\, \mathrm{LN}(x)))`.

    Args:
        d_model: channels of the input and of the output.
        d_ffn: channels between the two projections.
        max_seq_len: the longest sequence.
        causal: whether position :math:`t` sees the positions :math:`s \le t`, or all of them.
        d_attention: channels of a :class:`TinyAttention` on the normalized input, which is added to :math:`f`; None
            for a block without one.
        dropout: probability of dropping each channel of what the block adds.
        **options: of :class:`SpatialGatingUnit`.

    Shapes:
        ``[batch, seq, d_model]`` to the same; a two-sided block takes a mask, bool ``[batch, seq]``, True where a
        token is visible to the others.

    Raises:
        TypeError, ValueError: as for :class:`SpatialGatingUnit` and :class:`TinyAttention`.

    Source: Liu et al., 2021, section 2, without biases in the projections.
    """

    def __init__(
        self,
        d_model: int,
        d_ffn: int,
        max_seq_len: int,
        *,
        causal: bool,
        d_attention: int | None = None,
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__()
        require_int("d_model", d_model, at_least=1)
        require_probability("dropout", dropout)
        self.d_model = d_model
        self.gate = SpatialGatingUnit(d_ffn, max_seq_len, causal=causal, **options)
        self.norm = nn.LayerNorm(d_model)
        self.up = nn.Linear(d_model, d_ffn, bias=False)
        self.down = nn.Linear(self.gate.d_out, d_model, bias=False)
        tiny = None if d_attention is None else TinyAttention(d_model, self.gate.d_out, d_attention, causal=causal)
        self.attention, self.dropout = tiny, nn.Dropout(dropout)

    def forward(self, x: Tensor, cache: Cache | None = None, mask: Tensor | None = None) -> Tensor:
        require_input("x", x, self.d_model)
        self.gate.check(x, cache, mask)  # before the attention writes into the cache
        z = self.norm(x)  # (B, T, D)
        attended = None if self.attention is None else self.attention(z, cache, mask)
        z = F.gelu(self.up(z))  # (B, T, F)
        z = self.gate(z, cache, mask, attended=attended)  # (B, T, d_out)
        return x + self.dropout(self.down(z))

    def branch_ends(self) -> list[nn.Linear]:
        """The last projections of block and attention, which :func:`initialize` starts at zero."""
        ends = [self.down]
        if self.attention is not None:
            ends.append(self.attention.output)
        return ends


@dataclass(frozen=True, kw_only=True)
class GMLPFamily(Family):
    """gMLP: blocks of two projections with a spatial gate between them.

    Args:
        gate, start, fft: as for :class:`SpatialGatingUnit`.
        weight: as there; Toeplitz unless said otherwise.
        d_attention: as for :class:`GMLPBlock`.
        positions: whether :class:`LearnedPositions` come before the blocks.
    """

    default_layers: ClassVar[int] = 8  # a block is half a layer
    reads_beyond_training: ClassVar[bool] = False

    gate: Gate = "split"
    weight: Weight = "toeplitz"
    start: Start = "open"
    fft: bool = False
    d_attention: int | None = None
    positions: bool = False

    def __post_init__(self) -> None:
        check_gate(self.gate, self.weight, self.start, self.fft)
        require_bool("positions", self.positions)
        if self.d_attention is not None:
            require_int("d_attention", self.d_attention, at_least=1)

    def make_layer(self, sizes: Sizes) -> nn.Module:
        return GMLPBlock(
            sizes.d_model,
            sizes.d_ff,
            sizes.max_seq_len,
            causal=True,
            d_attention=self.d_attention,
            dropout=sizes.dropout,
            gate=self.gate,
            weight=self.weight,
            start=self.start,
            fft=self.fft,
        )

    def make_body(self, sizes: Sizes) -> nn.Module:
        blocks = [self.make_layer(sizes) for _ in range(sizes.n_layers)]
        return Stack([LearnedPositions(sizes.d_model, sizes.max_seq_len), *blocks] if self.positions else blocks)
