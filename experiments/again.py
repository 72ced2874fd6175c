"""Runs made once more on this machine, by the code of today: does the device matter, or what has changed since then?

    python experiments/again.py devices     # of study 12, which a GPU made
    python experiments/again.py versions    # of version 2, with which runs of version 3 are compared
    python experiments/again.py starts      # of gMLP, with which study 8 compares a start that is shut
    python experiments/again.py machines    # of models with attention, beside which later ones ran on another machine

Same rate, same seed. What is there is not run again. The losses go to files of these names in results/, which belong
to no study.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator
from dataclasses import replace

import torch
from declared import STUDIES
from declared.controls import SAME, TOEPLITZ, TWO, entry, older
from declared.head_to_head import EQUAL_TIME_2000, HEAD_TO_HEAD, MIDDLE, SHORT
from declared.size import GATE
from planning import RESULTS, records_of
from variants import build

from efficient_transformers.studies.protocol import Entry, Study, Trial, chosen_rate
from efficient_transformers.studies.records import Record, record_once
from efficient_transformers.studies.trials import execute_trial

SEEDS = (0, 1)
TODAY = (TWO, entry("Primer EZ", "primer-ez", SAME, size="0.8M"))  # as version 3 declares them


def devices() -> Iterator[tuple[Study, Trial]]:
    """Of each model of the study over size its shortest run."""
    study = STUDIES[GATE]
    longest_first = sorted(study.entries, key=lambda of: -of.steps)
    for shortest in {of.name: of for of in longest_first}.values():
        yield from trials(study, shortest, shortest)


def versions() -> Iterator[tuple[Study, Trial]]:
    """Two models in the time of the baseline's 2,000 steps, with all options that a record of version 2 leaves out."""
    for of in TODAY:
        old = older(EQUAL_TIME_2000.entries, f"{of.name}, equal time")
        yield from trials(EQUAL_TIME_2000, old, replace(of, name=old.name, steps=old.steps))


def starts() -> Iterator[tuple[Study, Trial]]:
    """gMLP after 2,000 steps."""
    old = older(MIDDLE, "gMLP Toeplitz")
    yield from trials(HEAD_TO_HEAD, old, replace(entry("gMLP", "gmlp", TOEPLITZ, old.steps), name=old.name))


def machines() -> Iterator[tuple[Study, Trial]]:
    """The baseline and Primer EZ, after 500 and 2,000 steps."""
    for models in (SHORT, MIDDLE):
        for name, model in (("Baseline", "transformer"), ("Primer EZ", "primer-ez")):
            old = older(models, name)
            yield from trials(HEAD_TO_HEAD, old, entry(name, model, SAME, old.steps, size=old.size))


def trials(study: Study, known: Entry, again: Entry) -> Iterator[tuple[Study, Trial]]:
    """An entry at the rate that a study chose for it, or for its older form."""
    rate = chosen_rate(known, records_of(study))
    assert rate is not None, "the study is complete"
    for seed in SEEDS:
        yield Study(study.name, study.question, (again,), {}), Trial(again, "reported", rate, seed)


def execute(study: Study, trial: Trial) -> Record:
    """The run's loss here, without the protocol's word, since no comparison of the protocol is made of it."""
    made = execute_trial(study, trial, build, show_progress=False)
    return {key: made[key] for key in ("study", "run", "test", "device", "versions", "machine")}


WHAT = {"devices": devices, "versions": versions, "starts": starts, "machines": machines}


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=WHAT)
    what = parser.parse_args().what
    torch.set_num_threads(1)
    for study, trial in WHAT[what]():
        make = functools.partial(execute, study, trial)
        name = f"{trial.entry.label}, seed {trial.seed}"
        record_once(trial.describe(), RESULTS / f"{what}.jsonl", make, name=name, wait=True)


if __name__ == "__main__":
    main()
