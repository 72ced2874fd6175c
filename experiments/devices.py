"""Does the device matter? Runs of study 12, which a GPU made, once more on this machine: same rate, same seed.

    python experiments/devices.py

What is there is not run again. The losses go to results/devices.jsonl, which belongs to no study.
"""

from __future__ import annotations

import functools

import torch
from declared import STUDIES
from declared.size import GATE
from planning import RESULTS, records_of
from variants import build

from efficient_transformers.studies.protocol import Entry, Study, Trial, chosen_rate
from efficient_transformers.studies.records import Record, record_once
from efficient_transformers.studies.trials import execute_trial

SEEDS = (0, 1)


def again(study: Study, entry: Entry, rate: float, seed: int) -> Record:
    """The run's loss here, without the protocol's word, since no comparison is made of it."""
    made = execute_trial(study, Trial(entry, "reported", rate, seed), build, show_progress=False)
    return {key: made[key] for key in ("study", "run", "test", "device", "versions", "machine")}


def main() -> None:
    """Make what is missing: of each model its shortest run."""
    torch.set_num_threads(1)
    study = STUDIES[GATE]
    records = records_of(study)
    longest_first = sorted(study.entries, key=lambda entry: -entry.steps)
    shortest = {entry.name: entry for entry in longest_first}.values()
    for seed in SEEDS:
        for entry in shortest:
            rate = chosen_rate(entry, records)
            assert rate is not None, "the study is complete"
            make = functools.partial(again, study, entry, rate, seed)
            run = entry.describe(rate, seed)
            record_once(run, RESULTS / "devices.jsonl", make, name=f"{entry.label}, seed {seed}", wait=True)


if __name__ == "__main__":
    main()
