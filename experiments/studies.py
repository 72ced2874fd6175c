"""The long runs behind the book's tables, and the way to make them: the protocol is in README.md, beside this file.

    python experiments/studies.py                       # all that is missing; can be stopped and started again
    python experiments/studies.py head-to-head          # one study
    python experiments/studies.py --plan                # what is missing, and how long it will take
    python experiments/studies.py --declare             # write down what is declared, to be committed before any run
    python experiments/studies.py --commit              # run, and commit the records every half hour
    python experiments/studies.py --shard 0/4           # a quarter of it; the others can run beside it
    python experiments/studies.py head-to-head --time   # only measure what a step of each takes, on a quiet machine

What a reader trains live, at one rate, is named too; --seeds is for it.
Results go to experiments/results/, one line per run. One thread each, so that times compare.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from declared import STUDIES as DECLARED
from declared.size import AFTER_THE_GATE, GATE
from live import Recipe, run_study, time_steps
from planning import declare, measure, print_plan, records_of, run_declared
from running import Keeper, at_work, commit_of_code
from size import obstacles

from efficient_transformers import TrainingConfig
from efficient_transformers.studies.protocol import Study

RESULTS = Path(__file__).parent / "results"
SEEDS = (0, 1, 2)
SMALL: dict[str, Any] = {
    "steps": 500,
    "batch_size": 12,
    "seq_len": 64,
    "eval_every": 20,
}  # what the chapters train live
GRID = SMALL | {"eval_every": 50, "eval_batches": 32}  # for many variants: fewer evaluations, more exact ones

# What a reader trains in Chapters 1 to 3, and in Chapters 4 and 5: which loss is normal?
LIVE = [
    *(
        Recipe(f"{model} {rate:g}", model, TrainingConfig(**SMALL, seed=seed, learning_rate=rate))
        for seed in SEEDS
        for model, rate in (("transformer", 2e-3), ("transformer", 3e-3), ("primer-ez", 3e-3))
    ),
    *(Recipe("full Primer", "primer", TrainingConfig(**GRID, seed=seed)) for seed in (0, 1, 2, 3, 4)),
]
HOURGLASS_LIVE: dict[str, tuple[str, dict[str, Any]]] = {
    "baseline": ("transformer", {"n_layers": 4}),
    "hourglass": ("hourglass", {"hierarchy": "1@1 2@4 1@1"}),
    "waist only": ("hourglass", {"hierarchy": "0@1 4@4 0@1"}),
    "attention": (
        "hourglass",
        {"hierarchy": "1@1 2@4 1@1", "shortening": "attention", "up_sampling": "attention"},
    ),
}
DENSE = {"max_seq_len": 64, "weight": "dense"}

STUDIES = {
    "live": LIVE,
    "gmlp-live": [  # dense, under the label of its time
        Recipe("gMLP", "gmlp", TrainingConfig(300, 12, 64, eval_every=60, eval_batches=32, seed=seed), DENSE)
        for seed in SEEDS
    ],
    "hourglass-live": [
        Recipe(label, model, TrainingConfig(200, 6, 128, eval_every=200, seed=seed), options)
        for seed in SEEDS
        for label, (model, options) in HOURGLASS_LIVE.items()
    ],
}

# What a step takes in Chapters 2 and 3, and that of a gMLP in Chapter 5, at a context of 64. Timed, not trained.
ONLY_TIMED = {
    "variations": [
        Recipe(label, model, TrainingConfig(**GRID), options)
        for label, model, options in (
            ("baseline", "transformer", {}),
            ("squared ReLU alone", "primer-ez", {"convolve": ""}),
            ("convolutions alone", "primer-ez", {"activation": "relu"}),
            ("Primer EZ", "primer-ez", {}),
            ("only v", "primer-ez", {"convolve": "v"}),
            ("width 7", "primer-ez", {"kernel_size": 7}),
            ("dilation 2", "primer-ez", {"dilation": 2}),
            ("random start", "primer-ez", {"init": "random"}),
            ("SwiGLU", "primer-ez", {"activation": "swiglu"}),
            ("full Primer", "primer", {}),
        )
    ],
    "gates": [
        Recipe(label, model, TrainingConfig(**GRID), options)
        for label, model, options in (
            ("baseline", "transformer", {"max_seq_len": 64}),
            ("dense gMLP", "gmlp", DENSE),
            ("gMLP", "gmlp", DENSE | {"weight": "toeplitz"}),
        )
    ],
}


def parse_shard(text: str) -> tuple[int, int]:
    """``i/n`` as two numbers, i counting from 0."""
    index, slash, of = text.partition("/")
    if not (slash and index.isdigit() and of.isdigit() and int(index) < int(of)):
        raise argparse.ArgumentTypeError(f"shard is {text!r}; expected i/n with i from 0 to n - 1, for example 0/4")
    return int(index), int(of)


def behind_the_gate(studies: list[Study]) -> list[Study]:
    """The studies without those whose gate is shut, which are named with the reason."""
    shut = [study.name for study in studies if study.name in AFTER_THE_GATE]
    reasons = list(obstacles(DECLARED[GATE], records_of(DECLARED[GATE]))) if shut else []
    if not reasons:
        return studies
    print(f"not run: {', '.join(shut)}, since {reasons[0]}; `python experiments/size.py` says it all")
    return [study for study in studies if study.name not in shut]


def main() -> None:
    known = [*DECLARED, *STUDIES, *ONLY_TIMED]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {known}; by default those of the protocol, in this order")
    parser.add_argument("--plan", action="store_true", help="print what is missing, with its expected time")
    parser.add_argument("--declare", action="store_true", help="write the declarations that are not written yet")
    parser.add_argument("--commit", action="store_true", help="commit the records now and then, while they are made")
    parser.add_argument("--shard", type=parse_shard, default=(0, 1), help="i/n: the i-th of n parts, counting from 0")
    parser.add_argument("--seeds", nargs="+", type=int, help="of the runs to make; only for what a reader trains live")
    parser.add_argument("--time", action="store_true", help="measure seconds per step instead of training")
    arguments = parser.parse_args()
    names = arguments.names or list(DECLARED)
    if unknown := set(names) - set(known):
        parser.error(f"names is {sorted(unknown)}; expected some of {known}")
    if arguments.seeds and (protocol := sorted(set(names) - set(STUDIES))):
        parser.error(f"seeds is {arguments.seeds}; expected none with {protocol}, whose seeds are declared")
    seeds = {run.training.seed for name in names if name in STUDIES for run in STUDIES[name]}
    if unknown_seeds := set(arguments.seeds or ()) - seeds:
        parser.error(f"seeds is {sorted(unknown_seeds)}; expected some of {sorted(seeds)}")
    if untrained := sorted(set(names) & set(ONLY_TIMED)) if not arguments.time else ():
        parser.error(f"names is {untrained}; expected studies that are trained, or --time")
    torch.set_num_threads(1)
    declared = [study for name, study in DECLARED.items() if name in names]
    if arguments.plan:
        print_plan(declared)
        return
    if arguments.declare:
        for path in declare(declared):
            print(path)
        return
    if arguments.time and declared:
        measure(entry for study in declared for entry in study.entries)
    elif declared:
        try:
            index, of = arguments.shard
            with at_work(index, of):
                declared = behind_the_gate(declared)
                run_declared(declared, index, of, commit_of_code(), Keeper(RESULTS) if arguments.commit else None)
        except ValueError as error:
            parser.error(str(error))
    at_one_rate = STUDIES | ONLY_TIMED
    for name in (name for name in names if name in at_one_rate):
        runs = [run for run in at_one_rate[name] if arguments.seeds is None or run.training.seed in arguments.seeds]
        if arguments.time:
            time_steps([run for run in runs if run.training.seed == 0], RESULTS / f"{name}-seconds.json")
            continue
        run_study(runs, RESULTS / f"{name}.jsonl")


if __name__ == "__main__":
    main()
