"""The layers as one writes them at first, with the same weights: what the package's layers are measured against."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from layers import PermutedAttention, TidyConv1d
from torch import Tensor, nn

from efficient_transformers import (
    AvgPoolShortening,
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
    TinyAttention,
)
from efficient_transformers.layers.attention import Attention
from efficient_transformers.layers.resampling import CrossAttention

FACTOR = 4  # of the resampling


class DenseGate(SpatialGatingUnit):
    """The causal product with the whole matrix, the future set to zero; the faster of two ways to write it."""

    def mix(self, z: Tensor, cache: None = None) -> Tensor:
        matrix = self.matrix(z.shape[1]).tril()
        return torch.bmm(matrix.expand(len(z), -1, -1), z)


class SpelledOut(Attention):
    """Attention with all its weights in memory, ``[batch, heads, n, m]``."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, **_: Any) -> Tensor:
        return self.output((self.weights(q, k) @ v).transpose(1, 2).flatten(2))


class PlainAttention(SpelledOut, MultiHeadAttention):
    pass


class PlainCrossAttention(SpelledOut, CrossAttention):
    pass


class PlainTinyAttention(SpelledOut, TinyAttention):
    def forward(self, x: Tensor, cache: None = None, mask: None = None) -> Tensor:
        return self.attend(*(self.split(project(x)) for project in (self.query, self.key, self.value)))


class PlainSharedAttention(SharedQueryKeyAttention):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.conv_k, self.conv_v = (TidyConv1d(d_model, n_heads) for _ in range(2))


class PlainSiLU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)


class PlainSquaredReLU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x) ** 2


class PlainNorm(PrimerNorm):
    """Equation by equation, as the paper's code has it."""

    def forward(self, x: Tensor) -> Tensor:
        centered = x - x.mean(-1, keepdim=True)
        variance = (x * centered).mean(-1, keepdim=True)
        return self.weight * centered / torch.sqrt(variance + self.eps) + self.bias


class ShortenAndUpSample(nn.Module):
    """From all tokens to windows and back."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.shorten, self.up_sample = AvgPoolShortening(d_model, FACTOR), NaiveUpSampling(d_model, FACTOR)

    def forward(self, x: Tensor) -> Tensor:
        return self.up_sample(x, self.shorten(x))


def plain_windows(x: Tensor) -> Tensor:
    """``[batch, seq, channels]`` to ``[batch, windows, FACTOR, channels]``."""
    n = (x.shape[1] - 1) // FACTOR + 1
    return F.pad(x, (0, 0, FACTOR - 1, 0))[:, : n * FACTOR].reshape(len(x), n, FACTOR, -1)


class PlainShortenAndUpSample(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + plain_windows(x).mean(2).repeat_interleave(FACTOR, dim=1)[:, : x.shape[1]]


class LinearShortenAndUpSample(ShortenAndUpSample):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.shorten, self.up_sample = LinearPoolingShortening(d_model, FACTOR), LinearUpSampling(d_model, FACTOR)


class PlainLinearShortenAndUpSample(LinearShortenAndUpSample):
    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        short = plain_windows(x).flatten(2) @ self.shorten.project.weight.T
        return x + (short @ self.up_sample.project.weight.T).reshape(B, -1, D)[:, :T]


def pairs(d_model: int, n_heads: int, length: int) -> dict[str, tuple[nn.Module, nn.Module, list[int]]]:
    """Each layer, its plain form with the same weights, and the lengths of their inputs."""
    D, H, T, n = d_model, n_heads, length, length // FACTOR
    down, up = {"query_step": FACTOR, "key_step": 1}, {"query_step": 1, "key_step": FACTOR}

    def blocks(**options: Any) -> tuple[nn.Module, nn.Module, list[int]]:
        ours, plain = (GMLPBlock(D, 4 * D, T, causal=True, **options) for _ in range(2))
        plain.gate = DenseGate(4 * D, T, causal=True, weight=options.get("weight", "dense"))
        if plain.attention is not None:
            plain.attention = PlainTinyAttention(D, plain.gate.d_out, causal=True)
        return ours, plain, [T]

    made: dict[str, tuple[nn.Module, nn.Module, list[int]]] = {
        "attention": (MultiHeadAttention(D, H), PlainAttention(D, H), [T]),
        "convolved attention": (
            MultiDConvHeadAttention(D, H),
            PermutedAttention(D, H, "heads", TidyConv1d),
            [T],
        ),
        "squared ReLU": (FeedForward(D, 4 * D, SquaredReLU()), FeedForward(D, 4 * D, PlainSquaredReLU()), [T]),
        "causal gMLP block": blocks(),
        "attention from windows to tokens": (CrossAttention(D, H, **down), PlainCrossAttention(D, H, **down), [n, T]),
        "attention from tokens to windows": (CrossAttention(D, H, **up), PlainCrossAttention(D, H, **up), [T, n]),
        "shortening and up-sampling": (ShortenAndUpSample(D), PlainShortenAndUpSample(), [T]),
        "Primer's norm": (PrimerNorm(D), PlainNorm(D), [T]),
        "queries from convolved keys": (SharedQueryKeyAttention(D, H), PlainSharedAttention(D, H), [T]),
        "gated network": (GatedFeedForward(D, 4 * D, nn.SiLU()), GatedFeedForward(D, 4 * D, PlainSiLU()), [T]),
        "linear shortening and up-sampling": (LinearShortenAndUpSample(D), PlainLinearShortenAndUpSample(D), [T]),
        "causal aMLP block": blocks(d_attention=64),
        "Toeplitz gMLP block": blocks(weight="toeplitz"),
        "Toeplitz gMLP block, by the transform": blocks(weight="toeplitz", fft=True),
    }
    for ours, plain, _ in made.values():
        with torch.no_grad():
            for p in ours.parameters():
                p.add_(0.02 * torch.randn_like(p))  # far from what is 0 or 1 at the start
        plain.load_state_dict(ours.state_dict())
    return made
