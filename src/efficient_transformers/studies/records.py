"""The records of studies, each of many training runs: how they are written, read and summed up.

What is notable:
- a record is one line of JSON, appended when its run is complete;
- many processes may work on one study: each run is claimed by one of them;
- a record holds everything that made it: sizes, training, text, seed, versions, machine;
- the records of the book's own studies are part of the package, so that a chapter finds them wherever it runs.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import re
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from ..checks import require, require_known
from ..files import locked, locked_byte, sync
from ..training.loop import Metrics

Record = dict[str, Any]


def environment() -> Record:
    """Versions and machine."""
    return {
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "machine": f"{processor()}, {torch.get_num_threads()} thread(s)",
    }


def processor() -> str:
    """The CPU's name where Linux tells it, else its architecture."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.machine()


def append_record(record: Record, path: Path) -> None:
    """Append one line, on a new one even if the last was cut off; processes that do so at once take turns."""
    line = json.dumps(record, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path):
        unfinished = path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        with path.open("a", encoding="utf-8") as file:
            file.write(("\n" if unfinished else "") + line + "\n")
        sync(path)


def read_records(path: Path) -> list[Record]:
    """The records of a file. Any other line, one cut off for example, is reported with a warning and skipped."""
    records = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            records.append(current(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if line.strip():
                warnings.warn(f"{path.name}, line {number} is not a record ({error}); skipped", stacklevel=2)
    return records


def record_once(run: Record, path: Path, make: Callable[[], Record], *, name: str, wait: bool) -> bool:
    """Append what ``make`` returns, unless the run has a record.

    Args:
        run: what a record of it must agree with.
        path: the file of the study's records.
        make: trains and returns the record.
        name: printed, with the time, when the run starts.
        wait: for another process that is at it.

    Returns:
        Whether there is a record now; without ``wait``, False if another process is at it.
    """
    if recorded(run, path):
        return True
    with claimed(run, path, wait=wait) as ours:
        if ours and not recorded(run, path):  # not while we waited, either
            print(f"{time.strftime('%H:%M:%S')}  {name}", flush=True)
            append_record(make(), path)
    return ours


def recorded(run: Record, path: Path) -> bool:
    """Whether there is a record of the run."""
    return path.exists() and run in [record["run"] for record in read_records(path)]


@contextmanager
def claimed(run: Record, path: Path, *, wait: bool) -> Iterator[bool]:
    """Keep a run from other processes, for the length of the block; a process has one claim at a time.

    Args:
        run: what a record of it must agree with.
        path: the file of the study's records, which need not be there yet.
        wait: for another process that is at it; without, the block is entered either way.

    Yields:
        Whether this process has the run.
    """
    text = json.dumps(run, sort_keys=True)
    place = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("a") as claims, locked_byte(claims, place, wait=wait) as ours:
        yield ours


RENAMED = {"start": "init"}  # options of build_model that records of before have under another name
GATED = ("gmlp", "amlp", "changed-gates", "two-sided")  # models with gates, but for a two-sided one of attention


def current(record: Record) -> Record:
    """A record with today's names of options; an error of Python's if it is not a record."""
    run = dict(record["run"])
    require(isinstance(record.get("metrics", []), list), "metrics", record.get("metrics"), "a list")
    if "options" in run:
        run["options"] = current_options(run["model"], run["options"])
    return {**record, "run": run}


def current_options(model: str, options: Record) -> Record:
    """Options of before under today's names, with what a gMLP had where they do not say: its matrix, and its start.

    In all studies gates started open, but for those of models whose biases were declared to start at 0.
    """
    if model not in GATED or options.get("kind") == "attention":
        return {RENAMED.get(name, name): value for name, value in options.items()}
    dense = {} if model == "two-sided" else {"weight": "dense"}
    return dense | {"start": "open" if options.get("bias") is None else "shut"} | options


def results(package: str) -> Path:
    """The folder of results, ``"recorded"`` or ``"measured"``, that the installed package has.

    Raises:
        ModuleNotFoundError: if there is none, since Python found the package's source alone.
    """
    try:
        return Path(str(files(f"efficient_transformers.{package}")))
    except ModuleNotFoundError as error:
        where = "the book's results, which stand beside the source and not in it"
        raise ModuleNotFoundError(f"this Python has not {where}; install the package: pip install .") from error


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


# The name that is shown, where a record has another. "gMLP" is the form of the paper's text models, whose matrix is
# Toeplitz; up to version 2 of the protocol it was the dense one, and "split" a gMLP among the kinds of gates. "b = 0"
# names a start that is shut.
DENSE = "dense gMLP"
NAMES: dict[tuple[int, str], str] = {
    (1, "gMLP"): DENSE,
    (2, "gMLP"): DENSE,
    (2, "gMLP, W not counted"): f"{DENSE}, W not counted",
    (2, "gMLP, W not counted, b = 0"): f"{DENSE}, W not counted, b = 0",
    (2, "gMLP Toeplitz"): "gMLP",
    (2, "gMLP Toeplitz, b = 0"): "gMLP, b = 0",
    (2, "gMLP Toeplitz, whole"): "gMLP, whole",
    (2, "gMLP Toeplitz, additive"): "gMLP, additive",
    (2, "gMLP Toeplitz, linear"): "gMLP, linear",
    (2, "aMLP"): "dense aMLP",
    (2, "aMLP, W not counted"): "dense aMLP, W not counted",
    (2, "split"): DENSE,
    (2, "split, 8 near"): f"{DENSE}, 8 near",
    (2, "split, 8 near, b = 0"): f"{DENSE}, 8 near, b = 0",
    (2, "split, b = 0"): f"{DENSE}, b = 0",
    (2, "split, positions"): f"{DENSE}, positions",
    (2, "split, W within 0.01"): f"{DENSE}, W within 0.01",
    (2, "split, W within 0.1"): f"{DENSE}, W within 0.1",
    (2, "split, last matrix not zero"): f"{DENSE}, last matrix not zero",
    (2, "split, last matrix not zero, W within 0.1"): f"{DENSE}, last matrix not zero, W within 0.1",
    (2, "whole"): f"{DENSE}, whole",
    (2, "additive"): f"{DENSE}, additive",
    (2, "linear"): f"{DENSE}, linear",
    (2, "split, Toeplitz"): "gMLP",
    (2, "split, Toeplitz, 8 near"): "gMLP, 8 near",
    (2, "split, Toeplitz, b = 0"): "gMLP, b = 0",
    (2, "split, Toeplitz, positions"): "gMLP, positions",
    (2, "whole, Toeplitz"): "gMLP, whole",
    (2, "2 layers in the time of split"): f"2 layers in the time of {DENSE}",
    (2, "2 layers in the time of split, Toeplitz"): "2 layers in the time of gMLP",
    (3, "aMLP, Toeplitz"): "aMLP",
    (3, "additive, Toeplitz"): "gMLP, additive",
    (3, "linear, Toeplitz"): "gMLP, linear",
}


def model_name(record: Record) -> str:
    """The name that is shown for a run's model: without the budget that a run at equal time or work has in its name."""
    name = re.sub(", equal (time|work)$", "", record["run"]["name"])
    return NAMES.get((record.get("protocol", 1), name), name).replace("b = 0", "shut at first")


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
    times = read_step_times(results("recorded") / "step-times.json")
    require_known("the model and size", step_key(run), times)
    return times[step_key(run)]


def read_step_times(path: Path) -> dict[str, Record]:
    """The times of a file, by the :func:`step_key` that a run has today."""
    times = {}
    for time_ in json.loads(path.read_text(encoding="utf-8"))["times"]:
        model, options, *sizes = json.loads(time_["key"])
        times[json.dumps([model, current_options(model, options), *sizes], sort_keys=True)] = time_
    return times


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
