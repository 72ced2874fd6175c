"""gMLP: tokens are mixed by one learned matrix, which multiplies as a gate; there is no attention.

What is notable:
- the gate starts as the identity, up to a spread of 0.001, for sequences of any length;
- causal or two-sided is always asked for, never assumed;
- a causal matrix is half zeros, which the product skips: squares below the diagonal, then ever smaller triangles;
- a Toeplitz matrix is a convolution, which the fast Fourier transform applies without making the matrix;
- with a cache, a token costs one row of the matrix.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from .cache import Cache
from .checks import require, require_int, require_known
from .transformer import causal_mask

TILE = 64  # tokens; smaller ones waste less of the matrix and more calls


def tiles(start: int, end: int) -> list[tuple[slice, slice]]:
    """Rows and columns of the tiles that cover a lower triangle: squares, and triangles on the diagonal."""
    if end - start <= TILE:
        return [(slice(start, end), slice(start, end))]
    middle = (start + end) // 2
    square = (slice(middle, end), slice(start, middle))
    return [*tiles(start, middle), square, *tiles(middle, end)]


class TriangularProduct(torch.autograd.Function):
    """The product with a matrix's lower triangle, tile by tile; ``beta=0`` where a tile is the first to write."""

    @staticmethod
    def forward(ctx: FunctionCtx, weight: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(weight, x)
        B, T = x.shape[:2]
        y = torch.empty_like(x)
        for rows, columns in tiles(0, T):
            tile = weight[rows, columns].tril() if rows == columns else weight[rows, columns]
            y[:, rows].baddbmm_(tile.expand(B, -1, -1), x[:, columns], beta=min(columns.start, 1))
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        weight, x = ctx.saved_tensors
        B, T = x.shape[:2]
        to_weight, to_x = torch.empty_like(weight), torch.empty_like(x)
        for rows, columns in tiles(0, T):
            tile = weight[rows, columns].tril() if rows == columns else weight[rows, columns]
            to_x[:, columns].baddbmm_(tile.mT.expand(B, -1, -1), gradient[:, rows], beta=int(rows != columns))
            to_weight[columns, rows] = 0
            to_weight[rows, columns].addbmm_(gradient[:, rows], x[:, columns].mT, beta=0)
            if rows == columns:
                to_weight[rows, columns].tril_()
        return to_weight, to_x


def triangular_product(weight: Tensor, x: Tensor) -> Tensor:
    r"""The causal product :math:`y_t = \sum_{s \le t} W_{ts} x_s`, in half the multiply-adds of the whole matrix.

    Args:
        weight: ``[seq, seq]``; what is above the diagonal is neither read nor given a gradient.
        x: ``[batch, seq, channels]``.

    Returns:
        ``[batch, seq, channels]``; it can be differentiated once.
    """
    return TriangularProduct.apply(weight, x)  # type: ignore[no-untyped-call]


def toeplitz(kernel: Tensor, start: int = 0) -> Tensor:
    r"""The matrix :math:`W_{ts} = k_{t-s}`, ``[seq, seq]``, or its rows from ``start`` on.

    Args:
        kernel: ``[2 * seq - 1]``; the weights of the offsets :math:`t - s` from ``1 - seq`` to ``seq - 1``.
        start: the first row.
    """
    T = (len(kernel) + 1) // 2
    return kernel.flip(0).unfold(0, T, 1)[: T - start].flip(0)  # (T - start, T)


def fft_product(kernel: Tensor, x: Tensor) -> Tensor:
    """The product with ``toeplitz(kernel)`` in O(seq log seq), by the fast Fourier transform.

    Args:
        kernel: ``[2 * seq - 1]``, as for :func:`toeplitz`.
        x: ``[batch, seq, channels]``.
    """
    T = x.shape[1]
    wide = torch.promote_types(x.dtype, torch.float32)  # the transform knows no half precision
    spectrum = torch.fft.rfft(kernel.to(wide), 2 * T)[:, None] * torch.fft.rfft(x.to(wide), 2 * T, dim=1)
    y = torch.fft.irfft(spectrum, 2 * T, dim=1)  # (B, 2T, C); what wraps around falls before T - 1
    return y[:, T - 1 : 2 * T - 1].to(x.dtype)


GATES = ("split", "whole", "additive", "linear")
WEIGHTS = ("dense", "toeplitz")


class SpatialGatingUnit(nn.Module):
    r"""The gate that mixes tokens: :math:`s(Z) = Z_1 \odot f(Z_2)` with :math:`f(Z) = W\,\mathrm{LN}(Z) + b`.

    :math:`W`, one matrix for all channels, acts along the sequence. :math:`Z_1` and :math:`Z_2` are the halves of
    the channels. At the start :math:`b = 1` and :math:`W_{ts} \sim \mathcal{N}(0, 0.001^2 / n)`: a normalized channel
    has a mean square of 1, so that a sum over at most :math:`n` tokens has a standard deviation of at most 0.001,
    whatever :math:`n` and however alike the tokens are.

    Args:
        d_ffn: channels of the input; even for a split gate.
        max_seq_len: the longest sequence, :math:`n`.
        causal: whether position :math:`t` sees the positions :math:`s \le t`, or all of them.
        gate: ``"split"``; ``"whole"``: :math:`Z \odot f(Z)`; ``"additive"``: :math:`Z + f(Z)`; ``"linear"``:
            :math:`f(Z)`. Without a product :math:`b` starts at 0, and a linear :math:`W` at the identity.
        weight: ``"dense"``, or ``"toeplitz"``: :math:`W_{ts} = k_{t-s}`, with ``n`` numbers if causal, else
            ``2 * n - 1``.
        fft: apply a Toeplitz :math:`W` by :func:`fft_product`; later pieces of a cache are multiplied directly.

    Shapes:
        ``[batch, seq, d_ffn]`` to ``[batch, seq, d_out]``, where ``d_out`` is ``d_ffn / 2`` if split, else ``d_ffn``.
        ``weight`` is ``[n, n]``, ``[n]`` or ``[2n - 1]``; ``bias`` is ``[n]``.

    Raises:
        TypeError: if a size is not an int, ``causal`` not a bool, or a mask not a boolean tensor.
        ValueError: for an odd ``d_ffn`` with a split gate, an unknown name, ``fft`` with a dense matrix, a sequence
            longer than ``max_seq_len``, a mask of another shape, or a cache or a mask where there can be none.

    Source: Liu et al., Pay Attention to MLPs, 2021, section 2.1.
    """

    def __init__(
        self,
        d_ffn: int,
        max_seq_len: int,
        *,
        causal: bool,
        gate: str = "split",
        weight: str = "dense",
        fft: bool = False,
    ) -> None:
        super().__init__()
        require_int("d_ffn", d_ffn, at_least=1)
        require_int("max_seq_len", max_seq_len, at_least=1)
        require(isinstance(causal, bool), "causal", causal, "True or False", TypeError)
        require_known("gate", gate, GATES)
        require_known("weight", weight, WEIGHTS)
        require(gate != "split" or d_ffn % 2 == 0, "d_ffn", d_ffn, "an even number, for a split gate")
        require(not fft or weight == "toeplitz", "fft", fft, "False, for a matrix that is not Toeplitz")
        self.max_seq_len, self.causal, self.gate, self.fft = max_seq_len, causal, gate, fft
        self.d_out = d_ffn // 2 if gate == "split" else d_ffn
        self.norm = nn.LayerNorm(self.d_out)
        n = max_seq_len
        shape = (n, n) if weight == "dense" else (n,) if causal else (2 * n - 1,)
        self.weight = nn.Parameter(0.001 * n**-0.5 * torch.randn(shape))
        self.bias = nn.Parameter(torch.full((n,), 1.0 if gate in ("split", "whole") else 0.0))
        if gate == "linear":
            identity = self.weight.detach().diagonal() if weight == "dense" else self.weight.detach()[-n]
            identity += 1

    def kernel(self, T: int) -> Tensor:
        """A Toeplitz matrix's weights for the offsets from ``1 - T`` to ``T - 1``; zeros for the future if causal."""
        n = self.max_seq_len
        return F.pad(self.weight[:T], (T - 1, 0)) if self.causal else self.weight[n - T : n + T - 1]

    def matrix(self, T: int, start: int = 0) -> Tensor:
        """The matrix for ``T`` tokens, rows from ``start`` on; of a causal one, only the lower triangle is used."""
        return self.weight[start:T, :T] if self.weight.dim() == 2 else toeplitz(self.kernel(T), start)

    def check(self, x: Tensor, cache: Cache | None = None, mask: Tensor | None = None) -> slice:
        """The positions of these tokens; raises unless there is room for them, and cache and mask fit."""
        check_mixing(self.causal, x, cache, mask)
        start = 0 if cache is None else cache.length(self)
        end, n = start + x.shape[1], self.max_seq_len
        require(end <= n, "the sequence length", end, f"at most max_seq_len={n} tokens, those in the cache included")
        return slice(start, end)

    def mix(self, z: Tensor, cache: Cache | None = None) -> Tensor:
        """:math:`W z`, or with a cache its rows for the new tokens: ``[batch, seq, channels]`` to the same."""
        T = z.shape[1]
        if cache is not None:
            z = cache.append(self, z.unsqueeze(1))[0].squeeze(1)  # (B, S, C), T of them new
        start = z.shape[1] - T
        if self.fft and start == 0:
            return fft_product(self.kernel(T), z)
        matrix = self.matrix(z.shape[1], start).to(z.dtype)  # (T, S)
        if self.causal and start == 0:
            return triangular_product(matrix, z)
        matrix = matrix.tril(start) if self.causal else matrix
        return torch.bmm(matrix.expand(len(z), -1, -1), z)  # matmul would copy what the cache holds

    def forward(
        self, z: Tensor, cache: Cache | None = None, mask: Tensor | None = None, attended: Tensor | None = None
    ) -> Tensor:
        positions = self.check(z, cache, mask)
        passed, mixed = z.chunk(2, dim=-1) if self.gate == "split" else (z, z)  # (B, T, d_out) each
        mixed = self.norm(mixed)
        if mask is not None:
            mixed = mixed.masked_fill(~mask.unsqueeze(2), 0)  # a hidden token adds nothing, whatever it holds
        f = self.mix(mixed, cache).add_(self.bias[positions, None])  # (B, T, d_out)
        f = f if attended is None else f + attended
        return f if self.gate == "linear" else passed + f if self.gate == "additive" else passed * f


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


class TinyAttention(nn.Module):
    r"""Attention with a single small head, without positions: :math:`\mathrm{softmax}(Q K^\top / \sqrt{A})\, V W_o`.

    :math:`W_o` starts at zero, so that the gate it is added to starts as it would without.

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
        super().__init__()
        require_int("d_attention", d_attention, at_least=1)
        self.causal = causal
        self.project = nn.Linear(d_model, 3 * d_attention, bias=False)
        self.output = nn.Linear(d_attention, d_out, bias=False)
        nn.init.zeros_(self.output.weight)

    def forward(self, x: Tensor, cache: Cache | None = None, mask: Tensor | None = None) -> Tensor:
        check_mixing(self.causal, x, cache, mask)
        q, k, v = self.project(x).unsqueeze(1).chunk(3, dim=-1)  # (B, 1, T, A) each
        if cache is not None:
            k, v = cache.append(self, k, v)  # (B, 1, S, A)
        T, S = q.shape[2], k.shape[2]
        visible = None if mask is None else mask[:, None, None, :]  # (B, 1, 1, T)
        if 1 < T < S:
            visible = causal_mask(T, S, x.device)
        y = F.scaled_dot_product_attention(q, k, v, visible, is_causal=self.causal and T == S)  # (B, 1, T, A)
        return self.output(y.squeeze(1))


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
        self.d_model = d_model
        self.gate = SpatialGatingUnit(d_ffn, max_seq_len, causal=causal, **options)
        self.norm = nn.LayerNorm(d_model)
        self.up = nn.Linear(d_model, d_ffn, bias=False)
        self.down = nn.Linear(self.gate.d_out, d_model, bias=False)
        tiny = None if d_attention is None else TinyAttention(d_model, self.gate.d_out, d_attention, causal=causal)
        self.attention, self.dropout = tiny, nn.Dropout(dropout)

    def forward(self, x: Tensor, cache: Cache | None = None, mask: Tensor | None = None) -> Tensor:
        self.gate.check(x, cache, mask)  # before the attention writes into the cache
        z = self.norm(x)  # (B, T, D)
        attended = None if self.attention is None else self.attention(z, cache, mask)
        z = F.gelu(self.up(z))  # (B, T, F)
        z = self.gate(z, cache, mask, attended)  # (B, T, F/2)
        return x + self.dropout(self.down(z))
