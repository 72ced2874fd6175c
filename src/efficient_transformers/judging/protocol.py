"""The protocol of the book's comparisons: how a model's learning rate is chosen, and which runs are missing.

What is notable:
- an entry is one model at one budget: its rate is tuned on seeds of its own, then its seeds are run at that rate;
- which run comes next follows from the entry and the records alone, so that a comparison can stop anywhere;
- a rate at which training breaks down is recorded like the others, and never the best.

`experiments/README.md` states the protocol in words.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from ..support.checks import require
from ..training.loop import Optimizer
from ..training.vocabulary import Unit
from .recording import Record

SEEDS = (0, 1, 2, 3, 4)
TUNING_SEEDS = (100, 101, 102)  # the second and the third where the losses of the first do not tell the best rate
TUNING_SEED = TUNING_SEEDS[0]
RATES = (2e-3, 4e-3, 8e-3)  # where tuning starts, since short runs want high rates: at least two more follow
MAX_EXTENSIONS = 8  # rates beyond the first ones: where more are needed, something else is wrong

Role = Literal["tuning", "reported"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model at one budget.

    Args:
        name: what it is for, the same at every budget.
        model: the side of the comparison that makes it.
        options: further arguments of what makes it.
        steps: the budget. A run warms up for a tenth of it, and is annealed to its end.
        seq_len, batch_size: of a step.
        corpus: for :func:`load_corpus`.
        tokens: what the text is read as, ``"characters"`` or ``"bytes"``.
        part: of the text that reported runs are scored on.
        blocks: how many blocks of 1,024 tokens every score is of.
        size: how many parameters it has, "0.8M" for example.
        optimizer: ``"adamw"`` or ``"muon"``.
        rate_of: an entry of the same model at another budget, whose tuned rate is taken.
    """

    name: str
    model: str
    steps: int
    options: dict[str, Any] = field(default_factory=dict)
    seq_len: int
    batch_size: int
    corpus: str
    tokens: Unit = "characters"
    part: Literal["test", "validation"] = "test"
    blocks: int
    size: str
    optimizer: Optimizer = "adamw"
    rate_of: Entry | None = None

    @property
    def label(self) -> str:
        """What tells this entry from all others of a comparison, in words."""
        return f"{self.name}, {self.size}, {self.steps:,} steps of {self.batch_size} × {self.seq_len}"

    @property
    def training(self) -> dict[str, Any]:
        """The arguments of :class:`TrainingConfig` but rate and seed."""
        return {
            "steps": self.steps,
            "batch_size": self.batch_size,
            "seq_len": self.seq_len,
            "warmup_steps": max(1, self.steps // 10),
            "weight_decay": 0.1,
            "clip_norm": 1.0,
            "eval_every": self.steps,
            "eval_batches": max(1, 8192 // (self.batch_size * self.seq_len)),
            "optimizer": self.optimizer,
        }

    def describe(self, rate: float, seed: int) -> Record:
        """One run as JSON: what a record of it must agree with."""
        return {
            "label": self.label,
            "name": self.name,
            "size": self.size,
            "model": self.model,
            "options": {"max_seq_len": self.seq_len} | self.options,
            "corpus": self.corpus,
            "tokens": self.tokens,
            "training": self.training | {"learning_rate": rate, "seed": seed},
        }


@dataclass(frozen=True)
class Trial:
    """One run that a comparison lacks: an entry at one rate, with one seed."""

    entry: Entry
    role: Role
    rate: float
    seed: int


def tried(entry: Entry, records: Iterable[Record], seed: int = TUNING_SEED) -> dict[float, float]:
    """The validation loss of each rate that was tried with a seed, ascending; infinite where training broke down."""
    found = {
        float(r["run"]["training"]["learning_rate"]): math.inf
        if r["validation"]["loss"] is None
        else r["validation"]["loss"]
        for r in records
        if r["role"] == "tuning" and r["run"]["label"] == entry.label and r["run"]["training"]["seed"] == seed
    }
    return dict(sorted(found.items()))


def octaves(rate: float) -> float:
    """How many doublings a rate is above the first one; of a rate that tuning tries, a multiple of a half."""
    return round(2 * math.log2(rate / RATES[0]), 1) / 2  # rates are rounded, to three digits


def next_rates(entry: Entry, losses: dict[float, float]) -> list[float]:
    """The rates to try next, none once tuning is finished.

    First come three, a factor 2 apart; then, while the best is at an edge, one beyond it; then the two a
    factor √2 from the best. So the best lies inside the grid, and its neighbors are a factor √2 away.

    Raises:
        ValueError: if the best is still at the edge of a grid that was extended too often.
    """
    missing = [rate for rate in RATES if rate not in losses]
    if missing:
        return missing
    coarse = [rate for rate in sorted(losses) if octaves(rate).is_integer()]
    best = min(coarse, key=losses.__getitem__)
    if best in (coarse[0], coarse[-1]):
        few = len(coarse) < len(RATES) + MAX_EXTENSIONS
        expected = f"one inside the grid {coarse}, which was extended often"
        require(few, f"the best rate of {entry.label!r}", best, expected)
        return [best / 2 if best == coarse[0] else best * 2]
    return [rate for rate in (three_digits(best / 2**0.5), three_digits(best * 2**0.5)) if rate not in losses]


def three_digits(rate: float) -> float:
    """A rate with three digits, for tables."""
    return float(f"{rate:.3g}")


def is_smooth(losses: dict[float, float]) -> bool:
    """Whether losses fall up to the best rate, and rise from there on, as noise alone would rarely let them."""
    values = [losses[rate] for rate in sorted(losses)]
    best = values.index(min(values))
    falls = all(a >= b for a, b in pairwise(values[: best + 1]))
    return falls and all(a <= b for a, b in pairwise(values[best:]))


def close_rates(losses: dict[float, float]) -> list[float]:
    """The rates that one seed does not tell apart: none where the curve is smooth, else the three lowest inside it."""
    if is_smooth(losses):
        return []
    return sorted(sorted(sorted(losses)[1:-1], key=losses.__getitem__)[:3])


def tuning_trials(entry: Entry, records: Sequence[Record]) -> list[Trial]:
    """The runs that the choice of a rate lacks: of the first seed, then those that decide between close rates.

    Of an entry that takes another's rate they are the other's.
    """
    entry = entry.rate_of or entry
    losses = tried(entry, records)
    rates = next_rates(entry, losses)
    if rates:
        return [Trial(entry, "tuning", rate, TUNING_SEED) for rate in rates]
    return [
        Trial(entry, "tuning", rate, seed)
        for seed in TUNING_SEEDS[1:]
        for rate in close_rates(losses)
        if rate not in tried(entry, records, seed)
    ]


def chosen_rate(entry: Entry, records: Sequence[Record]) -> float | None:
    """The rate of the reported runs, or None while tuning is not finished.

    The best of the first seed; where the curve is not smooth, that of the mean over three seeds of the close rates.
    """
    entry = entry.rate_of or entry
    if tuning_trials(entry, records):
        return None
    losses = tried(entry, records)
    if close := close_rates(losses):
        by_seed = [tried(entry, records, seed) for seed in TUNING_SEEDS]
        losses = {rate: statistics.fmean(found[rate] for found in by_seed) for rate in close}
    return min(losses, key=losses.__getitem__)
