"""Study 4: when an hourglass pays, against baselines of equal time and of equal work, shallow ones included."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from efficient_transformers.layers.hourglass import SHORTENINGS, UP_SAMPLINGS
from efficient_transformers.studies.cost import multiply_adds
from efficient_transformers.studies.protocol import Entry, Key, Study

from .head_to_head import SHORT
from .sizes import baseline, on_paper
from .times import timed_seconds

SECONDS = 60.0  # of training for each run at equal time
STEPS = 700  # of the baseline of four layers at a context of 256, whose multiply-adds every run at equal work gets
D = 128

ATTENTION = {"shortening": "attention", "up_sampling": "attention"}
HOURGLASSES: dict[str, dict[str, Any]] = {f"hourglass, factor {k}": {"hierarchy": f"1@1 6@{k} 1@1"} for k in (2, 4, 8)}
HOURGLASSES["hourglass, factor 4, attention"] = {"hierarchy": "1@1 6@4 1@1"} | ATTENTION
BASELINES: dict[str, dict[str, Any]] = {f"baseline, {n} layers": {"n_layers": n} for n in (2, 3, 4, 8)}


def model(name: str, context: int) -> Entry:
    """One of the models at a context, with a budget that is still to be set."""
    return Entry(
        name=name,
        model="transformer" if name in BASELINES else "hourglass",
        options={"d_model": D} | (BASELINES | HOURGLASSES)[name],
        steps=STEPS,
        seq_len=context,
        batch_size=1024 // context,
        protocol=2,
    )


TIMED = (
    *(model(name, context) for context in (256, 1024) for name in (*HOURGLASSES, *BASELINES)),
    *(model(name, 64) for name in ("baseline, 2 layers", "baseline, 3 layers", "baseline, 4 layers")),
)
COUNTED = tuple(model(name, context) for context in (256, 1024) for name in ("hourglass, factor 4", *BASELINES))


def equal_time(entry: Entry) -> Entry:
    """The entry with the steps that the measured time per step allows."""
    steps = SECONDS / timed_seconds(entry)
    return replace(entry, name=f"{entry.name}, equal time", steps=10 * round(steps / 10))


def equal_work(entry: Entry) -> Entry:
    """The entry with the steps that equal multiply-adds allow."""
    ours, theirs = (
        multiply_adds(on_paper(name, context, options), context)
        for name, context, options in (
            (entry.model, entry.seq_len, entry.options),
            ("transformer", 256, baseline("0.8M")),
        )
    )
    return replace(entry, name=f"{entry.name}, equal work", steps=10 * round(STEPS * theirs / ours / 10))


def declare() -> Study:
    """The study, with the steps that the measured times allow."""
    timed, counted = [equal_time(entry) for entry in TIMED], [equal_work(entry) for entry in COUNTED]

    def found(entries: list[Entry], name: str, context: int) -> Key:
        return next(e.key for e in entries if e.name.rpartition(", equal")[0] == name and e.seq_len == context)

    figures = {}
    for context in (256, 1024):
        four = found(timed, "hourglass, factor 4", context)
        figures[f"equal time, context {context}"] = (
            *((four, found(timed, name, context)) for name in BASELINES),
            *((found(timed, name, context), four) for name in HOURGLASSES if name != "hourglass, factor 4"),
        )
        figures[f"equal work, context {context}"] = tuple(
            (found(counted, "hourglass, factor 4", context), found(counted, name, context)) for name in BASELINES
        )
    figures["equal time, baselines of any context"] = tuple(
        (found(timed, hourglass, context), found(timed, f"baseline, {n} layers", 64))
        for hourglass, context in (("hourglass, factor 4", 256), ("hourglass, factor 4", 1024))
        for n in (2, 3, 4)
    )
    return Study("shortening", "When does shortening pay?", (*timed, *counted), figures)


SHORTENING = declare()

# The hourglass of the first study shortens by means and repeats windows; every other pair of resamplings meets it.
(SIMPLEST,) = (entry for entry in SHORT if entry.name == "Hourglass")
RESAMPLINGS = tuple(
    replace(
        SIMPLEST,
        name=f"{down}, {up}",
        options=SIMPLEST.options | {"shortening": down, "up_sampling": up},
        size="0.8M to 1.2M",
    )
    for down, up in product(SHORTENINGS, UP_SAMPLINGS)
    if (down, up) != ("average", "naive")
)
RESAMPLING = Study(
    "resampling-kinds",
    "Which shortening, with which up-sampling?",
    RESAMPLINGS,
    {"resamplings": tuple((entry.key, SIMPLEST.key) for entry in RESAMPLINGS)},
    borrowed=SHORT,
)
