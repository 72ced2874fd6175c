"""One run of a study: train, score, and put what came out into a record.

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

from ..checks import require
from ..models import build_model
from ..training.checkpoint import Checkpoints
from ..training.corpus import Corpus, load_corpus
from ..training.evaluation import BLOCK, block_starts, masked_score, score, sizes_of
from ..training.execution import Execution, on_gpu
from ..training.loop import TrainingConfig, train
from .cost import effective_parameters
from .masking import MaskedCorpus, hide_tokens
from .protocol import PROTOCOL, TEST_TARGETS, TUNING_TARGETS, Study, Trial, targets_of
from .records import Record, environment
from .screening import multiply_adds_of

Builder = Callable[..., nn.Module]


def execute_trial(
    study: Study,
    trial: Trial,
    build: Builder = build_model,
    *,
    commit: str | None = None,
    checkpoints: Checkpoints | None = None,
    show_progress: bool = True,
) -> Record:
    """Train, score, and return the record. The test text is read by reported runs alone, once, at their end.

    Tuning may try a rate at which training breaks down: such a record has the curve until there, no loss, and why.

    Args:
        study: that declares the run.
        trial: the run.
        build: makes the model, as :func:`build_model` does.
        commit: of the code, for the record; None where it is not known.
        checkpoints: where the run is kept meanwhile; one that was interrupted goes on from there.
        show_progress: draw a bar.

    Raises:
        ValueError: if the study's protocol is not the one that runs are made by.
        FloatingPointError: if a loss or a score of a reported run is not finite.
    """
    require(study.protocol == PROTOCOL, "the protocol", study.protocol, f"{PROTOCOL}: older studies are complete")
    started = datetime.now(UTC).isoformat(timespec="seconds")
    entry = trial.entry
    corpus = load_corpus(entry.corpus, subwords=entry.subwords)
    if entry.task == "masked":
        corpus = hide_tokens(corpus)
    torch.manual_seed(trial.seed)
    run = trial.describe()
    model = build(entry.model, vocab_size=entry.tokens(len(corpus.vocabulary)), **run["options"])
    before = checkpoints.load() if checkpoints else None
    curve: list[dict[str, float]] = list(before["metrics"]) if before else []
    validation: dict[str, Any] = {"part": "validation", "loss": None}
    try:
        config = TrainingConfig(**run["training"])
        train(
            model,
            corpus,
            config,
            callback=curve.append,
            checkpoints=checkpoints,
            execution=Execution(precision="float32"),  # on a GPU too
            show_progress=show_progress,
        )
        validation = scored(model, corpus, "validation", entry.seq_len, targets_of(entry, TUNING_TARGETS))
    except FloatingPointError as error:
        if trial.role != "tuning":
            raise
        validation["broke_down"] = str(error)
    record = {
        "protocol": PROTOCOL,
        "study": study.name,
        "declaration": study.checksum,
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
        first, targets = trial.seed == entry.seeds[0], targets_of(entry, TEST_TARGETS)
        record["test"] = test = scored(model, corpus, entry.scored, entry.seq_len, targets, first)
        if None in (test["loss"], validation["loss"]):
            raise FloatingPointError(f"a score of {entry.label!r}, seed {trial.seed}, is not finite")
    return record | {"device": device()} | environment()


def device() -> str:
    """What :func:`train` trains on: the GPU's name, or ``"cpu"``."""
    return str(torch.cuda.get_device_name()) if on_gpu() else "cpu"


def scored(
    model: nn.Module, corpus: Corpus, part: str, seq_len: int, targets: int, blocks: bool = False
) -> dict[str, Any]:
    """The score on a part of a corpus as JSON, with the losses of its blocks if asked for.

    Of subwords it has the bytes of the targets too, since a loss per subword compares with no other vocabulary's.
    """
    tokens = getattr(corpus, part)
    require(tokens is not None, "corpus", corpus.name, f"a corpus with a {part} text")
    room = len(tokens) - 2 * BLOCK  # Tiny Shakespeare's validation text is shorter than the sample
    if isinstance(corpus, MaskedCorpus):
        mask_token = len(corpus.vocabulary)
        found = masked_score(model, tokens, seq_len=seq_len, at_least=min(targets, room), mask_token=mask_token)
    else:
        found = score(model, tokens, seq_len=seq_len, at_least=min(targets, room))
    result = {"part": part, "loss": rounded(found.loss, 5), "targets": found.targets}
    result["standard_error"] = rounded(found.standard_error, 5)
    if corpus.vocabulary.unit == "subwords":
        starts = block_starts(len(tokens), found.targets, seq_len)
        result["bytes"] = sizes_of(tokens[starts[:, None] + torch.arange(BLOCK)].flatten(), corpus.vocabulary)[1]
    return result | ({"blocks": [rounded(loss) for loss in found.blocks]} if blocks else {})


def rounded(value: float, digits: int = 4) -> float | None:
    """A rounded number for JSON, which knows neither infinity nor NaN; None for those."""
    return round(value, digits) if math.isfinite(value) else None
