"""The digits model of chapter 5, trained with three seeds.

    python experiments/digits.py                 # can be stopped and started again

Results go to experiments/results/digits.jsonl, one line per seed. One thread.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch

from efficient_transformers.digits import DigitTraining, digit_record
from efficient_transformers.recording import record_once
from efficient_transformers.study import Record, environment

RESULTS = Path(__file__).parent / "results" / "digits.jsonl"
RUNS = [DigitTraining(seed=seed) for seed in (0, 1, 2)]


def execute(run: DigitTraining) -> Record:
    """Train, and return the record."""
    return digit_record(run) | environment()


def main() -> None:
    torch.set_num_threads(1)
    for run in RUNS:
        record_once(asdict(run), RESULTS, partial(execute, run), name=f"seed {run.seed}", wait=True)


if __name__ == "__main__":
    main()
