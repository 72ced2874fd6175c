"""The protocol of the book's comparisons: what a study declares, and which runs it lacks.

What is notable:
- an entry is one model at one budget: its rate is tuned on seeds of its own, then its seeds are run at that rate;
- which run comes next follows from the declaration and the records alone, so that a study can stop anywhere;
- a declaration is a text with a checksum, which each of its records repeats;
- a rate at which training breaks down is recorded like the others, and never the best;
- what only newer studies have is declared where it is given, so that older declarations keep their checksums.

`experiments/README.md` states the protocol in words.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal

from ..checks import require, require_int, require_known
from ..training.evaluation import BLOCK
from ..training.loop import OPTIMIZERS
from .records import Record, current_options

PROTOCOL = 3  # 1 were the runs at one rate, judged on a few batches of validation text; 2 had no checksums
SEEDS = (0, 1, 2, 3, 4)
TUNING_SEEDS = (100, 101, 102)  # the second and the third where the losses of the first do not tell the best rate
TUNING_SEED = TUNING_SEEDS[0]
RATES = (1e-3, 2e-3, 4e-3)  # where tuning starts: at least two more follow
TUNING_TARGETS, TEST_TARGETS = 50_000, 200_000
MAX_EXTENSIONS = 8  # rates beyond the first ones: where more are needed, something else is wrong

# Fields of an entry that are declared only where they are given.
NEWER = ("subwords", "blocks", "looks", "rate_of", "weight_decay", "optimizer")

Role = Literal["tuning", "reported"]
Key = tuple[int, str]  # the protocol and the label: what tells an entry from those of all studies
Pair = tuple[Key, Key]


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
        protocol: the version whose rules its runs follow; runs are made by the newest one alone.
        subwords: how many byte pairs the text is read as; None for characters.
        blocks: how many blocks of 1,024 tokens every score is of; None for the protocol's samples.
        looks: how many times the validation loss is measured in a run, evenly; None for ten.
        rate_of: an entry of the same study, the same model at another budget, whose tuned rate is taken, where a budget
            is too long to tune at, or the time too short.
        weight_decay: in units of the rate; None for the protocol's 0.1.
        optimizer: ``"adamw"`` or ``"muon"``; None for the protocol's AdamW.

    Raises:
        TypeError: if a number that counts is not an int.
        ValueError: if one of these is below 1, the budget is not longer than the warm-up, seeds repeat or contain the
            tuning seed, the rates are too few or not a factor 2 apart, the given rate is not above 0, the decay below
            0, or the entry whose rate is taken is another model, has the same budget, or no tuned rate of its own.
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
    protocol: int = PROTOCOL
    subwords: int | None = None
    blocks: int | None = None
    looks: int | None = None
    rate_of: Entry | None = None
    weight_decay: float | None = None
    optimizer: str | None = None

    def __post_init__(self) -> None:
        for counted in ("steps", "seq_len", "batch_size", "warmup"):
            require_int(counted, getattr(self, counted), at_least=1)
        for optional in ("subwords", "blocks", "looks"):
            if getattr(self, optional) is not None:
                require_int(optional, getattr(self, optional), at_least=1)
        require_known("scored", self.scored, ("test", "validation"))
        require_known("task", self.task, ("next", "masked"))
        if self.optimizer is not None:
            require_known("optimizer", self.optimizer, OPTIMIZERS)
        require(self.rate is None or self.rate > 0, "rate", self.rate, "a rate above 0, or None for a tuned one")
        decay = self.weight_decay
        require(decay is None or decay >= 0, "weight_decay", decay, "0 or more, or None for the protocol's")
        warmup = self.warmup
        require(self.steps > warmup, "steps", self.steps, f"more than warmup_steps={warmup}: a run is annealed")
        distinct = len(set(self.seeds)) == len(self.seeds) > 1 and not set(TUNING_SEEDS) & set(self.seeds)
        require(distinct, "seeds", self.seeds, f"at least two, each once, without {TUNING_SEEDS}, which are for tuning")
        doubled = all(math.isclose(b, 2 * a) for a, b in pairwise(self.rates))
        require(len(self.rates) >= 3 and doubled, "rates", self.rates, "at least three, each twice the one before")
        if (shorter := self.rate_of) is not None:
            same = all(
                getattr(self, name) == getattr(shorter, name)
                for name in (
                    "name",
                    "model",
                    "options",
                    "seq_len",
                    "batch_size",
                    "corpus",
                    "subwords",
                    "task",
                    "optimizer",
                )
            )
            own = self.rate is None and shorter.rate is None and shorter.rate_of is None
            expected = f"the same model at other than {self.steps} steps, with a tuned rate of its own"
            require(same and own and shorter.steps != self.steps, "rate_of", shorter.label, expected)

    @property
    def warmup(self) -> int:
        """Steps until the rate is at its peak."""
        return max(1, self.steps // 10) if self.warmup_steps is None else self.warmup_steps

    @property
    def label(self) -> str:
        """What tells this entry from all others of a study, in words."""
        given = "" if self.rate is None else f", rate {self.rate:g}"
        return f"{self.name}, {self.size}, {self.steps:,} steps of {self.batch_size} × {self.seq_len}{given}"

    @property
    def key(self) -> Key:
        """What tells this entry from those of all studies."""
        return self.protocol, self.label

    def tokens(self, vocabulary: int) -> int:
        """The tokens that the model knows: those of the text, and one for what is hidden."""
        return vocabulary + (self.task == "masked")

    @property
    def declared(self) -> dict[str, Any]:
        """What a declaration says of the entry."""
        content = asdict(self)
        for name in NEWER:
            if content[name] is None:
                del content[name]
        if self.rate_of is not None:
            content["rate_of"] = self.rate_of.label
        return {"label": self.label, **content, "training": self.training}

    @property
    def training(self) -> dict[str, Any]:
        """The arguments of :class:`TrainingConfig`, all that matter, but for rate and seed."""
        return {
            "steps": self.steps,
            "batch_size": self.batch_size,
            "seq_len": self.seq_len,
            "warmup_steps": self.warmup,
            "weight_decay": 0.1 if self.weight_decay is None else self.weight_decay,
            "clip_norm": 1.0,
            "eval_every": max(1, -(-self.steps // (self.looks or 10))),
            "eval_batches": max(1, 8192 // (self.batch_size * self.seq_len)),
        } | ({} if self.optimizer is None else {"optimizer": self.optimizer})

    def describe(self, rate: float, seed: int) -> Record:
        """One run as JSON: what a record of it must agree with."""
        given = {} if self.task == "next" else {"task": self.task}
        return (given if self.subwords is None else given | {"subwords": self.subwords}) | {
            "label": self.label,
            "name": self.name,
            "size": self.size,
            "model": self.model,
            "options": current_options(self.model, {"max_seq_len": self.seq_len} | self.options),
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
        figures: for each figure or table its pairs, ours and the one that it is compared with, as entries' keys.
        borrowed: entries of other studies that pairs may name too.

    Raises:
        ValueError: if entries are of two protocols, or share a label; if one takes the rate of an entry that is not
            among them; if a pair names none, or its runs differ in
            seeds, corpus, scored part or task. Those of equal steps and sizes of a batch see the same batches.
    """

    name: str
    question: str
    entries: tuple[Entry, ...]
    figures: dict[str, tuple[Pair, ...]]
    borrowed: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        require(len(self.by_key()) == len(self.entries), "entries", [e.key for e in self.entries], "labels that differ")
        versions = {entry.protocol for entry in self.entries}
        require(len(versions) == 1, "entries", sorted(versions), "those of one protocol")
        for entry in self.entries:
            known_rate = entry.rate_of is None or entry.rate_of in self.entries
            require(known_rate, f"rate_of {entry.label!r}", entry.rate_of and entry.rate_of.label, "one of the entries")
        known = {entry.key: entry for entry in (*self.borrowed, *self.entries)}
        for figure, pairs in self.figures.items():
            for pair in pairs:
                require(set(pair) <= set(known), f"a pair of {figure!r}", pair, f"two keys of {self.name!r}")
                ours, theirs = (known[key] for key in pair)
                alike = all(
                    getattr(ours, name) == getattr(theirs, name) for name in ("seeds", "corpus", "scored", "task")
                )
                require(alike, f"a pair of {figure!r}", pair, "the same seeds, corpus, scored part and task")

    def by_key(self) -> dict[Key, Entry]:
        """The entries by their keys."""
        return {entry.key: entry for entry in self.entries}

    @property
    def protocol(self) -> int:
        """The version of its entries."""
        return self.entries[0].protocol

    @property
    def declaration(self) -> str:
        """All that is declared, as JSON, whose checksum is in each record."""
        content = {
            "protocol": self.protocol,
            "name": self.name,
            "question": self.question,
            "entries": [entry.declared for entry in self.entries],
            "figures": self.figures,
            "borrowed": [entry.key for entry in self.borrowed],
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    @property
    def checksum(self) -> str:
        """The SHA-256 of :attr:`declaration`."""
        return hashlib.sha256(self.declaration.encode()).hexdigest()


def targets_of(entry: Entry, targets: int) -> int:
    """How many tokens a score of an entry is of: ``targets``, or those of its blocks."""
    return targets if entry.blocks is None else BLOCK * entry.blocks


def key_of(record: Record) -> Key:
    """The key of the entry that a record is of."""
    return record["protocol"], record["run"]["label"]


def tried(entry: Entry, records: Iterable[Record], seed: int = TUNING_SEED) -> dict[float, float]:
    """The validation loss of each rate that was tried with a seed, ascending; infinite where training broke down."""
    found = {
        float(r["run"]["training"]["learning_rate"]): math.inf
        if r["validation"]["loss"] is None
        else r["validation"]["loss"]
        for r in records
        if r["role"] == "tuning" and key_of(r) == entry.key and r["run"]["training"]["seed"] == seed
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


def is_smooth(losses: dict[float, float]) -> bool:
    """Whether losses fall up to the best rate, and rise from there on, as noise alone would rarely let them."""
    values = [losses[rate] for rate in sorted(losses)]
    best = values.index(min(values))
    falls = all(a >= b for a, b in pairwise(values[: best + 1]))
    return falls and all(a <= b for a, b in pairwise(values[best:]))


def close_rates(entry: Entry, losses: dict[float, float]) -> list[float]:
    """The rates that one seed does not tell apart: none where the curve is smooth, else the three lowest inside it."""
    if entry.protocol < 3 or is_smooth(losses):
        return []
    return sorted(sorted(sorted(losses)[1:-1], key=losses.__getitem__)[:3])


def tuning_trials(entry: Entry, records: Sequence[Record]) -> list[Trial]:
    """The runs that the choice of a rate lacks: of the first seed, then those that decide between close rates.

    Of an entry that takes another's rate they are the other's.
    """
    entry = entry.rate_of or entry
    losses = tried(entry, records)
    rates = next_rates(entry, losses)
    if rates or entry.rate is not None:
        return [Trial(entry, "tuning", rate, TUNING_SEED) for rate in rates]
    return [
        Trial(entry, "tuning", rate, seed)
        for seed in TUNING_SEEDS[1:]
        for rate in close_rates(entry, losses)
        if rate not in tried(entry, records, seed)
    ]


def chosen_rate(entry: Entry, records: Sequence[Record]) -> float | None:
    """The rate of the reported runs, or None while tuning is not finished.

    The best of the first seed; where the curve is not smooth, that of the mean over three seeds of the close rates.
    """
    entry = entry.rate_of or entry
    if entry.rate is not None:
        return entry.rate
    if tuning_trials(entry, records):
        return None
    losses = tried(entry, records)
    if close := close_rates(entry, losses):
        by_seed = [tried(entry, records, seed) for seed in TUNING_SEEDS]
        losses = {rate: statistics.fmean(found[rate] for found in by_seed) for rate in close}
    return min(losses, key=losses.__getitem__)
