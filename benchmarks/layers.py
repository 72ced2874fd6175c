"""One layer, forward and backward: fused attention against one spelled out, convolved attention against plain.

Time as a ratio of medians; memory as a ratio of the most bytes alive at once.

python benchmarks/layers.py
"""

import sys

import torch
from plain import permuted_conv, rewritten, spelled_out, tidy_conv
from timing import medians, report, step
from torch import nn

from efficient_transformers import (
    CausalDepthwiseConv,
    FeedForward,
    MultiDConvHeadAttention,
    MultiHeadAttention,
    SquaredReLU,
    TransformerLayer,
)
from efficient_transformers.layers.attention import Attention
from efficient_transformers.layers.convolution import SHARINGS
from efficient_transformers.layers.inspection import peak_memory

D, H, D_FF = 256, 8, 1024


def layer(attention: nn.Module, activation: nn.Module) -> nn.Module:
    return TransformerLayer(attention, FeedForward(D, D_FF, activation), D)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    baseline = layer(MultiHeadAttention(D, H), nn.ReLU())
    layers = {
        "baseline": baseline,
        "spelled out": rewritten(baseline, (Attention, "attend", spelled_out)),
        "Primer EZ": layer(MultiDConvHeadAttention(D, H), SquaredReLU()),
    }
    x = torch.randn(2, 9, D)
    for sharing in SHARINGS:
        layers[f"convolved, {sharing}"] = ours = layer(MultiDConvHeadAttention(D, H, sharing=sharing), nn.ReLU())
        for name, conv in (("permuted", permuted_conv), ("tidy", tidy_conv)):
            layers[f"{name}, {sharing}"] = theirs = rewritten(ours, (CausalDepthwiseConv, "forward", conv))
            torch.testing.assert_close(ours(x), theirs(x))

    good = True
    for batch, length, repeats, spelled_out_bound, conv_bound in (
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
        rows = [
            ("time: baseline / attention spelled out", took["baseline"] / took["spelled out"], spelled_out_bound),
            ("time: Primer EZ / baseline", took["Primer EZ"] / took["baseline"], conv_bound),
        ]
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
