"""The protocol of the book's comparisons: what a study declares, and which runs it lacks.

What is notable:
- an entry is one model at one budget: its rate is tuned on a seed of its own, then its seeds are run at that rate;
- which run comes next follows from the declaration and the records alone, so that a study can stop anywhere;
- a rate at which training breaks down is recorded like the others, and never the best.

`experiments/README.md` states the protocol in words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from .checks import require, require_int, require_known
from .study import Record

PROTOCOL = 2  # 1 were the runs at one rate, judged on a few batches of validation text
SEEDS = (0, 1, 2, 3, 4)
TUNING_SEED = 100
RATES = (1e-3, 2e-3, 4e-3)  # where tuning starts: at least two more follow
TUNING_TARGETS, TEST_TARGETS = 50_000, 200_000
MAX_EXTENSIONS = 8  # rates beyond the first ones: where more are needed, something else is wrong

Role = Literal["tuning", "reported"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model at one budget.

    Args:
        name: of the model, the same at every budget.
        model: for :func:`build_model`.
        options: further arguments of it; ``max_seq_len`` is ``seq_len`` unless given.
        steps: the budget. A run warms up for ``warmup_steps``, by default a tenth of it, and is annealed to its end.
        seq_len, batch_size: by default 4 × 256 tokens per step.
        corpus: for :func:`load_corpus`.
        seeds: of the reported runs.
        rates: where tuning starts, at least three, each twice the one before.
        rate: a rate that is given instead of tuned, by a recipe that is followed to the letter.
        size: what the entry's models are called together, "0.8M" for example.
        task: "next" characters, or "masked" ones.
        scored: the part that reported runs are scored on; "validation" where a corpus has no test.

    Raises:
        TypeError: if a number that counts is not an int.
        ValueError: if one of these is below 1, the budget is not longer than the warm-up, seeds repeat or contain the
            tuning seed, the rates are too few or not a factor 2 apart, or the given rate is not above 0.
    """

    name: str
    model: str
    steps: int
    options: dict[str, Any] = field(default_factory=dict)
    seq_len: int = 256
    batch_size: int = 4
    corpus: str = "shakespeare-with-test"
    seeds: tuple[int, ...] = SEEDS
    rates: tuple[float, ...] = RATES
    rate: float | None = None
    size: str = "0.8M"
    warmup_steps: int | None = None
    scored: Literal["test", "validation"] = "test"
    task: Literal["next", "masked"] = "next"

    def __post_init__(self) -> None:
        for counted in ("steps", "seq_len", "batch_size", "warmup"):
            require_int(counted, getattr(self, counted), at_least=1)
        require_known("scored", self.scored, ("test", "validation"))
        require_known("task", self.task, ("next", "masked"))
        require(self.rate is None or self.rate > 0, "rate", self.rate, "a rate above 0, or None for a tuned one")
        warmup = self.warmup
        require(self.steps > warmup, "steps", self.steps, f"more than warmup_steps={warmup}: a run is annealed")
        distinct = len(set(self.seeds)) == len(self.seeds) > 1 and TUNING_SEED not in self.seeds
        require(distinct, "seeds", self.seeds, f"at least two, each once, without {TUNING_SEED}, which is for tuning")
        doubled = all(math.isclose(b, 2 * a) for a, b in pairwise(self.rates))
        require(len(self.rates) >= 3 and doubled, "rates", self.rates, "at least three, each twice the one before")

    @property
    def warmup(self) -> int:
        """Steps until the rate is at its peak."""
        return max(1, self.steps // 10) if self.warmup_steps is None else self.warmup_steps

    @property
    def label(self) -> str:
        """What tells this entry from all others of a study, in words."""
        given = "" if self.rate is None else f", rate {self.rate:g}"
        return f"{self.name}, {self.size}, {self.steps:,} steps of {self.batch_size} × {self.seq_len}{given}"

    def tokens(self, characters: int) -> int:
        """The tokens of the model's vocabulary: characters, and one for what is hidden."""
        return characters + (self.task == "masked")

    @property
    def training(self) -> dict[str, Any]:
        """The arguments of :class:`TrainingConfig`, all that matter, but for rate and seed."""
        return {
            "steps": self.steps,
            "batch_size": self.batch_size,
            "seq_len": self.seq_len,
            "warmup_steps": self.warmup,
            "weight_decay": 0.1,
            "clip_norm": 1.0,
            "eval_every": max(1, -(-self.steps // 10)),
            "eval_batches": max(1, 8192 // (self.batch_size * self.seq_len)),
        }

    def describe(self, rate: float, seed: int) -> Record:
        """One run as JSON: what a record of it must agree with."""
        return ({} if self.task == "next" else {"task": self.task}) | {
            "label": self.label,
            "name": self.name,
            "size": self.size,
            "model": self.model,
            "options": {"max_seq_len": self.seq_len} | self.options,
            "corpus": self.corpus,
            "training": self.training | {"learning_rate": rate, "seed": seed},
        }


@dataclass(frozen=True)
class Trial:
    """One run that a study lacks: an entry at one rate, with one seed."""

    entry: Entry
    role: Role
    rate: float
    seed: int

    def describe(self) -> Record:
        """As :meth:`Entry.describe`."""
        return self.entry.describe(self.rate, self.seed)


@dataclass(frozen=True)
class Study:
    """Entries, in the order of their runs, and the pairs that each figure shows, declared before any run.

    Args:
        name: of the study and of the file of its records.
        question: what it asks, in one sentence.
        entries: the models at their budgets.
        figures: for each figure or table its pairs, ours and the one that it is compared with, as entries' labels.
        borrowed: entries of other studies that pairs may name too.

    Raises:
        ValueError: if two entries share a label, a pair names none, or a pair's runs differ in seeds, corpus, scored
            part or task. Those of equal steps and sizes of a batch see the same batches.
    """

    name: str
    question: str
    entries: tuple[Entry, ...]
    figures: dict[str, tuple[tuple[str, str], ...]]
    borrowed: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        known = self.by_label()
        require(len(known) == len(self.entries), "entries", [e.label for e in self.entries], "labels that differ")
        known = {entry.label: entry for entry in (*self.borrowed, *self.entries)}
        for figure, pairs in self.figures.items():
            for pair in pairs:
                require(set(pair) <= set(known), f"a pair of {figure!r}", pair, f"two labels of {self.name!r}")
                ours, theirs = (known[label] for label in pair)
                alike = all(
                    getattr(ours, name) == getattr(theirs, name) for name in ("seeds", "corpus", "scored", "task")
                )
                require(alike, f"a pair of {figure!r}", pair, "the same seeds, corpus, scored part and task")

    def by_label(self) -> dict[str, Entry]:
        """The entries by their labels."""
        return {entry.label: entry for entry in self.entries}


def tuned_losses(entry: Entry, records: Iterable[Record]) -> dict[float, float]:
    """The validation loss of each rate that was tried, ascending; infinite where training broke down."""
    found = {
        float(r["run"]["training"]["learning_rate"]): math.inf
        if r["validation"]["loss"] is None
        else r["validation"]["loss"]
        for r in records
        if r["role"] == "tuning" and r["run"]["label"] == entry.label
    }
    return dict(sorted(found.items()))


def octaves(entry: Entry, rate: float) -> float:
    """How many doublings a rate is above the first of an entry; of a rate that tuning tries, a multiple of a half."""
    return round(2 * math.log2(rate / entry.rates[0]), 1) / 2  # rates are rounded, to three digits


def next_rates(entry: Entry, losses: dict[float, float]) -> list[float]:
    """The rates to try next, none once tuning is finished.

    First come the entry's own, a factor 2 apart; then, while the best is at an edge, one beyond it; then the two a
    factor √2 from the best. So the best lies inside the grid, and its neighbors are a factor √2 away.

    Raises:
        ValueError: if the best is still at the edge of a grid that was extended too often.
    """
    if entry.rate is not None:
        return []
    missing = [rate for rate in entry.rates if rate not in losses]
    if missing:
        return missing
    coarse = [rate for rate in sorted(losses) if octaves(entry, rate).is_integer()]
    best = min(coarse, key=losses.__getitem__)
    if best in (coarse[0], coarse[-1]):
        few = len(coarse) < len(entry.rates) + MAX_EXTENSIONS
        require(
            few, f"the best rate of {entry.label!r}", best, f"one inside the grid {coarse}, which was extended often"
        )
        return [best / 2 if best == coarse[0] else best * 2]
    return [rate for rate in (three_digits(best / 2**0.5), three_digits(best * 2**0.5)) if rate not in losses]


def three_digits(rate: float) -> float:
    """A rate with three digits, for tables."""
    return float(f"{rate:.3g}")


def chosen_rate(entry: Entry, records: Iterable[Record]) -> float | None:
    """The rate of the reported runs, or None while tuning is not finished."""
    if entry.rate is not None:
        return entry.rate
    losses = tuned_losses(entry, records)
    return None if next_rates(entry, losses) else min(losses, key=losses.__getitem__)


def missing_trials(entry: Entry, records: Sequence[Record]) -> list[Trial]:
    """What is to be run next: rates until tuning is finished, then the seeds that have no record at the chosen rate."""
    rates = next_rates(entry, tuned_losses(entry, records))
    if rates:
        return [Trial(entry, "tuning", rate, TUNING_SEED) for rate in rates]
    rate = chosen_rate(entry, records)
    assert rate is not None, "no further rates"
    done = {
        r["run"]["training"]["seed"] for r in records if r["role"] == "reported" and r["run"]["label"] == entry.label
    }
    return [Trial(entry, "reported", rate, seed) for seed in entry.seeds if seed not in done]
