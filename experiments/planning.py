"""What is still to be run, how long it will take, and which part of it is whose."""

from __future__ import annotations

import functools
import json
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from declared import times as stored
from declared.times import load_times, sizes_key
from variants import build

from efficient_transformers import Corpus, load_corpus
from efficient_transformers.cost import multiply_adds
from efficient_transformers.protocol import (
    TEST_TARGETS,
    TUNING_TARGETS,
    Entry,
    Study,
    missing_trials,
    next_rates,
    octaves,
    tuned_losses,
)
from efficient_transformers.recording import record_once
from efficient_transformers.rules import check_records
from efficient_transformers.study import Record, environment, read_records
from efficient_transformers.training import parameter_groups
from efficient_transformers.trials import execute_trial

RESULTS = Path(__file__).parent / "results"
FORWARD = 1 / 3  # of a step: one pass of three
VOCABULARIES = {"shakespeare-with-test": 79, "tiny-shakespeare": 65}  # so that planning reads no text
IN_TRAINING = 11 * 8192  # targets of the curve that is drawn


def records_of(study: Study) -> list[Record]:
    """The records of a study so far, which follow its declaration."""
    path = RESULTS / f"{study.name}.jsonl"
    records = read_records(path) if path.exists() else []
    check_records(study, records)
    return records


def step_seconds(entry: Entry, times: dict[str, dict[str, Any]]) -> tuple[float, bool]:
    """Seconds per step, and whether they were measured; else by multiply-adds from what was."""
    key = sizes_key(entry)
    if key in times:
        return times[key]["seconds"], True
    rate = statistics.median(t["seconds"] / t["multiply_adds"] for t in times.values()) if times else 8e-11
    return rate * work(entry), False


def work(entry: Entry) -> float:
    """Multiply-adds of the forward pass of one step."""
    return counted(sizes_key(entry), entry.tokens(VOCABULARIES[entry.corpus]))


@functools.cache
def counted(key: str, vocab_size: int) -> float:
    """Those of the model and the batch that a :func:`sizes_key` names."""
    name, options, batch_size, seq_len = json.loads(key)
    with torch.device("meta"):
        model = build(name, vocab_size=vocab_size, **options)
    return multiply_adds(model, seq_len) * seq_len * batch_size


def run_seconds(entry: Entry, per_step: float, role: str) -> float:
    """Of one run: its steps, its curve and its scores, each target of which takes two tokens."""
    scored = 2 * TUNING_TARGETS + (2 * TEST_TARGETS if role == "reported" else 0) + IN_TRAINING
    return per_step * (entry.steps + FORWARD * scored / (entry.seq_len * entry.batch_size))


def remaining(entry: Entry, records: list[Record], per_step: float) -> tuple[int, int, float]:
    """Rates and seeds still to be run, as far as can be told, and the seconds that they take."""
    rates = next_rates(entry, tuned_losses(entry, records))
    refined = any(not octaves(entry, rate).is_integer() for rate in rates)
    tuning = len(rates) + (2 if rates and not refined else 0)  # the two beside the best come at the end
    reported = (
        sum(trial.role == "reported" for trial in missing_trials(entry, records)) if not tuning else len(entry.seeds)
    )
    seconds = tuning * run_seconds(entry, per_step, "tuning") + reported * run_seconds(entry, per_step, "reported")
    return tuning, reported, seconds


def print_plan(studies: Iterable[Study]) -> None:
    """Every run that is missing, with its expected time, and totals per study."""
    times, total = load_times(), 0.0
    for study in studies:
        records, hours = records_of(study), 0.0
        print(f"{study.name}: {study.question}")
        for entry in study.entries:
            per_step, measured = step_seconds(entry, times)
            tuning, reported, seconds = remaining(entry, records, per_step)
            hours += seconds / 3600
            if tuning or reported:
                about = "" if measured else "about "
                print(
                    f"  {entry.label}: {tuning} rates, {reported} seeds, {about}{seconds / 60:.0f} min"
                    f" ({1000 * per_step:.0f} ms per step)"
                )
        total += hours
        print(f"  in all {hours:.1f} h\n")
    print(f"{total:.1f} hours of one core, extensions of the grids left out")


def shard(studies: Iterable[Study], index: int, of: int) -> dict[str, list[Entry]]:
    """The entries of one of several processes: each goes, longest first, to the process with the least to do.

    An entry is never split: its rates are tuned before its seeds are run. The parts depend on declarations and
    measured times alone, not on records, so that processes that start later agree with those that run.
    """
    times = load_times()
    loads = [0.0] * of
    chosen: dict[str, list[Entry]] = {}
    whole = [
        (remaining(entry, [], step_seconds(entry, times)[0])[2], study.name, entry)
        for study in studies
        for entry in study.entries
    ]
    for seconds, name, entry in sorted(whole, key=lambda item: (-item[0], item[1], item[2].label)):
        least = loads.index(min(loads))
        loads[least] += seconds
        if least == index:
            chosen.setdefault(name, []).append(entry)
    return chosen


def run_declared(studies: Iterable[Study], index: int = 0, of: int = 1) -> None:
    """Run what is missing, study by study, entry by entry, in the order of their declarations."""
    studies = list(studies)
    mine = shard(studies, index, of)
    for study in studies:
        for entry in study.entries:
            if entry in mine.get(study.name, []):
                run_entry(study, entry)


def run_entry(study: Study, entry: Entry) -> None:
    """Tune an entry, then run its seeds; what is recorded is not run again, nor what another process is at."""
    path = RESULTS / f"{study.name}.jsonl"
    while trials := missing_trials(entry, records_of(study)):
        for trial in trials:
            name = f"{study.name}: {trial.role}, {entry.label}, rate {trial.rate:g}, seed {trial.seed}"
            make = functools.partial(execute_trial, study, trial, build, show_progress=False)
            record_once(trial.describe(), path, make, name=name, wait=trial == trials[-1])


@functools.cache
def shared_corpus(name: str) -> Corpus:
    """A corpus, read once for all models."""
    return load_corpus(name)


class Steps:
    """A model in training, a few steps at a time, to be timed."""

    def __init__(self, entry: Entry) -> None:
        run = entry.describe(1e-3, 0)
        self.entry, self.corpus = entry, shared_corpus(entry.corpus)
        self.model = build(entry.model, vocab_size=entry.tokens(len(self.corpus.vocabulary)), **run["options"])
        self.optimizer = torch.optim.AdamW(parameter_groups(self.model, 0.1), lr=1e-3, betas=(0.9, 0.99))
        self.generator = torch.Generator().manual_seed(0)

    def take(self, steps: int) -> float:
        """Seconds per step."""
        started = time.perf_counter()
        for _ in range(steps):
            inputs, targets = self.corpus.batch(self.entry.batch_size, self.entry.seq_len, self.generator)
            logits = self.model(inputs)
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
        return (time.perf_counter() - started) / steps


def measure(entries: Iterable[Entry], rounds: int = 9, steps: int = 3) -> None:
    """Time a step of every model that has no time yet, in turn, and store medians and spread; for a quiet machine.

    What was timed once keeps its time: the budgets of runs at equal time are made of it.
    """
    known = load_times()
    new = {sizes_key(entry): entry for entry in entries if sizes_key(entry) not in known}
    trained = {key: Steps(entry) for key, entry in new.items()}
    seconds: dict[str, list[float]] = {key: [] for key in trained}
    for _ in range(rounds + 1):  # the first one warms up
        for key, model in trained.items():
            seconds[key].append(model.take(steps))
    timed = [timing(key, new[key], found[1:]) for key, found in seconds.items()]
    text = json.dumps({"times": [*known.values(), *timed]}, indent=1)
    stored.TIMES.write_text(text + "\n", encoding="utf-8")


def timing(key: str, entry: Entry, seconds: list[float]) -> dict[str, Any]:
    """One measurement as JSON: the median, and between which the middle half of the rounds lies."""
    low, median, high = statistics.quantiles(seconds, n=4)
    middle = {"seconds": round(median, 5), "low": round(low, 5), "high": round(high, 5), "rounds": len(seconds)}
    return {"key": key, "name": entry.name, "multiply_adds": work(entry)} | middle | environment()
