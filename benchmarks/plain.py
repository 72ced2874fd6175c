"""The layers as one writes them at first, with the same weights: what the package's layers are measured against."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from gmlp import DenseGate
from layers import PermutedAttention, TidyConv1d
from torch import Tensor, nn

from efficient_transformers import (
    AvgPoolShortening,
    FeedForward,
    GMLPBlock,
    MultiDConvHeadAttention,
    MultiHeadAttention,
    NaiveUpSampling,
    PrimerNorm,
    SquaredReLU,
)
from efficient_transformers.attention import Attention
from efficient_transformers.resampling import CrossAttention

FACTOR = 4  # of the resampling


class SpelledOut(Attention):
    """Attention with all its weights in memory, ``[batch, heads, n, m]``."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, **_: Any) -> Tensor:
        return self.output((self.weights(q, k) @ v).transpose(1, 2).flatten(2))


class PlainAttention(SpelledOut, MultiHeadAttention):
    pass


class PlainCrossAttention(SpelledOut, CrossAttention):
    pass


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


class PlainShortenAndUpSample(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        n = (T - 1) // FACTOR + 1
        short = F.pad(x, (0, 0, FACTOR - 1, 0))[:, : n * FACTOR].reshape(B, n, FACTOR, D).mean(2)
        return x + short.repeat_interleave(FACTOR, dim=1)[:, :T]


def pairs(d_model: int, n_heads: int, length: int) -> dict[str, tuple[nn.Module, nn.Module, list[int]]]:
    """Each layer, its plain form with the same weights, and the lengths of their inputs."""
    D, H, T, n = d_model, n_heads, length, length // FACTOR
    down, up = {"query_step": FACTOR, "key_step": 1}, {"query_step": 1, "key_step": FACTOR}
    block, plain_block = (GMLPBlock(D, 4 * D, T, causal=True) for _ in range(2))
    plain_block.gate = DenseGate(4 * D, T, causal=True)
    made: dict[str, tuple[nn.Module, nn.Module, list[int]]] = {
        "attention": (MultiHeadAttention(D, H), PlainAttention(D, H), [T]),
        "convolved attention": (
            MultiDConvHeadAttention(D, H),
            PermutedAttention(D, H, "heads", TidyConv1d),
            [T],
        ),
        "squared ReLU": (FeedForward(D, 4 * D, SquaredReLU()), FeedForward(D, 4 * D, PlainSquaredReLU()), [T]),
        "causal gMLP block": (block, plain_block, [T]),
        "attention from windows to tokens": (CrossAttention(D, H, **down), PlainCrossAttention(D, H, **down), [n, T]),
        "attention from tokens to windows": (CrossAttention(D, H, **up), PlainCrossAttention(D, H, **up), [T, n]),
        "shortening and up-sampling": (ShortenAndUpSample(D), PlainShortenAndUpSample(), [T]),
        "Primer's norm": (PrimerNorm(D), PlainNorm(D), [T]),
    }
    for ours, plain, _ in made.values():
        with torch.no_grad():
            for p in ours.parameters():
                p.add_(0.02 * torch.randn_like(p))  # far from what is 0 or 1 at the start
        plain.load_state_dict(ours.state_dict())
    return made
