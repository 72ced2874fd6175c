"""What a comparison found: its verdicts, and the card that says what they do not show.

What is notable:
- a verdict takes three seeds, and a whole grid of rates for both sides of its pair; in equal time, a fair clock too;
- of a side whole and of half its depth, the one that did better on the validation text meets the other in equal time;
- the card has every entry's loss, verdict or not, and ends with what the comparison does not show.

The rules are those of :mod:`.protocol`, in words in *How we compare*.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..models.language_model import model_names
from ..support.checks import require
from ..support.files import replacing, write_text
from ..training.loop import BETAS
from . import evidence
from .evidence import Comparison
from .plan import FEWEST_SEEDS, VERDICT_SEEDS, Plan
from .protocol import Entry, chosen_rate, tried
from .recording import Record, read_records, results
from .screening import apart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PACKAGE = "efficient-transformers-annotated"
COSTS = {"parameters": "parameters", "multiply_adds": "multiply-adds"}  # of a record, in words
UNEQUAL, FAR = 0.05, 0.1  # shares of the time, above which a card says that it was not equal, and gives no verdict
HALF, BOTH = "baseline, half", "equal steps and equal time"
NONE, SAME = "no verdict", "no: the runs are the same"


@dataclass(frozen=True, repr=False)
class Judgment:
    """What a comparison found.

    Args:
        plan: what was to be done.
        records: of the runs.
        losses: that are judged, by entry and seed.
        pairs: by question, what the entries are for that meet each other, ours and theirs.
        comparisons: by question, the variant minus the baseline; none where both runs are the same, seed by seed.
        verdicts: by question: "yes" and "no", they are told apart or not; "no verdict", there were too few seeds or
            rates to say, or the time was not equal; "no: the runs are the same".
    """

    plan: Plan
    records: list[Record]
    losses: dict[str, dict[int, float]]
    pairs: dict[str, tuple[str, str]]
    comparisons: dict[str, Comparison]
    verdicts: dict[str, str]

    def __repr__(self) -> str:
        return self.card

    _repr_markdown_ = __repr__

    @cached_property
    def card(self) -> str:
        """What was compared, how, what came out, and what that does not say, in Markdown, for a pull request."""
        plan = self.plan
        means = {name: statistics.fmean(found.values()) for name, found in self.losses.items()}
        first = {name: next(reported(entry, self.records)) for name, entry in plan.entries.items()}
        lines = [
            f"**{plan.variant} against {plan.baseline}**",
            "",
            f"| {plan.part} loss, nats per token, lower is better "
            "| variant | baseline | difference | difference shown |",
            "| --- | --- | --- | --- | --- |",
        ]
        for question, (ours, theirs) in self.pairs.items():
            found = self.comparisons.get(question)
            said = f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]".replace("-", "−") if found else "0"
            sizes = [each for key, cost in COSTS.items() for each in apart(cost, first[ours][key], first[theirs][key])]
            shown = self.verdicts[question] + (f", with {' and '.join(sizes)}" if sizes else "")
            lines.append(f"| {question} | {means[ours]:.3f} | {means[theirs]:.3f} | {said} | {shown} |")
        lines += [
            "",
            "| entry | steps | rate | seconds | loss | parameters | multiply-adds per token |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        for name, entry in plan.entries.items():
            unused = "" if any(name in pair for pair in self.pairs.values()) else " (not used)"
            lines.append(
                f"| {name}{unused} | {entry.steps:,} | {plan.rates[name]:g} "
                f"| {training_seconds(entry, self.records):.3g} | {means[name]:.3f} "
                f"| {first[name]['parameters']:,} | {first[name]['multiply_adds']:,} |"
            )
        where = "; ".join(sorted({made_by(record) for record in self.records}))
        text = f"Text: {plan.corpus}{', as bytes' if plan.tokens == 'bytes' else ''}. {recipe(plan)} {where}."
        return "\n".join([*lines, "", *(f"- {remark}" for remark in (*plan.remarks, *self.limits())), "", text, ""])

    def figure(self) -> Figure:
        """A dot and a bar for each question: filled where the two are told apart, gray where there is no verdict."""
        from matplotlib.figure import Figure  # heavy libraries are imported where they are used

        figure = Figure(figsize=(4.8, 0.9 + 0.45 * len(self.comparisons)), layout="constrained")
        axes = figure.add_subplot()
        axes.axvline(0, color="0.6", linewidth=1)
        for place, (question, found) in enumerate(self.comparisons.items()):
            verdict = self.verdicts[question]
            color = "0.6" if verdict == NONE else "C0"
            axes.plot([found.low, found.high], [place, place], color=color)
            fill = color if verdict == "yes" else "white"
            axes.plot(found.mean, place, "o", color=color, markerfacecolor=fill, markersize=8)
        axes.set_yticks(range(len(self.comparisons)), list(self.comparisons))
        axes.set_ylim(len(self.comparisons) - 0.5, -0.5)
        axes.set_xlabel(f"{self.plan.part} loss minus the baseline's, {self.plan.baseline}")
        return figure

    def save(self, folder: Path) -> None:
        """Write ``card.md`` and, where there is something to draw, ``figure.png``."""
        write_text(folder / "card.md", self.card)
        if self.comparisons:
            save_figure(self.figure(), folder / "figure.png")

    def limits(self) -> Iterator[str]:
        """What the comparison does not show."""
        plan, losses, verdicts = self.plan, self.losses, self.verdicts
        seeds = len(losses["baseline"])
        if NONE in verdicts.values():
            yield (
                f"No verdict: a verdict takes {VERDICT_SEEDS} seeds, all learning rates tried for both sides and, in "
                f"equal time, times at most {FAR:.0%} apart. Allow more minutes, on a machine that does nothing else."
            )
        for question, found in self.comparisons.items():
            if verdicts[question] == NONE and found.told_apart:
                yield f"The interval of {question} leaves out 0. Without a verdict that shows nothing."
        for side in ("variant", "baseline"):
            if side not in plan.depths:
                yield f"The depth of the {side} was not tuned."
        *_, (ours, theirs) = self.pairs.values()
        lowest = statistics.fmean(losses.get(HALF, losses[theirs]).values())
        if lowest < statistics.fmean(losses[theirs].values()):
            yield f"In equal time a baseline of half the depth has a lower loss, {lowest:.3f}, than the one above."
        longer = more_time(plan, self.records, ours, theirs)
        if abs(longer) > UNEQUAL:
            judged = ", so equal time has no verdict" if abs(longer) > FAR else ""
            more = f"{abs(longer):.0%} {'more' if longer > 0 else 'less'} time"
            yield f"The times were not equal: the variant took {more} than the baseline{judged}."
        for name, entry in plan.entries.items():
            if entry.rate_of is None and not has_whole_grid(plan, name, self.records):
                count = len(tried(entry, self.records))
                yield f"The rate of {name} is the best of {count}: the minutes were over before all could be tried."
        if ours == "variant in time":
            yield "In equal time the variant has the rate that was tuned for equal steps."
        if seeds < plan.seeds:
            yield f"The minutes were over after {seeds} of {plan.seeds} seeds."
        if plan.variant not in model_names():
            trained = sum("asked" in record for record in self.records)
            again = f"training and again on {trained} of the trained models, on random tokens and on the text"
            yield (
                f"No leak was found at {plan.seq_len:,} tokens. The check ran before "
                f"{again if trained else 'training, on random text'}: at every token in train mode, at many in eval "
                "mode, and between the rows of a batch."
            )
        if plan.part == "validation":
            yield "The text has no test part: the losses are of the part that rates and depths were chosen on."
        spread = " The spread over seeds comes from both questions together." if len(self.pairs) > 1 else ""
        yield f"The intervals allow for other seeds, and for rates that were chosen on one seed.{spread}"
        yield known_answers()
        length = f"{plan.steps:,} steps, or the time that the baseline takes for them"
        same = "with one text, one size and one recipe"
        yield f"The result holds for {length}, {same}; a lead can shrink with more steps."


def save_figure(figure: Figure, path: Path) -> None:
    """Write a PNG, whole or not at all."""
    with replacing(path) as unfinished:
        figure.savefig(unfinished, format="png", dpi=150)


def judge(plan: Plan, records: list[Record]) -> Judgment:
    """Compare what was recorded.

    Raises:
        ValueError: if a record is not of this plan, or not even two seeds of all entries are complete.
    """
    losses, validation = (by_entry(plan, records, part) for part in ("test", "validation"))
    pairs = questions(plan, validation)
    if BOTH in pairs and abs(more_time(plan, records, *pairs[BOTH])) > FAR:
        pairs = {"equal steps": pairs[BOTH]}
    sides = {question: (losses[ours], losses[theirs]) for question, (ours, theirs) in pairs.items()}
    differing = {question: pair for question, pair in sides.items() if pair[0] != pair[1]}
    comparisons = evidence.compare(differing) if differing else {}
    whole = {name for name in plan.entries if has_whole_grid(plan, name, records)}
    verdicts = dict.fromkeys(pairs, SAME)
    for question, found in comparisons.items():
        enough = len(losses["baseline"]) >= VERDICT_SEEDS and whole.issuperset(pairs[question])
        unfair = "time" in question and abs(more_time(plan, records, *pairs[question])) > FAR
        verdicts[question] = NONE if unfair or not enough else "yes" if found.told_apart else "no"
    return Judgment(plan, records, losses, pairs, comparisons, verdicts)


def by_entry(plan: Plan, records: list[Record], part: str) -> dict[str, dict[int, float]]:
    """Losses of reported runs, by what their entry is for and by seed; of the seeds that all entries have.

    Raises:
        ValueError: if a record is not of this plan, or not even two seeds are complete.
    """
    names = {entry.label: name for name, entry in plan.entries.items()}
    found: dict[str, dict[int, float]] = {name: {} for name in plan.entries}
    for record in records:
        label = record["run"]["label"]
        require(label in names, "a record", label, f"one of {list(names)}, as planned")
        if record["role"] == "reported":
            found[names[label]][record["run"]["training"]["seed"]] = record[part]["loss"]
    seeds = sorted(set.intersection(*map(set, found.values())))
    expected = f"at least {FEWEST_SEEDS} of each entry"
    require(len(seeds) >= FEWEST_SEEDS, "the seeds that are complete", seeds, expected)
    return {name: {seed: losses[seed] for seed in seeds} for name, losses in found.items()}


def questions(plan: Plan, validation: dict[str, dict[int, float]]) -> dict[str, tuple[str, str]]:
    """Who meets whom at equal steps and in equal time; one question where both are the same pair.

    Of a side whole and of half its depth it is the lower in equal time, by the text that rates are chosen on.
    """

    def in_time(side: str) -> str:
        whole = f"{side} in time" if f"{side} in time" in plan.entries else side
        depths = (whole, f"{side}, half") if len(plan.depths) == 2 else (whole,)
        return min(depths, key=lambda name: statistics.fmean(validation[name].values()))

    steps, time = ("variant", "baseline"), (in_time("variant"), in_time("baseline"))
    return {BOTH: steps} if steps == time else {"equal steps": steps, "equal time": time}


def has_whole_grid(plan: Plan, name: str, records: list[Record]) -> bool:
    """Whether the rate of an entry is the protocol's choice, and not the best of those that there was time for."""
    return chosen_rate(plan.entries[name], records) == plan.rates[name]


def training_seconds(entry: Entry, records: list[Record]) -> float:
    """What a reported run of an entry took for its steps, on average."""
    return statistics.fmean(r["metrics"][-1]["seconds"] for r in reported(entry, records))


def reported(entry: Entry, records: list[Record]) -> Iterator[Record]:
    """The records of an entry's reported runs."""
    return (r for r in records if r["role"] == "reported" and r["run"]["label"] == entry.label)


def made_by(record: Record) -> str:
    """What a record was made by, and where; only newer ones have the package's version."""
    package = f"{PACKAGE} {record['package']}, " if "package" in record else ""
    commit = f"commit {record['commit']}, " if record.get("commit") else ""
    return f"{package}{commit}torch {record['versions']['torch']}, {record['machine']}, {record['device']}"


def recipe(plan: Plan) -> str:
    """What both sides are trained by, in words."""
    training = plan.entries["baseline"].training
    adamw = f"AdamW with β = {BETAS}"
    optimizer = f"Muon for the matrices inside the layers, {adamw} for the rest" if plan.optimizer == "muon" else adamw
    return (
        f"Both sides: {plan.batch_size} × {plan.seq_len} tokens a step; {optimizer}; a decay of "
        f"{training['weight_decay']:g} times the rate; gradients clipped at norm {training['clip_norm']:g}; the rate "
        "rises over a tenth of the steps, then falls along a cosine to a tenth; float32."
    )


def more_time(plan: Plan, records: list[Record], ours: str, theirs: str) -> float:
    """By what share the training of one entry took longer than that of another."""
    first, second = (training_seconds(plan.entries[name], records) for name in (ours, theirs))
    return first / second - 1


def known_answers() -> str:
    """How often verdicts were right in recorded comparisons whose answer is known."""
    trials = read_records(results("recorded") / "own" / "verdicts.jsonl")
    said = {
        (kind, question): [t["verdicts"][question] for t in trials if t["run"]["kind"] == kind]
        for kind, question in (("null", "equal steps"), ("null", "equal time"), ("power", "equal steps"))
    }
    wrong, wrong_in_time, right = (f"{of.count('yes')} of {len(of) - of.count(NONE)} verdicts" for of in said.values())
    lead = statistics.fmean(-t["found"]["equal steps"]["mean"] for t in trials if t["run"]["kind"] == "power")
    return (
        f"How often a verdict is right: a model compared with itself was called different in {wrong} at equal steps "
        f"and in {wrong_in_time} in equal time; a lead of {lead:.2f} nats was found in {right}."
    )
