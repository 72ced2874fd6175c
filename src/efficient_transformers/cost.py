"""What a model costs per token, in closed form: nothing is run."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from torch import nn

from .attention import MultiHeadAttention
from .checks import require_int
from .family import Stack, parameter_count
from .hourglass import Hourglass
from .resampling import AttentionBasedShortening, AttentionBasedUpSampling, NaiveUpSampling, Shortening
from .transformer import FeedForward, TransformerLayer


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
    or not. Autograd keeps :math:`8D + D_\mathrm{ff}` numbers of it per token: input and output of both norms, query,
    key and value, the heads' result, the hidden channels. A level that is shortened by :math:`k` costs
    :math:`1/k` of that per token, at length :math:`T/k`; resampling adds its own.

    Args:
        body: a :class:`Stack` of baseline layers or an :class:`Hourglass` of them.
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


def layer_cost(layer: nn.Module, seq_len: int) -> Cost:
    """Per token, for one layer of the baseline."""
    if not (
        isinstance(layer, TransformerLayer)
        and type(layer.attention) is MultiHeadAttention
        and isinstance(layer.feed_forward, FeedForward)
    ):
        raise TypeError(f"a layer is {type(layer).__name__!r}; expected a TransformerLayer with MultiHeadAttention")
    D, matrices = layer.d_model, parameter_count(layer.attention, layer.feed_forward)
    kept = 8 * D + layer.feed_forward.up.out_features
    return Cost(matrices + 2 * seq_len * D, 4 * kept, parameter_count(layer))


def hourglass_cost(body: Hourglass, seq_len: int) -> Cost:
    """Per token, for layers at both lengths, norms and resampling."""
    windows = (seq_len - 1) // body.shorten.factor + 1
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
