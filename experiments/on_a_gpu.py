"""Runs of studies on a GPU, many side by side: models of this size leave most of one idle.

    python experiments/on_a_gpu.py size-256 size-64 size-128 --processes 15 --minutes 9

What is notable:
- a step is some hundred short kernels, which take longer to start than to run: the forward and the backward pass are
  recorded once, as a CUDA graph, and replayed: the same kernels, three to four times as fast;
- the processes share the GPU; if `nvidia-cuda-mps-control -d` was typed before, they run at once and not in turns;
- which run comes next follows from the records, as in the queue: of the studies in the order of their names, that
  whose entry has most steps ahead, and that can end in time;
- studies behind a gate are run if they are named: whoever publishes their records asks the gate first.

A run that the time cuts off leaves nothing.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from declared import STUDIES
from planning import RESULTS, check_declared, in_words, records_of, shared_corpus
from running import commit_of_code
from torch import nn
from variants import build

from efficient_transformers.checks import require, require_int
from efficient_transformers.studies import trials
from efficient_transformers.studies.protocol import PROTOCOL, Entry, Study, Trial, chosen_rate, missing_trials
from efficient_transformers.studies.records import Record, record_once

TUNING_ROUNDS = 4  # that a rate takes, as a rule: the first rates, one beyond them, two between, further seeds
PAUSE = 0.5  # seconds, where every run is another process's or waits for one


def steps_ahead(entry: Entry, records: list[Record]) -> int:
    """Of the longest chain of runs that wait for each other, until the entry is complete."""
    if chosen_rate(entry, records) is not None:
        return entry.steps
    return entry.steps + TUNING_ROUNDS * (entry.rate_of or entry).steps


def open_trials(studies: list[Study]) -> Iterator[tuple[Study, Trial]]:
    """What could be run now, the most urgent first."""
    for study in studies:
        records = records_of(study)
        urgent = sorted(study.entries, key=lambda entry: -steps_ahead(entry, records))
        found: list[Trial] = []
        for entry in urgent:  # two of them may wait for the same rate
            found += [trial for trial in missing_trials(entry, records) if trial not in found]
        yield from ((study, trial) for trial in found)


def replayed(entry: Entry) -> Callable[..., nn.Module]:
    """Makes the entry's model on the GPU, with the two passes of a training step recorded."""

    def make(*arguments: Any, **options: Any) -> nn.Module:
        model = build(*arguments, **options).cuda().train()
        tokens = torch.zeros(entry.batch_size, entry.seq_len, dtype=torch.int64, device="cuda")  # (B, T)
        torch.cuda.make_graphed_callables(model, (tokens,))
        return model

    return make


def work(names: list[str], deadline: float, commit: str) -> None:
    """One process: run what nobody else is at, until nothing is missing or the time is over."""
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # float32 means float32
    trials.load_corpus = shared_corpus  # type: ignore[attr-defined]  # read once for all runs
    studies, pace = [STUDIES[name] for name in names], 0.0
    while found := list(open_trials(studies)):
        for study, trial in found:
            if time.time() + trial.entry.steps * pace > deadline:
                continue
            started, path = time.time(), RESULTS / f"{study.name}.jsonl"
            make = functools.partial(
                trials.execute_trial, study, trial, replayed(trial.entry), commit=commit, show_progress=False
            )
            if record_once(trial.describe(), path, make, name=in_words(study, trial), wait=False):
                if (took := time.time() - started) > PAUSE:  # it was ours
                    pace = took / trial.entry.steps
                break
        else:
            time.sleep(PAUSE)


def main() -> None:
    """Start the processes, and stop them when the time is over."""
    newest = [name for name, study in STUDIES.items() if study.protocol == PROTOCOL]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=newest, metavar="name", help=f"of {newest}, in this order")
    parser.add_argument("--processes", type=int, default=8, help="one for each core of the machine is a good number")
    parser.add_argument("--minutes", type=float, default=60.0, help="until all that still runs is stopped")
    parser.add_argument("--commit", help="of the code, where git's history is not at hand")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("PyTorch finds no CUDA here; on a CPU, python experiments/studies.py runs the same")
    try:
        require_int("processes", arguments.processes, at_least=1)
        require(arguments.minutes > 0, "minutes", arguments.minutes, "more than 0")
        check_declared(STUDIES[name] for name in arguments.names)
        commit = arguments.commit or commit_of_code()
    except ValueError as error:
        parser.error(str(error))
    deadline = time.time() + 60 * arguments.minutes
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=work, args=(arguments.names, deadline, commit)) for _ in range(arguments.processes)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(0.0, deadline - time.time()))
    late = [worker for worker in workers if worker.is_alive()]
    for worker in late:
        worker.terminate()
    print(f"{len(late)} of {len(workers)} processes were stopped at the end of the time", flush=True)
    sys.exit(any(worker.exitcode for worker in workers if worker not in late))


if __name__ == "__main__":
    main()
