"""What is still to be run, how long it will take, and which part of it is whose."""

from __future__ import annotations

import functools
import hashlib
import json
import statistics
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from declared import times as stored
from declared.sizes import baseline
from declared.times import load_times, sizes_key
from running import Keeper, checkpoints_of, quiet
from tqdm import trange
from variants import build, complete, without_weights

from efficient_transformers import Corpus, load_corpus
from efficient_transformers.checks import require
from efficient_transformers.files import write_text
from efficient_transformers.studies.cost import multiply_adds
from efficient_transformers.studies.protocol import (
    PROTOCOL,
    TEST_TARGETS,
    TUNING_TARGETS,
    Entry,
    Study,
    Trial,
    key_of,
    missing_trials,
    next_rates,
    octaves,
    targets_of,
    tried,
    tuning_trials,
)
from efficient_transformers.studies.records import Record, environment, read_records, record_once
from efficient_transformers.studies.rules import check_records
from efficient_transformers.studies.trials import execute_trial
from efficient_transformers.training.loop import OPTIMIZERS

RESULTS = Path(__file__).parent / "results"
DECLARATIONS = Path(__file__).parent / "declarations"
FORWARD = 1 / 3  # of a step: one pass of three
VOCABULARIES = {"shakespeare-with-test": 79, "tiny-shakespeare": 65}  # so that planning reads no text; of characters
IN_TRAINING = 11 * 8192  # targets of the curve that is drawn


def records_of(study: Study) -> list[Record]:
    """The records of a study so far, which follow its declaration.

    Raises:
        ValueError: if they do not; if a file of an older protocol is not what it was.
    """
    path = RESULTS / f"{study.name}.jsonl"
    records = read_records(path) if path.exists() else []
    check_records(study, records)
    if study.protocol < PROTOCOL and records:
        checksum = hashlib.sha256(path.read_bytes()).hexdigest()
        require(frozen().get(path.name) == checksum, path.name, checksum, f"{frozen().get(path.name)}, as it was")
    return records


def frozen() -> dict[str, str]:
    """The checksums of the files whose records say nothing of their declaration: the order is not provable."""
    return dict(json.loads((RESULTS / "frozen.json").read_text(encoding="utf-8"))["order not provable"])


def declared(study: Study) -> str | None:
    """The declaration as it was written down; None if it was not."""
    path = DECLARATIONS / f"{study.name}.json"
    return path.read_text(encoding="utf-8") if path.exists() else None


def declare(studies: Iterable[Study]) -> list[Path]:
    """Write the declarations that are not written yet, each to be committed before its first run.

    Raises:
        ValueError: if a study has records, and another declaration.
    """
    written = []
    for study in studies:
        path = DECLARATIONS / f"{study.name}.json"
        if study.protocol < PROTOCOL or declared(study) == study.declaration:
            continue
        records = RESULTS / f"{study.name}.jsonl"
        require(not records.exists(), "the declaration of", study.name, "the one that its records are of")
        for entry in study.entries:
            whole = complete(entry.model, entry.options)
            require(entry.options == whole, f"the options of {entry.label!r}", entry.options, f"{whole}, with defaults")
        DECLARATIONS.mkdir(exist_ok=True)
        path.write_text(study.declaration, encoding="utf-8")
        written.append(path)
    return written


def check_declared(studies: Iterable[Study]) -> None:
    """Raise ValueError if a study's declaration is not the one that was written down."""
    for study in studies:
        same = declared(study) == study.declaration
        require(same, f"the declaration of {study.name!r}", f"{study.name}.json", "what --declare writes")


def in_words(study: Study, trial: Trial) -> str:
    """A run, for those who watch."""
    return f"{study.name}: {trial.role}, {trial.entry.label}, rate {trial.rate:g}, seed {trial.seed}"


def step_seconds(entry: Entry, times: dict[str, dict[str, Any]]) -> tuple[float, bool]:
    """Seconds per step, and whether they were measured; else by multiply-adds from what was."""
    key = sizes_key(entry)
    if key in times:
        return times[key]["seconds"], True
    rate = statistics.median(t["seconds"] / t["multiply_adds"] for t in times.values()) if times else 8e-11
    return rate * work(entry), False


def work(entry: Entry) -> float:
    """Multiply-adds of the forward pass of one step."""
    return counted(sizes_key(entry), entry.tokens(entry.subwords or VOCABULARIES[entry.corpus]))


@functools.cache
def counted(key: str, vocab_size: int) -> float:
    """Those of the model and the batch that a :func:`sizes_key` names."""
    name, options, batch_size, seq_len, *_ = json.loads(key)
    with without_weights():
        model = build(name, vocab_size=vocab_size, **options)
    return multiply_adds(model, seq_len) * seq_len * batch_size


def run_seconds(entry: Entry, per_step: float, role: str) -> float:
    """Of one run: its steps, its curve and its scores, each target of which takes two tokens."""
    tuning, test = targets_of(entry, TUNING_TARGETS), targets_of(entry, TEST_TARGETS)
    scored = 2 * tuning + (2 * test if role == "reported" else 0) + IN_TRAINING
    return per_step * (entry.steps + FORWARD * scored / (entry.seq_len * entry.batch_size))


def remaining(entry: Entry, records: list[Record], per_step: float) -> tuple[int, int, float]:
    """Rates and seeds still to be run, as far as can be told, and the seconds that they take."""
    if entry.protocol < PROTOCOL:  # what was not run by an older protocol never will be
        return 0, 0, 0.0
    rates = next_rates(entry, tried(entry, records)) if entry.rate_of is None else []
    refined = any(not octaves(entry, rate).is_integer() for rate in rates)
    tuning = len(rates) + (2 if rates and not refined else 0)  # the two beside the best come at the end
    tuning = tuning or (len(tuning_trials(entry, records)) if entry.rate_of is None else 0)
    done = sum(record["role"] == "reported" and key_of(record) == entry.key for record in records)
    reported = len(entry.seeds) - done
    seconds = tuning * run_seconds(entry, per_step, "tuning") + reported * run_seconds(entry, per_step, "reported")
    return tuning, reported, seconds


def print_plan(studies: Iterable[Study]) -> None:
    """Every run that is missing, with its expected time, and totals per study."""
    times, total = load_times(), 0.0
    for study in studies:
        records, hours = records_of(study), 0.0
        older = "" if study.protocol == PROTOCOL else f" (protocol {study.protocol}, order not provable)"
        print(f"{study.name}{older}: {study.question}")
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


def run_declared(
    studies: Iterable[Study], index: int = 0, of: int = 1, commit: str | None = None, keeper: Keeper | None = None
) -> None:
    """Run what is missing, study by study, entry by entry, in the order of their declarations.

    Args:
        studies: of which those of older protocols are complete.
        index, of: which part of how many.
        commit: of the code, for the records.
        keeper: commits the records now and then.

    Raises:
        ValueError: if a study's declaration is not the one that was written down.
    """
    studies = [study for study in studies if study.protocol == PROTOCOL]
    check_declared(studies)
    mine = shard(studies, index, of)
    for study in studies:
        for entry in study.entries:
            if entry in mine.get(study.name, []):
                run_entry(study, entry, commit, keeper)
    if keeper:
        keeper.keep(now=True)


def run_entry(study: Study, entry: Entry, commit: str | None = None, keeper: Keeper | None = None) -> None:
    """Tune an entry, then run its seeds; what is recorded is not run again, nor what another process is at."""
    path, per_step = RESULTS / f"{study.name}.jsonl", step_seconds(entry, load_times())[0]
    while trials := missing_trials(entry, records_of(study)):
        for trial in trials:
            run = trial.describe()
            kept = checkpoints_of({"study": study.checksum, "run": run}, per_step)
            make = functools.partial(
                execute_trial, study, trial, build, commit=commit, checkpoints=kept, show_progress=False
            )
            if record_once(run, path, make, name=in_words(study, trial), wait=trial == trials[-1]):
                kept.path.unlink(missing_ok=True)
            if keeper:
                keeper.keep()


@functools.cache
def shared_corpus(name: str, subwords: int | None) -> Corpus:
    """A corpus, read once for all models."""
    return load_corpus(name, subwords=subwords)


class Steps:
    """A model in training, a few steps at a time, to be timed."""

    def __init__(self, entry: Entry) -> None:
        run = entry.describe(1e-3, 0)
        self.entry, self.corpus = entry, shared_corpus(entry.corpus, entry.subwords)
        self.model = build(entry.model, vocab_size=entry.tokens(len(self.corpus.vocabulary)), **run["options"])
        self.optimizer = OPTIMIZERS[entry.optimizer or "adamw"](self.model, 0.1)
        for group in self.optimizer.param_groups:
            group["lr"] = 1e-3
        self.generator = torch.Generator().manual_seed(0)

    def take(self, steps: int) -> float:
        """Seconds per step."""
        started = time.perf_counter()
        for _ in range(steps):
            inputs, targets = self.corpus.batch(self.entry.batch_size, self.entry.seq_len, self.generator)
            logits = self.model(inputs)
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
        return (time.perf_counter() - started) / steps


def measure(entries: Iterable[Entry], rounds: int = 25, steps: int = 3) -> None:
    """Time a step of every model that has no time yet, in turn, and store medians and spread; for a quiet machine.

    Others take turns with them (:func:`beside`), and the medians of the rounds' ratios are stored too: seconds of
    another day, or of another machine, do not compare. What was timed once keeps its time: budgets at equal time are
    made of it.
    """
    known = load_times()
    new = {sizes_key(entry): entry for entry in entries if sizes_key(entry) not in known}
    partners = {key: beside(entry) for key, entry in new.items()}
    whole = new | {sizes_key(entry): entry for found in partners.values() for entry in found.values()}
    trained = {key: Steps(entry) for key, entry in whole.items()}
    seconds: dict[str, list[float]] = {key: [] for key in trained}
    with quiet():
        for _ in trange(rounds + 1, unit="round"):  # the first one warms up
            for key, model in trained.items():
                seconds[key].append(model.take(steps))
    timed = [timing(key, entry, seconds[key][1:]) for key, entry in new.items()]
    for key, found in zip(new, timed, strict=True):
        for name, partner in partners[key].items():
            turns = zip(seconds[key][1:], seconds[sizes_key(partner)][1:], strict=True)
            found[name] = round(statistics.median(ours / theirs for ours, theirs in turns), 4)
    content = json.dumps({"times": [*known.values(), *timed]}, indent=1)
    write_text(stored.TIMES, content + "\n")


def beside(entry: Entry) -> dict[str, Entry]:
    """What takes turns with an entry, under AdamW, by what the ratio of their seconds is called.

    The baseline at its context, whose steps read 1,024 tokens whatever the entry's read; and the entry's own model,
    where it has another optimizer.
    """
    options = complete("transformer", baseline("0.8M") | {"max_seq_len": entry.seq_len})
    plain = replace(entry, batch_size=1024 // entry.seq_len, rate_of=None, optimizer=None)
    found = {"times_the_baseline": replace(plain, name="Baseline", model="transformer", options=options)}
    return found if entry.optimizer is None else found | {"times_adamw": replace(entry, rate_of=None, optimizer=None)}


def timing(key: str, entry: Entry, seconds: list[float]) -> dict[str, Any]:
    """One measurement as JSON: the median, and between which the middle half of the rounds lies."""
    low, median, high = statistics.quantiles(seconds, n=4)
    middle = {"seconds": round(median, 5), "low": round(low, 5), "high": round(high, 5), "rounds": len(seconds)}
    return {"key": key, "name": entry.name, "multiply_adds": work(entry)} | middle | environment()
