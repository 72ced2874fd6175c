"""Products of a matrix along the tokens: triangular, or Toeplitz by the fast Fourier transform.

What is notable:
- a causal matrix is half zeros, which the fast form of its product skips;
- a Toeplitz matrix is a convolution, which the fast Fourier transform applies without making the matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..support.checks import require
from . import fast
from .fast import on_cpu


@on_cpu(fast.tiled_product)
def lower_product(weight: Tensor, x: Tensor) -> Tensor:
    """The product with the lower triangle of ``[seq, seq]``, as one with the masked matrix."""
    return torch.bmm(weight.tril().to(x.dtype).expand(x.shape[0], -1, -1), x)


def triangular_product(weight: Tensor, x: Tensor) -> Tensor:
    r"""The causal product :math:`y_t = \sum_{s \le t} W_{ts} x_s`.

    On the CPU it takes fewer multiply-adds than the whole matrix: as many at 64 tokens, 0.62 of them at 256, and half
    of them for long sequences. Elsewhere, and under compilation, export and ``torch.func`` transforms, it is one
    product with the masked matrix, which fewer and larger calls make faster.

    Args:
        weight: ``[n, n]`` with ``n`` at least ``seq``; of its upper left ``[seq, seq]``, what is above the diagonal is
            neither read nor given a gradient.
        x: ``[batch, seq, channels]``.

    Returns:
        ``[batch, seq, channels]``. Under autocast it has the low precision.

    Raises:
        ValueError: if the matrix is smaller than the sequence.
    """
    T, n = x.shape[1], min(weight.shape)
    require(n >= T, "weight.shape", tuple(weight.shape), "at least as many rows and columns as there are tokens")
    return lower_product(weight[:T, :T], x)


@on_cpu(fast.unfolded)
def diagonals(kernel: Tensor, T: int) -> Tensor:
    """A kernel ``[2 * T - 1]`` as a matrix ``[T, T]``: each row is the one above, moved by one."""
    return kernel.flip(0).as_strided((T, T), (1, 1)).flip(0)


def toeplitz(kernel: Tensor) -> Tensor:
    r"""The matrix :math:`W_{ts} = k_{t-s}`, ``[seq, seq]``.

    Args:
        kernel: ``[2 * seq - 1]``; the weights of the offsets :math:`t - s` from ``1 - seq`` to ``seq - 1``.

    Raises:
        ValueError: if the number of weights is not odd.
    """
    n = kernel.shape[0]
    require(n % 2 == 1, "kernel.shape", tuple(kernel.shape), "an odd number of weights, 2 * seq - 1")
    return diagonals(kernel, (n + 1) // 2)


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
