"""Shortening a sequence, and bringing it back to full length: the two ends of an hourglass.

What is notable:
- window j of a shortened sequence ends at token j·k, so that token t may read window ⌊t/k⌋, whatever the length;
- nothing is cut off and nothing is padded on the right: outputs do not depend on how long the sequence is;
- one rule masks both directions of attention resampling: a query sees the keys at or before its own token.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..support.checks import require, require_bool, require_input, require_int
from . import fast
from .attention import Attention
from .cache import Cache
from .transformer import FeedForward


class ShiftRight(nn.Module):
    """Put ``n`` zeros, or with a cache the last ``n`` inputs, before the sequence; nothing falls off its end.

    Args:
        n: number of positions.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, n + seq, d_model]``.

    Raises:
        TypeError, ValueError: if ``n`` is not an int of at least 0.
    """

    def __init__(self, n: int) -> None:
        super().__init__()
        require_int("n", n, at_least=0)
        self.n = n

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        return F.pad(x, (0, 0, self.n, 0)) if cache is None else cache.with_past(self, x, self.n)

    def extra_repr(self) -> str:
        return str(self.n)


class Shortening(nn.Module):
    r"""What the shortenings have in common: windows of ``factor`` tokens.

    Causal window :math:`j` holds the tokens :math:`jk - k + 1` to :math:`jk`, with zeros before the first token:
    of :math:`T` tokens, :math:`\lfloor (T - 1) / k \rfloor + 1` windows. Window :math:`j` that is not causal holds
    the tokens :math:`jk` to :math:`jk + k - 1`, the last one with zeros after the last token.

    Args:
        d_model: channels.
        factor: tokens in a window, :math:`k`.
        causal: whether windows end, or begin, at multiples of ``factor``.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, windows, d_model]``; with a cache, the windows that became complete.

    Raises:
        TypeError: if a size is not an int, or ``causal`` not a bool.
        ValueError: if a size is below 1, for an input of other dimensions, or a cache where windows are not causal.

    Source: Nawrot et al., Hierarchical Transformers Are More Efficient Language Models, 2021, section 2.
    """

    def __init__(self, d_model: int, factor: int, causal: bool = True) -> None:
        super().__init__()
        require_int("d_model", d_model, at_least=1)
        require_int("factor", factor, at_least=1)
        require_bool("causal", causal)
        self.d_model, self.factor, self.causal = d_model, factor, causal
        self.shift = ShiftRight(factor - 1 if causal else 0)

    def windows(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        """The windows ``[batch, windows, factor, d_model]`` that end in ``x``."""
        require_input("x", x, self.d_model)
        require(self.causal or cache is None, "cache", cache, "None, for a shortening that is not causal")
        T, k = x.shape[1], self.factor
        phase = 0 if cache is None else cache.phase(self, T, k)
        skip = -phase % k if self.causal else 0  # tokens until the next window ends
        x = self.shift(x, cache) if self.causal else F.pad(x, (0, 0, 0, -T % k))  # (B, k-1+T, D) or (B, n*k, D)
        n = (x.shape[1] - skip) // k
        first = skip + k * torch.arange(n, device=x.device)  # a slice would tie a compiled program to this length
        return x[:, first[:, None] + torch.arange(k, device=x.device)]  # (B, n, k, D)

    def extra_repr(self) -> str:
        return f"factor={self.factor}, causal={self.causal}"


class AvgPoolShortening(Shortening):
    r"""The mean of each window, :math:`x'_j = \frac1k \sum_{i=0}^{k-1} x_{jk-i}`.

    Zeros before the first token count, as in the released code; after the last one, where windows are not causal, not.
    Arguments, shapes and errors are those of :class:`Shortening`.
    """

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        windows = self.windows(x, cache)  # (B, n, k, D)
        size = torch.full((windows.shape[1], 1), self.factor, device=x.device)
        if not self.causal:
            size[-1:] -= -x.shape[1] % self.factor  # the last window may be incomplete
        return windows.sum(2) / size.to(x.dtype)  # (B, n, D)


class LinearPoolingShortening(Shortening):
    r"""A projection of each window: :math:`x'_j = W\,[x_{jk-k+1}; \dots; x_{jk}]`, with :math:`W` ``[D, k * D]``.

    Arguments, shapes and errors are those of :class:`Shortening`.
    """

    def __init__(self, d_model: int, factor: int, causal: bool = True) -> None:
        super().__init__(d_model, factor, causal)
        self.project = nn.Linear(factor * d_model, d_model, bias=False)

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        return self.project(self.windows(x, cache).flatten(2))  # (B, n, kD) to (B, n, D)


class NaiveUpSampling(nn.Module):
    r"""Each token gets the shortened vector of its window added: :math:`y_t = x_t + x'_{\lfloor t/k \rfloor}`.

    Args:
        d_model: channels.
        factor: tokens for each shortened vector, :math:`k`.

    Shapes:
        ``[batch, seq, d_model]`` and ``[batch, windows, d_model]`` to ``[batch, seq, d_model]``.

    Raises:
        TypeError: for a size that is not an int.
        ValueError: for a size below 1, or if there is not one vector for each window of the tokens.

    Source: Nawrot et al., 2021, section 2.
    """

    def __init__(self, d_model: int, factor: int) -> None:
        super().__init__()
        require_int("d_model", d_model, at_least=1)
        require_int("factor", factor, at_least=1)
        self.d_model, self.factor = d_model, factor
        self.shift = ShiftRight(factor)

    def expand(self, short: Tensor) -> Tensor:
        """``factor`` vectors from each: ``[batch, windows, factor, d_model]``."""
        return short.unsqueeze(2).expand(-1, -1, self.factor, -1)  # (B, n, k, D)

    def forward(self, x: Tensor, short: Tensor, cache: Cache | None = None) -> Tensor:
        # The window of the first tokens may have come with the piece before: a cache keeps its vectors.
        require_input("x", x, self.d_model)
        require_input("short", short, self.d_model)
        T, k = x.shape[1], self.factor
        phase = 0 if cache is None else cache.phase(self, T, k)
        expected = (x.shape[0], -(-(phase + T) // k) - int(phase > 0), self.d_model)
        require(fast.has_shape(short, expected), "short.shape", tuple(short.shape), f"{expected}, the windows of x")
        vectors = self.expand(short)  # (B, n, k, D)
        if cache is not None:
            skip = phase or k  # a window that the piece before began goes on; else the next one begins
            long = self.shift(vectors.flatten(1, 2), cache)  # (B, k + n*k, D): those of the last window come first
            return x + long[:, skip : skip + T]
        t = torch.arange(T, device=x.device)  # as for the windows
        return x + vectors[:, t // k, t % k]  # (B, T, D)

    def extra_repr(self) -> str:
        return f"factor={self.factor}"


class LinearUpSampling(NaiveUpSampling):
    r"""``factor`` vectors from each shortened one: :math:`y_t = x_t + V_{t \bmod k}\, x'_{\lfloor t/k \rfloor}`.

    The :math:`V_i`, ``[D, D]`` each, are parts of one projection. Arguments, shapes and errors are those of
    :class:`NaiveUpSampling`.
    """

    def __init__(self, d_model: int, factor: int) -> None:
        super().__init__(d_model, factor)
        self.project = nn.Linear(d_model, factor * d_model, bias=False)

    def expand(self, short: Tensor) -> Tensor:
        return self.project(short).unflatten(2, (self.factor, self.d_model))  # (B, n, k, D)


class CrossAttention(Attention):
    """Attention from one sequence to another, both with positions counted in tokens of the longer one.

    A query sees the keys whose position is at most its own; all of them if not causal. Both rotate by their positions.

    Args:
        d_model, n_heads: as for :class:`MultiHeadAttention`.
        query_step: tokens from one query to the next.
        key_step: tokens from one key to the next.
        causal: whether to mask.

    Shapes:
        queries ``[batch, n, d_model]`` and memory ``[batch, m, d_model]`` to ``[batch, n, d_model]``. With a cache,
        both are what came since the last call.
    """

    def __init__(self, d_model: int, n_heads: int, *, query_step: int, key_step: int, causal: bool = True) -> None:
        require_int("query_step", query_step, at_least=1)
        require_int("key_step", key_step, at_least=1)
        super().__init__(d_model, n_heads, causal=causal, query_step=query_step, key_step=key_step)

    def forward(self, x: Tensor, memory: Tensor, cache: Cache | None = None) -> Tensor:
        require(self.causal or cache is None, "cache", cache, "None, for attention that is not causal")
        require_input("x", x, self.d_model)
        require_input("memory", memory, self.d_model)
        start = seen = 0 if cache is None else cache.length(self)
        if cache is not None:  # keys are counted when they are appended, queries by the name of their projection
            start = self.query_step * cache.advance(self.query, x.shape[1])
        q, k, v = self.split(self.query(x)), self.split(self.key(memory)), self.split(self.value(memory))
        q, k = self.turn(q, k, start, seen)  # (B, H, n, K) and (B, H, m, K)
        return self.attend(q, k, v, start=start, cache=cache)  # (B, n, D)

    def attention_map(self, x: Tensor, memory: Tensor) -> Tensor:
        """The weights ``[batch, n_heads, n, m]``."""
        q, k = self.turn(self.split(self.query(x)), self.split(self.key(memory)), 0, 0)
        return self.weights(q, k)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, query_step={self.query_step}, key_step={self.key_step}"


class Resampling(nn.Module):
    r"""Attention-based resampling: :math:`h = u + A(\mathrm{LN}(u), m)`, then :math:`y = h + F(\mathrm{LN}(h))`.

    Args:
        attention: from the resampled sequence :math:`u` to the other one, :math:`m`.
        feed_forward: the position-wise block :math:`F`.

    Source: Nawrot et al., 2021, section 2, with the norms of a pre-norm layer.
    """

    def __init__(self, attention: CrossAttention, feed_forward: FeedForward) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.norm1, self.norm2 = nn.LayerNorm(attention.d_model), nn.LayerNorm(attention.d_model)

    def resample(self, u: Tensor, memory: Tensor, cache: Cache | None) -> Tensor:
        """The block's output, ``[batch, n, d_model]`` like ``u``."""
        h = u + self.attention(self.norm1(u), memory, cache)
        return h + self.feed_forward(self.norm2(h))

    def branch_ends(self) -> list[nn.Linear]:
        """The last projections of both branches, which :func:`initialize` starts at zero."""
        return [self.attention.output, self.feed_forward.down]


class AttentionBasedShortening(Resampling):
    r"""Pool, then let the result look at all tokens so far: :math:`u = S(x)`, :math:`m = x`.

    Args:
        pool: the shortening :math:`S`.
        n_heads: attention heads.
        feed_forward: the position-wise block.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, windows, d_model]``.

    Raises:
        TypeError, ValueError: as for the attention.
    """

    def __init__(self, pool: Shortening, n_heads: int, feed_forward: FeedForward) -> None:
        attention = CrossAttention(pool.d_model, n_heads, query_step=pool.factor, key_step=1, causal=pool.causal)
        super().__init__(attention, feed_forward)
        self.pool, self.factor = pool, pool.factor

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        return self.resample(self.pool(x, cache), x, cache)


class AttentionBasedUpSampling(Resampling):
    r"""Up-sample, then let each token look at all shortened vectors so far: :math:`u = U(x, x')`, :math:`m = x'`.

    Args:
        expand: the up-sampling :math:`U`.
        n_heads: attention heads.
        feed_forward: the position-wise block.
        causal: whether a token sees the windows up to its own only.

    Shapes:
        ``[batch, seq, d_model]`` and ``[batch, windows, d_model]`` to ``[batch, seq, d_model]``.

    Raises:
        TypeError, ValueError: as for the attention.
    """

    def __init__(
        self, expand: NaiveUpSampling, n_heads: int, feed_forward: FeedForward, *, causal: bool = True
    ) -> None:
        attention = CrossAttention(expand.d_model, n_heads, query_step=1, key_step=expand.factor, causal=causal)
        super().__init__(attention, feed_forward)
        self.expand, self.factor = expand, expand.factor

    def forward(self, x: Tensor, short: Tensor, cache: Cache | None = None) -> Tensor:
        return self.resample(self.expand(x, short, cache), short, cache)
