"""An example of every figure that the package draws, hard ones included: long names, many panels, many letters."""

from __future__ import annotations

import torch

from efficient_transformers import GMLPBlock, Metrics, build_model, figures
from efficient_transformers.book import diagrams
from efficient_transformers.judging.evidence import Comparison

MODELS = ("baseline", "squared ReLU alone", "Primer EZ", "only v", "full Primer", "SwiGLU")


def metrics(start, end):
    """A loss that falls from ``start`` towards ``end``."""
    return Metrics(
        {"step": s, "seconds": s / 30, "train_loss": 3.0, "validation_loss": end + (start - end) * 2 ** (-s / 80)}
        for s in range(0, 500, 25)
    )


def losses(names):
    return {name: metrics(3.0, 1.8 + i / 20) for i, name in enumerate(names)}


def weights(n, seed=0):
    return torch.randn(n, n, generator=torch.Generator().manual_seed(seed)).softmax(-1).tril()


def difference(mean, width):
    values = [mean - width / 2, mean, mean + width / 2]
    return Comparison(values, mean, mean - width, mean + width, p=0.04, told_apart=width < abs(mean), error=width / 3)


def layer(name):
    return lambda: diagrams.draw_layer(build_model(name, vocab_size=9, d_model=128).body[0])


def block(**options):
    return lambda: diagrams.draw_block(GMLPBlock(128, 512, 64, causal=True, **options))


ATTENDED = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.6, 0.2]])
VALUES = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
EIGHT, WINDOWS, INSIDE = torch.tensor([8.0, 4, 8, 4, 8, 0, 4, 8]), torch.tensor([2.0, 6]), torch.tensor([2.0, 8])
WAVE = torch.tensor([1.0, -1.0] * 4)
TOKENS, ENDS = torch.arange(9), 4 * torch.arange(3)
POINTS = {"baseline": (1.0, 1.9), "Hourglass": (0.7, 1.95)}
LENGTHS = [64, 128, 256, 512, 1024, 2048, 4096, 8192]
TIMES = {name: (LENGTHS, [1e-5 * (i + 1) * n for n in LENGTHS]) for i, name in enumerate(("dense", "blocked", "FFT"))}
EXAMPLES = {
    "curves one": lambda: figures.curves({"": {"a": ([1, 2, 3], [1, 4, 9])}}, "distance", "product, relative"),
    "curves names": lambda: figures.curves(
        {"": {name: (range(50), [i + x**0.5 for x in range(50)]) for i, name in enumerate(MODELS)}}, "step", "loss"
    ),
    "curves log": lambda: figures.curves(
        {"forward and backward (seconds)": TIMES, "memory of the caches (bytes)": TIMES},
        "length of the sequence", "microseconds per token and layer", marker="o", log=True,
    ),
    "curves log one": lambda: figures.curves({"": TIMES}, "length T", "microseconds per token", marker="o", log=True),
    "curves log near": lambda: figures.curves({"": {"a": ([64, 1024], [3e-3, 5e-3])}}, "length", "seconds", log=True),
    "curves places": lambda: figures.curves(
        {"": {name: (range(4), [2.0, 2.01, 2.0, 2.02]) for name in ("baseline", "hourglass")}},
        "t mod 4", "validation loss (nats per character)", marker="o",
    ),
    "losses": lambda: figures.plot_losses(losses(MODELS[:1]), target=4.37).figure,
    "losses many": lambda: figures.plot_losses(losses(MODELS)).figure,
    "compare": lambda: figures.compare_losses(losses(MODELS), target=2.0),
    "compare two": lambda: figures.compare_losses(losses(("baseline", "Primer EZ")), target=1.86),
    "compare families": lambda: figures.compare_losses(
        losses(("baseline", "dense gMLP", "gMLP", "dense aMLP", "aMLP", "hourglass"))
    ),
    "strips": lambda: figures.strips(
        {"short": (difference(-0.055, 0.02), "better"), "long": (difference(0.005, 0.02), "cannot tell")}
    ),
    "differences": lambda: figures.differences(
        {name: difference(-0.05 + 0.02 * i, 0.03) for i, name in enumerate((*MODELS, "kernels per head, no bias"))},
        "final loss minus that of Primer EZ (nats per character)",
    ),
    "by length": lambda: figures.by_length(
        {title: {name: {500: (-0.2 + 0.04 * i, True), 2000: (-0.02 * i, i > 2)} for i, name in enumerate(names)}
         for title, names in (("after as many steps", ("gMLP", "full Primer", "SwiGLU", "Primer EZ", "Hourglass")),
                              ("after as much time", ("gMLP", "full Primer, 2 layers", "baseline, 2 layers")))},
        "test loss minus the baseline's (nats)",
    ),
    "by depth": lambda: figures.by_depth(
        [0, 60, 125, 250, 500], [[0.05, 0.1, 0.3 + i / 50, 0.5, 0.95 - i / 60] for i in range(8)],
        "training step", "Toeplitz share", "block",
    ),
    "leaks": lambda: figures.leak_maps(
        {"this chapter's model": torch.ones(12, 12).tril(), "mask one too generous": torch.ones(12, 12).tril(1)}
    ),
    "three leaks": lambda: figures.leak_maps({f"shift {s}": torch.ones(24, 24).tril(2 - s) for s in range(3)}),
    "glimpses": lambda: figures.glimpses("one by one", {"one letter": 1, "three letters": 3}),
    "reading": lambda: figures.reading("abc", VALUES, ATTENDED, ATTENDED @ VALUES),
    "clock hands": lambda: figures.clock_hands("ab", keys=[0.0, 1.0], query=1.0),
    "loss and landmarks": lambda: figures.loss_and_landmarks(
        {0: 4.4, 20: 3.0, 100: 2.0}, {"crossed early": 3.5, "crossed late": 2.5}, (1.9, 2.1)
    ),
    "growing": lambda: figures.growing({name: 3 - i / 5 for i, name in enumerate(MODELS)}),
    "worked example": lambda: figures.worked_example(
        "a b", "ab", {"before": VALUES, "after": VALUES.flip(0)}, {"before": VALUES[:, 0], "after": 1 + VALUES[:, 1]}
    ),
    "written out": lambda: figures.written_out(
        [("$W$", ATTENDED), "·", ("$z$", VALUES), "=", ("$f$", ATTENDED @ VALUES)], ["a", "b", "c"], shaded="$W$"
    ),
    "loss in band": lambda: figures.loss_in_band(metrics(3, 2), [metrics(3, 2), metrics(3, 2.1)], margin=0.25, top=4),
    "learned matrix": lambda: figures.learned_matrix(weights(20), 1.0, (9, 18), back=5),
    "lottery": lambda: figures.lottery(weights(500)[:, :2], ["one", "best"]),
    "tuning curves": lambda: figures.tuning_curves(
        {"baseline": {0.001: 2.0, 0.002: 1.9, 0.00283: 1.95}, "gMLP": {0.001: 1.8}}
    ),
    "trade-offs": lambda: figures.trade_offs({"work": POINTS, "time": POINTS}, "loss"),
    "growth": lambda: figures.growth({"work": {name: {64: 1.0, 8192: 3.0 + i} for i, name in enumerate(MODELS[:3])}}),
    "waist": lambda: figures.waist(4, {"8 plain layers": 20.0, "this hourglass": 7.6}),
    "by hand": lambda: figures.by_hand(EIGHT, WINDOWS, INSIDE, EIGHT + INSIDE.repeat_interleave(4), 4),
    "who sees whom": lambda: figures.who_sees_whom(ENDS[:, None] >= TOKENS, TOKENS[:, None] >= ENDS, 4),
    "cost by length": lambda: figures.cost_by_length(
        (256, 512), {kind: {"eight": (4, 8), "three": (1, 2), "waist": (1, 3)} for kind in ("seconds", "MiB")}
    ),
    "knobs": figures.knobs,
    "waves": lambda: figures.waves({"a": (WAVE, WAVE / 2), "b": (WAVE, WAVE)}, marked=(4, 5)),
    "arrows": lambda: figures.arrows(ATTENDED[2], {"constant": 0, "a cycle in 4 tokens": 1 / 4}),
    "shares": lambda: figures.shares(
        [250, 500, 8000], {kind: [0.0, 0.1, 0.2 + i / 5] for i, kind in enumerate(("queries", "keys", "values"))}, 0.9
    ),
    "layer": layer("transformer"),
    "layer with convolutions": layer("primer-ez"),
    "block": block(),
    "block with attention": block(d_attention=64),
}  # fmt: skip
