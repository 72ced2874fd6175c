"""Primer EZ: a Transformer with two small changes.

What is notable:
- the activation is squared: ``max(x, 0) ** 2``;
- after each of the query, key and value projections, a depthwise causal convolution mixes three tokens;
- how heads share kernels is the shape of the weight, nothing else: broadcasting does the rest;
- the convolution is ``conv2d`` on a channels-last view, so that no transposed copy of the activations is made.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .cache import Cache
from .checks import require_int, require_known
from .transformer import MultiHeadAttention, check_heads


class SquaredReLU(nn.Module):
    r"""The activation :math:`y = \max(x, 0)^2`, element by element.

    Source: So et al., Primer, 2021, section 4.
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x).square()


SHARINGS = ("heads", "none", "all")


class CausalDepthwiseConv(nn.Module):
    r"""Each channel becomes a weighted sum of its own last ``kernel_size`` values.

    :math:`y_{t,c} = \sum_{j=0}^{W-1} w_{c,j}\, x_{t-j,c}`, with :math:`x_{s,c} = 0` for :math:`s < 0`.
    ``weight[..., j]`` is the weight of the token :math:`j` steps back; it starts at 0.5 for the current token and
    at 0.5 / W for each earlier one.

    Args:
        d_model: channels, laid out head after head.
        n_heads: number of heads; divides ``d_model``.
        kernel_size: tokens in the sum, the current one included.
        sharing: ``"heads"``: one kernel for each channel of a head, shared by all heads; ``"none"``: one for each
            channel of each head; ``"all"``: one.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``; the weight is
        ``[1 or n_heads, 1 or d_head, kernel_size]``.

    Raises:
        TypeError: if ``kernel_size`` is not an int.
        ValueError: if ``kernel_size < 1``, the sharing is unknown or ``n_heads`` does not divide ``d_model``.

    Source: So et al., 2021, section 4, and the paper's released code (sharing ``"none"``).
    """

    def __init__(self, d_model: int, n_heads: int, kernel_size: int = 3, sharing: str = "heads") -> None:
        super().__init__()
        require_int("kernel_size", kernel_size, at_least=1)
        require_known("sharing", sharing, SHARINGS)
        check_heads(d_model, n_heads, rotary=False)
        self.d_model, self.n_heads, self.kernel_size = d_model, n_heads, kernel_size
        heads = n_heads if sharing == "none" else 1
        channels = 1 if sharing == "all" else d_model // n_heads
        self.weight = nn.Parameter(torch.full((heads, channels, kernel_size), 0.5 / kernel_size))
        nn.init.constant_(self.weight[..., 0], 0.5)

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        D, W = self.d_model, self.kernel_size
        kernel = self.weight.flip(2).expand(self.n_heads, D // self.n_heads, W)  # (H, D/H, W)
        kernel = kernel.reshape(D, 1, 1, W)
        past = W - 1
        x = F.pad(x, (0, 0, past, 0)) if cache is None else cache.with_past(self, x, past)  # (B, W-1+T, D)
        y = F.conv2d(x.mT.unsqueeze(2), kernel, groups=D)  # (B, D, 1, T), channels last in memory
        return y.squeeze(2).mT  # (B, T, D)


class MultiDConvHeadAttention(MultiHeadAttention):
    """Multi-head attention whose queries, keys and values pass through a causal depthwise convolution.

    Args:
        d_model, n_heads: as for :class:`MultiHeadAttention`.
        kernel_size, sharing: as for :class:`CausalDepthwiseConv`.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``.

    Source: So et al., 2021, section 4.
    """

    def __init__(self, d_model: int, n_heads: int, kernel_size: int = 3, sharing: str = "heads") -> None:
        super().__init__(d_model, n_heads)
        self.conv_q = CausalDepthwiseConv(d_model, n_heads, kernel_size, sharing)
        self.conv_k = CausalDepthwiseConv(d_model, n_heads, kernel_size, sharing)
        self.conv_v = CausalDepthwiseConv(d_model, n_heads, kernel_size, sharing)

    def project(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project(x)
        return self.conv_q(q, cache), self.conv_k(k, cache), self.conv_v(v, cache)  # (B, T, D) each
