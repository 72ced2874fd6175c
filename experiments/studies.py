"""The long runs behind the book's tables, and the way to make them.

    python experiments/studies.py                 # all that is missing; can be stopped and started again
    python experiments/studies.py learning-rate   # one study

Results go to experiments/results/, one line per run. One thread each, so that times compare.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from efficient_transformers import TrainingConfig
from efficient_transformers.study import Run, run_study

RESULTS = Path(__file__).parent / "results"
SEEDS = (0, 1, 2)
SMALL = {"steps": 500, "batch_size": 12, "seq_len": 64, "eval_every": 20}  # what the chapters train live


STUDIES = {
    # nanoGPT's recipe for a CPU, with this book's baseline and Primer EZ.
    "anchor": [
        Run(
            model,
            model,
            TrainingConfig(
                2000, 12, 64, learning_rate=1e-3, warmup_steps=100, eval_every=100, eval_batches=64, seed=seed
            ),
            {"max_seq_len": 64},
            "tiny-shakespeare",
        )
        for seed in SEEDS
        for model in ("transformer", "primer-ez")
    ],
    # Which learning rate suits the baseline, and which Primer EZ?
    "learning-rate": [
        Run(f"{model} {rate:g}", model, TrainingConfig(**SMALL, seed=seed, learning_rate=rate))
        for seed in SEEDS
        for rate in (1e-3, 2e-3, 3e-3, 4e-3)
        for model in ("transformer", "primer-ez")
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {list(STUDIES)}; by default all")
    names = parser.parse_args().names or list(STUDIES)
    if unknown := set(names) - set(STUDIES):
        parser.error(f"names is {sorted(unknown)}; expected some of {list(STUDIES)}")
    torch.set_num_threads(1)
    for name in names:
        run_study(STUDIES[name], RESULTS / f"{name}.jsonl")


if __name__ == "__main__":
    main()
