"""Hourglass: a Transformer that does most of its work on a shortened sequence.

What is notable:
- window j of a shortened sequence ends at token j·k, so that token t may read window ⌊t/k⌋, whatever the length;
- nothing is cut off and nothing is padded on the right: outputs do not depend on how long the sequence is;
- one rule masks both directions of attention resampling: a query sees the keys at or before its own token;
- with a cache, the shortened layers run once every k tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .cache import Cache
from .checks import require, require_int, require_known
from .transformer import FeedForward, MultiHeadAttention, Stack, rotate


class ShiftRight(nn.Module):
    """Put ``shift`` zeros, or with a cache the last ``shift`` inputs, before the sequence; nothing falls off its end.

    Args:
        shift: number of positions.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, shift + seq, d_model]``.
    """

    def __init__(self, shift: int) -> None:
        super().__init__()
        require_int("shift", shift, at_least=0)
        self.shift = shift

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        return F.pad(x, (0, 0, self.shift, 0)) if cache is None else cache.with_past(self, x, self.shift)


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

    Source: Nawrot et al., Hierarchical Transformers Are More Efficient Language Models, 2021, section 2.
    """

    def __init__(self, d_model: int, factor: int, causal: bool = True) -> None:
        super().__init__()
        require_int("factor", factor, at_least=1)
        self.d_model, self.factor, self.causal = d_model, factor, causal
        self.shift = ShiftRight(factor - 1 if causal else 0)

    def windows(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        """The windows ``[batch, windows, factor, d_model]`` that end in ``x``."""
        T, k = x.shape[1], self.factor
        start = cache.advance(self, T) if cache is not None else 0
        skip = -start % k if self.causal else 0  # tokens until the next window ends
        x = self.shift(x, cache) if self.causal else F.pad(x, (0, 0, 0, -T % k))  # (B, k-1+T, D)
        n = (x.shape[1] - skip) // k
        return x[:, skip : skip + n * k].unflatten(1, (n, k))  # (B, n, k, D)


class AvgPoolShortening(Shortening):
    """The mean of each window; zeros before the first token count, as in the released code."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        windows = self.windows(x, cache)  # (B, n, k, D)
        size = torch.full((windows.shape[1], 1), self.factor, device=x.device)
        if not self.causal:
            size[-1] -= -x.shape[1] % self.factor  # the last window may be incomplete
        return windows.sum(2) / size.to(x.dtype)  # (B, n, D)


class LinearPoolingShortening(Shortening):
    """A projection of each window's ``factor * d_model`` numbers to ``d_model``."""

    def __init__(self, d_model: int, factor: int, causal: bool = True) -> None:
        super().__init__(d_model, factor, causal)
        self.project = nn.Linear(factor * d_model, d_model, bias=False)

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        return self.project(self.windows(x, cache).flatten(2))  # (B, n, D)


class NaiveUpSampling(nn.Module):
    r"""Each token gets the shortened vector of its window added: :math:`y_t = x_t + x'_{\lfloor t/k \rfloor}`.

    Args:
        d_model: channels.
        factor: tokens for each shortened vector, :math:`k`.

    Shapes:
        ``[batch, seq, d_model]`` and ``[batch, windows, d_model]`` to ``[batch, seq, d_model]``.

    Source: Nawrot et al., 2021, section 2.
    """

    def __init__(self, d_model: int, factor: int) -> None:
        super().__init__()
        require_int("factor", factor, at_least=1)
        self.d_model, self.factor = d_model, factor
        self.shift = ShiftRight(factor)

    def expand(self, short: Tensor) -> Tensor:
        """``factor`` vectors from each: ``[batch, windows * factor, d_model]``."""
        return short.repeat_interleave(self.factor, dim=1)

    def forward(self, x: Tensor, short: Tensor, cache: Cache | None = None) -> Tensor:
        T, k = x.shape[1], self.factor
        start = cache.advance(self, T) if cache is not None else 0
        long = self.shift(self.expand(short), cache)  # (B, k + n*k, D): those of the last window come first
        skip = k - -start % k
        return x + long[:, skip : skip + T]


class LinearUpSampling(NaiveUpSampling):
    """Like :class:`NaiveUpSampling`, but each shortened vector is projected to ``factor`` different ones."""

    def __init__(self, d_model: int, factor: int) -> None:
        super().__init__(d_model, factor)
        self.project = nn.Linear(d_model, factor * d_model, bias=False)

    def expand(self, short: Tensor) -> Tensor:
        return self.project(short).unflatten(2, (self.factor, self.d_model)).flatten(1, 2)  # (B, n*k, D)


class CrossAttention(MultiHeadAttention):
    """Attention from one sequence to another, both with positions counted in tokens of the longer one.

    A query sees the keys whose position is at most its own; all of them if not causal. Both rotate by their positions.

    Args:
        d_model, n_heads: as for :class:`MultiHeadAttention`.
        query_step: tokens from one query to the next.
        key_step: tokens from one key to the next.
        causal: whether to mask.

    Shapes:
        queries ``[batch, n, d_model]`` and memory ``[batch, m, d_model]`` to ``[batch, n, d_model]``; ``start`` is the
        position of the first query. With a cache, the memory is what came since the last call.
    """

    def __init__(self, d_model: int, n_heads: int, query_step: int, key_step: int, causal: bool = True) -> None:
        super().__init__(d_model, n_heads)
        self.query_step, self.key_step, self.causal = query_step, key_step, causal

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.n_heads, self.d_model // self.n_heads).transpose(1, 2)  # (B, H, T, K)

    def mask(self, start: int, n: int, m: int, device: torch.device | None = None) -> Tensor:
        """Which of ``m`` keys each of ``n`` queries from position ``start`` sees: bool ``[n, m]``."""
        queries = start + self.query_step * torch.arange(n, device=device)
        return self.key_step * torch.arange(m, device=device) <= queries[:, None]

    def forward(  # type: ignore[override]  # two sequences
        self, x: Tensor, memory: Tensor, start: int = 0, cache: Cache | None = None
    ) -> Tensor:
        seen = cache.length(self) if cache is not None else 0
        q = rotate(self.split(self.query(x)), start, self.query_step)  # (B, H, n, K)
        k = rotate(self.split(self.key(memory)), seen * self.key_step, self.key_step)  # (B, H, m, K)
        v = self.split(self.value(memory))
        if cache is not None:
            k, v = cache.append(self, k, v)
        mask = self.mask(start, q.shape[2], k.shape[2], x.device) if self.causal else None
        y = F.scaled_dot_product_attention(q, k, v, mask)  # (B, H, n, K)
        return self.output(y.transpose(1, 2).flatten(2))  # (B, n, D)

    def attention_map(self, x: Tensor, memory: Tensor) -> Tensor:  # type: ignore[override]  # two sequences
        """The weights ``[batch, n_heads, n, m]``."""
        q = rotate(self.split(self.query(x)), 0, self.query_step)  # (B, H, n, K)
        k = rotate(self.split(self.key(memory)), 0, self.key_step)  # (B, H, m, K)
        scores = q @ k.mT / q.shape[-1] ** 0.5  # (B, H, n, m)
        hidden = ~self.mask(0, x.shape[1], memory.shape[1], x.device) & self.causal
        return scores.masked_fill(hidden, -torch.inf).softmax(-1)


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

    def resample(self, u: Tensor, memory: Tensor, start: int, cache: Cache | None) -> Tensor:
        """The block's output; ``start`` is the position of the first vector of ``u``, in tokens."""
        h = u + self.attention(self.norm1(u), memory, start, cache)
        return h + self.feed_forward(self.norm2(h))


class AttentionBasedShortening(Resampling):
    r"""Pool, then let the result look at all tokens so far: :math:`u = S(x)`, :math:`m = x`.

    Args:
        pool: the shortening :math:`S`.
        n_heads: attention heads.
        feed_forward: the position-wise block.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, windows, d_model]``.
    """

    def __init__(self, pool: Shortening, n_heads: int, feed_forward: FeedForward) -> None:
        super().__init__(CrossAttention(pool.d_model, n_heads, pool.factor, 1, pool.causal), feed_forward)
        self.pool, self.factor = pool, pool.factor

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        start = cache.length(self.pool) if cache is not None else 0
        return self.resample(self.pool(x, cache), x, start + -start % self.pool.factor, cache)


class AttentionBasedUpSampling(Resampling):
    r"""Up-sample, then let each token look at all shortened vectors so far: :math:`u = U(x, x')`, :math:`m = x'`.

    Args:
        up_sample: the up-sampling :math:`U`.
        n_heads: attention heads.
        feed_forward: the position-wise block.
        causal: whether a token sees the windows up to its own only.

    Shapes:
        ``[batch, seq, d_model]`` and ``[batch, windows, d_model]`` to ``[batch, seq, d_model]``.
    """

    def __init__(
        self, up_sample: NaiveUpSampling, n_heads: int, feed_forward: FeedForward, causal: bool = True
    ) -> None:
        super().__init__(CrossAttention(up_sample.d_model, n_heads, 1, up_sample.factor, causal), feed_forward)
        self.up_sample, self.factor = up_sample, up_sample.factor

    def forward(self, x: Tensor, short: Tensor, cache: Cache | None = None) -> Tensor:
        start = cache.length(self.up_sample) if cache is not None else 0
        return self.resample(self.up_sample(x, short, cache), short, start, cache)


class Hourglass(nn.Module):
    r"""Layers on all tokens, a body on the shortened sequence, layers on all tokens: :math:`k` times less work inside.

    :math:`x = \mathrm{LN}(B(x))`, :math:`x' = \mathrm{LN}(I(S(x)))`, :math:`y = A(U(x, x'))`, where the body
    :math:`I` is a stack of layers or another hourglass.

    Args:
        before, after: the layers :math:`B` and :math:`A` at full length, called with ``(x, cache)``.
        shorten: the shortening :math:`S`.
        inside: the body :math:`I`, called with ``(x, cache)``.
        up_sample: the up-sampling :math:`U`, called with ``(x, short, cache)``.
        d_model: channels.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``.

    Raises:
        ValueError: for a sequence without tokens, or a cache that another model has used.

    Source: Nawrot et al., 2021, section 2; LayerNorm after each stack as in the released code, the last one being
    the language model's.
    """

    def __init__(
        self, before: nn.Module, shorten: nn.Module, inside: nn.Module, up_sample: nn.Module, after: nn.Module,
        d_model: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.d_model = d_model
        self.before, self.norm_before = before, nn.LayerNorm(d_model)
        self.shorten, self.up_sample = shorten, up_sample
        self.inside, self.norm_inside = inside, nn.LayerNorm(d_model)
        self.after = after

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        require(x.shape[1] > 0, "the sequence length", x.shape[1], "at least one token")
        if cache is not None:
            cache.check_owner(self)
        x = self.norm_before(self.before(x, cache))  # (B, T, D)
        short = self.shorten(x, cache)  # (B, n, D): the windows that became complete
        if short.shape[1] > 0:
            short = self.norm_inside(self.inside(short, cache))
        return self.after(self.up_sample(x, short, cache), cache)  # (B, T, D)


SHORTENINGS = ("average", "linear", "attention")
UP_SAMPLINGS = ("naive", "linear", "attention")


def parse_hierarchy(hierarchy: str) -> tuple[list[int], list[int]]:
    """The paper's notation, layers@factor from the first stack to the last, as layers and factors of each level.

    ``"2@1 4@2 8@6 4@2 2@1"`` is two layers on all tokens, four on every second one, eight on every sixth, and back:
    ``([2, 4, 8], [2, 3])``.

    Args:
        hierarchy: stacks separated by spaces; factors count from the full length and start with 1.

    Raises:
        TypeError: if it is not a string.
        ValueError: if a stack does not parse, the whole is no palindrome, or a factor does not divide the next.
    """
    require(isinstance(hierarchy, str), "hierarchy", hierarchy, "a string such as '2@1 6@3 2@1'", TypeError)
    stacks = hierarchy.split()
    for n, stack in enumerate(stacks, start=1):
        layers, _, factor = stack.partition("@")
        good = layers.isdecimal() and factor.isdecimal() and int(factor) > 0
        require(good, f"stack {n} of the hierarchy", stack, "layers@factor, two whole numbers, such as '2@1'")
    require(stacks == stacks[::-1] and len(stacks) % 2 == 1, "hierarchy", hierarchy, "the same read from its end")
    levels = [tuple(map(int, stack.split("@"))) for stack in stacks[: len(stacks) // 2 + 1]]
    totals = [factor for _, factor in levels]
    require(totals[0] == 1 and len(totals) > 1, "hierarchy", hierarchy, "a first stack @1 and another one inside")
    for outer, inner in pairwise(totals):
        require(
            inner % outer == 0, f"factor {inner} of the hierarchy", hierarchy, f"a multiple of {outer}, the one before"
        )
    return [layers for layers, _ in levels], [inner // outer for outer, inner in pairwise(totals)]


def build_hourglass(
    d_model: int,
    n_heads: int,
    d_ff: int,
    n_layers: Sequence[int],
    factors: Sequence[int],
    layer: Callable[[], nn.Module],
    shortening: str = "average",
    up_sampling: str = "naive",
    pooling: str = "average",
    expansion: str = "naive",
    causal: bool = True,
) -> Hourglass:
    """An :class:`Hourglass` of any depth.

    Args:
        d_model, n_heads, d_ff: sizes, for attention-based resampling.
        n_layers: layers before and after each level from the outside, and of the innermost one.
        factors: how much shorter each level is than the one around it; one number fewer than ``n_layers``.
        layer: makes a layer.
        shortening: one of ``"average"``, ``"linear"`` and ``"attention"``.
        up_sampling: one of ``"naive"``, ``"linear"`` and ``"attention"``.
        pooling: what attention-based shortening starts from, ``"average"`` or ``"linear"``.
        expansion: what attention-based up-sampling starts from, ``"naive"`` or ``"linear"``.
        causal: whether a token may see only earlier ones; the layers must agree.

    Raises:
        TypeError: if a factor or a number of layers is not an int.
        ValueError: if there is no factor, one is below 1, the lists do not match, or a name is unknown.
    """
    require_known("shortening", shortening, SHORTENINGS)
    require_known("up_sampling", up_sampling, UP_SAMPLINGS)
    require_known("pooling", pooling, SHORTENINGS[:2])
    require_known("expansion", expansion, UP_SAMPLINGS[:2])
    require(len(factors) > 0, "factors", list(factors), "at least one factor")
    for factor in factors:
        require_int("factor", factor, at_least=1)
    for n in n_layers:
        require_int("n_layers", n, at_least=0)
    require(len(n_layers) == len(factors) + 1, "n_layers", list(n_layers), f"{len(factors) + 1} numbers")
    d, k = d_model, factors[0]
    linear = "linear" in (shortening, pooling if shortening == "attention" else "")
    pool = (LinearPoolingShortening if linear else AvgPoolShortening)(d, k, causal)
    linear = "linear" in (up_sampling, expansion if up_sampling == "attention" else "")
    expand = (LinearUpSampling if linear else NaiveUpSampling)(d, k)
    shorten: nn.Module = pool
    if shortening == "attention":
        shorten = AttentionBasedShortening(pool, n_heads, FeedForward(d, d_ff, nn.ReLU()))
    up_sample: nn.Module = expand
    if up_sampling == "attention":
        up_sample = AttentionBasedUpSampling(expand, n_heads, FeedForward(d, d_ff, nn.ReLU()), causal)

    def stack(n: int) -> Stack:
        return Stack([layer() for _ in range(n)])

    if len(factors) == 1:
        inside: nn.Module = stack(n_layers[1])
    else:
        inside = build_hourglass(
            d, n_heads, d_ff, n_layers[1:], factors[1:], layer, shortening, up_sampling, pooling, expansion, causal
        )
    return Hourglass(stack(n_layers[0]), shorten, inside, up_sample, stack(n_layers[0]), d)
