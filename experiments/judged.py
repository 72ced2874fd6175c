"""Is a comparison right? Trials whose answer is known: the baseline against itself, and Primer EZ against the baseline.

    python experiments/judged.py                 # all that is missing; can be stopped and started again
    python experiments/judged.py --shard 0/2     # half of it

What is notable:
- a side that is the baseline still starts from other weights, so that its runs are others;
- each trial is a whole comparison, with all that the command does;
- Primer EZ gets minutes for some hundred steps, at one depth: to try half of it too would take twice as long;
- the record of a trial has what was found and what it took; nothing is tried twice.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from studies import parse_shard
from torch import nn

from efficient_transformers.models import build_model
from efficient_transformers.studies.compare import PLAN, RECORDS, compare
from efficient_transformers.studies.plan import Plan
from efficient_transformers.studies.records import Record, environment, read_records, record_once

RESULTS = Path(__file__).parent / "results" / "own" / "judged.jsonl"
SIZES = {"d_model": 64, "n_heads": 2, "max_seq_len": 64}
MINUTES = {"null": 2.0, "power": 5.0}
TRIALS = {"null": 20, "power": 10}
VARIANTS = {"null": "transformer", "power": "primer-ez"}


def starting_anew(model: str, number: int, *, of_one_depth: bool) -> Callable[..., nn.Module]:
    """Makes a model whose start is drawn with a seed that no other side of a trial has."""

    def build(vocab_size: int, n_layers: int = 2) -> nn.Module:
        torch.manual_seed(1000 * number + torch.initial_seed())
        return build_model(model, vocab_size=vocab_size, n_layers=n_layers, **SIZES)

    def whole(vocab_size: int) -> nn.Module:
        return build(vocab_size)

    return whole if of_one_depth else build


def execute(run: Record) -> Record:
    """One trial: what was planned, found and used."""
    kind, number = run["kind"], run["number"]
    ours = starting_anew(VARIANTS[kind], 2 * number + 1, of_one_depth=kind == "power")
    theirs = starting_anew("transformer", 2 * number + 2, of_one_depth=kind == "power")
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        found = compare(ours, theirs, minutes=run["minutes"], out=folder, seq_len=64, batch_size=8, show_progress=False)
        used = (time.monotonic() - started) / 60
        plan = Plan.read(Path(folder) / PLAN)
        runs = len(read_records(Path(folder) / RECORDS))
    comparisons = {question: asdict(comparison) for question, comparison in found.comparisons.items()}
    planned = {"steps": plan.steps, "seeds": plan.seeds, "minutes": round(used, 3), "runs": runs}
    return {"run": run, **planned, "found": comparisons, "verdicts": found.verdicts} | environment()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shard", type=parse_shard, default=(0, 1), help="i/n: the i-th of n parts, counting from 0")
    part, parts = parser.parse_args().shard
    trials = [(kind, number) for kind, count in TRIALS.items() for number in range(count)]
    for kind, number in trials[part::parts]:
        run = {"kind": kind, "number": number, "minutes": MINUTES[kind], "sizes": SIZES, "seq_len": 64, "batch_size": 8}
        record_once(run, RESULTS, partial(execute, run), name=f"{kind} {number}", wait=False)


if __name__ == "__main__":
    main()
