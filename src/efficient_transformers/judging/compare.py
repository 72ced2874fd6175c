"""Judge a model of one's own as this book judges: against a baseline, in a comparison that it could lose.

What is notable:
- any function that makes a module from a vocabulary size will do; what would make the result worthless is refused;
- both sides get a rate of their own, the same seeds and batches, schedules that end, and equal time;
- both sides may leave layers out: where one may not, its card says so and claims less;
- the minutes are kept, but for two seeds of each side: what does not fit any more is left out, and the card says what;
- who gives steps and seeds in place of minutes gets them, however busy the machine is.

The sides are made by :mod:`.side`, the plan by :mod:`.plan`, the verdicts by :mod:`.judgment`.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args

from torch import Tensor, nn

from ..layers.leaks import LeakError
from ..support.checks import require, require_int, require_known, require_number
from ..support.files import locked
from ..training.corpus import Corpus, load_corpus
from ..training.loop import Optimizer
from ..training.vocabulary import Unit
from .judgment import PACKAGE, Judgment, judge, save_figure
from .plan import (
    FEWEST_SEEDS,
    FEWEST_STEPS,
    VERDICT_SEEDS,
    Plan,
    blocks_in,
    check_text,
    checksum_of,
    look_for_leaks,
    make_plan,
)
from .protocol import RATES, SEEDS, Trial, chosen_rate, tried, tuning_trials
from .recording import Record, append_record, read_records
from .side import Build, Side
from .trials import execute_trial

PLAN, RECORDS, LEAKS, LOCK = "plan.json", "records.jsonl", "leaks.png", ".plan.lock"
VERSUS = ("variant", "baseline")
LATEST = 1.05  # of the minutes, after which no run begins that would end later
LATELY = 9  # runs that say how fast the machine is now


def compare(
    build: Build | str,
    against: Build | str = "transformer",
    *,
    minutes: float | None = None,
    steps: int | None = None,
    seeds: int | None = None,
    out: Path | str | None = None,
    corpus: str = "shakespeare-with-test",
    tokens: Unit = "characters",
    seq_len: int = 256,
    batch_size: int = 4,
    optimizer: Optimizer = "adamw",
    show_progress: bool = True,
) -> Judgment:
    """Judge a model against a baseline: at equal steps, and in equal time with the depth that suits each.

    It first looks for what would make the result worthless (:mod:`.screening`), times both sides in turn, says what it
    will do and how long that takes, and then trains: rates for each side, and paired seeds. Models are asked for leaks
    again once they are trained. Interrupted, it goes on when it is called again with the same arguments and ``out``.

    Args:
        build: a function that makes a module from a vocabulary size, ``"file.py:function"``, or a model's name. The
            module, on the CPU, takes int64 ``[batch, seq]`` and returns logits ``[batch, seq, vocab]``. Where the
            function takes ``n_layers``, with a default, the depth is tried too; where it takes ``max_seq_len``, it is
            told.
        against: likewise.
        minutes: that it may take, 30 where no steps are given; fewer minutes are fewer steps and seeds.
        steps: of each run at equal steps, in place of minutes: then it takes as long as it takes.
        seeds: how many, where steps are given, from 2 to 5; by default the 3 that a verdict takes.
        out: the folder for plan, records, figure and card; None makes a new one under ``runs/``.
        corpus: a name or a path for :func:`load_corpus`.
        tokens: what the text is read as, ``"characters"`` or ``"bytes"``.
        seq_len, batch_size: tokens of a sequence, and sequences of a step.
        optimizer: of both sides, as for :class:`TrainingConfig`.
        show_progress: print what is done, with a bar for each run.

    Raises:
        LeakError: if an output reads what it is to predict; ``leaks.png`` in the folder is its map.
        TypeError, ValueError: for what cannot be compared, or too few minutes, steps or seeds; the message says what
            to do.
        FloatingPointError: if a model at its best rate breaks down.
    """
    if steps is None:
        require(seeds is None, "seeds", seeds, "none without steps: minutes choose both")
        minutes = 30.0 if minutes is None else minutes
        require_number("minutes", minutes)
    else:
        require(minutes is None, "minutes", minutes, "none where steps are given")
        seeds = VERDICT_SEEDS if seeds is None else seeds
        require_int("steps", steps, at_least=FEWEST_STEPS)
        require_int("seeds", seeds, at_least=FEWEST_SEEDS)
        require(seeds <= len(SEEDS), "seeds", seeds, f"at most {len(SEEDS)}")
    for name, value, least in (("seq_len", seq_len, 2), ("batch_size", batch_size, 1)):
        require_int(name, value, at_least=least)
    require_known("optimizer", optimizer, get_args(Optimizer))
    sides = {"baseline": Side.of("against", against), "variant": Side.of("build", build)}
    text = load_corpus(corpus, tokens=tokens)
    check_text(text, seq_len, blocks_in(minutes, steps))
    asked: dict[str, Any] = {
        "variant": sides["variant"].source,
        "baseline": sides["baseline"].source,
        "checksums": [*(checksum_of(sides[name], len(text.vocabulary), seq_len) for name in VERSUS), text.checksum()],
        "corpus": str(corpus),
        "tokens": tokens,
        "seq_len": seq_len,
        "batch_size": batch_size,
        "minutes": minutes,
        "optimizer": optimizer,
    }
    if steps is not None:
        asked |= {"steps": steps, "seeds": seeds}
    folder = Path(out or Path("runs") / f"compare-{datetime.now():%Y%m%d-%H%M%S}")
    if show_progress:
        print("Looking for leaks, and timing a step of each side …", flush=True)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / LOCK, wait=False) as mine:
        require(mine, "out", str(folder), "a folder that no other process is at")
        try:
            plan = plan_in(folder, sides, text, asked)
        finally:
            if is_new and not any((folder / name).exists() for name in (PLAN, LEAKS)):
                shutil.rmtree(folder, ignore_errors=True)
        if show_progress:
            print(plan, *plan.remarks, sep="\n", flush=True)
        plan = make_runs(plan, sides, text, folder, show_progress)
        judgment = judge(plan, read_records(folder / RECORDS))
        judgment.save(folder)
    if show_progress:
        print(f"Plan, records, card and figure are in {folder}.")
    return judgment


def plan_in(folder: Path, sides: dict[str, Side], text: Corpus, asked: dict[str, Any]) -> Plan:
    """The plan in a folder, made if there is none.

    Raises:
        LeakError, TypeError, ValueError: as for :func:`.plan.make_plan`, which leaves no folder but that of a leak's
            map; and if the plan that is there was made for something else.
    """
    file = folder / PLAN
    if not file.exists():
        there = (folder / RECORDS).exists()
        require(not there, "out", str(folder), f"{PLAN} beside {RECORDS}, or a folder without either")
        with leaks_drawn(folder):
            make_plan(sides, text, asked).write(file)
    plan = Plan.read(file)
    for name, value in asked.items():
        found = getattr(plan, name)
        require(found == value, f"{name} of {file}", found, f"{value!r}, as it was asked now; or another out")
    return plan


@contextmanager
def leaks_drawn(folder: Path) -> Iterator[None]:
    """Have a leak that is found within the block drawn into a folder, and say so."""
    try:
        yield
    except LeakError as leak:
        if leak.reads is None:
            raise
        draw_leak(leak.reads, folder / LEAKS)
        raise LeakError(f"{leak} ({folder / LEAKS} shows them)", leak.reads) from None


def draw_leak(reads: Tensor, path: Path) -> None:
    """Which token each output reads: all that is above the diagonal is a leak."""
    from matplotlib.figure import Figure  # heavy libraries are imported where they are used

    figure = Figure(figsize=(4.8, 4.4), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow((reads.int() + reads.triu(1).int()).numpy(), cmap="Reds", interpolation="nearest")
    axes.set(xlabel="token", ylabel="output", title="dark: an output that reads a later token")
    save_figure(figure, path)


class Clock:
    """How much of the minutes is used, by all calls, and what runs really take.

    Args:
        plan: with the minutes, and what a step took when it was made.
        file: of the records, each with its seconds.
    """

    def __init__(self, plan: Plan, file: Path) -> None:
        self.plan, self.file, self.started = plan, file, time.monotonic()
        self.before = plan.looked + sum(record["seconds"] + record.get("asked", 0) for record in self.records())

    def records(self) -> list[Record]:
        """Those that there are now."""
        return read_records(self.file) if self.file.exists() else []

    def spent(self) -> float:
        """Seconds that were used."""
        return self.before + time.monotonic() - self.started

    def pace(self) -> float:
        """How long runs take beside what was expected, lately."""
        entries = {entry.label: entry for entry in self.plan.entries.values()}
        ratios = [r["seconds"] / self.plan.expected(entries[r["run"]["label"]], r["role"]) for r in self.records()]
        return statistics.median(ratios[-LATELY:]) if len(ratios) > 2 else 1.0  # the first also imports what it needs

    def is_enough_for(self, trial: Trial) -> bool:
        """Whether a run still fits; of a run that tunes, whether the seeds that a verdict takes fit after it."""
        if self.plan.minutes is None:
            return True
        needed = self.plan.expected(trial.entry, trial.role)
        if trial.role == "tuning":
            round_of_seeds = sum(self.plan.expected(entry, "reported") for entry in self.plan.entries.values())
            needed += min(self.plan.seeds, VERDICT_SEEDS) * round_of_seeds
        return self.spent() + self.pace() * needed <= 60 * self.plan.minutes * LATEST


def tuning_left(plan: Plan, records: list[Record]) -> list[Trial]:
    """The runs that the choice of rates lacks, in turn: first of the entry with the fewest, should the time be over.

    Raises:
        FloatingPointError: if a side breaks down at all rates of its first grid.
    """
    own = [entry for entry in plan.entries.values() if entry.rate_of is None]
    for entry in own:
        why = [r["validation"].get("broke_down") for r in records if r["run"]["label"] == entry.label]
        if len(why) >= len(RATES) and all(why):
            said = f"the training of the {entry.name} breaks down at every rate"
            raise FloatingPointError(f"{said}; the last time, {why[-1]}")
    own.sort(key=lambda entry: len(tried(entry, records)))
    turns = zip_longest(*(tuning_trials(entry, records) for entry in own))
    return [trial for turn in turns for trial in turn if trial is not None]


def with_rates(plan: Plan, records: Sequence[Record]) -> Plan:
    """The plan, with the rate of each entry: the chosen one, or the best of those that there was time to try."""

    def rate(name: str) -> float:
        entry = plan.entries[name].rate_of or plan.entries[name]
        losses = tried(entry, records)
        return chosen_rate(entry, records) or min(losses, key=losses.__getitem__)

    return replace(plan, rates={name: rate(name) for name in plan.entries})


def seeds_left(plan: Plan, records: list[Record]) -> list[Trial]:
    """The reported runs that are missing, seed by seed, so that the comparison can end soon."""
    done = {(r["run"]["label"], r["run"]["training"]["seed"]) for r in records if r["role"] == "reported"}
    return [
        Trial(entry, "reported", plan.rates[name], seed)
        for seed in SEEDS[: plan.seeds]
        for name, entry in plan.entries.items()
        if (entry.label, seed) not in done
    ]


def commit_here() -> str | None:
    """The commit of the folder that this runs in, and whether its files have changed since; None outside of any."""
    asked = ["git", "describe", "--always", "--exclude=*", "--dirty=, with changes"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def make_runs(plan: Plan, sides: dict[str, Side], text: Corpus, folder: Path, show_progress: bool) -> Plan:
    """Choose rates, then run the seeds; the plan, with the rates, in the folder's plan too."""
    clock, commit, made = Clock(plan, folder / RECORDS), commit_here(), list[nn.Module]()

    def build(name: str, *, vocab_size: int, max_seq_len: int, **options: Any) -> nn.Module:
        made[:] = [sides[name].make(vocab_size, max_seq_len, **options)]
        return made[0]

    def is_asked_again(trial: Trial) -> bool:
        """Whether a trained model is asked for leaks: the first of each entry and role, and the last."""
        others = [r for r in clock.records() if (r["role"], r["run"]["label"]) == (trial.role, trial.entry.label)]
        return not sides[trial.entry.model].is_of_the_book and (not others or trial.seed == SEEDS[plan.seeds - 1])

    def execute(trial: Trial) -> None:
        if show_progress:
            what = f"{trial.role}: {trial.entry.name}, {trial.entry.steps:,} steps, rate {trial.rate:g}"
            left = plan.minutes and f"; at most {max(0, plan.minutes - clock.spent() / 60):.1f} minutes left"
            print(f"{what}, seed {trial.seed}{left or ''}", flush=True)
        began = time.monotonic()
        try:
            record = execute_trial(trial, build, commit=commit, show_progress=show_progress)
        except FloatingPointError as error:
            raise FloatingPointError(f"the {trial.entry.name}, seed {trial.seed}, breaks down: {error}") from error
        used = {"seconds": round(time.monotonic() - began, 2), "package": version(PACKAGE)}
        if is_asked_again(trial):
            began = time.monotonic()
            with leaks_drawn(folder):
                look_for_leaks(f"the {trial.entry.name}, trained,", made[0], text, plan.seq_len)
            used["asked"] = round(time.monotonic() - began, 2)
        append_record(record | used, clock.file)

    def work(missing: Callable[[Plan, list[Record]], list[Trial]], is_needed: Callable[[Trial], bool]) -> None:
        """Run what is missing until the minutes are over; then what all would be in vain without."""
        is_over = False
        while trials := [trial for trial in missing(plan, clock.records()) if not is_over or is_needed(trial)]:
            if is_needed(trials[0]) or clock.is_enough_for(trials[0]):
                execute(trials[0])
            else:
                is_over = True

    if not plan.rates:
        work(tuning_left, lambda trial: not tried(trial.entry, clock.records()))
        plan = with_rates(plan, clock.records())
        plan.write(folder / PLAN)
    work(seeds_left, lambda trial: trial.seed in SEEDS[:FEWEST_SEEDS])
    return plan
