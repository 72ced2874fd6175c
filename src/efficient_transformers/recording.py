"""Making a study: its training runs, recorded one by one, so that an interruption loses nothing.

What is notable:
- what is recorded is not run again; a run whose loss is not finite has no record;
- many processes may work on one study: each run is claimed by one of them.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .corpus import load_corpus
from .family import parameter_count
from .files import locked_byte
from .logs import finite
from .models import LanguageModel, build_model
from .study import Record, append_record, environment, read_records
from .training import TrainingConfig, train


@dataclass(frozen=True)
class Run:
    """One training run of a study.

    Args:
        label: what the run is called in tables and figures; runs that differ only in their seed share it.
        model: the name for :func:`build_model`.
        training: how to train; its seed is the model's too.
        options: further arguments of :func:`build_model`.
        corpus: the name for :func:`load_corpus`.
    """

    label: str
    model: str
    training: TrainingConfig
    options: dict[str, Any] = field(default_factory=dict)
    corpus: str = "shakespeare"

    def describe(self) -> Record:
        """The run as JSON: what a record of it must agree with."""
        return asdict(self)


def execute(
    run: Run,
    *,
    show_progress: bool = True,
    change: Callable[[LanguageModel], object] | None = None,
) -> Record:
    """Train, and return the record: the run, its metrics, and where they come from.

    Args:
        run: what to train.
        show_progress: a bar.
        change: what is done to the model before it trains.

    Raises:
        FloatingPointError: if a loss is not finite; such a run has no record.
    """
    corpus = load_corpus(run.corpus)
    torch.manual_seed(run.training.seed)
    model = build_model(run.model, vocab_size=len(corpus.vocabulary), **run.options)
    if change is not None:
        change(model)
    metrics = train(model, corpus, run.training, show_progress=show_progress)
    return {
        "run": run.describe(),
        "parameters": parameter_count(model),
        "metrics": [{k: round(v, 4) for k, v in finite(record).items()} for record in metrics],
        **environment(),
    }


def run_study(runs: Iterable[Run], path: Path, make: Callable[[Run], Record] | None = None) -> None:
    """Execute the runs that ``path`` has no record of, appending each record as it is complete.

    Any number of processes may work on one study: each run is claimed by one of them, and is free again when that
    process ends. What another one is at comes last, when its record is there or the run is free.

    Args:
        runs: of the study.
        path: the file of its records.
        make: trains and returns the record; None means ``execute``.

    Raises:
        FloatingPointError: after all other runs, if the loss of some was not finite; these have no record.
    """
    make, diverged, waiting = make or execute, [], deque((run, False) for run in runs)
    while waiting:
        run, wait = waiting.popleft()
        name = f"{run.label}, seed {run.training.seed}"
        try:
            if not record_once(run.describe(), path, partial(make, run), name=name, wait=wait):
                waiting.append((run, True))
        except FloatingPointError as error:
            diverged.append(f"{name}: {error}")
            print(f"not recorded: {error}", flush=True)
    if diverged:
        raise FloatingPointError("; ".join(diverged))


def record_once(run: Record, path: Path, make: Callable[[], Record], *, name: str, wait: bool) -> bool:
    """Append what ``make`` returns, unless the run has a record.

    Args:
        run: what a record of it must agree with.
        path: the file of the study's records.
        make: trains and returns the record.
        name: printed, with the time, when the run starts.
        wait: for another process that is at it.

    Returns:
        Whether there is a record now; without ``wait``, False if another process is at it.
    """
    if recorded(run, path):
        return True
    with claimed(run, path, wait=wait) as ours:
        if ours and not recorded(run, path):  # not while we waited, either
            print(f"{time.strftime('%H:%M:%S')}  {name}", flush=True)
            append_record(make(), path)
    return ours


def recorded(run: Record, path: Path) -> bool:
    """Whether there is a record of the run."""
    return path.exists() and run in [record["run"] for record in read_records(path)]


@contextmanager
def claimed(run: Record, path: Path, *, wait: bool) -> Iterator[bool]:
    """Keep a run from other processes, for the length of the block; a process has one claim at a time.

    Args:
        run: what a record of it must agree with.
        path: the file of the study's records, which need not be there yet.
        wait: for another process that is at it; without, the block is entered either way.

    Yields:
        Whether this process has the run.
    """
    text = json.dumps(run, sort_keys=True)
    place = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("a") as claims, locked_byte(claims, place, wait=wait) as ours:
        yield ours


def time_steps(runs: Iterable[Run], path: Path, *, rounds: int = 9, steps: int = 20) -> None:
    """Measure what a step of each run takes, and write the medians to ``path``.

    All runs train ``steps`` steps in turn, ``rounds`` times, so that a slow minute of the machine hits all of them.
    """
    from tqdm.auto import trange  # heavy libraries are imported where they are used

    runs = list(runs)
    times: dict[str, list[float]] = {}
    for _ in trange(rounds + 1, unit="round"):
        for run in runs:
            short = replace(run, training=replace(run.training, steps=steps, eval_every=steps, eval_batches=1))
            times.setdefault(run.label, []).append(
                execute(short, show_progress=False)["metrics"][-1]["seconds"] / steps
            )
    record = {
        "runs": [run.describe() for run in runs],
        "seconds_per_step": {label: round(statistics.median(t[1:]), 6) for label, t in times.items()},
        **environment(),
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
