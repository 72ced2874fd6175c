"""The digits of Chapter 5: gMLP, and a Transformer of about as many parameters, each at its own best rate tried.

    python experiments/digits.py                 # can be stopped and started again

Rates are tried with 360 of the digits to train held back, with a seed that is not reported, and judged by cross-entropy
on these; then five seeds train on all digits to train and are scored once on the held-out ones. Results go to
experiments/results/digits.jsonl, one line per run. One thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from efficient_transformers import (
    FeedForward,
    LearnedPositions,
    MultiHeadAttention,
    Stack,
    TransformerLayer,
    initialize,
)
from efficient_transformers.layers.family import parameter_count
from efficient_transformers.studies.digits import (
    DigitClassifier,
    Digits,
    DigitTraining,
    accuracy,
    load_digits,
    train_digits,
)
from efficient_transformers.studies.records import Record, environment, read_records, record_once

RESULTS = Path(__file__).parent / "results" / "digits.jsonl"
RATES = (0.0015, 0.003, 0.006, 0.012, 0.024)
TUNING_SEED, SEEDS = 100, (0, 1, 2, 3, 4)
HELD_BACK = 360  # of the digits to train, while rates are tried


class PixelTransformer(nn.Module):
    """A :class:`DigitClassifier` with learned positions and two-sided attention in the place of its blocks.

    Args:
        d_model: channels.
        d_ff: channels inside the feed-forward networks.
        n_layers: number of layers, of four heads each.
        side: pixels along each side of the image.
        positions: their spread when training starts; 1 is as loud as what tells a pixel's brightness.
    """

    def __init__(
        self, d_model: int = 32, d_ff: int = 112, *, n_layers: int = 5, side: int = 8, positions: float = 1.0
    ) -> None:
        super().__init__()
        self.embed, self.positions = nn.Linear(1, d_model), LearnedPositions(d_model, side**2)
        layers: list[nn.Module] = []
        for _ in range(n_layers):
            attention = MultiHeadAttention(d_model, 4, rotary=False, causal=False)
            layers.append(TransformerLayer(attention, FeedForward(d_model, d_ff, nn.ReLU()), d_model))
        self.body = Stack(layers)
        initialize(self.body)
        nn.init.normal_(self.positions.weight, std=positions)
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.positions(self.embed(images.flatten(1).unsqueeze(2)))  # (B, N, D)
        return self.head(self.norm(self.body(x)).mean(1))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "gMLP": DigitClassifier,
    "Transformer": PixelTransformer,
    "Transformer, faint positions": partial(PixelTransformer, positions=0.02),  # as they start in a model of text
}


def describe(model: str, role: str, rate: float, seed: int) -> Record:
    """A run, as its record has it."""
    return {"model": model, "role": role} | asdict(DigitTraining(learning_rate=rate, seed=seed))


def without_some(digits: Digits) -> Digits:
    """The digits to train alone: those held back in the place of the held-out ones."""
    images, labels = digits.train_images, digits.train_labels
    return Digits(images[HELD_BACK:], labels[HELD_BACK:], images[:HELD_BACK], labels[:HELD_BACK])


def execute(run: Record) -> Record:
    """Train, score, and return the record."""
    digits = load_digits() if run["role"] == "reported" else without_some(load_digits())
    config = DigitTraining(**{key: value for key, value in run.items() if key not in ("model", "role")})
    model, seconds = train_digits(config, make=MODELS[run["model"]], digits=digits)
    with torch.no_grad():
        loss = F.cross_entropy(model(digits.test_images), digits.test_labels).item()
    record = {
        "run": run,
        "parameters": parameter_count(model),
        "loss": round(loss, 4),
        "accuracy": round(accuracy(model, digits.test_images, digits.test_labels), 4),
        "train_accuracy": round(accuracy(model, digits.train_images, digits.train_labels), 4),
        "seconds": round(seconds, 1),
    }
    return record | environment()


def best_rate(model: str, records: list[Record]) -> float:
    """The rate with the lowest loss of those tried.

    Raises:
        ValueError: if it lies at an edge of the grid.
    """
    tried = {
        r["run"]["learning_rate"]: r["loss"]
        for r in records
        if (r["run"]["model"], r["run"]["role"]) == (model, "tuning")
    }
    best = min(tried, key=tried.__getitem__)
    if best in (min(RATES), max(RATES)):
        raise ValueError(f"the best rate of {model!r} is {best:g}; expected one inside {RATES}")
    return best


def main() -> None:
    torch.set_num_threads(1)

    def make(model: str, role: str, rate: float, seed: int) -> None:
        run = describe(model, role, rate, seed)
        name = f"{model}, {role}, rate {rate:g}, seed {seed}"
        record_once(run, RESULTS, partial(execute, run), name=name, wait=True)

    for model in MODELS:
        for rate in RATES:
            make(model, "tuning", rate, TUNING_SEED)
        best = best_rate(model, read_records(RESULTS))
        for seed in SEEDS:
            make(model, "reported", best, seed)


if __name__ == "__main__":
    main()
