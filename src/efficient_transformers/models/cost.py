"""What a model costs per token, and what its cache keeps, in closed form: nothing is run.

What is notable:
- every family of the book is counted by the same rules, so that their costs can be compared;
- what a causal matrix or an attention mask hides counts as work, and does not count as a parameter.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

from torch import nn

from ..layers.attention import Attention, MultiHeadAttention
from ..layers.convolution import CausalDepthwiseConv
from ..layers.family import Stack, parameter_count
from ..layers.gmlp import GMLPBlock, SpatialGatingUnit, TinyAttention
from ..layers.hourglass import Hourglass
from ..layers.primer import GatedFeedForward, PrimerLayer, SharedQueryKeyAttention
from ..layers.resampling import AttentionBasedShortening, AttentionBasedUpSampling, NaiveUpSampling, Shortening
from ..layers.transformer import FeedForward, LearnedPositions, TransformerLayer
from ..support.checks import require_int
from .language_model import LanguageModel

__all__ = ["Cost", "cache_bytes", "cost_model", "effective_parameters", "multiply_adds"]


@dataclass(frozen=True)
class Cost:
    """What a model costs per token: see :func:`cost_model`."""

    multiply_adds: float
    activation_bytes: float
    parameters: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, share: float) -> Cost:
        return Cost(*(share * a for a in astuple(self)))


def cost_model(body: nn.Module, seq_len: int) -> Cost:
    r"""What a body costs per token of a sequence, in closed form: nothing is run.

    A layer at length :math:`T`, with matrices of :math:`M` numbers in all, takes :math:`M + 2TD` multiply-adds per
    token: each weight once, and scores and mixture against :math:`T` keys, which a kernel computes whole, masked
    or not. A depthwise convolution of width :math:`W` adds :math:`WD`. A block of gMLP takes :math:`M`, and
    :math:`T` for each channel of its gate: its matrix counts whole too, causal or not, dense or Toeplitz, multiplied
    or transformed; a tiny attention of :math:`A` channels adds :math:`2TA`.

    Autograd keeps :math:`8D + D_\mathrm{ff}` numbers of a baseline layer per token: input and output of both norms,
    query, key and value, the heads' result, the hidden channels. Copies of weights, such as a Toeplitz matrix, are
    left out: the tokens of a batch share them. A level that is shortened by :math:`k` costs :math:`1/k` of that per
    token, at length :math:`T/k`; resampling adds its own.

    Args:
        body: a model's ``body``: a :class:`Stack` of layers of any family, or an :class:`Hourglass` of them.
        seq_len: length of the sequence, :math:`T`.

    Returns:
        Multiply-adds of a forward pass, bytes of float32 kept for the backward pass, and parameters used, all per
        token; a parameter that is used once for :math:`k` tokens counts :math:`1/k`.

    Raises:
        TypeError: for another kind of body.
    """
    require_int("seq_len", seq_len, at_least=1)
    if isinstance(body, Stack):
        return sum((layer_cost(layer, seq_len) for layer in body), Cost(0, 0, 0))
    if isinstance(body, Hourglass):
        return hourglass_cost(body, seq_len)
    raise TypeError(f"body is {type(body).__name__!r}; expected a Stack or an Hourglass")


def effective_parameters(model: nn.Module) -> int:
    """The parameters that can change a model's output: of a causal dense matrix of gMLP, the lower triangle."""
    gates = [module for module in model.modules() if isinstance(module, SpatialGatingUnit) and module.causal]
    return parameter_count(model) - sum(n * (n - 1) // 2 for gate in gates for n in gate.weight.shape[1:])


def cache_bytes(body: nn.Module, seq_len: int) -> int:
    r"""What a cache keeps of one sequence, in closed form: bytes of float32.

    Attention keeps a key and a value of each token, :math:`2TD` numbers a layer; a gate of gMLP keeps what it mixes,
    :math:`T` numbers for each channel of its result. A convolution keeps the last :math:`W - 1` tokens of its input,
    a resampling those that its next window needs. The room that buffers have to grow is left out.

    Args:
        body: as for :func:`cost_model`.
        seq_len: tokens read so far, :math:`T`.

    Raises:
        TypeError: for another kind of body, or of layer.
    """
    cost_model(body, seq_len)  # which refuses what neither of them knows
    return 4 * cached_numbers(body, seq_len)


def cached_numbers(module: nn.Module, seq_len: int) -> int:
    """What a module and all within it keep in a cache."""
    if isinstance(module, Hourglass):
        at_length = (module.before, module.shorten, module.after)
        at_windows = (module.inside, module.up_sample)
        windows = windows_of(module, seq_len)
        return sum(cached_numbers(m, seq_len) for m in at_length) + sum(cached_numbers(m, windows) for m in at_windows)
    if isinstance(module, Attention):
        own = 2 * seq_len * module.key.out_features
    elif isinstance(module, SpatialGatingUnit):
        own = seq_len * module.d_out
    elif isinstance(module, CausalDepthwiseConv):
        own = (module.kernel_size - 1) * module.dilation * module.d_model
    elif isinstance(module, Shortening | NaiveUpSampling):
        own = module.shift.n * module.d_model
    else:
        own = 0
    return own + sum(cached_numbers(child, seq_len) for child in module.children())


def windows_of(body: Hourglass, seq_len: int) -> int:
    """How many windows of an hourglass are complete after so many tokens."""
    return (seq_len - 1) // body.shorten.factor + 1


def layer_cost(layer: nn.Module, seq_len: int) -> Cost:
    """Per token, for one layer of any family, learned positions, or a convolution on its own."""
    if isinstance(layer, LearnedPositions):
        return Cost(0, 0, layer.weight.shape[1])
    if isinstance(layer, CausalDepthwiseConv):
        return Cost(layer.kernel_size * layer.d_model, 4 * inputs_kept(layer, seq_len), parameter_count(layer))
    if isinstance(layer, GMLPBlock):
        return block_cost(layer, seq_len)
    if not (
        isinstance(layer, TransformerLayer)
        and isinstance(layer.attention, MultiHeadAttention)
        and isinstance(layer.feed_forward, FeedForward)
    ):
        raise TypeError(f"a layer is {type(layer).__name__!r}; expected one of the book's, with its attention")
    D, F = layer.d_model, layer.feed_forward.up.out_features
    convs = [module for module in layer.attention.modules() if isinstance(module, CausalDepthwiseConv)]
    widths = sum(conv.kernel_size for conv in convs)
    matrices = parameter_count(*(m for m in layer.modules() if isinstance(m, nn.Linear)))
    kept: float = 8 * D + F * kept_hidden(layer.feed_forward)
    kept += sum(inputs_kept(conv, seq_len) for conv in convs)
    kept += D * isinstance(layer.attention, SharedQueryKeyAttention)  # the keys before they are turned
    kept += 2 * D * isinstance(layer, PrimerLayer)  # each of its norms is two steps
    return Cost(matrices + (widths + 2 * seq_len) * D, 4 * kept, parameter_count(layer))


def inputs_kept(conv: CausalDepthwiseConv, seq_len: int) -> float:
    """How many numbers autograd keeps of a convolution's inputs, with the zeros before them."""
    return conv.d_model * (1 + (conv.kernel_size - 1) * conv.dilation / seq_len)


def kept_hidden(feed_forward: FeedForward) -> int:
    """How many numbers autograd keeps for each hidden channel: ReLU's input can be told from its output."""
    if isinstance(feed_forward, GatedFeedForward):
        return 4
    return 1 if isinstance(feed_forward.activation, nn.ReLU) else 2


def block_cost(block: GMLPBlock, seq_len: int) -> Cost:
    """Per token, for one block of gMLP, with or without a tiny attention."""
    D, F, d_out = block.d_model, block.up.out_features, block.gate.d_out
    products = d_out * (2 if block.gate.kind in ("split", "whole") else 1)  # what is multiplied, and the result
    cost = Cost(D * F + d_out * D + seq_len * d_out, 4 * (2 * D + 2 * F + d_out + products), 0)
    if isinstance(block.attention, TinyAttention):
        A = block.attention.query.out_features
        cost += Cost(A * (3 * D + d_out) + 2 * seq_len * A, 4 * 4 * A, 0)
    spatial = block.gate.weight.numel() + block.gate.bias.numel()
    row = (seq_len + 1) / 2 + 1 if block.gate.causal else seq_len + 1  # weights that a token reads, and its bias
    return cost + Cost(0, 0, parameter_count(block) - spatial + row)


def hourglass_cost(body: Hourglass, seq_len: int) -> Cost:
    """Per token, for layers at both lengths, norms and resampling."""
    windows = windows_of(body, seq_len)
    share = windows / seq_len
    outside = cost_model(body.before, seq_len) + cost_model(body.after, seq_len)
    inside = cost_model(body.inside, windows) * share
    norms = Cost(0, 4 * body.d_model, 2 * body.d_model) * (1 + share)
    resampling = shortening_cost(body.shorten, windows, share) + up_sampling_cost(body.up_sample, windows, share)
    return outside + inside + norms + resampling


def shortening_cost(shorten: Shortening | AttentionBasedShortening, windows: int, share: float) -> Cost:
    """Per token of the longer sequence; linear pooling keeps the windows, attention what a layer's blocks keep."""
    if isinstance(shorten, AttentionBasedShortening):
        D, F = shorten.pool.d_model, shorten.feed_forward.up.out_features
        once = parameter_count(shorten.attention.key, shorten.attention.value)
        per_window = parameter_count(shorten.attention, shorten.feed_forward) - once
        kept = 3 * D + share * (6 * D + F)
        block = Cost(once + share * per_window + 2 * windows * D, 4 * kept, once + share * per_window + share * 4 * D)
        return block + shortening_cost(shorten.pool, windows, share)
    matrix = parameter_count(shorten)
    return Cost(share * matrix, 4 * shorten.d_model if matrix else 0, share * matrix)


def up_sampling_cost(up_sample: NaiveUpSampling | AttentionBasedUpSampling, windows: int, share: float) -> Cost:
    """Per token of the longer sequence; linear up-sampling keeps the windows, attention what a layer's blocks keep."""
    if isinstance(up_sample, AttentionBasedUpSampling):
        D, F = up_sample.expand.d_model, up_sample.feed_forward.up.out_features
        per_window = parameter_count(up_sample.attention.key, up_sample.attention.value)
        once = parameter_count(up_sample.attention, up_sample.feed_forward) - per_window
        kept = 6 * D + F + share * 3 * D
        block = Cost(once + share * per_window + 2 * windows * D, 4 * kept, once + share * per_window + 4 * D)
        return block + up_sampling_cost(up_sample.expand, windows, share)
    matrix = parameter_count(up_sample)
    return Cost(share * matrix, share * 4 * up_sample.d_model if matrix else 0, share * matrix)


def multiply_adds(model: LanguageModel, seq_len: int) -> float:
    """Per token of a forward pass, the output matrix included."""
    return cost_model(model.body, seq_len).multiply_adds + model.d_model * model.vocab_size
