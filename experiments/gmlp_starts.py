"""Does it matter how a gMLP starts? The training of chapter 5, from six starts.

    python experiments/gmlp_starts.py            # can be stopped and started again

Results go to experiments/results/gmlp-starts.jsonl, one line per run. One thread. One learning rate, and few batches
of validation text: a small comparison beside the text, not a study of the protocol.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from efficient_transformers import GMLPBlock, LanguageModel, TrainingConfig
from efficient_transformers.recording import Run, execute, run_study
from efficient_transformers.study import Record

RESULTS = Path(__file__).parent / "results" / "gmlp-starts.jsonl"


def training(seed: int) -> TrainingConfig:
    """What the chapter trains live."""
    return TrainingConfig(300, 12, 64, eval_every=60, eval_batches=32, seed=seed)


def blocks(model: LanguageModel) -> list[GMLPBlock]:
    """The blocks of a gMLP."""
    return [block for block in model.body.modules() if isinstance(block, GMLPBlock)]


def spatial(change: Callable[[Tensor], object]) -> Callable[[LanguageModel], None]:
    """Change the spatial matrix of each block."""

    def start(model: LanguageModel) -> None:
        for block in blocks(model):
            change(block.gate.weight.data)

    return start


def closed(model: LanguageModel) -> None:
    """The bias of each gate starts at 0 instead of 1, so that almost nothing passes."""
    for block in blocks(model):
        nn.init.zeros_(block.gate.bias)


def awake(model: LanguageModel) -> None:
    """The last matrix of each block starts like the others, not at zero."""
    for block in blocks(model):
        nn.init.normal_(block.down.weight, std=block.down.in_features**-0.5)


def awake_and_wide(model: LanguageModel) -> None:
    """Both: a last matrix that is not zero, and a spatial matrix that is not small."""
    awake(model)
    spatial(lambda w: w.uniform_(-0.1, 0.1))(model)


STARTS: dict[str, Callable[[LanguageModel], object]] = {
    "b = 0": closed,
    "as built": lambda model: None,
    "W within 0.1": spatial(lambda w: w.uniform_(-0.1, 0.1)),
    "last matrix not zero": awake,
    "W within 0.01": spatial(lambda w: w.uniform_(-0.01, 0.01)),
    "last matrix not zero, W within 0.1": awake_and_wide,
}
SEEDS = {"as built": (0, 1, 2), "b = 0": (0, 1, 2)}  # one seed of each of the others
RUNS = [Run(label, "gmlp", training(seed), {"max_seq_len": 64}) for label in STARTS for seed in SEEDS.get(label, (0,))]


def gates(model: LanguageModel) -> Record:
    """What became of the gate of each block."""
    return {
        "toeplitz": [round(toeplitz_share(block.gate.weight.detach()), 4) for block in blocks(model)],
        "bias": [round(block.gate.bias.detach().mean().item(), 4) for block in blocks(model)],
        "lag": [round(block.gate.weight.detach().diagonal(-1).mean().item(), 4) for block in blocks(model)],
    }


def toeplitz_share(weight: Tensor) -> float:
    """(5.8) of the chapter: the share of the sum of squares that is left if each diagonal becomes its mean."""
    w = weight.double().tril()
    n = len(w)
    kept = math.fsum((n - j) * w.diagonal(-j).mean().item() ** 2 for j in range(n))
    return kept / w.square().sum().item()


def main() -> None:
    torch.set_num_threads(1)
    run_study(RUNS, RESULTS, lambda run: execute(run, show_progress=False, change=STARTS[run.label], measure=gates))


if __name__ == "__main__":
    main()
