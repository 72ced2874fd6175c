"""Time and memory of a training step as the text grows, for every family; for study S8.

python benchmarks/lengths.py

One sequence, forward and backward, one thread; medians of rounds in which the families take turns. Dense spatial
matrices stop at 2,048 tokens, where they alone have 34 million numbers in eight blocks. Rows go to
benchmarks/results/lengths.json with the multiply-adds that the cost model counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from timing import medians

from efficient_transformers import LanguageModel, build_model
from efficient_transformers.judging.recording import environment
from efficient_transformers.layers.inspection import peak_memory
from efficient_transformers.models.cost import multiply_adds

RESULTS = Path(__file__).parent / "results" / "lengths.json"
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
DENSE_UP_TO = 2048
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Baseline": ("transformer", {}),
    "Primer EZ": ("primer-ez", {}),
    "Primer": ("primer", {}),
    "Hourglass": ("hourglass", {}),
    "dense gMLP": ("dense-gmlp", {}),
    "gMLP": ("gmlp", {}),
    "gMLP, transform": ("gmlp", {"fft": True}),
    "dense aMLP": ("amlp", {"weight": "dense"}),
}


def models(length: int) -> dict[str, LanguageModel]:
    """A small model of each family that can read ``length`` tokens."""
    made = {}
    for label, (name, options) in FAMILIES.items():
        dense = "dense" in label
        if length <= DENSE_UP_TO or not dense:
            made[label] = build_model(name, vocab_size=79, max_seq_len=length, **options)
    return made


def step(model: LanguageModel, tokens: torch.Tensor) -> Callable[[], None]:
    """Forward and backward of one training step."""

    def run() -> None:
        model.zero_grad()
        F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()

    return run


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for length in LENGTHS:
        tokens = torch.randint(79, (1, length + 1))
        made = models(length)
        steps = {label: step(model, tokens) for label, model in made.items()}
        rounds = max(3, 9 * 512 // length) if length > 512 else 9
        took = medians(steps, rounds, warm_up=1)
        for label, model in made.items():
            model.zero_grad()
            row = {"model": label, "length": length, "ms": round(took[label] * 1e3, 2), "rounds": rounds}
            row |= {"peak_bytes": peak_memory(steps[label])}
            row |= {"multiply_adds": round(multiply_adds(model, length) * length)}
            rows.append(row)
            print(f"{label:26} {length:5}  {row['ms']:9.1f} ms  {row['peak_bytes'] / 2**20:7.0f} MiB", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"rows": rows, **environment()}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
