"""Judge a model of one's own as this book judges: against a baseline, in a comparison that it could lose.

What is notable:
- any function that makes a module from a vocabulary size will do; what would make the result worthless is refused;
- both sides get a rate of their own, the same seeds and batches, schedules that end, and equal time;
- both sides may leave layers out: where one may not, its card says so and claims less;
- the plan is made from the minutes given, and kept in a folder with the records, so that a comparison goes on.

The rules are those of :mod:`.protocol`, in words in *How we compare*.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..checks import require, require_int, require_number
from ..models import build_model, model_names
from ..training.corpus import Corpus, load_corpus
from ..training.evaluation import BLOCK
from ..training.files import locked, replacing
from ..training.loop import TrainingConfig, train
from . import evidence, screening
from .cost import effective_parameters
from .evidence import Comparison
from .protocol import SEEDS, Entry, Pair, Study, Trial, chosen_rate, key_of, tried, tuning_trials
from .records import Record, append_record, claimed, read_records, recorded
from .trials import execute_trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Build = Callable[..., nn.Module]
SHORTEST = 4096  # tokens of a part of the text
BLOCKS, SHORT = 56, 10.0  # of text that each score is of, a quarter of them in so few minutes
FEWEST_SEEDS, JUDGED = (
    2,
    3,
)  # seeds that have a spread, and that a verdict takes: two, each luckily tuned, agree too often
LATELY = 9  # runs that say how fast the machine is now
ENOUGH, FEWEST = 200, 20  # steps, below which seeds are given up, and below which nothing is judged
TUNING = 8.0  # runs that the choice of a rate takes: five, and six more where the curve is not smooth
SCORED = {"tuning": 1, "reported": 2}  # parts of the text that a run is scored on at its end
LOOK = 8192  # tokens that its loss is measured on before and after
ALIKE = 0.02  # two steps are as long, up to this share
MARGIN, LATEST = 0.9, 1.05  # of the minutes: what is planned, and after what no run begins that would end later
RATES = (2e-3, 4e-3, 8e-3)  # where tuning starts: short runs want high rates
PLAN, RECORDS, CARD, FIGURE, LEAKS = "plan.json", "records.jsonl", "card.md", "figure.png", "leaks.png"


@dataclass(frozen=True)
class Side:
    """A model that takes part.

    Args:
        name: ``"variant"`` or ``"baseline"``.
        source: where it comes from: a name of :func:`model_names`, or a file or module and a function.
        build: makes it.
        n_layers: its depth, where that can be chosen; else None.
        checksum: of the file that the function is in, where there is one.
    """

    name: str
    source: str
    build: Build
    n_layers: int | None
    checksum: str | None

    @classmethod
    def of(cls, name: str, what: str | Build) -> Side:
        """A side from a model's name, ``"file.py:function"``, or a function.

        Raises:
            TypeError, ValueError: if it is none of these, or the file cannot be executed.
        """
        if what in model_names():
            model = str(what)
            config = build_model(model, vocab_size=2).config or {}
            depth = None if model == "hourglass" else config["n_layers"]  # a hierarchy has no one depth
            return cls(name, model, partial(build_named, model), depth, None)
        checksum = None
        if isinstance(what, str):
            source, what = what, function_of(what)
            checksum = hashlib.sha256(Path(source.rpartition(":")[0]).read_bytes()).hexdigest()
        else:
            require(callable(what), name, what, f"a function, 'file.py:function' or one of {model_names()}", TypeError)
            source = f"{getattr(what, '__module__', '')}:{getattr(what, '__qualname__', type(what).__name__)}"
        default = inspect.signature(what).parameters.get("n_layers")
        depth = default.default if default and isinstance(default.default, int) and default.default > 1 else None
        return cls(name, source, what, depth, checksum)

    def make(self, vocab_size: int, max_seq_len: int, **options: Any) -> nn.Module:
        """The model; told how long a text may be if it asks for that."""
        named = inspect.signature(self.build).parameters
        if any(p.name == "max_seq_len" or p.kind is p.VAR_KEYWORD for p in named.values()):
            options["max_seq_len"] = max_seq_len
        return self.build(vocab_size, **options)


def build_named(model: str, vocab_size: int, **options: Any) -> nn.Module:
    """A model of the book, as a function of the vocabulary's size."""
    return build_model(model, vocab_size=vocab_size, **options)


def function_of(path: str) -> Build:
    """The function that ``"file.py:function"`` names; the file is executed.

    Raises:
        ValueError: if there is no such file or function, or the file fails.
    """
    file, _, function = path.rpartition(":")
    expected = f"one of {', '.join(model_names())}, or file.py:function"
    require(bool(file) and Path(file).is_file(), "the model", path, expected)
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None, "a file that was found"
    assert spec.loader is not None, "of a file"
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for their module there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{file} fails when it is executed: {type(error).__name__}: {error}") from error
    found = getattr(module, function, None)
    named = [name for name, value in vars(module).items() if inspect.isfunction(value)]
    require(callable(found), f"the function of {file}", function, f"one of its functions: {named}")
    return found  # type: ignore[return-value]


@dataclass(frozen=True)
class Plan:
    """What a comparison does.

    Args:
        variant, baseline: the sources of the sides.
        checksums: of their files.
        corpus, subwords, seq_len, batch_size: as for :class:`.protocol.Entry`.
        minutes: all that it may take.
        processes: that share it.
        depths: of the sides, where they can be chosen.
        seconds: of a step, by side, and of one of half its depth; measured in turn.
        looked: seconds that went by before the plan.
        size: how many parameters the variant has, in words.
        steps: of both sides, where steps are equal.
        seeds: how many.
        remarks: what was noticed before it started.
    """

    variant: str
    baseline: str
    checksums: tuple[str | None, str | None]
    corpus: str
    subwords: int | None
    seq_len: int
    batch_size: int
    minutes: float
    processes: int
    depths: dict[str, int]
    seconds: dict[str, float]
    looked: float
    size: str
    steps: int
    seeds: int
    remarks: tuple[str, ...]

    @classmethod
    def read(cls, file: Path) -> Plan:
        """The plan in a file.

        Raises:
            ValueError: if it is not one.
        """
        try:
            found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            lists = {name: tuple(value) for name, value in found.items() if isinstance(value, list)}
            return cls(**{**found, **lists})
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{file} is not the plan of a comparison: {error}") from error

    @property
    def asked(self) -> dict[str, Any]:
        """What the caller chose; the rest was measured or follows."""
        chosen = ("variant", "baseline", "checksums", "corpus", "subwords", "seq_len", "batch_size", "minutes")
        return {name: getattr(self, name) for name in (*chosen, "processes")}

    def entry(self, side: str, *, half: bool = False, steps: int | None = None) -> Entry:
        """A side at equal steps, or in equal time."""
        return Entry(
            name=f"{side}, half depth" if half else side,
            model=side,
            steps=self.steps if steps is None else steps,
            options={"n_layers": self.depths[side] // 2} if half else {},
            seq_len=self.seq_len,
            batch_size=self.batch_size,
            corpus=self.corpus,
            seeds=SEEDS[: self.seeds],
            rates=RATES,
            size=self.size,
            scored="test" if has_test(self.corpus) else "validation",
            subwords=self.subwords,
            blocks=self.blocks,
            looks=1,
        )

    def in_time(self, side: str) -> int:
        """The steps that a side makes while the whole baseline makes its own."""
        return max(2, round(self.steps * self.seconds["baseline"] / self.seconds[side]))

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """The sides at equal steps, in equal time, and of half their depth, by what they are for."""
        found = {side: self.entry(side) for side in ("baseline", "variant")}
        steps = self.in_time("variant")
        if abs(steps / self.steps - 1) > ALIKE:
            found["variant in time"] = replace(self.entry("variant", steps=steps), rate_of=found["variant"])
        for side in self.depths:
            found[f"{side}, half"] = self.entry(side, half=True, steps=self.in_time(f"{side}, half"))
        return found

    @cached_property
    def study(self) -> Study:
        """The entries, as a study of the book declares them."""
        made = self.entries
        pairs: dict[str, tuple[Pair, ...]] = {"equal steps": ((made["variant"].key, made["baseline"].key),)}
        return Study("comparison", f"Is {self.variant} better than {self.baseline}?", tuple(made.values()), pairs)

    @property
    def blocks(self) -> int:
        """How many blocks of text each score is of."""
        return BLOCKS if self.minutes >= SHORT else BLOCKS // 4

    def scoring(self, role: str) -> float:
        """What the scores of a run cost, in steps: a token that is read costs a third of one that is trained on."""
        read = 2 * LOOK + 2 * SCORED[role] * self.blocks * BLOCK  # a target is read once before it counts
        return read / 3 / self.batch_size / self.seq_len

    def cost(self, steps: float, seeds: int, rates: float = TUNING) -> float:
        """Seconds that it would take with so many steps, seeds and rates, if each step took what was measured."""
        whole, ratio = self.seconds["baseline"], self.seconds["variant"] / self.seconds["baseline"]
        tuning, reported = (steps + self.scoring(role) for role in ("tuning", "reported"))
        tuned = rates * tuning + seeds * reported
        extra = seeds * reported if abs(ratio - 1) > ALIKE else 0.0
        return whole * ((1 + ratio + len(self.depths)) * tuned + extra) / self.processes

    def settled(self) -> Plan:
        """With the steps and seeds that the minutes are enough for: fewer seeds before few steps, then fewer rates.

        Raises:
            ValueError: if they are not enough for anything.
        """
        room = 60 * self.minutes * MARGIN - self.looked
        whole = [(seeds, TUNING) for seeds in range(len(SEEDS), FEWEST_SEEDS - 1, -1)]
        for seeds, rates in (*whole, (FEWEST_SEEDS, len(RATES))):
            once = self.cost(0, seeds, rates)
            steps = int((room - once) / (self.cost(1, seeds, rates) - once))
            if steps >= (ENOUGH if seeds > FEWEST_SEEDS else FEWEST):
                return replace(self, steps=steps, seeds=seeds)
        least = math.ceil((self.looked + self.cost(FEWEST, FEWEST_SEEDS, len(RATES))) / MARGIN / 6) / 10
        raise ValueError(f"minutes is {self.minutes:g}; expected at least {least:g} on this machine")

    def __str__(self) -> str:
        from scipy import stats  # heavy libraries are imported where they are used

        wide = {n: float(stats.t.ppf(0.975, 2 * (n - 1))) / math.sqrt(n) for n in (self.seeds, len(SEEDS))}
        fewer = "" if self.seeds == len(SEEDS) else (
            f" An interval of {self.seeds} seeds is {wide[self.seeds] / wide[len(SEEDS)]:.1f} times as wide as one of "
            f"{len(SEEDS)}."
        )  # fmt: skip
        depth = " Both are tried at half their depth too." if len(self.depths) == 2 else ""
        about = min(self.minutes, self.cost(self.steps, self.seeds) / 60)
        each = [f"{side} {1000 * seconds:.0f} ms" for side, seconds in self.seconds.items()]
        return (
            f"{self.variant} against {self.baseline}: {self.steps:,} steps of {self.batch_size} × {self.seq_len}, "
            f"{self.seeds} seeds, a rate for each side.{depth}{fewer}\n"
            f"A step takes: {', '.join(each)}. In all about {about:.1f} minutes."
        )


def has_test(corpus: str) -> bool:
    """Whether a text has a part that nothing was chosen on."""
    return load_corpus(corpus).test is not None


def seconds_per_step(models: dict[str, nn.Module], corpus: Corpus, seq_len: int, batch_size: int) -> dict[str, float]:
    """The median over rounds in which all take turns."""
    steps, rounds = 4, 5
    config = TrainingConfig(
        steps=steps, batch_size=batch_size, seq_len=seq_len, warmup_steps=1, eval_every=steps, eval_batches=1
    )
    found: dict[str, list[float]] = {name: [] for name in models}
    for number in range(rounds + 1):
        for name, model in models.items():
            seconds = train(model, corpus, config, show_progress=False)[-1]["seconds"] / steps
            if number > 0:  # the first round fills caches
                found[name].append(seconds)
    return {name: statistics.median(times) for name, times in found.items()}


def look_first(sides: dict[str, Side], corpus: Corpus, seq_len: int, batch_size: int) -> tuple[list[str], str]:
    """Remarks on the variant, and its size in words.

    Raises:
        TypeError, ValueError: for what would make the comparison worthless: see :mod:`.screening`.
    """
    vocab_size = len(corpus.vocabulary)
    torch.manual_seed(0)
    models = {name: side.make(vocab_size, seq_len) for name, side in sides.items()}
    inputs, targets = corpus.batch(batch_size, seq_len, torch.Generator().manual_seed(0))
    for model in models.values():
        screening.require_logits(model, inputs, vocab_size)
    ours, theirs = models["variant"], models["baseline"]
    remarks = screening.check_leaks(ours, seq_len, vocab_size)
    remarks += screening.check_start(ours, inputs, targets, vocab_size)
    remarks += screening.apart("parameters", effective_parameters(ours), effective_parameters(theirs))
    costs = [screening.multiply_adds_of(model, seq_len) for model in (ours, theirs)]
    remarks += screening.apart("multiply-adds", *costs)
    return remarks, f"{effective_parameters(ours) / 1e6:.1f}M"


def make_plan(sides: dict[str, Side], corpus: Corpus, asked: dict[str, Any]) -> Plan:
    """Look at both sides, time them, and choose steps and seeds for the minutes.

    Raises:
        TypeError, ValueError: as for :func:`look_first` and :meth:`Plan.settled`.
    """
    began = time.monotonic()
    seq_len, batch_size = asked["seq_len"], asked["batch_size"]
    remarks, size = look_first(sides, corpus, seq_len, batch_size)
    depths = {name: side.n_layers for name, side in sides.items() if side.n_layers is not None}
    vocab_size = len(corpus.vocabulary)
    models = {name: side.make(vocab_size, seq_len) for name, side in sides.items()}
    models |= {
        f"{name}, half": sides[name].make(vocab_size, seq_len, n_layers=depth // 2) for name, depth in depths.items()
    }
    seconds = seconds_per_step(models, corpus, seq_len, batch_size)
    looked = time.monotonic() - began
    plan = Plan(
        **asked, depths=depths, seconds=seconds, looked=looked, size=size, steps=0, seeds=0, remarks=tuple(remarks)
    )
    return plan.settled()


def rate_for(entry: Entry, records: list[Record]) -> float | None:
    """The chosen rate, or the best of those that there was time to try; None if none was."""
    entry = entry.rate_of or entry
    losses = tried(entry, records)
    return chosen_rate(entry, records) or min(losses, key=losses.__getitem__, default=None)


def trials(plan: Plan, records: list[Record], *, tune: bool = True) -> list[Trial]:
    """What is to be run next, in order: rates of all entries in turn, then seed by seed, so that it can end soon."""
    own = [entry for entry in plan.entries.values() if entry.rate_of is None]
    if not tune:  # whoever has no rate gets one
        own = [entry for entry in own if rate_for(entry, records) is None]
    turns = zip_longest(*(tuning_trials(entry, records) for entry in own))
    if tuning := [trial for turn in turns for trial in turn if trial is not None]:
        return tuning
    done = {(key_of(r), r["run"]["training"]["seed"]) for r in records if r["role"] == "reported"}
    missing = []
    for seed in SEEDS[: plan.seeds]:
        for entry in plan.entries.values():
            rate = rate_for(entry, records)
            assert rate is not None, "an entry without one is tuned first"
            if (entry.key, seed) not in done:
                missing.append(Trial(entry, "reported", rate, seed))
    return missing


@dataclass(frozen=True, repr=False)
class Judgment:
    """What a comparison found.

    Args:
        plan: what was to be done.
        card: in Markdown, for a pull request.
        comparisons: by question, the variant minus the baseline; none where all runs of both are the same, and none
            told apart where seeds or rates are too few for a verdict.
    """

    plan: Plan
    card: str
    comparisons: dict[str, Comparison]

    def _repr_markdown_(self) -> str:
        return self.card

    def __repr__(self) -> str:
        return self.card

    def figure(self) -> Figure:
        """A dot and a bar for each question, filled where the two are told apart."""
        from matplotlib.figure import Figure  # heavy libraries are imported where they are used

        figure = Figure(figsize=(4.8, 0.9 + 0.45 * len(self.comparisons)), layout="constrained")
        axes = figure.add_subplot()
        axes.axvline(0, color="0.6", linewidth=1)
        for place, found in enumerate(self.comparisons.values()):
            fill = "C0" if found.told_apart else "white"
            axes.plot([found.low, found.high], [place, place], color="C0")
            axes.plot(found.mean, place, "o", color="C0", markerfacecolor=fill, markersize=8)
        axes.set_yticks(range(len(self.comparisons)), list(self.comparisons))
        axes.set_ylim(len(self.comparisons) - 0.5, -0.5)
        axes.set_xlabel(f"test loss minus the baseline's, {self.plan.baseline}")
        return figure

    def save(self, folder: Path) -> None:
        """Write ``card.md`` and, where there is something to draw, ``figure.png``."""
        with replacing(folder / CARD) as unfinished:
            unfinished.write_text(self.card, encoding="utf-8")
        if self.comparisons:
            save_figure(self.figure(), folder / FIGURE)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a PNG, whole or not at all."""
    with replacing(path) as unfinished:
        figure.savefig(unfinished, format="png", dpi=150)


def compare(
    build: Build | str,
    against: Build | str = "transformer",
    *,
    minutes: float = 30.0,
    out: Path | str | None = None,
    corpus: str = "shakespeare-with-test",
    subwords: int | None = None,
    seq_len: int = 256,
    batch_size: int = 4,
    shard: tuple[int, int] = (0, 1),
    show_progress: bool = True,
) -> Judgment:
    """Judge a model against a baseline: at equal steps, and in equal time with the depth that suits each.

    It first looks for what would make the result worthless (:mod:`.screening`), times both sides in turn, says what it
    will do and how long that takes, and then trains: rates for each side, and paired seeds. Interrupted, it goes on
    when it is called again with the same arguments and ``out``.

    Args:
        build: a function that makes a module from a vocabulary size, ``"file.py:function"``, or a model's name. The
            module takes int64 ``[batch, seq]`` and returns logits ``[batch, seq, vocab]``. Where the function takes
            ``n_layers``, with a default, the depth is tried too; where it takes ``max_seq_len``, it is told.
        against: likewise.
        minutes: that it may take; fewer minutes are fewer steps and seeds.
        out: the folder for plan, records, figure and card; None makes a new one under ``runs/``.
        corpus: a name or a path for :func:`load_corpus`.
        subwords: how many byte pairs the text is read as; None for characters.
        seq_len, batch_size: tokens of a sequence, and sequences of a step.
        shard: which of how many processes this is, started with the same ``out``.
        show_progress: print what is done, with a bar for each run.

    Raises:
        LeakError: if an output reads what it is to predict; ``leaks.png`` in the folder is its map.
        TypeError, ValueError: for what cannot be compared, or too few minutes; the message says what to do.
        FloatingPointError: if a model at its best rate breaks down.
    """
    require_number("minutes", minutes)
    for name, value, least in (("seq_len", seq_len, 2), ("batch_size", batch_size, 1)):
        require_int(name, value, at_least=least)
    index, processes = shard
    require(0 <= index < processes, "shard", shard, "the number of this process, from 0, and how many there are")
    require(out is not None or processes == 1, "out", out, "a folder that all processes share")
    sides = {"baseline": Side.of("baseline", against), "variant": Side.of("variant", build)}
    text = load_corpus(corpus, subwords=subwords)
    for part in ("train", "validation"):
        enough = f"a text whose part has at least {SHORTEST:,} tokens"
        require(
            len(getattr(text, part)) >= SHORTEST, f"the {part} part of {corpus!r}", len(getattr(text, part)), enough
        )
    folder = Path(out or Path("runs") / f"compare-{datetime.now():%Y%m%d-%H%M%S}")
    folder.mkdir(parents=True, exist_ok=True)
    asked: dict[str, Any] = {
        "variant": sides["variant"].source,
        "baseline": sides["baseline"].source,
        "checksums": (sides["variant"].checksum, sides["baseline"].checksum),
        "corpus": str(corpus),
        "subwords": subwords,
        "seq_len": seq_len,
        "batch_size": batch_size,
        "minutes": minutes,
        "processes": processes,
    }
    with locked(folder / ".plan.lock"):  # one process makes the plan of all
        file = folder / PLAN
        try:
            plan = Plan.read(file) if file.exists() else make_plan(sides, text, asked)
        except screening.LeakError as leak:
            if leak.reads is None:
                raise
            draw_leak(leak.reads, folder / LEAKS)
            raise screening.LeakError(f"{leak} ({folder / LEAKS} shows them)", leak.reads) from None
        for name, value in asked.items():
            found = plan.asked[name]
            require(found == value, f"{name} of {file}", found, f"{value!r}, as it was asked now; or another out")
        with replacing(file) as unfinished:
            unfinished.write_text(json.dumps(asdict(plan), indent=1) + "\n", encoding="utf-8")
    if show_progress:
        print(plan, *plan.remarks, sep="\n", flush=True)
    carry_out(plan, sides, folder, show_progress)
    judgment = judge(plan, read_records(folder / RECORDS))
    judgment.save(folder)
    if show_progress:
        print(f"Plan, records, card and figure are in {folder}.")
    return judgment


class Clock:
    """How much of the minutes is used, by all calls, and what runs really take.

    Args:
        plan: with the minutes, and what a step took when it was made.
        file: of the records, each with its seconds.
    """

    def __init__(self, plan: Plan, file: Path) -> None:
        self.plan, self.file, self.started = plan, file, time.monotonic()
        self.before = plan.looked + sum(record["seconds"] for record in self.records()) / plan.processes

    def records(self) -> list[Record]:
        """Those that there are now."""
        return read_records(self.file) if self.file.exists() else []

    def spent(self) -> float:
        """Seconds that were used."""
        return self.before + time.monotonic() - self.started

    def expected(self, entry: Entry, role: str) -> float:
        """Seconds of a run, by what a step took."""
        return self.plan.seconds[entry.name.replace(" depth", "")] * (entry.steps + self.plan.scoring(role))

    def is_enough_for(self, trial: Trial, records: list[Record]) -> bool:
        """Whether a run still fits; of a run that tunes, whether two seeds of all entries fit after it."""
        entries = {entry.key: entry for entry in self.plan.entries.values()}
        ratios = [r["seconds"] / self.expected(entries[key_of(r)], r["role"]) for r in records]
        pace = (
            statistics.median(ratios[-LATELY:]) if len(ratios) > 2 else 1.0
        )  # the first run also imports what it needs
        needed = self.expected(trial.entry, trial.role)
        if trial.role == "tuning":
            needed += (
                FEWEST_SEEDS * sum(self.expected(entry, "reported") for entry in entries.values()) / self.plan.processes
            )
        return self.spent() + pace * needed <= 60 * self.plan.minutes * LATEST


def carry_out(plan: Plan, sides: dict[str, Side], folder: Path, show_progress: bool) -> None:
    """Train what is missing, until nothing is or the minutes are over; but two seeds, without which all was in vain."""
    clock, tune = Clock(plan, folder / RECORDS), True

    def build(name: str, *, vocab_size: int, max_seq_len: int, **options: Any) -> nn.Module:
        return sides[name].make(vocab_size, max_seq_len, **options)

    while missing := trials(plan, clock.records(), tune=tune):
        for trial in missing:
            run = trial.describe()
            with claimed(run, clock.file, wait=trial is missing[-1]) as ours:
                records = clock.records()
                if not ours or recorded(run, clock.file):
                    continue
                if not clock.is_enough_for(trial, records):
                    if trial.role == "tuning" and tune:
                        tune = False
                        break
                    if trial.role == "reported" and trial.seed not in SEEDS[:FEWEST_SEEDS]:
                        return
                if show_progress:
                    left = max(0.0, plan.minutes - clock.spent() / 60)
                    what = f"{trial.role}: {trial.entry.name}, rate {trial.rate:g}, seed {trial.seed}"
                    print(f"{what}; at most {left:.1f} minutes left", flush=True)
                begun = time.monotonic()
                record = execute_trial(plan.study, trial, build, show_progress=show_progress)
                append_record(record | {"seconds": round(time.monotonic() - begun, 2)}, clock.file)
                break


def judge(plan: Plan, records: list[Record]) -> Judgment:
    """Compare what was recorded.

    Raises:
        ValueError: if not even two seeds of all entries are complete.
    """
    losses, validation = by_entry(plan, records, "test"), by_entry(plan, records, "validation")
    seeds = sorted(set.intersection(*(set(found) for found in losses.values())))
    expected = f"at least {FEWEST_SEEDS} of each entry, which other processes may still be at"
    require(len(seeds) >= FEWEST_SEEDS, "the seeds that are complete", seeds, expected)
    chosen = {side: best_in_time(plan, side, validation) for side in ("variant", "baseline")}
    pairs = {"equal steps": ("variant", "baseline"), "equal time": (chosen["variant"], chosen["baseline"])}
    if len(plan.depths) < 2:
        pairs["equal time"] = ("variant in time" if "variant in time" in losses else "variant", "baseline")
    sides = {
        question: tuple({seed: losses[name][seed] for seed in seeds} for name in pair)
        for question, pair in pairs.items()
    }
    same = all(ours == theirs for ours, theirs in sides.values())
    comparisons = {} if same else evidence.compare(sides)  # type: ignore[arg-type]
    if too_little(plan, records, seeds):
        comparisons = {question: replace(found, told_apart=False) for question, found in comparisons.items()}
    return Judgment(plan, write_card(plan, records, pairs, comparisons, seeds), comparisons)


def too_little(plan: Plan, records: list[Record], seeds: list[int]) -> bool:
    """Whether there are fewer seeds, or fewer rates, than a verdict takes."""
    return len(seeds) < JUDGED or any(tuning_trials(entry, records) for entry in plan.entries.values())


def by_entry(plan: Plan, records: list[Record], part: str) -> dict[str, dict[int, float]]:
    """Losses of reported runs, by what their entry is for and by seed."""
    names = {entry.key: name for name, entry in plan.entries.items()}
    found: dict[str, dict[int, float]] = {name: {} for name in names.values()}
    for record in records:
        if record["role"] == "reported":
            found[names[key_of(record)]][record["run"]["training"]["seed"]] = record[part]["loss"]
    return found


def best_in_time(plan: Plan, side: str, validation: dict[str, dict[int, float]]) -> str:
    """Of a side whole and of half its depth in equal time: the lower, by the text that rates are chosen on."""
    whole = f"{side} in time" if f"{side} in time" in plan.entries else side
    candidates = [whole] + ([f"{side}, half"] if side in plan.depths else [])
    return min(candidates, key=lambda name: statistics.fmean(validation[name].values()))


def write_card(
    plan: Plan,
    records: list[Record],
    pairs: dict[str, tuple[str, str]],
    comparisons: dict[str, Comparison],
    seeds: list[int],
) -> str:
    """What was compared, how, what came out, and what that does not say, in Markdown."""
    losses = by_entry(plan, records, "test")
    unit = "subword" if plan.subwords else "token"
    lines = [f"**{plan.variant} against {plan.baseline}**", ""]
    lines += [
        f"| test loss, nats per {unit} | variant | baseline | difference | told apart |",
        "| --- | --- | --- | --- | --- |",
    ]
    for question, (ours, theirs) in pairs.items():
        means = [statistics.fmean(losses[name][seed] for seed in seeds) for name in (ours, theirs)]
        found = comparisons.get(question)
        said = f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]".replace("-", "−") if found else "0"
        verdict = ("yes" if found.told_apart else "no") if found else "no: the runs are the same"
        verdict = "no verdict" if found and too_little(plan, records, seeds) else verdict
        lines.append(f"| {question} | {means[0]:.3f} | {means[1]:.3f} | {said} | {verdict} |")
    lines += [
        "",
        "| entry | steps | rate | ms a step | parameters | multiply-adds per token |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, entry in plan.entries.items():
        run = next(r for r in records if r["role"] == "reported" and key_of(r) == entry.key)
        timed = plan.seconds[entry.name.replace(" depth", "")]
        lines.append(
            f"| {name}{in_use(name, pairs)} | {entry.steps:,} | {run['run']['training']['learning_rate']:g} "
            f"| {1000 * timed:.0f} | {run['parameters']:,} | {run['multiply_adds']:,} |"
        )
    lines += ["", *(f"- {remark}" for remark in (*plan.remarks, *limits(plan, records, seeds)))]
    made = records[0]
    where = f"torch {made['versions']['torch']}, {made['machine']}, {made['device']}"
    lines += ["", f"Text: {plan.corpus}; {plan.batch_size} × {plan.seq_len} tokens a step. {where}.", ""]
    return "\n".join(lines)


def in_use(name: str, pairs: dict[str, tuple[str, str]]) -> str:
    """A mark for an entry that no verdict is on."""
    return "" if any(name in pair for pair in pairs.values()) else " (no verdict)"


def limits(plan: Plan, records: list[Record], seeds: list[int]) -> Iterator[str]:
    """What the comparison does not show."""
    if too_little(plan, records, seeds):
        yield f"No verdict: that takes {JUDGED} seeds, and a whole grid of rates for each side. Ask for more minutes."
    if "variant" not in plan.depths:
        yield "Depth of the variant not tuned."
    for entry in plan.entries.values():
        if entry.rate_of is None and tuning_trials(entry, records):
            count = len(tried(entry, records))
            yield f"The rate of {entry.name} is the best of {count}: the minutes were over before its grid was whole."
    if len(seeds) < plan.seeds:
        yield f"The minutes were over after {len(seeds)} of {plan.seeds} seeds."
    yield f"No leak was found at {plan.seq_len:,} tokens, in train and eval mode, nor across the batch."
    yield f"It holds for {plan.steps:,} steps, one text, one size and one recipe; a lead can shrink with more steps."


def draw_leak(reads: Tensor, path: Path) -> None:
    """Which token each output reads: all that is above the diagonal is a leak."""
    from matplotlib.figure import Figure  # heavy libraries are imported where they are used

    figure = Figure(figsize=(4.8, 4.4), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow((reads.int() + reads.triu(1).int()).numpy(), cmap="Reds", interpolation="nearest")
    axes.set(xlabel="token", ylabel="output", title="dark: an output that reads a later token")
    save_figure(figure, path)
