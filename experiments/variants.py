"""Models that the studies need and the package has no name for: its layers, put together or started in another way."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from efficient_transformers import (
    CausalDepthwiseConv,
    FeedForward,
    GMLPBlock,
    LanguageModel,
    LearnedPositions,
    MultiDConvHeadAttention,
    MultiHeadAttention,
    PrimerLayer,
    SharedQueryKeyAttention,
    SpatialGatingUnit,
    SquaredReLU,
    Stack,
    TransformerLayer,
    build_model,
    initialize,
)
from efficient_transformers.checks import require, require_known
from efficient_transformers.layers.cache import Cache
from efficient_transformers.layers.primer import Activation, Subset
from efficient_transformers.models import model_names
from efficient_transformers.training.loop import OPTIMIZERS, Both, muon


def changed_baseline(
    *,
    positions: Literal["rotary", "learned"] = "rotary",
    activation: str = "relu",
    init: Literal["book", "last not zero", "gpt"] = "book",
    **options: Any,
) -> LanguageModel:
    """The baseline with what nanoGPT has instead, learned positions, GELU, or GPT-2's start; or with another start.

    "last not zero" starts the last matrix of each branch like the others. GPT-2's start is a spread of 0.02 for every
    matrix, and 0.02 / sqrt(2 * layers) for these last ones.
    """
    require_known("positions", positions, ("rotary", "learned"))
    require_known("init", init, ("book", "last not zero", "gpt"))
    model = build_model("primer-ez", convolve="", activation=activation, **options)
    if positions == "learned":
        for attention in model.modules():
            if isinstance(attention, MultiHeadAttention):
                attention.rotary = False
        body = Stack([LearnedPositions(model.d_model, model.max_seq_len), *list(model.body.children())])
        replace_body(model, body)
    layers = [module for module in model.modules() if isinstance(module, TransformerLayer)]
    if init == "last not zero":
        for layer in layers:
            start_like_the_others(*layer.branch_ends())
    if init == "gpt":
        for linear in model.modules():
            if isinstance(linear, nn.Linear):
                nn.init.normal_(linear.weight, std=0.02)
        for layer in layers:
            for last in layer.branch_ends():
                nn.init.normal_(last.weight, std=0.02 / (2 * len(layers)) ** 0.5)  # type: ignore[arg-type]
    return model


class DistanceBiasAttention(MultiHeadAttention):
    r"""Attention with a learned number for each head and distance, which is added to the scores before the softmax.

    :math:`\mathrm{softmax}(Q K^\top / \sqrt{K} + B)\, V` with :math:`B_{ts} = b_{h, t - s}`. The numbers start at
    ALiBi's slopes, :math:`b_{h, d} = -2^{-8 h / H} d`, or at zero. For whole sequences only. PyTorch's fused kernel on
    a CPU takes such a mask if it needs no gradient, and has four dimensions.

    Args:
        d_model, n_heads, rotary: as for :class:`MultiHeadAttention`.
        max_seq_len: how many distances have a number.
        first: where the numbers start, ``"alibi"`` or ``"zero"``.

    Source: Raffel et al., T5, 2020, section 2.1 (who share the numbers of far distances, and all layers' numbers);
    Press et al., ALiBi, 2022, section 3.
    """

    def __init__(self, d_model: int, n_heads: int, max_seq_len: int, *, rotary: bool, first: str) -> None:
        super().__init__(d_model, n_heads, rotary=rotary)
        slopes = 2.0 ** (-8 * torch.arange(1, n_heads + 1) / n_heads) if first == "alibi" else torch.zeros(n_heads)
        self.bias = nn.Parameter(-slopes[:, None] * torch.arange(max_seq_len))  # (H, n)

    def scores(self, T: int) -> Tensor:
        """What is added to the scores of ``T`` tokens: ``[1, n_heads, T, T]``, minus infinity for the future."""
        by_offset = F.pad(self.bias[:, :T].flip(1), (0, T), value=-torch.inf)  # (H, 2T): distances T-1 to 0, the future
        rows = by_offset.repeat(1, T)[:, : T * (2 * T - 1)].view(-1, T, 2 * T - 1)  # each row is one further right
        return rows[None, :, :, T - 1 :]  # (1, H, T, T)

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        require(cache is None, "cache", cache, "None: this attention reads whole sequences")
        q, k, v = self.heads(x)
        y = F.scaled_dot_product_attention(q, k, v, self.scores(x.shape[1]))  # (B, H, T, K)
        return self.output(y.transpose(1, 2).flatten(2))  # (B, T, D)


class ConvolvedDistanceBiasAttention(DistanceBiasAttention):
    """The same with Primer EZ's convolutions of queries, keys and values. For whole sequences only."""

    def __init__(self, d_model: int, n_heads: int, max_seq_len: int) -> None:
        super().__init__(d_model, n_heads, max_seq_len, rotary=True, first="alibi")
        self.conv_q, self.conv_k, self.conv_v = (CausalDepthwiseConv(d_model, n_heads) for _ in range(3))

    def project(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project(x)
        return self.conv_q(q), self.conv_k(k), self.conv_v(v)  # (B, T, D) each


class ConvolvedInputAttention(MultiHeadAttention):
    """Attention whose queries, keys and values are made from what one convolution makes of its input."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.conv = CausalDepthwiseConv(d_model, n_heads)

    def project(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Tensor, Tensor]:
        return super().project(self.conv(x, cache))  # (B, T, D) each


class NormalizedAttention(MultiHeadAttention):
    """Attention whose queries and keys are normalized in each head before they are turned, with gains.

    Source: Dehghani et al., Scaling Vision Transformers to 22 Billion Parameters, 2023, who call it QK normalization.
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.norm_q, self.norm_k = nn.LayerNorm(d_model // n_heads), nn.LayerNorm(d_model // n_heads)

    def turn(self, q: Tensor, k: Tensor, start: int, seen: int) -> tuple[Tensor, Tensor]:
        return super().turn(self.norm_q(q), self.norm_k(k), start, seen)


class OtherBaseAttention(MultiHeadAttention):
    r"""Attention whose rotary positions turn by :math:`\theta_i = b^{-2i/K}`, where the package has b = 10,000."""

    def __init__(self, d_model: int, n_heads: int, base: float) -> None:
        super().__init__(d_model, n_heads)
        self.base = base

    def rotate(self, x: Tensor, start: int) -> Tensor:
        """Queries or keys ``[batch, n_heads, seq, K]``, turned from position ``start`` on."""
        T, K = x.shape[-2:]
        angle = (start + torch.arange(T))[:, None] * self.base ** (-torch.arange(0, K, 2) / K)  # (T, K/2)
        turned = torch.view_as_complex(x.view(*x.shape[:-1], K // 2, 2)) * torch.polar(torch.ones_like(angle), angle)
        return torch.view_as_real(turned).flatten(-2)  # (B, H, T, K)

    def turn(self, q: Tensor, k: Tensor, start: int, seen: int) -> tuple[Tensor, Tensor]:
        return self.rotate(q, start), self.rotate(k, seen)


def distance_bias(*, rotary: bool = True, first: Literal["alibi", "zero"] = "alibi", **options: Any) -> LanguageModel:
    """The baseline with a :class:`DistanceBiasAttention`, beside rotary positions or instead of them."""
    require_known("first", first, ("alibi", "zero"))
    model = build_model("transformer", **options)
    return replace_attentions(
        model, lambda D, H: DistanceBiasAttention(D, H, model.max_seq_len, rotary=rotary, first=first)
    )


def fixed_slopes(**options: Any) -> LanguageModel:
    """The baseline with ALiBi's slopes beside rotary positions: a :class:`DistanceBiasAttention` that learns none."""
    model = distance_bias(**options)
    for attention in model.modules():
        if isinstance(attention, DistanceBiasAttention):
            hold(attention, "bias")
    return model


def convolved_distance_bias(**options: Any) -> LanguageModel:
    """Primer EZ with numbers for distances, as :func:`distance_bias` gives them to the baseline."""
    model = build_model("primer-ez", **options)
    return replace_attentions(model, lambda D, H: ConvolvedDistanceBiasAttention(D, H, model.max_seq_len))


def rotary_base(*, base: float = 10_000.0, **options: Any) -> LanguageModel:
    """The baseline with another base of its rotary positions."""
    model = build_model("transformer", **options)
    return replace_attentions(model, lambda D, H: OtherBaseAttention(D, H, base))


def replace_attentions(model: LanguageModel, make: Callable[[int, int], MultiHeadAttention]) -> LanguageModel:
    """The model with attentions that ``make`` returns for its width and heads; each keeps the parts it had before."""
    for layer in model.body.children():
        old, new = layer.attention, make(model.d_model, layer.attention.n_heads)  # type: ignore[union-attr, arg-type]
        for name, part in old.named_children():  # type: ignore[union-attr]
            setattr(new, name, part)  # what the model would start with
        layer.attention = new
    model.config = None
    return model


def normalized_attention(**options: Any) -> LanguageModel:
    """The baseline with a :class:`NormalizedAttention`."""
    return replace_attentions(build_model("transformer", **options), NormalizedAttention)


class NormalizedConvolvedAttention(MultiDConvHeadAttention):
    """Primer EZ's attention with queries and keys normalized as in :class:`NormalizedAttention`, by RMSNorm."""

    def __init__(self, d_model: int, n_heads: int, convolve: Subset) -> None:
        super().__init__(d_model, n_heads, convolve)
        self.norm_q, self.norm_k = (nn.RMSNorm(d_model // n_heads, eps=1e-5) for _ in range(2))

    def turn(self, q: Tensor, k: Tensor, start: int, seen: int) -> tuple[Tensor, Tensor]:
        return super().turn(self.norm_q(q), self.norm_k(k), start, seen)


def modern(*, activation: Activation = "relu", convolve: Subset = "", **options: Any) -> LanguageModel:
    """What one would start from today: RMSNorm at every place, and queries and keys normalized in each head.

    Args:
        activation, convolve: as for :class:`PrimerEZFamily`.
        **options: of :func:`build_model`.

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019; and :class:`NormalizedAttention`.
    """
    model = build_model("primer-ez", activation=activation, convolve=convolve, **options)
    replace_attentions(model, lambda D, H: NormalizedConvolvedAttention(D, H, convolve))
    for module in list(model.modules()):
        for name, part in list(module.named_children()):
            if isinstance(part, nn.LayerNorm):
                setattr(module, name, nn.RMSNorm(part.normalized_shape, eps=part.eps))
    return model


def convolved_elsewhere(*, where: Literal["embedding", "input"] = "embedding", **options: Any) -> LanguageModel:
    """Squared ReLU with Primer EZ's convolution in front of all layers, or in front of each attention.

    Args:
        where: ``"embedding"``, one convolution of the first layer's input; or ``"input"``, one in each layer, of what
            queries, keys and values are made from.
        **options: of :func:`build_model`.
    """
    require_known("where", where, ("embedding", "input"))
    model = build_model("primer-ez", convolve="", **options)
    if where == "embedding":
        layers = list(model.body.children())
        conv = CausalDepthwiseConv(model.d_model, layers[0].attention.n_heads)  # type: ignore[union-attr, arg-type]
        replace_body(model, Stack([conv, *layers]))
        return model
    return replace_attentions(model, ConvolvedInputAttention)


def fixed_kernels(**options: Any) -> LanguageModel:
    """Primer EZ whose kernels stay as they start."""
    model = build_model("primer-ez", **options)
    for conv in model.modules():
        if isinstance(conv, CausalDepthwiseConv):
            hold(conv, "weight")
    return model


def hold(module: nn.Module, name: str) -> None:
    """Make a parameter a constant, which no optimizer sees."""
    value = getattr(module, name).detach()
    delattr(module, name)
    module.register_buffer(name, value)


class OwnOutput(LanguageModel):
    """A language model whose output matrix is not its embedding. For whole sequences only."""

    def __init__(self, body: nn.Module, **sizes: Any) -> None:
        super().__init__(body, **sizes)
        self.output = nn.Linear(self.d_model, self.vocab_size, bias=False)
        nn.init.normal_(self.output.weight, std=0.02)  # as the embedding, which it replaces

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        require(cache is None, "cache", cache, "None: this model reads whole sequences")
        self.check_tokens(tokens)
        return self.output(self.norm(self.body(self.embedding(tokens), None)))  # (B, T, V)


def own_output(*, kind: Literal["transformer", "hourglass"], **options: Any) -> LanguageModel:
    """A model of the package with an output matrix of its own."""
    require_known("kind", kind, ("transformer", "hourglass"))
    made = build_model(kind, **options)
    return OwnOutput(made.body, vocab_size=made.vocab_size, d_model=made.d_model, max_seq_len=made.max_seq_len)


def replace_body(model: LanguageModel, body: nn.Module) -> None:
    """Put other layers into a model, which no config describes from then on, so that it cannot be saved."""
    model.body, model.config = body, None


def start_like_the_others(*last: nn.Module) -> None:
    """The last matrices of branches, which :func:`.initialize` sets to zero, get the spread of all others."""
    for linear in last:
        nn.init.normal_(linear.weight, std=linear.in_features**-0.5)  # type: ignore[operator, arg-type]


def started_kernels(
    *, kernel_sum: float | None = None, scale: float = 1.0, noise: float = 0.0, bias_noise: float = 0.0, **options: Any
) -> LanguageModel:
    """Primer EZ whose kernels start in another way.

    Args:
        kernel_sum: of a starting kernel; the current token keeps its 0.5, and earlier ones share the rest evenly.
        scale: what the starting kernels are multiplied by.
        noise: the spread of uniform noise, centered on 0, that is added to each weight.
        bias_noise: the same for each bias.
        **options: of :func:`build_model`.
    """
    model = build_model("primer-ez", **options)
    with torch.no_grad():
        for conv in model.modules():
            if not isinstance(conv, CausalDepthwiseConv):
                continue
            if kernel_sum is not None and conv.kernel_size > 1:
                conv.weight[..., 1:] = (kernel_sum - 0.5) / (conv.kernel_size - 1)
            elif kernel_sum is not None:
                conv.weight.fill_(kernel_sum)
            conv.weight.mul_(scale).add_(uniform(conv.weight, noise))
            if conv.bias is not None:
                conv.bias.add_(uniform(conv.bias, bias_noise))
    return model


def uniform(like: torch.Tensor, spread: float) -> torch.Tensor:
    """Uniform noise with this standard deviation, centered on 0."""
    return spread * 3**0.5 * (2 * torch.rand_like(like) - 1)


def primer_part(
    *,
    vocab_size: int,
    d_model: int,
    n_layers: int,
    max_seq_len: int,
    shared_keys: bool = False,
    norms: bool = False,
    last_zero: bool = True,
    n_heads: int = 4,
) -> LanguageModel:
    """Primer EZ with one of the full Primer's further parts.

    Args:
        shared_keys: queries are made from keys.
        norms: Primer's norms at their places, behind which the last matrix of a feed-forward network is not zero.
        last_zero: whether that matrix starts at zero where a norm does not follow it; else it starts like the others.
        n_heads: of each attention.
    """
    sizes: dict[str, Any] = {"d_model": d_model, "n_layers": n_layers, "max_seq_len": max_seq_len, "n_heads": n_heads}
    model = build_model("primer-ez", vocab_size=vocab_size, **sizes)
    D, kind = d_model, PrimerLayer if norms else TransformerLayer
    attention = SharedQueryKeyAttention if shared_keys else MultiDConvHeadAttention
    layers = [kind(attention(D, n_heads), FeedForward(D, 4 * D, SquaredReLU()), D) for _ in range(n_layers)]
    replace_body(model, Stack(layers))
    initialize(model.body)
    for layer in model.modules():
        if isinstance(layer, TransformerLayer) and not last_zero:
            start_like_the_others(layer.branch_ends()[-1])
    return model


def changed_gates(
    *,
    near: int | None = None,
    bias: float | None = None,
    within: float | None = None,
    last_zero: bool = True,
    **options: Any,
) -> LanguageModel:
    """A gMLP whose matrices have weights for the nearest tokens only, or whose blocks start in another way.

    Args:
        near: tokens, counted from the current one back; the weights of all others start at 0 and stay there.
        bias: 0, as declarations call a start that is shut; None for an open one.
        within: each W starts uniform between minus and plus this.
        last_zero: whether the last matrix of a block starts at zero; else it starts like the others.
        **options: of :func:`build_model`.
    """
    require(bias in (None, 0), "bias", bias, "0, or None")
    if bias is not None:
        options["start"] = "shut"
    model = build_model("gmlp", **options)
    for block in model.modules():
        if isinstance(block, GMLPBlock) and not last_zero:
            start_like_the_others(block.down)
    for gate in model.modules():
        if not isinstance(gate, SpatialGatingUnit):
            continue
        if within is not None:
            nn.init.uniform_(gate.weight, -within, within)
        if near is not None:
            back = torch.arange(gate.max_seq_len)  # of a Toeplitz kernel
            back = back[:, None] - back if gate.weight.dim() == 2 else back
            kept = ((back >= 0) & (back < near)).float()
            with torch.no_grad():
                gate.weight.mul_(kept)
            gate.weight.register_hook(kept.mul)  # type: ignore[no-untyped-call]  # no gradient, and no decay: what is 0 stays 0
    return model


def two_sided(
    *,
    kind: Literal["attention", "gmlp"],
    vocab_size: int,
    d_model: int,
    n_layers: int,
    max_seq_len: int,
    d_ff: int | None = None,
    n_heads: int = 4,
    positions: Literal["rotary", "learned", "none"] | None = None,
    **options: Any,
) -> LanguageModel:
    """A model whose places all see each other: layers of attention, or blocks of gMLP, which need no positions.

    Args:
        positions: of attention, by default rotary.
        **options: of :class:`GMLPBlock`.
    """
    require_known("kind", kind, ("attention", "gmlp"))
    require(positions is None or kind == "attention", "positions", positions, "None, for gMLP")
    positions = positions or "rotary"
    require_known("positions", positions, ("rotary", "learned", "none"))
    require(not options or kind == "gmlp", "options", options, "none, for attention")
    d_ff = 4 * d_model if d_ff is None else d_ff
    layers: list[nn.Module] = []
    if kind == "attention" and positions == "learned":
        layers.append(LearnedPositions(d_model, max_seq_len))
    for _ in range(n_layers):
        if kind == "gmlp":
            layers.append(GMLPBlock(d_model, d_ff, max_seq_len, causal=False, **options))
            continue
        attention = MultiHeadAttention(d_model, n_heads, rotary=positions == "rotary", causal=False)
        layers.append(TransformerLayer(attention, FeedForward(d_model, d_ff, nn.ReLU()), d_model))
    body = Stack(layers)
    initialize(body)
    return LanguageModel(body, vocab_size=vocab_size, d_model=d_model, max_seq_len=max_seq_len)


VARIANTS: dict[str, Callable[..., LanguageModel]] = {
    "changed-baseline": changed_baseline,
    "started-kernels": started_kernels,
    "primer-part": primer_part,
    "changed-gates": changed_gates,
    "two-sided": two_sided,
    "distance-bias": distance_bias,
    "fixed-slopes": fixed_slopes,
    "convolved-distance-bias": convolved_distance_bias,
    "rotary-base": rotary_base,
    "normalized-attention": normalized_attention,
    "modern": modern,
    "convolved-elsewhere": convolved_elsewhere,
    "fixed-kernels": fixed_kernels,
    "own-output": own_output,
}
# The package's family that a variant hands its further options to.
BASES = {
    "changed-baseline": "primer-ez",
    "started-kernels": "primer-ez",
    "changed-gates": "gmlp",
    "distance-bias": "transformer",
    "fixed-slopes": "transformer",
    "convolved-distance-bias": "primer-ez",
    "rotary-base": "transformer",
    "normalized-attention": "transformer",
    "modern": "primer-ez",
    "convolved-elsewhere": "primer-ez",
    "fixed-kernels": "primer-ez",
}


class OtherRate(Both):
    """Muon and AdamW, with another rate for AdamW's part.

    Args:
        model, weight_decay: as for :func:`muon`.
        times: AdamW's rate, in Muon's.
    """

    def __init__(self, model: nn.Module, weight_decay: float, times: float) -> None:
        super().__init__(*(part for part, _ in cast(Both, muon(model, weight_decay)).parts))
        self.times = times

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups[1:]:
            group["lr"] *= self.times  # until the loop sets it anew
        super().step()


# Optimizers that the studies compare with the package's.
OPTIMIZERS["muon, original"] = functools.partial(muon, scale="original")
OPTIMIZERS["muon, AdamW's rate halved"] = functools.partial(OtherRate, times=0.5)
OPTIMIZERS["muon, AdamW's rate doubled"] = functools.partial(OtherRate, times=2.0)


class NotDrawn(TorchFunctionMode):
    """Leaves out the functions that give a tensor its first values."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__module__", "") == "torch.nn.init":
            return kwargs["tensor"]
        return function(*args, **(kwargs or {}))


@contextmanager
def without_weights() -> Iterator[None]:
    """Within it, models have sizes and no weights, to count with.

    On the meta device alone a start takes no memory, but drawing it a millisecond for each tensor.
    """
    with torch.device("meta"), NotDrawn():
        yield


def build(name: str, **options: Any) -> LanguageModel:
    """A model of :data:`VARIANTS`, or of the package."""
    return VARIANTS[name](**options) if name in VARIANTS else build_model(name, **options)


def complete(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a model with all that its defaults are, so that another default changes no declared model.

    A gate's start is the exception: it is declared where it is given, and :func:`current_options` knows it elsewhere.

    Args:
        name: of :data:`VARIANTS`, or of the package.
        options: for :func:`build`, without the vocabulary.

    Raises:
        TypeError, ValueError: if there is no such model, or it has no such option.
    """
    require_known("name", name, [*VARIANTS, *model_names()])
    own = {
        option: parameter.default
        for option, parameter in (signature(VARIANTS[name]).parameters.items() if name in VARIANTS else ())
        if parameter.kind is Parameter.KEYWORD_ONLY and parameter.default is not Parameter.empty
    }
    base = options.get("kind") if name == "own-output" else BASES.get(name, None if name in VARIANTS else name)
    with without_weights():
        build(name, vocab_size=2, **options)  # a slip is an error here
        if base is None:
            return own | options
        passed = {key: value for key, value in options.items() if key not in own and key != "kind"}
        made = build_model(base, vocab_size=2, **passed)
    fixed = {"name", "vocab_size", "start"} | (
        {"convolve"} if name in ("changed-baseline", "convolved-elsewhere") else set()
    )
    return own | {key: value for key, value in (made.config or {}).items() if key not in fixed | set(own)} | options
