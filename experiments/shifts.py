"""What does a leak gain? The hourglass of chapter 4, its sequence shifted by less than it must be.

    python experiments/shifts.py            # can be stopped and started again

Results go to experiments/results/hourglass-shifts.jsonl, one line per run. One thread. One learning rate, and few
batches of validation text: numbers beside an instrument, not a study of the protocol.
"""

from __future__ import annotations

from pathlib import Path

import torch
from live import Recipe, execute, run_study

from efficient_transformers import AttentionBasedShortening, Hourglass, LanguageModel, ShiftRight, TrainingConfig
from efficient_transformers.studies.records import Record

RESULTS = Path(__file__).parent / "results" / "hourglass-shifts.jsonl"
FACTOR = 4
SHIFTS = {f"shift by {shift}": shift for shift in range(FACTOR)}  # by FACTOR - 1 is right


def training(seed: int) -> TrainingConfig:
    """What the chapter trains live."""
    return TrainingConfig(200, 6, 128, eval_every=40, eval_batches=32, seed=seed)


RUNS = [
    Recipe(label, "hourglass", training(seed), {"hierarchy": f"1@1 2@{FACTOR} 1@1"})
    for label in SHIFTS
    for seed in (0, 1, 2)
]


def shifted(run: Recipe) -> Record:
    """Train the hourglass with the shift of a run."""

    def change(model: LanguageModel) -> None:
        assert isinstance(model.body, Hourglass)
        assert not isinstance(model.body.shorten, AttentionBasedShortening)
        model.body.shorten.shift = ShiftRight(SHIFTS[run.label])

    return execute(run, show_progress=False, change=change)


def main() -> None:
    torch.set_num_threads(1)
    run_study(RUNS, RESULTS, shifted)


if __name__ == "__main__":
    main()
