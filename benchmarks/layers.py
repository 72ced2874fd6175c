"""One layer, forward and backward: fused attention against einsum, convolved attention against plain.

Time as a ratio of medians; memory as a ratio of the most bytes alive at once.

python benchmarks/layers.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from timing import medians, report
from torch import Tensor, nn

from efficient_transformers import (
    CausalDepthwiseConv,
    FeedForward,
    MultiDConvHeadAttention,
    MultiHeadAttention,
    SquaredReLU,
    TransformerLayer,
)
from efficient_transformers.layers.convolution import SHARINGS
from efficient_transformers.layers.inspection import peak_memory

D, H, D_FF = 256, 8, 1024


class EinsumAttention(MultiHeadAttention):
    """The same attention with its weights spelled out, ``[batch, heads, seq, seq]``."""

    def forward(self, x: Tensor, cache: None = None) -> Tensor:
        q, k, v = self.heads(x)  # (B, H, T, K)
        scores = torch.einsum("bhtk,bhsk->bhts", q * q.shape[-1] ** -0.5, k)  # (B, H, T, T)
        future = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1)
        weights = scores.masked_fill_(future, -torch.inf).softmax(-1)
        return self.output(torch.einsum("bhts,bhsk->bhtk", weights, v).transpose(1, 2).flatten(2))


class PermutedConv1d(CausalDepthwiseConv):
    """The same convolution in the form that is usual elsewhere: channels to the front, pad both sides, cut the end.

    It returns a view whose channels are far apart, which attention then has to gather; ``TidyConv1d`` copies it.
    """

    def forward(self, x: Tensor, cache: None = None) -> Tensor:
        B, T, D = x.shape
        heads, channels, W = self.weight.shape
        x = x.permute(0, 2, 1).reshape(-1, heads * channels, T)  # (B or B*H or B*D, kernels, T)
        kernel = self.weight.flip(2).view(-1, 1, W)
        y = F.conv1d(x, kernel, padding=W - 1, groups=len(kernel))[..., :T]
        return y.reshape(B, D, T).permute(0, 2, 1)  # (B, T, D)


class TidyConv1d(PermutedConv1d):
    def forward(self, x: Tensor, cache: None = None) -> Tensor:
        return super().forward(x).contiguous()


class PermutedAttention(MultiDConvHeadAttention):
    def __init__(self, d_model: int, n_heads: int, sharing: str, kind: type[PermutedConv1d]) -> None:
        super().__init__(d_model, n_heads, sharing=sharing)
        for name in "qkv":
            setattr(self, f"conv_{name}", kind(d_model, n_heads, sharing=sharing))


def layer(attention: nn.Module, activation: nn.Module) -> nn.Module:
    return TransformerLayer(attention, FeedForward(D, D_FF, activation), D)


def step(module: nn.Module, x: Tensor) -> Callable[[], object]:
    return lambda: module(x).sum().backward()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = {
        "baseline": layer(MultiHeadAttention(D, H), nn.ReLU()),
        "einsum": layer(EinsumAttention(D, H), nn.ReLU()),
        "Primer EZ": layer(MultiDConvHeadAttention(D, H), SquaredReLU()),
    }
    for sharing in SHARINGS:
        layers[f"convolved, {sharing}"] = layer(MultiDConvHeadAttention(D, H, sharing=sharing), nn.ReLU())
        for name, kind in (("permuted", PermutedConv1d), ("tidy", TidyConv1d)):
            layers[f"{name}, {sharing}"] = layer(PermutedAttention(D, H, sharing, kind), nn.ReLU())
    x, a, b = torch.randn(2, 9, D), layers["convolved, heads"].attention, layers["permuted, heads"].attention
    b.load_state_dict(a.state_dict())
    torch.testing.assert_close(a(x), b(x))

    good = True
    for batch, length, repeats, einsum_bound, conv_bound in (
        (8, 256, 25, 0.95, 1.10),
        (2, 1024, 15, 0.45, 1.07),
        (1, 2048, 9, 0.33, None),
    ):
        x = torch.randn(batch, length, D, requires_grad=True)
        steps = {name: step(module, x) for name, module in layers.items()}
        took = medians(steps, repeats)
        for module in layers.values():
            module.zero_grad()
        x.grad = None
        needs = {name: peak_memory(function) for name, function in steps.items()}
        print(
            f"batch {batch}, length {length}: baseline {took['baseline'] * 1e3:.0f} ms, {needs['baseline'] >> 20} MiB"
        )
        rows: list[tuple[str, float, float | None]] = [
            ("time: baseline / einsum attention", took["baseline"] / took["einsum"], einsum_bound)
        ]
        rows.append(("time: Primer EZ / baseline", took["Primer EZ"] / took["baseline"], conv_bound))
        for sharing in SHARINGS:
            ours, theirs, tidy = (f"{name}, {sharing}" for name in ("convolved", "permuted", "tidy"))
            rows += [
                (f"time: convolved / plain, {sharing}", took[ours] / took["baseline"], conv_bound),
                (f"time: convolved / permuted conv1d, {sharing}", took[ours] / took[theirs], 1.0),
                (f"time: convolved / the same, copied, {sharing}", took[ours] / took[tidy], 1.0),
                (f"memory: convolved / plain, {sharing}", needs[ours] / needs["baseline"], None),
                (f"memory: convolved / permuted conv1d, {sharing}", needs[ours] / needs[theirs], 1.0),
                (f"memory: convolved / the same, copied, {sharing}", needs[ours] / needs[tidy], None),
            ]
        good = report(rows) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
