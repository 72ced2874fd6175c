"""Runs at one rate, as a reader trains them live: made and recorded one by one, so that an interruption loses nothing.

What is notable:
- what is recorded is not run again; a run whose loss is not finite has no record;
- many processes may work on one study: each run is claimed by one of them.
"""

from __future__ import annotations

import json
import statistics
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from efficient_transformers.layers.family import parameter_count
from efficient_transformers.models import LanguageModel, build_model
from efficient_transformers.studies.records import Record, current_options, environment, record_once
from efficient_transformers.training.corpus import load_corpus
from efficient_transformers.training.logs import finite
from efficient_transformers.training.loop import TrainingConfig, train


@dataclass(frozen=True)
class Recipe:
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
        found = asdict(self) | {"options": current_options(self.model, self.options)}
        if self.training.optimizer == "adamw":
            del found["training"]["optimizer"]  # as in the records of before there was another
        return found


def execute(
    run: Recipe,
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


def run_study(runs: Iterable[Recipe], path: Path, make: Callable[[Recipe], Record] | None = None) -> None:
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


def time_steps(runs: Iterable[Recipe], path: Path, *, rounds: int = 9, steps: int = 20) -> None:
    """Measure what a step of each run takes, and write the medians to ``path``.

    All runs train ``steps`` steps in turn, ``rounds`` times, so that a slow minute of the machine hits all of them.
    """
    from tqdm.auto import trange  # heavy libraries are imported where they are used

    runs = list(runs)
    times: dict[str, list[float]] = {}
    for _ in trange(rounds + 1, unit="round"):
        for run in runs:
            few: dict[str, Any] = {"steps": steps, "warmup_steps": None, "eval_every": steps, "eval_batches": 1}
            short = replace(run, training=replace(run.training, **few))
            times.setdefault(run.label, []).append(
                execute(short, show_progress=False)["metrics"][-1]["seconds"] / steps
            )
    record = {
        "runs": [run.describe() for run in runs],
        "seconds_per_step": {label: round(statistics.median(t[1:]), 6) for label, t in times.items()},
        **environment(),
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
