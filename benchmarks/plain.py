"""The layers as one writes them at first, with the same weights: what the package's layers are measured against."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from efficient_transformers import (
    AvgPoolShortening,
    CausalDepthwiseConv,
    FeedForward,
    GatedFeedForward,
    GMLPBlock,
    LinearPoolingShortening,
    LinearUpSampling,
    MultiDConvHeadAttention,
    MultiHeadAttention,
    NaiveUpSampling,
    PrimerNorm,
    SharedQueryKeyAttention,
    SpatialGatingUnit,
    SquaredReLU,
)
from efficient_transformers.layers.attention import Attention
from efficient_transformers.layers.resampling import CrossAttention

FACTOR = 4  # of the resampling
Part = tuple[type[nn.Module], str, Callable[..., Tensor]]


def rewritten(layer: nn.Module, *parts: Part) -> nn.Module:
    """A copy with the same weights, where a function stands in for one method of each module of a kind."""
    plain = copy.deepcopy(layer)
    for kind, method, function in parts:
        for module in plain.modules():
            if isinstance(module, kind):
                setattr(module, method, partial(function, module))
    return plain


def spelled_out(attention: Attention, q: Tensor, k: Tensor, v: Tensor, **_: Any) -> Tensor:
    """Attention with all its weights in memory, ``[batch, heads, n, m]``."""
    return attention.output((attention.weights(q, k) @ v).transpose(1, 2).flatten(2))


def permuted_conv(conv: CausalDepthwiseConv, x: Tensor, cache: None = None) -> Tensor:
    """The same convolution in the form that is usual elsewhere: channels to the front, pad both sides, cut the end.

    It returns a view whose channels are far apart, which attention then has to gather; ``tidy_conv`` copies it.
    """
    B, T, D = x.shape
    heads, channels, W = conv.weight.shape
    x = x.permute(0, 2, 1).reshape(-1, heads * channels, T)  # (B or B*H or B*D, kernels, T)
    kernel = conv.weight.flip(2).view(-1, 1, W)
    y = F.conv1d(x, kernel, padding=W - 1, groups=len(kernel))[..., :T]
    return y.reshape(B, D, T).permute(0, 2, 1)  # (B, T, D)


def tidy_conv(conv: CausalDepthwiseConv, x: Tensor, cache: None = None) -> Tensor:
    return permuted_conv(conv, x).contiguous()


def masked_product(gate: SpatialGatingUnit, z: Tensor, cache: None = None) -> Tensor:
    """The causal product with the whole matrix, the future set to zero; the faster of two ways to write it."""
    return torch.bmm(gate.matrix(z.shape[1]).tril().expand(len(z), -1, -1), z)


def plain_silu(_: nn.SiLU, x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def plain_squared_relu(_: SquaredReLU, x: Tensor) -> Tensor:
    return F.relu(x) ** 2


def plain_norm(norm: PrimerNorm, x: Tensor) -> Tensor:
    """Equation by equation, as the paper's code has it."""
    centered = x - x.mean(-1, keepdim=True)
    variance = (x * centered).mean(-1, keepdim=True)
    return norm.weight * centered / torch.sqrt(variance + norm.eps) + norm.bias


class ShortenAndUpSample(nn.Module):
    """From all tokens to windows and back."""

    def __init__(self, shorten: nn.Module, up_sample: nn.Module) -> None:
        super().__init__()
        self.shorten, self.up_sample = shorten, up_sample

    def forward(self, x: Tensor) -> Tensor:
        return self.up_sample(x, self.shorten(x))


def plain_windows(x: Tensor) -> Tensor:
    """``[batch, seq, channels]`` to ``[batch, windows, FACTOR, channels]``."""
    n = (x.shape[1] - 1) // FACTOR + 1
    return F.pad(x, (0, 0, FACTOR - 1, 0))[:, : n * FACTOR].reshape(len(x), n, FACTOR, -1)


def plain_means(_: ShortenAndUpSample, x: Tensor) -> Tensor:
    return x + plain_windows(x).mean(2).repeat_interleave(FACTOR, dim=1)[:, : x.shape[1]]


def plain_projections(ends: ShortenAndUpSample, x: Tensor) -> Tensor:
    short = plain_windows(x).flatten(2) @ ends.shorten.project.weight.T
    return x + (short @ ends.up_sample.project.weight.T).reshape(len(x), -1, x.shape[2])[:, : x.shape[1]]


@torch.no_grad()
def pairs(d_model: int, n_heads: int, length: int) -> dict[str, tuple[nn.Module, nn.Module, list[int]]]:
    """Each layer, its plain form with the same weights, and the lengths of their inputs."""
    D, H, T, n = d_model, n_heads, length, length // FACTOR
    attention, gate = (Attention, "attend", spelled_out), (SpatialGatingUnit, "mix", masked_product)
    conv = (CausalDepthwiseConv, "forward", tidy_conv)
    means = ShortenAndUpSample(AvgPoolShortening(D, FACTOR), NaiveUpSampling(D, FACTOR))
    projections = ShortenAndUpSample(LinearPoolingShortening(D, FACTOR), LinearUpSampling(D, FACTOR))
    block = partial(GMLPBlock, D, 4 * D, T, causal=True)
    made: dict[str, tuple[nn.Module, list[int], list[Part]]] = {
        "attention": (MultiHeadAttention(D, H), [T], [attention]),
        "convolved attention": (MultiDConvHeadAttention(D, H), [T], [conv]),
        "squared ReLU": (FeedForward(D, 4 * D, SquaredReLU()), [T], [(SquaredReLU, "forward", plain_squared_relu)]),
        "causal gMLP block": (block(), [T], [gate]),
        "attention from windows to tokens": (CrossAttention(D, H, query_step=FACTOR, key_step=1), [n, T], [attention]),
        "attention from tokens to windows": (CrossAttention(D, H, query_step=1, key_step=FACTOR), [T, n], [attention]),
        "shortening and up-sampling": (means, [T], [(ShortenAndUpSample, "forward", plain_means)]),
        "Primer's norm": (PrimerNorm(D), [T], [(PrimerNorm, "forward", plain_norm)]),
        "queries from convolved keys": (SharedQueryKeyAttention(D, H), [T], [conv]),
        "gated network": (GatedFeedForward(D, 4 * D, nn.SiLU()), [T], [(nn.SiLU, "forward", plain_silu)]),
        "linear shortening and up-sampling": (projections, [T], [(ShortenAndUpSample, "forward", plain_projections)]),
        "causal aMLP block": (block(d_attention=64), [T], [gate, attention]),
        "Toeplitz gMLP block": (block(weight="toeplitz"), [T], [gate]),
        "Toeplitz gMLP block, by the transform": (block(weight="toeplitz", fft=True), [T], [gate]),
    }
    for ours, *_ in made.values():
        for p in ours.parameters():
            p.add_(0.02 * torch.randn_like(p))  # far from what is 0 or 1 at the start
    return {name: (ours, rewritten(ours, *parts), lengths) for name, (ours, lengths, parts) in made.items()}
