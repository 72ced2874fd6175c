"""Studies: many training runs, recorded one by one, so that an interruption loses nothing.

What is notable:
- a record is one line of JSON, appended when its run is complete; what is recorded is not run again;
- a record holds everything that made it: sizes, training, text, seed, versions, machine;
- the records of the book's own studies are part of the package, so that a chapter finds them wherever it runs.
"""

from __future__ import annotations

import json
import platform
import statistics
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from .checks import require_known
from .corpus import load_corpus
from .models import build_model
from .training import Metrics, TrainingConfig, train

Record = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One training run of a study.

    Args:
        label: what the run is called in tables and figures; runs that differ only in their seed share it.
        model: the name for :func:`build_model`.
        training: how to train; its seed is the model's too.
        options: further arguments of :func:`build_model`.
        corpus: the name for :func:`load_corpus`.
    """

    label: str
    model: str
    training: TrainingConfig
    options: dict[str, Any] = field(default_factory=dict)
    corpus: str = "shakespeare"

    def describe(self) -> Record:
        """The run as JSON: what a record of it must agree with."""
        return asdict(self)


def execute(run: Run) -> Record:
    """Train, and return the record: the run, its metrics, and where they come from."""
    corpus = load_corpus(run.corpus)
    torch.manual_seed(run.training.seed)
    model = build_model(run.model, vocab_size=len(corpus.vocabulary), **run.options)
    metrics = train(model, corpus, run.training)
    return {
        "run": run.describe(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "metrics": [{k: round(v, 4) for k, v in record.items() if v == v} for record in metrics],  # no nan in JSON
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "machine": f"{platform.machine()}, {torch.get_num_threads()} thread(s)",
    }


def run_study(runs: Iterable[Run], path: Path) -> None:
    """Execute the runs that ``path`` has no record of, appending each record as it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = [record["run"] for record in read_records(path)] if path.exists() else []
    for run in runs:
        if run.describe() in done:
            continue
        print(f"{run.label}, seed {run.training.seed}", flush=True)
        line = json.dumps(execute(run)) + "\n"
        unfinished = path.exists() and not path.read_bytes().endswith(b"\n")
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" + line if unfinished else line)


def read_records(path: Path) -> list[Record]:
    """The records of a file. A line that was cut off is reported with a warning; the good ones are kept."""
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            if line.strip():
                warnings.warn(f"{path.name}, line {number} is not a record ({error}); skipped", stacklevel=2)
    return records


def load_study(name: str) -> list[Record]:
    """The records of one of the book's studies.

    Raises:
        ValueError: if there is no such study; the message lists those there are.
    """
    folder = Path(str(files("efficient_transformers.recorded")))
    require_known("name", name, sorted(path.stem for path in folder.glob("*.jsonl")))
    return read_records(folder / f"{name}.jsonl")


def by_label(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records grouped by label, ordered by seed."""
    groups: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda r: r["run"]["training"]["seed"]):
        groups.setdefault(record["run"]["label"], []).append(record)
    return groups


def final_loss(record: Record) -> float:
    """The last validation loss, in nats per token."""
    return float(record["metrics"][-1]["validation_loss"])


def steps_to_reach(record: Record, loss: float) -> float:
    """The first evaluated step whose validation loss is at most ``loss``; infinite if there is none."""
    return next((m["step"] for m in record["metrics"] if m["validation_loss"] <= loss), float("inf"))


def metrics_of(record: Record) -> Metrics:
    """A record's metrics, for the functions that plot them."""
    return Metrics(record["metrics"])


def mean_and_spread(values: Iterable[float], digits: int = 3) -> str:
    """``mean ± standard deviation`` of at least two numbers."""
    numbers = list(values)
    return f"{statistics.mean(numbers):.{digits}f} ± {statistics.stdev(numbers):.{digits}f}"


def summary(name: str) -> str:
    """A study as a table: for each label the runs, parameters, steps and final validation loss."""
    rows = [("run", "seeds", "parameters", "steps", "validation loss")]
    for label, records in by_label(load_study(name)).items():
        steps = records[0]["run"]["training"]["steps"]
        losses = mean_and_spread(map(final_loss, records))
        rows.append((label, str(len(records)), f"{records[0]['parameters']:,}", f"{steps:,}", losses))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)
