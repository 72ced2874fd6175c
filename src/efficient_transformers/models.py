"""Every model of the book by its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from .checks import require, require_int, require_known
from .gmlp import GMLPBlock, TinyAttention
from .hourglass import build_hourglass, parse_hierarchy
from .primer import (
    GatedFeedForward,
    MultiDConvHeadAttention,
    PrimerLayer,
    SharedQueryKeyAttention,
    SquaredReLU,
)
from .transformer import FeedForward, LanguageModel, LearnedPositions, MultiHeadAttention, Stack, TransformerLayer


def transformer(
    *, d_model: int, n_layers: int, n_heads: int, d_ff: int, dropout: float, rotary: bool = True
) -> nn.Module:
    """The baseline: rotary attention, ReLU."""

    def layer() -> nn.Module:
        attention = MultiHeadAttention(d_model, n_heads, rotary)
        return TransformerLayer(attention, FeedForward(d_model, d_ff, nn.ReLU()), d_model, dropout)

    return Stack([layer() for _ in range(n_layers)])


def primer_ez(
    *,
    d_model: int,
    n_layers: int,
    n_heads: int,
    d_ff: int,
    dropout: float,
    activation: str = "squared-relu",
    convolve: str = "qkv",
    kernel_size: int = 3,
    sharing: str = "heads",
    dilation: int = 1,
    bias: bool = False,
    start: str = "official",
) -> nn.Module:
    """Primer EZ: squared ReLU, and convolutions after the attention's projections."""
    require_known("activation", activation, ACTIVATIONS)

    def layer() -> nn.Module:
        attention = MultiDConvHeadAttention(
            d_model,
            n_heads,
            convolve,
            kernel_size=kernel_size,
            sharing=sharing,
            dilation=dilation,
            bias=bias,
            start=start,
        )
        return TransformerLayer(attention, ACTIVATIONS[activation](d_model, d_ff), d_model, dropout)

    return Stack([layer() for _ in range(n_layers)])


def primer(
    *,
    d_model: int,
    n_layers: int,
    n_heads: int,
    d_ff: int,
    dropout: float,
    kernel_size: int = 3,
    sharing: str = "none",
) -> nn.Module:
    """The full Primer: Primer EZ, queries made from keys, Primer's norm and its placement."""

    def layer() -> nn.Module:
        attention = SharedQueryKeyAttention(d_model, n_heads, kernel_size=kernel_size, sharing=sharing)
        return PrimerLayer(attention, FeedForward(d_model, d_ff, SquaredReLU()), d_model, dropout)

    return Stack([layer() for _ in range(n_layers)])


def hourglass(
    *,
    d_model: int,
    n_layers: int,
    n_heads: int,
    d_ff: int,
    dropout: float,
    hierarchy: str | None = None,
    shortening: str = "average",
    up_sampling: str = "naive",
    pooling: str = "average",
    expansion: str = "naive",
    layer: str = "transformer",
) -> nn.Module:
    """Hourglass: layers on all tokens around layers on a shortened sequence."""
    require_known("layer", layer, ("transformer", "primer-ez"))
    n, factors = parse_hierarchy(hierarchy or default_hierarchy(n_layers))
    sizes = {"d_model": d_model, "n_heads": n_heads, "d_ff": d_ff, "dropout": dropout}
    make = BODIES[layer]
    return build_hourglass(
        d_model, n_heads, d_ff, n, factors, lambda: next(make(n_layers=1, **sizes).children()),
        shortening, up_sampling, pooling, expansion,
    )  # fmt: skip


def gmlp(
    *,
    d_model: int,
    n_layers: int,
    d_ff: int,
    max_seq_len: int,
    dropout: float,
    gate: str = "split",
    weight: str = "dense",
    fft: bool = False,
    d_attention: int | None = None,
    positions: bool = False,
) -> nn.Module:
    """gMLP: blocks of two projections with a spatial gate between them."""

    def block() -> nn.Module:
        return GMLPBlock(
            d_model,
            d_ff,
            max_seq_len,
            causal=True,
            d_attention=d_attention,
            dropout=dropout,
            gate=gate,
            weight=weight,
            fft=fft,
        )

    blocks = [block() for _ in range(n_layers)]
    return Stack([LearnedPositions(d_model, max_seq_len), *blocks] if positions else blocks)


def default_hierarchy(n_layers: int) -> str:
    """One layer before and one after, where there are that many, and the rest on every fourth token."""
    outside = min(1, n_layers // 2)
    return f"{outside}@1 {n_layers - 2 * outside}@4 {outside}@1"


ACTIVATIONS: dict[str, Callable[[int, int], nn.Module]] = {
    "squared-relu": lambda d_model, d_ff: FeedForward(d_model, d_ff, SquaredReLU()),
    "relu": lambda d_model, d_ff: FeedForward(d_model, d_ff, nn.ReLU()),
    "gelu": lambda d_model, d_ff: FeedForward(d_model, d_ff, nn.GELU()),
    "swiglu": lambda d_model, d_ff: GatedFeedForward(d_model, round(2 * d_ff / 3), nn.SiLU()),  # equal parameters
}


def initialize(body: nn.Module) -> None:
    """Give projections a spread of 1 / sqrt(inputs), and the last one of a branch zeros: layers start as identity.

    A branch that ends with a norm, as Primer's does, keeps its start: the norm would divide zeros by almost zero.
    """
    normed = [module.feed_forward for module in body.modules() if isinstance(module, PrimerLayer)]
    for module in body.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
    for module in body.modules():
        if isinstance(module, (MultiHeadAttention, TinyAttention)):
            nn.init.zeros_(module.output.weight)
        elif isinstance(module, (FeedForward, GMLPBlock)) and module not in normed:
            nn.init.zeros_(module.down.weight)


def count_layers(name: str, n_layers: int | None, options: dict[str, Any]) -> int:
    """The number of layers, as given or as the hierarchy has them; sets the option ``hierarchy`` if that is open."""
    if name != "hourglass":
        default = 8 if name == "gmlp" else 4  # a block of gMLP is half a layer
        return default if n_layers is None else n_layers
    if options.get("hierarchy") is None:
        n_layers = 4 if n_layers is None else n_layers
        require_int("n_layers", n_layers, at_least=1)
        options["hierarchy"] = default_hierarchy(n_layers)
    n, _ = parse_hierarchy(options["hierarchy"])
    total = 2 * sum(n) - n[-1]
    require(n_layers in (None, total), "n_layers", n_layers, f"None or {total}, the layers of {options['hierarchy']!r}")
    return total


BODIES: dict[str, Callable[..., nn.Module]] = {
    "transformer": transformer,
    "primer-ez": primer_ez,
    "primer": primer,
    "hourglass": hourglass,
    "gmlp": gmlp,
}

# Further names, for a model with some options set; the model's config has its plain name and all options.
VARIATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "primer-ez-shared": ("primer-ez", {"sharing": "all"}),
    "primer-ez-per-head": ("primer-ez", {"sharing": "none"}),
    "amlp": ("gmlp", {"d_attention": 64}),
}


def model_names() -> list[str]:
    """The names that :func:`build_model` knows."""
    return [*BODIES, *VARIATIONS]


def build_model(
    name: str,
    *,
    vocab_size: int,
    d_model: int = 128,
    n_layers: int | None = None,
    n_heads: int = 4,
    d_ff: int | None = None,
    max_seq_len: int = 256,
    dropout: float = 0.0,
    **options: Any,
) -> LanguageModel:
    """A language model of the book, ready to train.

    Args:
        name: one of :func:`model_names`; ``"primer-ez-shared"`` and ``"primer-ez-per-head"`` are ``"primer-ez"``
            with sharing ``"all"`` and ``"none"``, ``"amlp"`` is ``"gmlp"`` with ``d_attention=64``.
        vocab_size: number of tokens.
        d_model: channels of the residual stream.
        n_layers: number of layers; None means 4, what an hourglass's hierarchy has, or 8 blocks of gMLP, which have
            as many parameters as 4 layers beside their spatial matrices.
        n_heads: attention heads per layer; divides ``d_model``. gMLP has none.
        d_ff: hidden channels of the feed-forward networks, or of gMLP's blocks; None means ``4 * d_model``.
        max_seq_len: the longest sequence that the model accepts, in tokens.
        dropout: probability of dropping a channel of the embeddings and of what each block adds.
        **options: of the one model. All Primers take ``kernel_size`` (3) and ``sharing`` (``"heads"``; ``"none"`` for
            ``"primer"``); ``"primer-ez"`` also ``activation`` (``"squared-relu"``, ``"relu"``, ``"gelu"`` or
            ``"swiglu"``, the last with 2/3 of ``d_ff``), ``convolve`` (``"qkv"``), ``dilation`` (1), ``bias``
            (False) and ``start`` (``"official"``), explained at :class:`MultiDConvHeadAttention` and
            :class:`CausalDepthwiseConv`. ``"hourglass"`` takes ``hierarchy`` (for ``n`` layers
            ``"1@1 {n-2}@4 1@1"``, see :func:`parse_hierarchy`), ``shortening`` (``"average"``), ``up_sampling``
            (``"naive"``), ``pooling`` and ``expansion`` (see :func:`build_hourglass`), and ``layer``, which is
            ``"transformer"`` or ``"primer-ez"``. ``"gmlp"`` takes ``gate`` (``"split"``), ``weight`` (``"dense"``),
            ``fft`` (False), ``d_attention`` (None), explained at :class:`GMLPBlock` and :class:`SpatialGatingUnit`,
            and ``positions`` (False), which adds :class:`LearnedPositions`. ``"transformer"`` takes ``rotary``
            (True).

    Returns:
        A :class:`LanguageModel`; its ``config`` holds these arguments.

    Raises:
        TypeError: for an option that the model does not have, or a size that is not an int.
        ValueError: for an unknown name, a size out of range, or an option that contradicts the name.
    """
    require_known("name", name, model_names())
    name, fixed = VARIATIONS.get(name, (name, {}))
    for option, value in fixed.items():
        require(options.get(option, value) == value, option, options.get(option), f"{value!r}, as the name says")
    options = {**options, **fixed}
    require_int("d_model", d_model, at_least=1)
    d_ff = 4 * d_model if d_ff is None else d_ff
    n_layers = count_layers(name, n_layers, options)
    for argument in ("vocab_size", "n_layers", "n_heads", "d_ff", "max_seq_len"):
        require_int(argument, locals()[argument], at_least=1)
    require(0 <= dropout < 1, "dropout", dropout, "a probability, at least 0 and less than 1")
    sizes: dict[str, Any] = {"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads, "d_ff": d_ff}
    sizes |= {"max_seq_len": max_seq_len, "dropout": dropout}
    parameters = inspect.signature(BODIES[name]).parameters
    known = {p: parameters[p].default for p in parameters if p not in sizes}
    for option in options:
        require(option in known, "option", option, f"one of {list(known)}, the options of {name!r}", TypeError)

    body = BODIES[name](**{size: sizes[size] for size in sizes if size in parameters}, **options)
    initialize(body)
    model = LanguageModel(body, vocab_size=vocab_size, d_model=d_model, max_seq_len=max_seq_len, dropout=dropout)
    model._hub_mixin_config = {
        "name": name, "vocab_size": vocab_size, **sizes, **known, **options
    }  # fmt: skip
    return model
