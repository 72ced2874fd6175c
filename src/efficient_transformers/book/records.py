"""The records of the book's own studies: how chapters read them, and sum them up.

They are part of the package, so that a chapter finds them wherever it runs.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence

from ..judging.recording import Record, read_records, results
from ..support.checks import require, require_known
from ..training.loop import Metrics


def load_study(name: str, *, steps: int | None = None, seq_len: int | None = None) -> list[Record]:
    """The records of one of the book's studies.

    Args:
        name: the study's.
        steps: only runs of so many; all without it.
        seq_len: only runs at this context, in tokens; at all without it.

    Raises:
        ValueError: if there is no such study, or if it has no run of so many steps or at this context; the message
            lists what there is.
    """
    folder = results("recorded")
    require_known("name", name, sorted(path.stem for path in folder.glob("*.jsonl")))
    records = read_records(folder / f"{name}.jsonl")
    for field, wanted in (("steps", steps), ("seq_len", seq_len)):
        if wanted is not None:
            values = {record["run"]["training"][field] for record in records}
            require(wanted in values, f"{field} of {name!r}", wanted, f"one of {sorted(values)}")
            records = [record for record in records if record["run"]["training"][field] == wanted]
    return records


def by_label(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records grouped by label, ordered by seed.

    Raises:
        ValueError: if a label is one of two protocols, where it may mean two models.
    """
    groups: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda r: r["run"]["training"]["seed"]):
        label = record["run"]["label"]
        group = groups.setdefault(label, [])
        versions = [r.get("protocol") for r in (*group[:1], record)]
        require(len(set(versions)) == 1, f"the protocol of {label!r}", versions, "one: a label may mean two models")
        group.append(record)
    return groups


def model_name(record: Record) -> str:
    """The name that is shown for a run's model: without the budget that a run at equal time or work was named by."""
    return str(record.get("today", {}).get("name", record["run"]["name"]))


def by_model(records: Iterable[Record], text: str = "test") -> tuple[dict[str, dict[int, float]], dict[str, Record]]:
    """Of reported runs of the protocol: losses by model and seed, and how each model trained.

    A run at equal time or equal work goes by the name of its model.

    Args:
        records: of one or more studies; those of runs that only chose a rate are left out.
        text: which plays the losses are of, ``"test"`` or ``"validation"``.

    Raises:
        ValueError: if a model has two runs with one seed, as where runs of several budgets or contexts are mixed.
    """
    losses: dict[str, dict[int, float]] = {}
    training: dict[str, Record] = {}
    for record in records:
        if record["role"] == "reported":
            name = model_name(record)
            training[name] = record["run"]["training"]
            seed, seeds = training[name]["seed"], losses.setdefault(name, {})
            require(seed not in seeds, "the records", record["run"]["label"], f"one run of {name!r} with seed {seed}")
            seeds[seed] = record[text]["loss"]
    return losses, training


def rates_tried(records: Iterable[Record]) -> dict[str, dict[float, float]]:
    """Of runs of the protocol that chose a rate: validation losses by model and rate, in the order of the rates.

    All rates are tried on one seed; what further seeds say of close rates is left out. A run at equal time or equal
    work goes by the name of its model.

    Args:
        records: of one budget, of one or more studies; reported runs are left out.

    Raises:
        ValueError: if a model has two runs at one rate, as where runs of several budgets or contexts are mixed.
    """
    tuning = [record for record in records if record["role"] == "tuning"]
    first = min((record["run"]["training"]["seed"] for record in tuning), default=0)
    tried: dict[str, dict[float, float]] = {}
    for record in sorted(tuning, key=lambda r: r["run"]["training"]["learning_rate"]):
        if record["run"]["training"]["seed"] == first:
            name, rate = model_name(record), record["run"]["training"]["learning_rate"]
            rates = tried.setdefault(name, {})
            require(rate not in rates, "the records", record["run"]["label"], f"one run of {name!r} at rate {rate:g}")
            rates[rate] = record["validation"]["loss"]
    return tried


def strays(name: str) -> dict[str, list[float]]:
    """Of runs that were made again: the test loss minus that of the first time, by label, in the order of their lines.

    Args:
        name: of what was made again, ``"machines"``, ``"starts"`` or ``"versions"``.
    """
    again = load_study(name)
    known = {
        (record["run"]["label"], record["run"]["training"]["seed"]): record["test"]["loss"]
        for study in {record["study"] for record in again}
        for record in load_study(study)
        if record["role"] == "reported"
    }
    found: dict[str, list[float]] = {}
    for record in again:
        label, seed = record["run"]["label"], record["run"]["training"]["seed"]
        found.setdefault(label, []).append(record["test"]["loss"] - known[label, seed])
    return found


def bits_per_byte(score: Record) -> float:
    """The loss of a score on subwords, ``validation`` or ``test`` of a record, in bits per byte of its text."""
    return float(score["loss"]) * score["targets"] / score["bytes"] / math.log(2)


def final_loss(record: Record) -> float:
    """The last validation loss, in nats per token."""
    return float(record["metrics"][-1]["validation_loss"])


def metrics_of(record: Record) -> Metrics:
    """A record's metrics, for the functions that plot them."""
    return Metrics(record["metrics"])


def load_seconds(name: str) -> dict[str, float]:
    """The measured seconds per step of each label of one of the book's studies."""
    path = results("recorded") / f"{name}-seconds.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))["seconds_per_step"])


def step_key(run: Record) -> str:
    """What the time of a training step depends on, as text: the model, its options, and the sizes of a batch.

    A vocabulary of subwords is larger than one of characters, and is named too; so is an optimizer but AdamW.
    """
    training = run["training"]
    parts = [run["model"], run["options"], training["batch_size"], training["seq_len"]]
    more = [place[name] for place, name in ((run, "subwords"), (training, "optimizer")) if name in place]
    return json.dumps(parts + more, sort_keys=True)


def mean_curve(records: Sequence[Record], seconds: float) -> list[dict[str, float]]:
    """The validation loss on the way, the mean of runs of one model: by ``step`` and by ``seconds``.

    Args:
        records: of the runs, with equal steps.
        seconds: what a step takes, of :func:`load_step_time`.

    Raises:
        ValueError: if the runs were not looked at after the same steps.
    """
    steps = [[at["step"] for at in record["metrics"]] for record in records]
    require(len({*map(tuple, steps)}) == 1, "the steps of the runs", steps, "those of one run, for each")
    return [
        {
            "step": at[0]["step"],
            "seconds": at[0]["step"] * seconds,
            "validation_loss": statistics.fmean(one["validation_loss"] for one in at),
        }
        for at in zip(*(record["metrics"] for record in records), strict=True)
    ]


def load_step_time(run: Record) -> Record:
    """What a training step of a recorded run takes on a quiet machine, in seconds: ``seconds``, ``low``, ``high``.

    The median of rounds in which all models took turns, and its quartiles. Steps of equal sizes take equal time.

    Args:
        run: the field of that name of a record.

    Raises:
        ValueError: if a step of this model and size was never timed.
    """
    times = step_times()
    require_known("the model and size", step_key(run), times)
    return times[step_key(run)]


def step_times() -> dict[str, Record]:
    """All that were measured, by the :func:`step_key` that a run has today."""
    times = json.loads((results("recorded") / "step-times.json").read_text(encoding="utf-8"))["times"]
    return {of.get("today", of["key"]): of for of in times}


def load_benchmark(name: str) -> Record:
    """What ``make bench`` measured: ``rows``, ``versions``, ``machine``.

    Raises:
        ValueError: if there is no such benchmark; the message lists those there are.
    """
    folder = results("measured")
    require_known("name", name, sorted(path.stem for path in folder.glob("*.json")))
    return dict(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))


def mean_and_spread(values: Iterable[float], digits: int = 3) -> str:
    """``mean ± standard deviation`` of at least two numbers."""
    numbers = list(values)
    return f"{statistics.mean(numbers):.{digits}f} ± {statistics.stdev(numbers):.{digits}f}"
