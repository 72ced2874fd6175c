"""Is a comparison right? Trials whose answer is known: the baseline against itself, and Primer EZ against the baseline.

    python experiments/judged.py     # all that is missing; can be stopped and started again

Declared before any of them was run: 60 trials of the baseline against itself and 20 of Primer EZ, once each, numbered
from 100 on. A trial's number gives the seeds of its sides' starts. A baseline told apart from itself is a false
verdict; "no verdict" is none. Their rates, at equal steps and in equal time, are reported with intervals, whatever
they are; of 60, at most 6 are expected to be false.

What is notable:
- a side that is the baseline still starts from other weights, so that its runs are others;
- each trial is a whole comparison, with all that the command does; steps and seeds are given, so that it ends alike on
  a busy machine, though perhaps without a verdict in equal time;
- Primer EZ is tried at one depth: to try half of it too would take twice as long;
- the record of a trial has what was found and what it took; nothing is tried twice;
- `judged.jsonl` beside it has 20 and 10 trials by the rule of before, whose intervals left the choice of a rate out.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import nn

from efficient_transformers.judging.compare import PLAN, RECORDS, compare
from efficient_transformers.judging.plan import Plan
from efficient_transformers.judging.recording import Record, append_record, environment, read_records
from efficient_transformers.models.language_model import build_model
from efficient_transformers.support.checks import require

RESULTS = Path(__file__).parent / "results" / "own" / "verdicts.jsonl"
SIZES = {"d_model": 64, "n_heads": 2, "max_seq_len": 64}
STEPS, SEEDS = {"null": 100, "power": 300}, 3
TRIALS = {"null": range(100, 160), "power": range(100, 120)}
VARIANTS = {"null": "transformer", "power": "primer-ez"}


def starting_anew(model: str, number: int, *, of_one_depth: bool) -> Callable[..., nn.Module]:
    """Makes a model whose start is drawn with a seed that no other side of a trial has."""

    def build(vocab_size: int, n_layers: int = 2) -> nn.Module:
        torch.manual_seed(1000 * number + torch.initial_seed())
        return build_model(model, vocab_size=vocab_size, n_layers=n_layers, **SIZES)

    return (lambda vocab_size: build(vocab_size)) if of_one_depth else build


def execute(run: Record, commit: str) -> Record:
    """One trial: what was found and used."""
    kind, number = run["kind"], run["number"]
    ours = starting_anew(VARIANTS[kind], 2 * number + 1, of_one_depth=kind == "power")
    theirs = starting_anew("transformer", 2 * number + 2, of_one_depth=kind == "power")
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        sizes = {name: run[name] for name in ("steps", "seeds", "seq_len", "batch_size")}
        found = compare(ours, theirs, out=folder, show_progress=False, **sizes)
        used = (time.monotonic() - started) / 60
        plan = Plan.read(Path(folder) / PLAN)
        runs = len(read_records(Path(folder) / RECORDS))
    comparisons = {question: asdict(comparison) for question, comparison in found.comparisons.items()}
    did = {"commit": commit, "minutes": round(used, 3), "runs": runs, "rates": plan.rates}
    return {"run": run, **did, "found": comparisons, "verdicts": found.verdicts} | environment()


def git(*arguments: str) -> str:
    """What git prints of this repository."""
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit_of_code() -> str:
    """The commit whose code runs, for the records.

    Raises:
        ValueError: if files of the package or of the experiments differ from it.
    """
    changed = git("status", "--porcelain", "--", ":/src", ":/experiments", ":!/experiments/results").splitlines()
    require(not changed, "the code", changed, "that of a commit, which each record names; commit it first")
    return git("rev-parse", "HEAD")


def main() -> None:
    counts = {"seeds": SEEDS, "sizes": SIZES, "seq_len": 64, "batch_size": 8}
    commit = commit_of_code()
    known = [record["run"] for record in read_records(RESULTS)] if RESULTS.exists() else []
    for kind, numbers in TRIALS.items():
        for number in numbers:
            run = {"kind": kind, "number": number, "steps": STEPS[kind], **counts}
            if run not in known:
                print(kind, number, flush=True)
                append_record(execute(run, commit), RESULTS)


if __name__ == "__main__":
    main()
