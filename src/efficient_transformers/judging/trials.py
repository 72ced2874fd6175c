"""One run of a comparison: train, score, and put what came out into a record.

What is notable:
- the test text is read by reported runs alone, once, at their end;
- every loss is one of the same blocks of text, whatever the model and its context.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import torch
from torch import nn

from ..models.cost import effective_parameters
from ..support.checks import require
from ..training.corpus import Corpus, load_corpus
from ..training.evaluation import BLOCK, score
from ..training.execution import Execution, find_device
from ..training.loop import TrainingConfig, train
from .protocol import Trial
from .recording import Record, environment
from .screening import multiply_adds_of


def execute_trial(
    trial: Trial, build: Callable[..., nn.Module], *, commit: str | None = None, show_progress: bool = True
) -> Record:
    """Train, score, and return the record. The test text is read by reported runs alone, once, at their end.

    Tuning may try a rate at which training breaks down: such a record has the curve until there, no loss, and why.

    Args:
        trial: the run.
        build: makes the model, from the entry's side, the vocabulary's size and further options.
        commit: of the code, for the record; None where it is not known.
        show_progress: draw a bar.

    Raises:
        FloatingPointError: if a loss or a score of a reported run is not finite.
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    entry, run = trial.entry, trial.entry.describe(trial.rate, trial.seed)
    corpus = load_corpus(entry.corpus, tokens=entry.tokens)
    torch.manual_seed(trial.seed)
    model = build(entry.model, vocab_size=len(corpus.vocabulary), **run["options"])
    curve: list[dict[str, float]] = []
    targets, validation = BLOCK * entry.blocks, {"part": "validation", "loss": None}
    try:
        execution = Execution(precision="float32")  # on a GPU too
        config = TrainingConfig(**run["training"])
        train(model, corpus, config, callback=curve.append, execution=execution, show_progress=show_progress)
        validation = scored(model, corpus, "validation", entry.seq_len, targets)
    except FloatingPointError as error:
        if trial.role != "tuning":
            raise
        validation["broke_down"] = str(error)
    record = {
        "commit": commit,
        "started": started,
        "role": trial.role,
        "run": run,
        "parameters": effective_parameters(model),
        "multiply_adds": round(multiply_adds_of(model, entry.seq_len)),
        "metrics": [{k: rounded(v) for k, v in m.items() if k != "train_loss" or m["step"] > 0} for m in curve],
        "validation": validation,
    }
    if trial.role == "reported":
        record["test"] = test = scored(model, corpus, entry.part, entry.seq_len, targets)
        if None in (test["loss"], validation["loss"]):
            raise FloatingPointError(f"a score of {entry.label!r}, seed {trial.seed}, is not finite")
    device = find_device().type
    return record | {"device": torch.cuda.get_device_name() if device == "cuda" else device} | environment()


def scored(model: nn.Module, corpus: Corpus, part: str, seq_len: int, targets: int) -> dict[str, Any]:
    """The score on a part of a corpus as JSON."""
    tokens = getattr(corpus, part)
    require(tokens is not None, "corpus", corpus.name, f"a corpus with a {part} text")
    room = len(tokens) - 2 * BLOCK  # Tiny Shakespeare's validation text is shorter than the sample
    found = score(model, tokens, seq_len=seq_len, at_least=min(targets, room))
    return {"part": part, "loss": rounded(found.loss, 5), "targets": found.targets}


def rounded(value: float, digits: int = 4) -> float | None:
    """A rounded number for JSON, which knows neither infinity nor NaN; None for those."""
    return round(value, digits) if math.isfinite(value) else None
