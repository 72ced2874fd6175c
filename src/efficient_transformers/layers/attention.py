"""Attention with rotary positions, as all families of the book have it.

What is notable:
- rotary positions turn neighboring pairs of channels, as if each were a complex number;
- attention is PyTorch's fused kernel: no ``[seq, seq]`` matrix of weights is stored unless somebody asks;
- one rule masks every attention of the book: a query sees the keys whose position is at most its own;
- what a subclass adds is where queries, keys and values come from.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..support.checks import require, require_bool, require_input, require_int, require_probability
from . import fast
from .cache import Cache
from .fast import on_cpu


@on_cpu(fast.rotate_complex, where=fast.fits_registers)
def rotate_pairs(x: Tensor, start: int, step: int) -> Tensor:
    """:func:`rotate`, without its checks."""
    T, K = x.shape[-2:]
    exact = torch.promote_types(x.dtype, torch.float32)  # angles of half precision would be far too coarse
    theta = 10000.0 ** (-torch.arange(0, K, 2, device=x.device, dtype=exact) / K)  # (K/2,)
    angle = (start + step * torch.arange(T, device=x.device))[:, None] * theta  # (T, K/2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    real, imag = x.view(*x.shape[:-1], K // 2, 2).unbind(-1)  # (..., T, K/2) each
    return torch.stack([real * cos - imag * sin, real * sin + imag * cos], dim=-1).flatten(-2)  # (..., T, K)


def rotate(x: Tensor, start: int = 0, step: int = 1) -> Tensor:
    r"""Rotary positions: turn each pair of channels by an angle proportional to the position.

    With :math:`\theta_i = 10000^{-2i/K}`, the pair of channels :math:`(2i, 2i + 1)` at position :math:`t`, read as
    a complex number, is multiplied by :math:`e^{\mathrm{i} t \theta_i}`.

    Args:
        x: queries or keys, ``[..., seq, K]`` with even ``K``.
        start: the position of the first token.
        step: from one token's position to the next.

    Returns:
        The rotated tensor, of the same shape.

    Raises:
        TypeError: if the tensor is not of floating-point numbers.
        ValueError: if ``K`` is odd.

    Source: Su et al., RoFormer, 2021, section 3.2. The book builds it as ``turn_pairs``.
    """
    require(x.is_floating_point(), "x.dtype", x.dtype, "a floating-point type", TypeError)
    require(x.shape[-1] % 2 == 0, "the number of channels", x.shape[-1], "an even number, for rotary positions")
    return rotate_pairs(x, start, step)


def causal_mask(T: int, S: int, device: torch.device | None = None) -> Tensor:
    """Which of ``S`` keys each of the last ``T`` positions sees: bool ``[T, S]``, True where it does."""
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)


class Attention(nn.Module):
    r"""What all attentions of the book share: projections, heads, and who sees whom.

    :math:`\mathrm{softmax}(Q K^\top / \sqrt{K})\, V\, W_O` in each of ``n_heads`` heads. Queries and keys have
    positions, counted in tokens: query :math:`i` sits at ``start + query_step * i``, key :math:`j` at
    ``key_step * j``. A causal query sees the keys at positions up to its own.

    Args:
        d_model: channels of the input.
        n_heads: number of heads.
        rotary: rotate queries and keys by their positions.
        causal: whether to mask.
        query_step, key_step: tokens from one query, or key, to the next.
        d_attention: channels of queries, keys and values, of all heads together; by default ``d_model``.
        d_out: channels of the output; by default ``d_model``.
        dropout: probability of dropping each weight after the softmax, in training alone; the others are divided by
            ``1 - dropout``.

    Source: Vaswani et al., Attention Is All You Need, 2017, section 3.2.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        rotary: bool = True,
        causal: bool = True,
        query_step: int = 1,
        key_step: int = 1,
        d_attention: int | None = None,
        d_out: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        d_attention = d_model if d_attention is None else d_attention
        d_out = d_model if d_out is None else d_out
        require_int("d_model", d_model, at_least=1)
        require_int("d_out", d_out, at_least=1)
        check_heads(d_attention, n_heads, rotary)
        require_bool("causal", causal)
        require_probability("dropout", dropout)
        self.d_model, self.n_heads, self.rotary, self.causal = d_model, n_heads, rotary, causal
        self.query_step, self.key_step, self.dropout = query_step, key_step, dropout
        self.query = nn.Linear(d_model, d_attention, bias=False)
        self.key = nn.Linear(d_model, d_attention, bias=False)
        self.value = nn.Linear(d_model, d_attention, bias=False)
        self.output = nn.Linear(d_attention, d_out, bias=False)

    def split(self, z: Tensor) -> Tensor:
        """Channels as heads: ``[batch, seq, d_attention]`` to ``[batch, n_heads, seq, d_head]``."""
        B, T, D = z.shape
        return z.view(B, T, self.n_heads, D // self.n_heads).transpose(1, 2)  # (B, H, T, K)

    def turn(self, q: Tensor, k: Tensor, start: int, seen: int) -> tuple[Tensor, Tensor]:
        """Rotate queries from position ``start`` on, and keys after ``seen`` others, if this attention is rotary."""
        if not self.rotary:
            return q, k
        return rotate(q, start, self.query_step), rotate(k, seen * self.key_step, self.key_step)

    def visible(self, n: int, m: int, start: int = 0, device: torch.device | None = None) -> Tensor:
        """Which of ``m`` keys each of ``n`` queries from position ``start`` sees: bool ``[n, m]``."""
        if not self.causal:
            return torch.ones(n, m, dtype=torch.bool, device=device)
        queries = start + self.query_step * torch.arange(n, device=device)
        return self.key_step * torch.arange(m, device=device) <= queries[:, None]

    def kernel_mask(self, n: int, m: int, start: int, cached: bool, device: torch.device) -> tuple[bool, Tensor | None]:
        """Who sees whom, for the fused kernel: whether it is a whole triangle, else a mask; None where all see all."""
        if not self.causal or (cached and fast.is_known_before((m - 1) * self.key_step, start)):
            return False, None
        if self.query_step == self.key_step and (not cached or n == m):
            return True, None
        return False, self.visible(n, m, start, device)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        start: int = 0,
        cache: Cache | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The output for heads ``[batch, n_heads, seq, d_head]``; a cache adds the keys and values of before."""
        if cache is not None:
            k, v = cache.append(self, k, v)  # (B, H, S, K)
        triangle, seen = self.kernel_mask(q.shape[2], k.shape[2], start, cache is not None, q.device)
        p = self.dropout if self.training else 0.0
        mask = mask if seen is None else seen
        y = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=p, is_causal=triangle)  # (B, H, T, K)
        return self.output(y.transpose(1, 2).flatten(2))  # (B, T, D)

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        """The weights ``[batch, n_heads, n, m]`` that the fused kernel uses and does not keep."""
        scores = q @ k.mT / q.shape[-1] ** 0.5  # (B, H, n, m)
        visible = self.visible(q.shape[2], k.shape[2], device=q.device)
        return scores.masked_fill(~visible, -torch.inf).softmax(-1)

    def extra_repr(self) -> str:
        dropout = f", dropout={self.dropout}" if self.dropout else ""
        return f"n_heads={self.n_heads}, rotary={self.rotary}, causal={self.causal}{dropout}"


class MultiHeadAttention(Attention):
    r"""Multi-head attention with rotary positions, causal unless asked otherwise.

    :math:`\mathrm{softmax}(Q K^\top / \sqrt{K})\, V` in each of ``n_heads`` heads of ``K = d_model / n_heads``
    channels, where position :math:`t` sees the keys :math:`s \le t`.

    Args:
        d_model: channels of the input and of the output.
        n_heads: number of heads; divides ``d_model``.
        rotary: rotate queries and keys by their positions; without, attention is blind to order but for the mask.
        causal: whether position :math:`t` sees the keys :math:`s \le t`, or all of them.
        dropout: probability of dropping each weight, in training alone.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``.

    Raises:
        TypeError: if a size is not an int, or ``causal`` not a bool.
        ValueError: if ``n_heads`` does not divide ``d_model``, a rotary head has an odd number of channels, the dropout
            is not a probability, or attention that is not causal is called with a cache.

    Source: Vaswani et al., Attention Is All You Need, 2017, section 3.2. The book builds it as ``PlainAttention``.
    """

    def __init__(
        self, d_model: int, n_heads: int, *, rotary: bool = True, causal: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__(d_model, n_heads, rotary=rotary, causal=causal, dropout=dropout)

    def project(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of ``x``, each ``[batch, seq, d_model]``."""
        return self.query(x), self.key(x), self.value(x)

    def heads(self, x: Tensor, start: int = 0, cache: Cache | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values by head, rotated from position ``start`` on: ``[batch, n_heads, seq, d_head]``."""
        require_input("x", x, self.d_model)
        q, k, v = (self.split(z) for z in self.project(x, cache))  # (B, H, T, K) each
        return *self.turn(q, k, start, start), v

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        # With a cache, positions go on where the piece before ended: its length is where this one starts.
        require(self.causal or cache is None, "cache", cache, "None, for attention that is not causal")
        start = 0 if cache is None else cache.length(self)
        return self.attend(*self.heads(x, start, cache), start=start, cache=cache)

    def attention_map(self, x: Tensor) -> Tensor:
        """The weights ``[batch, n_heads, seq, seq]`` that the fused kernel uses and does not keep."""
        q, k, _ = self.heads(x)
        return self.weights(q, k)


def check_heads(d_model: int, n_heads: int, rotary: bool = True) -> None:
    """Raise unless ``n_heads`` divides ``d_model`` into heads that can be rotated."""
    require_int("d_model", d_model, at_least=1)
    require_int("n_heads", n_heads, at_least=1)
    require_bool("rotary", rotary)
    require(d_model % n_heads == 0, "d_model", d_model, f"a multiple of n_heads={n_heads}")
    d_head = d_model // n_heads
    require(not rotary or d_head % 2 == 0, "d_model / n_heads", d_head, "an even number, for rotary positions")
