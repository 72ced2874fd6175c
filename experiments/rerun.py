"""A recorded run once more: the same model, text, training, rate and seed, and its loss beside the stored one.

    python experiments/rerun.py distances                                  # the labels of the file, with their seeds
    python experiments/rerun.py distances "Baseline, 0.8M, 500 steps of 4 × 256" --seed 3
    python experiments/rerun.py --drawn 12                                 # twelve records, drawn by a seed

A model that the package does not build is made again by the commit that had it, in a worktree that is then removed;
that commit imports Accelerate, which requirements-dev.txt has. Another processor, or another version of PyTorch, rounds
otherwise: a loss comes out within the spread of its seeds, and not to the digit.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import stdev

import torch

from efficient_transformers import build_model, load_corpus, model_names
from efficient_transformers.book.records import final_loss
from efficient_transformers.judging.recording import Record, read_records
from efficient_transformers.judging.trials import scored
from efficient_transformers.support.checks import require, require_known
from efficient_transformers.training.corpus import NAMES
from efficient_transformers.training.execution import Execution
from efficient_transformers.training.loop import OPTIMIZERS, TrainingConfig, train

RESULTS = Path(__file__).parent / "results"
BEFORE = "9bef090"  # the last commit that declares the studies and builds their models, by this same command


def reported(name: str) -> dict[str, dict[int, Record]]:
    """The runs of a file whose loss is told, by label and seed."""
    found: dict[str, dict[int, Record]] = {}
    for record in read_records(RESULTS / f"{name}.jsonl"):
        if record.get("role") != "tuning" and "training" in record["run"]:
            found.setdefault(record["run"]["label"], {})[record["run"]["training"]["seed"]] = record
    return found


def stored_loss(record: Record) -> float:
    """On the test, or where none was read, as it was last measured on the way."""
    return float(record["test"]["loss"]) if "test" in record else final_loss(record)


def rerun(record: Record) -> float:
    """Train the record's model as it was trained; its loss, measured as the stored one was."""
    run = record["run"]
    corpus = load_corpus(run["corpus"])
    config = TrainingConfig(**run["training"])
    torch.manual_seed(config.seed)
    model = build_model(run["model"], vocab_size=len(corpus.vocabulary), **run["options"])
    metrics = train(model, corpus, config, execution=Execution(precision="float32"))
    if "test" not in record:
        return metrics[-1]["validation_loss"]
    part, targets = record["test"]["part"], record["test"]["targets"]
    return float(scored(model, corpus, part, config.seq_len, targets)["loss"])


def made_by_the_package(run: Record) -> bool:
    """Whether the package has the run's text, task, model and optimizer."""
    known = run["corpus"] in NAMES and run.get("task", "next") == "next" and run["model"] in model_names()
    return known and "subwords" not in run and run["training"].get("optimizer", "adamw") in OPTIMIZERS


def before(name: str, label: str, seed: int) -> str:
    """What this command prints at the commit that builds the run's model.

    Raises:
        ValueError: if this checkout has no such commit.
    """
    git = ["git", "-C", str(RESULTS)]
    if subprocess.run([*git, "cat-file", "-e", BEFORE], capture_output=True, check=False).returncode:
        why = f"expected one whose history has it, since it builds the model of {label!r}: try git fetch --unshallow"
        raise ValueError(f"this checkout is without the commit {BEFORE}; {why}")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(tree), BEFORE], check=True)
        try:
            command = [sys.executable, str(tree / "experiments" / "rerun.py"), name, label, "--seed", str(seed)]
            environment = os.environ | {"PYTHONPATH": str(tree / "src")}
            return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)


def compared(name: str, label: str, seed: int) -> str:
    """A run again, and what its record and those of its other seeds say."""
    of = reported(name)[label]
    if not made_by_the_package(of[seed]["run"]):
        return before(name, label, seed).rstrip("\n")
    losses = [stored_loss(record) for record in of.values()]
    stored, again = stored_loss(of[seed]), rerun(of[seed])
    said = f"{name}: {label}, seed {seed}: {stored:.4f} stored, {again:.4f} now"
    if len(losses) == 1:
        return said
    return f"{said}; {len(losses)} seeds from {min(losses):.4f} to {max(losses):.4f}, deviation {stdev(losses):.4f}"


def drawn(count: int) -> list[tuple[str, str, int]]:
    """Records of all files, each file as likely as the next."""
    draw = random.Random(0)
    files = {path.stem: found for path in RESULTS.glob("*.jsonl") if (found := reported(path.stem))}
    return [
        (name, label, draw.choice(sorted(files[name][label])))
        for name in [draw.choice(sorted(files)) for _ in range(count)]
        for label in [draw.choice(sorted(files[name]))]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", help="of results/, without .jsonl")
    parser.add_argument("label", nargs="?", help="of a run in it; without, the labels are listed")
    parser.add_argument("--seed", type=int, help="by default the first that was recorded")
    parser.add_argument("--drawn", type=int, metavar="N", help="run N records of all files, always the same")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.drawn:
        for choice in drawn(arguments.drawn):
            print(compared(*choice), flush=True)
        return
    try:
        require_known("file", arguments.file, sorted(path.stem for path in RESULTS.glob("*.jsonl")))
        found = reported(arguments.file)
        require(bool(found), "file", arguments.file, "one of training runs")
        if arguments.label is None:
            for label, of in found.items():
                print(f"{label}: seeds {', '.join(map(str, sorted(of)))}")
            return
        require_known("label", arguments.label, found)
        seed = min(found[arguments.label]) if arguments.seed is None else arguments.seed
        require(seed in found[arguments.label], "seed", seed, f"one of {sorted(found[arguments.label])}")
        print(compared(arguments.file, arguments.label, seed))
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
