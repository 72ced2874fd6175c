"""What does a leak gain? The hourglass of chapter 4, its sequence shifted by less than it must be.

    python experiments/shifts.py            # can be stopped and started again

Results go to experiments/results/hourglass-shifts.jsonl, one line per run. One thread. One learning rate, and few
batches of validation text: numbers beside an instrument, not a study of the protocol.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from efficient_transformers import AvgPoolShortening, Cache, TrainingConfig, build_model, load_corpus, train
from efficient_transformers.family import parameter_count
from efficient_transformers.logs import finite
from efficient_transformers.recording import Run
from efficient_transformers.study import Record, append_record, environment, read_records

RESULTS = Path(__file__).parent / "results" / "hourglass-shifts.jsonl"
FACTOR = 4


class ShiftedBy(AvgPoolShortening):
    """Windows of a sequence that is shifted by ``shift`` tokens; by ``factor - 1`` is right."""

    def __init__(self, d_model: int, factor: int, shift: int) -> None:
        super().__init__(d_model, factor)
        self.by = shift

    def windows(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        T, k = x.shape[1], self.factor
        n = (T - 1) // k + 1
        return F.pad(x, (0, 0, self.by, k))[:, : n * k].unflatten(1, (n, k))  # (B, n, k, D)


def training(seed: int) -> TrainingConfig:
    """What the chapter trains live."""
    return TrainingConfig(200, 6, 128, eval_every=40, eval_batches=32, seed=seed)


RUNS = [
    Run(f"shift by {shift}", "hourglass", training(seed), {"hierarchy": f"1@1 2@{FACTOR} 1@1"})
    for shift in range(FACTOR)
    for seed in (0, 1, 2)
]


def execute(run: Run) -> Record:
    """Build, shift, train."""
    corpus = load_corpus(run.corpus)
    torch.manual_seed(run.training.seed)
    model = build_model(run.model, vocab_size=len(corpus.vocabulary), **run.options)
    model.body.shorten = ShiftedBy(model.d_model, FACTOR, int(run.label.split()[-1]))
    metrics = train(model, corpus, run.training, show_progress=False)
    return {
        "run": run.describe(),
        "parameters": parameter_count(model),
        "metrics": [{k: round(v, 4) for k, v in finite(record).items()} for record in metrics],
        **environment(),
    }


def main() -> None:
    torch.set_num_threads(1)
    done = [record["run"] for record in read_records(RESULTS)] if RESULTS.exists() else []
    for run in RUNS:
        if run.describe() not in done:
            record = execute(run)
            append_record(record, RESULTS)
            print(run.label, run.training.seed, record["metrics"][-1], flush=True)


if __name__ == "__main__":
    main()
