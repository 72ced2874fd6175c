"""One layer, forward and backward: fused attention against einsum, Primer EZ against the baseline.

python benchmarks/layers.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from timing import medians, report
from torch import Tensor, nn

from efficient_transformers import (
    FeedForward,
    MultiDConvHeadAttention,
    MultiHeadAttention,
    SquaredReLU,
    TransformerLayer,
)

D, H, D_FF = 256, 8, 1024


class EinsumAttention(MultiHeadAttention):
    """The same attention with its weights spelled out, ``[batch, heads, seq, seq]``."""

    def forward(self, x: Tensor, cache: None = None) -> Tensor:
        q, k, v = self.heads(x)  # (B, H, T, K)
        scores = torch.einsum("bhtk,bhsk->bhts", q * q.shape[-1] ** -0.5, k)  # (B, H, T, T)
        future = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1)
        weights = scores.masked_fill_(future, -torch.inf).softmax(-1)
        return self.output(torch.einsum("bhts,bhsk->bhtk", weights, v).transpose(1, 2).flatten(2))


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
        "primer": layer(MultiDConvHeadAttention(D, H), SquaredReLU()),
    }
    rows: list[tuple[str, float, float | None]] = []
    for batch, length, repeats, einsum_bound, primer_bound in (
        (8, 256, 25, 0.95, 1.12),
        (2, 1024, 15, 0.45, 1.08),
        (1, 2048, 9, 0.33, None),
    ):
        x = torch.randn(batch, length, D, requires_grad=True)
        took = medians({name: step(module, x) for name, module in layers.items()}, repeats)
        where = f"batch {batch}, length {length} ({took['baseline'] * 1e3:.0f} ms)"
        rows.append((f"baseline / einsum attention, {where}", took["baseline"] / took["einsum"], einsum_bound))
        rows.append((f"Primer EZ / baseline, {where}", took["primer"] / took["baseline"], primer_bound))
    sys.exit(0 if report(rows) else 1)


if __name__ == "__main__":
    main()
