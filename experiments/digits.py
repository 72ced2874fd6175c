"""The digits model of chapter 5, trained with three seeds.

    python experiments/digits.py                 # can be stopped and started again

Results go to experiments/results/digits.jsonl, one line per seed. One thread.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch

from efficient_transformers.digits import DigitTraining, digit_record
from efficient_transformers.recording import claimed, recorded
from efficient_transformers.study import append_record, environment

RESULTS = Path(__file__).parent / "results" / "digits.jsonl"
RUNS = [DigitTraining(seed=seed) for seed in (0, 1, 2)]


def main() -> None:
    torch.set_num_threads(1)
    for run in RUNS:
        with claimed(asdict(run), RESULTS, wait=True):
            if not recorded(asdict(run), RESULTS):
                record = digit_record(run) | environment()
                append_record(record, RESULTS)
                print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
