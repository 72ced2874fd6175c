"""Products of a matrix along the tokens: triangular in tiles, Toeplitz by the fast Fourier transform.

What is notable:
- a causal matrix is half zeros, which the product skips: squares below the diagonal, then ever smaller triangles;
- a Toeplitz matrix is a convolution, which the fast Fourier transform applies without making the matrix.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from ..checks import is_plain, require

TILE = 64  # tokens; with smaller tiles, less of the matrix is wasted on zeros and more time on calls


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
    r"""The causal product :math:`y_t = \sum_{s \le t} W_{ts} x_s`.

    On the CPU it takes fewer multiply-adds than the whole matrix: as many at 64 tokens, 0.62 of them at 256, and half
    of them for long sequences. Elsewhere, and under compilation, export and
    ``torch.func`` transforms, it is one product with the masked matrix, which fewer and larger calls make faster.

    Args:
        weight: ``[n, n]`` with ``n`` at least ``seq``; of its upper left ``[seq, seq]``, what is above the diagonal is
            neither read nor given a gradient.
        x: ``[batch, seq, channels]``.

    Returns:
        ``[batch, seq, channels]``; on the CPU it can be differentiated once. Under autocast it has the low precision.

    Raises:
        ValueError: if the matrix is smaller than the sequence.
    """
    T = x.shape[1]
    n = min(weight.shape)
    require(n >= T, "weight.shape", tuple(weight.shape), "at least as many rows and columns as there are tokens")
    weight = weight[:T, :T]
    device = x.device.type
    if not is_plain(x) or not is_plain(weight):
        return torch.bmm(weight.tril().to(x.dtype).expand(x.shape[0], -1, -1), x)
    if torch.is_autocast_enabled(device):
        weight, x = weight.to(torch.get_autocast_dtype(device)), x.to(torch.get_autocast_dtype(device))
    return TriangularProduct.apply(weight, x)  # type: ignore[no-untyped-call]


def toeplitz(kernel: Tensor) -> Tensor:
    r"""The matrix :math:`W_{ts} = k_{t-s}`, ``[seq, seq]``.

    Args:
        kernel: ``[2 * seq - 1]``; the weights of the offsets :math:`t - s` from ``1 - seq`` to ``seq - 1``.

    Raises:
        ValueError: if the number of weights is not odd.
    """
    n = kernel.shape[0]
    require(n % 2 == 1, "kernel.shape", tuple(kernel.shape), "an odd number of weights, 2 * seq - 1")
    T = (n + 1) // 2
    if is_plain(kernel):  # the faster of the two, which torch.export does not know with a length left open
        return kernel.unfold(0, T, 1).flip(1)  # (T, T): row t is what a window at t sees, read backward
    return kernel.flip(0).as_strided((T, T), (1, 1)).flip(0)  # (T, T): a row is the one above, moved by one


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
