"""What a comparison will do, made from the minutes, or the steps and seeds, that it is given.

What is notable:
- a step of each side, whole and of half its depth, is timed in turn before anything is promised;
- minutes become steps and seeds: fewer seeds before few steps, but three, which a verdict takes, before many steps;
- a plan is a file: a comparison that was stopped goes on by it, and its records are judged by it.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..layers.inspection import peak_memory
from ..layers.leaks import Probe, check_leaks, require_logits
from ..models.cost import effective_parameters
from ..support.checks import require, require_module
from ..support.files import write_text
from ..training.corpus import Corpus, load_corpus
from ..training.evaluation import BLOCK, block_starts
from ..training.loop import Optimizer, TrainingConfig, train
from ..training.runs import require_room
from ..training.vocabulary import Unit
from . import screening
from .evidence import LEVEL
from .protocol import RATES, SEEDS, Entry
from .side import Side

SHORTEST = 4096  # tokens of a part of the text
LARGEST = 2**14  # vocabulary: the logits of many more are too much for memory, and for an afternoon
TEXT = 1_000_000  # tokens of it in which a leak is looked for
BLOCKS, SHORT = 56, 10.0  # of text that each score is of, a quarter of them in fewer minutes, or than ENOUGH_STEPS
FEWEST_SEEDS, VERDICT_SEEDS = 2, 3  # that have a spread; that a verdict takes: two, each luckily tuned, agree too often
FEWEST_STEPS, ENOUGH_STEPS = 20, 200  # below which nothing is judged; below which more than three seeds are given up
TUNING = 8.0  # runs that the choice of a rate takes: five, and six more where the curve is not smooth
SCORED = {"tuning": 1, "reported": 2}  # parts of the text that a run is scored on at its end
LOOK = 8192  # tokens that its loss is measured on before and after
AS_LONG = 0.02  # two steps are as long, up to this share
MARGIN = 0.9  # of the minutes is planned
QUESTIONS = 2  # equal steps, and equal time


@dataclass(frozen=True)
class Plan:
    """What a comparison does.

    Args:
        variant, baseline: the sources of the sides.
        checksums: of their files, or of what they make, and of the text.
        corpus, tokens, seq_len, batch_size: as for :class:`.protocol.Entry`.
        minutes: all that it may take; None where steps and seeds were given.
        depths: of the sides, where they can be chosen.
        seconds: of a step, by side, and of one of half its depth; measured in turn.
        sizes: how many parameters each of these has, in words.
        looked: seconds that went by before the plan.
        steps: of both sides, where steps are equal.
        seeds: how many.
        remarks: what was noticed before it started.
        rates: of the reported runs, by entry, once they are chosen.
        optimizer: of both sides.
    """

    variant: str
    baseline: str
    checksums: Sequence[str | None]
    corpus: str
    tokens: Unit
    seq_len: int
    batch_size: int
    minutes: float | None
    depths: dict[str, int]
    seconds: dict[str, float]
    sizes: dict[str, str]
    looked: float
    steps: int
    seeds: int
    remarks: Sequence[str]
    rates: dict[str, float]
    optimizer: Optimizer = "adamw"

    @classmethod
    def read(cls, file: Path) -> Plan:
        """The plan in a file.

        Raises:
            ValueError: if it is not one.
        """
        try:
            return cls(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(f"{file} is not the plan of a comparison: {error}") from error

    def write(self, file: Path) -> None:
        """Write the whole file, in place of the one before."""
        write_text(file, json.dumps(asdict(self), indent=1) + "\n")

    @cached_property
    def part(self) -> Literal["test", "validation"]:
        """What reported runs are judged on, the test part; where there is none, that which rates are chosen on."""
        return "validation" if load_corpus(self.corpus).test is None else "test"

    def entry(self, name: str, steps: int) -> Entry:
        """A side, whole or of half its depth."""
        side, half = name.removesuffix(", half"), name.endswith(", half")
        return Entry(
            name=name,
            model=side,
            steps=steps,
            options={"n_layers": self.depths[side] // 2} if half else {},
            seq_len=self.seq_len,
            batch_size=self.batch_size,
            corpus=self.corpus,
            size=self.sizes[name],
            part=self.part,
            tokens=self.tokens,
            blocks=self.blocks,
            optimizer=self.optimizer,
        )

    def in_time(self, name: str) -> int:
        """The steps that a side makes while the whole baseline makes its own."""
        return max(2, round(self.steps * self.seconds["baseline"] / self.seconds[name]))

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """The sides at equal steps, in equal time, and of half their depth, rounded down, by what they are for."""
        found = {side: self.entry(side, self.steps) for side in ("baseline", "variant")}
        if abs(self.in_time("variant") / self.steps - 1) > AS_LONG:
            in_time = self.entry("variant", self.in_time("variant"))
            found["variant in time"] = replace(in_time, rate_of=found["variant"])
        for side in self.depths:
            found[f"{side}, half"] = self.entry(f"{side}, half", self.in_time(f"{side}, half"))
        return found

    @property
    def blocks(self) -> int:
        """How many blocks of text each score is of."""
        return blocks_in(self.minutes, self.steps)

    def scoring(self, role: str) -> float:
        """What the scores of a run cost, in steps: a token that is read costs a third of one that is trained on."""
        read = 2 * LOOK + 2 * SCORED[role] * self.blocks * BLOCK  # a target is read once before it counts
        return read / 3 / self.batch_size / self.seq_len

    def expected(self, entry: Entry, role: str) -> float:
        """Seconds of a run, by what a step took."""
        return self.seconds[entry.name] * (entry.steps + self.scoring(role))

    def cost(self, steps: float, seeds: int, rates: float = TUNING) -> float:
        """Seconds that it would take with so many steps, seeds and rates, if each step took what was measured."""
        whole, ratio = self.seconds["baseline"], self.seconds["variant"] / self.seconds["baseline"]
        tuning, reported = (steps + self.scoring(role) for role in ("tuning", "reported"))
        tuned = rates * tuning + seeds * reported
        extra = seeds * reported if abs(ratio - 1) > AS_LONG else 0.0
        return whole * ((1 + ratio + len(self.depths)) * tuned + extra)

    def settled(self) -> Plan:
        """With the steps and seeds that the minutes are enough for, or that were given.

        Raises:
            ValueError: if they are not enough for anything.
        """
        if self.minutes is None:
            return self
        room = 60 * self.minutes * MARGIN - self.looked
        whole = [(seeds, TUNING) for seeds in range(len(SEEDS), FEWEST_SEEDS - 1, -1)]
        for seeds, rates in (*whole, (FEWEST_SEEDS, len(RATES))):
            once = self.cost(0, seeds, rates)
            steps = int((room - once) / (self.cost(1, seeds, rates) - once))
            if steps >= (ENOUGH_STEPS if seeds > VERDICT_SEEDS else FEWEST_STEPS):
                return replace(self, steps=steps, seeds=seeds)
        least = replace(self, minutes=self.least).least  # more minutes are more text to score
        raise ValueError(f"minutes is {self.minutes:g}; expected at least {least:g} on this machine")

    @property
    def least(self) -> float:
        """The minutes that the fewest steps, seeds and rates take, with as much text to score as it has now."""
        return math.ceil((self.looked + self.cost(FEWEST_STEPS, FEWEST_SEEDS, len(RATES))) / MARGIN / 6) / 10

    def __str__(self) -> str:
        depth = " Both are tried at half their depth too." if len(self.depths) == 2 else ""
        about = (self.looked + self.cost(self.steps, self.seeds)) / 60
        about = about if self.minutes is None else min(self.minutes, about)
        trained = "" if self.optimizer == "adamw" else f", both sides trained with {self.optimizer.capitalize()}"
        each = [f"{name} ({self.sizes[name]}) {1000 * seconds:.0f} ms" for name, seconds in self.seconds.items()]
        return (
            f"{self.variant} against {self.baseline}: {self.steps:,} steps of {self.batch_size} × {self.seq_len}, "
            f"{self.seeds} seeds, a rate for each side{trained}.{depth}{self.uncertainty}\n"
            f"A step takes: {', '.join(each)}. In all about {about:.1f} minutes."
        )

    @property
    def uncertainty(self) -> str:
        """What fewer seeds cost, in words."""
        if self.seeds == len(SEEDS):
            return ""
        from scipy import stats  # heavy libraries are imported where they are used

        alpha = LEVEL / QUESTIONS  # Holm's method asks this of the first
        freedoms = ((n, QUESTIONS * (n - 1)) for n in (self.seeds, len(SEEDS)))
        ours, all_of_them = (stats.t.ppf(1 - alpha / 2, freedom) / math.sqrt(n) for n, freedom in freedoms)
        wider = f" An interval is up to {ours / all_of_them:.1f} times as wide as with {len(SEEDS)} seeds."
        return wider + ("" if self.seeds >= VERDICT_SEEDS else f" No verdict: that takes {VERDICT_SEEDS} seeds.")


def blocks_in(minutes: float | None, steps: int | None) -> int:
    """How many blocks of text each score is of, in so many minutes, or where none are given, after so many steps."""
    is_long = minutes >= SHORT if minutes is not None else (steps or 0) >= ENOUGH_STEPS
    return BLOCKS if is_long else BLOCKS // 4


def check_text(corpus: Corpus, seq_len: int, blocks: int) -> None:
    """Raise ValueError unless the parts of a text are long enough, can be scored, and have not too many tokens."""
    size, unit = len(corpus.vocabulary), corpus.vocabulary.unit
    expected = f"at most {LARGEST:,}; as tokens='bytes' any text can be read"
    require(size <= LARGEST, f"the number of different {unit} of {corpus.name!r}", size, expected)
    for part in ("train", "validation", "test"):
        tokens = getattr(corpus, part)
        if tokens is None:
            continue
        what = f"the {part} part of {corpus.name!r}"
        require(len(tokens) >= SHORTEST, what, len(tokens), f"at least {SHORTEST:,} tokens")
        if part != "train":
            block_starts(len(tokens), min(BLOCK * blocks, len(tokens) - 2 * BLOCK), seq_len)


def seconds_per_step(
    models: dict[str, nn.Module], corpus: Corpus, seq_len: int, batch_size: int, optimizer: Optimizer
) -> dict[str, float]:
    """The median over rounds in which all take turns."""
    steps, rounds = 4, 5
    config = TrainingConfig(
        steps=steps, batch_size=batch_size, seq_len=seq_len, warmup_steps=1, eval_every=steps, eval_batches=1,
        learning_rate=1e-6,  # whatever the model, it does not break down
        optimizer=optimizer,
    )  # fmt: skip
    found: dict[str, list[float]] = {name: [] for name in models}
    for number in range(rounds + 1):
        for name, model in models.items():
            try:
                seconds = train(model, corpus, config, show_progress=False)[-1]["seconds"] / steps
            except FloatingPointError as error:
                said = f"the {name} breaks down at a rate so small that it learns nothing, {steps * number} steps on"
                raise FloatingPointError(f"{said}: {error}") from error
            if number > 0:  # the first round fills caches
                found[name].append(seconds)
    return {name: statistics.median(times) for name, times in found.items()}


def look_first(
    sides: dict[str, Side], models: dict[str, nn.Module], corpus: Corpus, seq_len: int, batch_size: int
) -> list[str]:
    """Remarks on the variant; whoever is not of the book is asked for leaks, whole and of half the depth.

    A half that is as large as the whole is removed from the models.

    Raises:
        TypeError, ValueError: for what would make the comparison worthless: see :mod:`.screening`.
    """
    vocab_size = len(corpus.vocabulary)
    few, _ = corpus.batch(2, seq_len, torch.Generator().manual_seed(0))
    for name, model in models.items():
        require_logits(f"the {name}", model, few, vocab_size)
        one, two = (peak_memory(partial(model, few[:n])) for n in (1, 2))
        require_room(f"a step of the {name}", batch_size * (two - one))
    inputs, targets = corpus.batch(batch_size, seq_len, torch.Generator().manual_seed(0))
    remarks: list[str] = []
    for name, model in models.items():
        trainable = any(p.requires_grad for p in model.parameters())
        require(trainable, f"the {name}", "a model without parameters to train", "one that can be trained")
        if not sides[name.removesuffix(", half")].is_of_the_book:
            noticed = look_for_leaks(f"the {name}", model, corpus, seq_len)
            noticed += screening.check_start(model, inputs, targets, vocab_size, f"the {name}")
            remarks += noticed if name == "variant" else []
    for name in [name for name in models if name.endswith(", half")]:
        side = name.removesuffix(", half")
        costs = (effective_parameters, partial(screening.multiply_adds_of, seq_len=seq_len))
        if not any(cost(models[name]) < cost(models[side]) for cost in costs):
            remarks.append(
                f"The {side} is as large with half the layers: n_layers does nothing, and the half is left out."
            )
            del models[name]
    ours, theirs = models["variant"], models["baseline"]
    remarks += [] if sides["variant"].is_of_the_book else screening.undecayed(ours)
    if any(screening.in_closed_form(model, seq_len) is None for model in (ours, theirs)):
        remarks.append(
            "Multiply-adds are those of matrix products, convolutions and attention; nothing else is counted."
        )
    return remarks


def look_for_leaks(what: str, model: nn.Module, corpus: Corpus, seq_len: int) -> list[str]:
    """Remarks of ``check_leaks``, with the beginning of the text that is trained on."""
    return check_leaks(model, seq_len, len(corpus.vocabulary), what, corpus.train[:TEXT].long())


def new_model(side: Side, vocab_size: int, seq_len: int) -> nn.Module:
    """What a side makes with seed 0.

    Raises:
        ValueError: if the seed, and nothing else, does not decide the weights: a model that shares some with the one
            before would be trained on and on, and seeds with one start would have too small a spread.
    """
    what, models, starts = f"what {side.source} makes", list[nn.Module](), list[list[Tensor]]()
    for seed in (1, 0, 0):
        with torch.no_grad():
            for p in (p for model in models for p in model.parameters()):
                p.add_(1)  # as if it was trained: a model that starts from the last one starts elsewhere now
        torch.manual_seed(seed)
        models.append(side.make(vocab_size, seq_len))
        require_module(what, models[-1])
        starts.append([p.detach().clone() for p in models[-1].parameters()])
    another, first, again = starts
    drawn = [(a, b) for a, b in zip(another, first, strict=False) if a.numel() > 1 and a.min() < a.max()]  # no zeros
    same = sum(theirs.numel() * torch.equal(ours, theirs) for ours, theirs in drawn)
    expected = "other weights with another seed, or the spread over seeds is too small: PyTorch's seed is set for it"
    other = 2 * same < sum(theirs.numel() for _, theirs in drawn)
    require(other, what, "a model most of whose weights are the same with the seeds 0 and 1", expected)
    expected = "new ones, which PyTorch's seed decides, whatever was made, trained or drawn before"
    decided = all(map(torch.equal, first, again))
    require(decided, what, "a model of other weights when it is made again with the same seed", expected)
    return models[-1]


def checksum_of(side: Side, vocab_size: int, seq_len: int) -> str | None:
    """The checksum of a side's file; of a function that is given, of the modules and logits of what it makes.

    None for a model of the book.
    """
    if side.checksum is not None or side.is_of_the_book:
        return side.checksum
    model, tokens = new_model(side, vocab_size, seq_len), torch.arange(seq_len)[None] % vocab_size  # (1, T)
    require_logits(f"what {side.source} makes", model, tokens, vocab_size)
    last = Probe(model, vocab_size, seq_len, training=False)(tokens)[0, -1]  # (V,)
    digest = hashlib.sha256(repr(model).encode())
    digest.update(" ".join(f"{logit:.4f}" for logit in last.tolist()).encode())
    return digest.hexdigest()


def make_plan(sides: dict[str, Side], corpus: Corpus, asked: dict[str, Any]) -> Plan:
    """Look at both sides, time them, and choose steps and seeds for the minutes where none were given.

    Raises:
        TypeError, ValueError: as for :func:`look_first` and :meth:`Plan.settled`.
    """
    began = time.monotonic()
    seq_len, batch_size, vocab_size = asked["seq_len"], asked["batch_size"], len(corpus.vocabulary)
    depths = {name: side.n_layers for name, side in sides.items() if side.n_layers is not None}
    if "baseline" not in depths:
        depths = {}  # half of the variant alone would meet nobody
    models = {name: new_model(side, vocab_size, seq_len) for name, side in sides.items()}
    for name, depth in depths.items():
        models[f"{name}, half"] = sides[name].make(vocab_size, seq_len, n_layers=depth // 2)
    remarks = look_first(sides, models, corpus, seq_len, batch_size)
    depths = {name: depth for name, depth in depths.items() if {f"{name}, half", "baseline, half"} <= set(models)}
    models = {name: model for name, model in models.items() if name in sides or name.removesuffix(", half") in depths}
    sizes = {name: f"{effective_parameters(model) / 1e6:.1f}M" for name, model in models.items()}
    seconds = seconds_per_step(models, corpus, seq_len, batch_size, asked["optimizer"])
    found: dict[str, Any] = {"depths": depths, "seconds": seconds, "sizes": sizes, "remarks": remarks, "rates": {}}
    return Plan(**{"steps": 0, "seeds": 0} | asked | found, looked=time.monotonic() - began).settled()
