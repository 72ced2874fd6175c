"""Hourglass: a Transformer that does most of its work on a shortened sequence.

What is notable:
- the body inside is a stack of layers or another hourglass, which is all that any depth takes;
- with a cache, the shortened layers run once every k tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, Self, get_args

from torch import Tensor, nn

from ..support.checks import require, require_input, require_int, require_known, require_module
from .cache import Cache
from .family import Family, Sizes, Stack
from .primer import PrimerEZFamily
from .resampling import (
    AttentionBasedShortening,
    AttentionBasedUpSampling,
    AvgPoolShortening,
    LinearPoolingShortening,
    LinearUpSampling,
    NaiveUpSampling,
    Shortening,
)
from .transformer import FeedForward, TransformerFamily


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
        TypeError: if ``d_model`` is not an int, a stack is not a module, or a shortening or up-sampling has no factor.
        ValueError: if shortening and up-sampling differ in their factor or in whether they are causal, or from the
            hourglass in their channels; for a sequence without tokens, or a cache where the shortening is not causal.

    Source: Nawrot et al., 2021, section 2; LayerNorm after each stack as in the released code, the last one being
    the language model's.
    """

    def __init__(
        self,
        *,
        before: nn.Module,
        shorten: Shortening | AttentionBasedShortening,
        inside: nn.Module,
        up_sample: NaiveUpSampling | AttentionBasedUpSampling,
        after: nn.Module,
        d_model: int,
    ) -> None:
        super().__init__()
        require_int("d_model", d_model, at_least=1)
        for name, module in (("before", before), ("inside", inside), ("after", after)):
            require_module(name, module)
        for name, module in (("shorten", shorten), ("up_sample", up_sample)):
            require(hasattr(module, "factor"), name, type(module).__name__, "a module with a factor", TypeError)
            check_channels(name, module, d_model)
        k = shorten.factor
        require(up_sample.factor == k, "up_sample.factor", up_sample.factor, f"{k}, as the shortening has")
        causal = getattr(getattr(shorten, "attention", shorten), "causal", True)
        reads = getattr(getattr(up_sample, "attention", None), "causal", causal)  # copies read their own window alone
        require(reads == causal, "up_sample.attention.causal", reads, f"{causal}, as the shortening has")
        self.d_model = d_model
        self.before, self.norm_before = before, nn.LayerNorm(d_model)
        self.shorten, self.up_sample = shorten, up_sample
        self.inside, self.norm_inside = inside, nn.LayerNorm(d_model)
        self.after = after

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        require_input("x", x, self.d_model)
        require(x.shape[1] > 0, "the sequence length", x.shape[1], "at least one token")
        x = self.norm_before(self.before(x, cache))  # (B, T, D)
        short = self.shorten(x, cache)  # (B, n, D): the windows that became complete
        if short.shape[1] > 0:
            short = self.norm_inside(self.inside(short, cache))
        return self.after(self.up_sample(x, short, cache), cache)  # (B, T, D)


def check_channels(name: str, module: nn.Module, d_model: int) -> None:
    """Raise unless a resampling and its parts have ``d_model`` channels; a module of the reader's may not say."""
    parts = {f"{name}.{part}": getattr(module, part, None) for part in ("attention", "feed_forward")}
    for of, part in {name: module, **parts}.items():
        channels = getattr(part, "d_model", d_model)
        require(channels == d_model, f"{of}.d_model", channels, f"{d_model}, as the hourglass has")


Pooling = Literal["average", "linear"]
Expansion = Literal["naive", "linear"]
ShorteningName = Literal["average", "linear", "attention"]
UpSamplingName = Literal["naive", "linear", "attention"]
SHORTENINGS: tuple[str, ...] = get_args(ShorteningName)
UP_SAMPLINGS: tuple[str, ...] = get_args(UpSamplingName)


def parse_hierarchy(hierarchy: str) -> tuple[list[int], list[int]]:
    """The paper's notation, ``layers@factor`` from the first stack to the last, as layers and factors of each level.

    ``"2@1 4@2 8@6 4@2 2@1"`` is two layers on all tokens, four on every second one, eight on every sixth, and back:
    ``([2, 4, 8], [2, 3])``.

    Args:
        hierarchy: stacks separated by spaces; factors count from the full length and start with 1.

    Raises:
        TypeError: if it is not a string.
        ValueError: if a stack does not parse, the whole is not a palindrome, or a factor does not divide the next.
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


def check_resampling(shortening: str, up_sampling: str, pooling: str, expansion: str) -> None:
    """Raise unless the names are known, and none is given that nothing would use."""
    require_known("shortening", shortening, SHORTENINGS)
    require_known("up_sampling", up_sampling, UP_SAMPLINGS)
    require_known("pooling", pooling, get_args(Pooling))
    require_known("expansion", expansion, get_args(Expansion))
    used = shortening == "attention" or pooling == "average"
    require(used, "pooling", pooling, f"'average', which is not used, with shortening={shortening!r}")
    used = up_sampling == "attention" or expansion == "naive"
    require(used, "expansion", expansion, f"'naive', which is not used, with up_sampling={up_sampling!r}")


def build_hourglass(
    *,
    d_model: int,
    n_heads: int,
    d_ff: int,
    n_layers: Sequence[int],
    factors: Sequence[int],
    layer: Callable[[], nn.Module],
    shortening: ShorteningName = "average",
    up_sampling: UpSamplingName = "naive",
    pooling: Pooling = "average",
    expansion: Expansion = "naive",
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
        ValueError: if there is no factor, one is below 1, the lists do not match, a name is unknown, or ``pooling``
            or ``expansion`` is given where it is not used.
    """
    check_resampling(shortening, up_sampling, pooling, expansion)
    require(len(factors) > 0, "factors", list(factors), "at least one factor")
    for factor in factors:
        require_int("factor", factor, at_least=1)
    for n in n_layers:
        require_int("n_layers", n, at_least=0)
    require(len(n_layers) == len(factors) + 1, "n_layers", list(n_layers), f"{len(factors) + 1} numbers")

    def stack(n: int) -> Stack:
        return Stack([layer() for _ in range(n)])

    def feed_forward() -> FeedForward:
        return FeedForward(d_model, d_ff, nn.ReLU())

    inside: Stack | Hourglass = stack(n_layers[-1])
    for n, k in zip(reversed(n_layers[:-1]), reversed(factors), strict=True):  # from the inside to the outside
        linear = "linear" in (shortening, pooling)
        pool: Shortening = (LinearPoolingShortening if linear else AvgPoolShortening)(d_model, k, causal)
        linear = "linear" in (up_sampling, expansion)
        expand = (LinearUpSampling if linear else NaiveUpSampling)(d_model, k)
        inside = Hourglass(
            before=stack(n),
            shorten=AttentionBasedShortening(pool, n_heads, feed_forward()) if shortening == "attention" else pool,
            inside=inside,
            up_sample=AttentionBasedUpSampling(expand, n_heads, feed_forward(), causal=causal)
            if up_sampling == "attention"
            else expand,
            after=stack(n),
            d_model=d_model,
        )
    assert isinstance(inside, Hourglass), "there is at least one factor"
    return inside


LAYERS: dict[str, Family] = {"transformer": TransformerFamily(), "primer-ez": PrimerEZFamily()}


@dataclass(frozen=True, kw_only=True)
class HourglassFamily(Family):
    """Hourglass: layers on all tokens around layers on a shortened sequence.

    Args:
        hierarchy: as for :func:`parse_hierarchy`; None for one layer before and one after, where there are that many,
            and the rest on every fourth token.
        shortening, up_sampling, pooling, expansion: as for :func:`build_hourglass`.
        layer: the family whose layers it is made of, with that family's defaults.
    """

    hierarchy: str | None = None
    shortening: ShorteningName = "average"
    up_sampling: UpSamplingName = "naive"
    pooling: Pooling = "average"
    expansion: Expansion = "naive"
    layer: Literal["transformer", "primer-ez"] = "transformer"

    def __post_init__(self) -> None:
        check_resampling(self.shortening, self.up_sampling, self.pooling, self.expansion)
        require_known("layer", self.layer, LAYERS)
        if self.hierarchy is not None:
            parse_hierarchy(self.hierarchy)

    def settle(self, n_layers: int | None) -> tuple[Self, int]:
        if self.hierarchy is None:
            n = self.default_layers if n_layers is None else n_layers
            require_int("n_layers", n, at_least=1)
            outside = min(1, n // 2)
            return replace(self, hierarchy=f"{outside}@1 {n - 2 * outside}@4 {outside}@1"), n
        n_of_level, _ = parse_hierarchy(self.hierarchy)
        total = 2 * sum(n_of_level) - n_of_level[-1]
        expected = f"None or {total}, the layers of {self.hierarchy!r}"
        require(n_layers in (None, total), "n_layers", n_layers, expected)
        return self, total

    def make_layer(self, sizes: Sizes) -> nn.Module:
        return LAYERS[self.layer].make_layer(sizes)

    def make_body(self, sizes: Sizes) -> nn.Module:
        settled, _ = self.settle(sizes.n_layers)
        assert settled.hierarchy is not None
        n_layers, factors = parse_hierarchy(settled.hierarchy)
        return build_hourglass(
            d_model=sizes.d_model,
            n_heads=sizes.n_heads,
            d_ff=sizes.d_ff,
            n_layers=n_layers,
            factors=factors,
            layer=lambda: self.make_layer(sizes),
            shortening=self.shortening,
            up_sampling=self.up_sampling,
            pooling=self.pooling,
            expansion=self.expansion,
        )
