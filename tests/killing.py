"""Train in a folder, be killed at random moments and at chosen ones, resume, until the run is at its end.

    python killing.py FOLDER TEXT KILLS SEED

Each start is a fork of this process, so that none waits for imports. Prints the step of the checkpoint after each kill,
with the moment if it was chosen.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

import efficient_transformers.__main__ as cli
import efficient_transformers.training.runs as runs
from efficient_transformers import Checkpoints, TrainingConfig, build_model, load_corpus, train
from efficient_transformers.models import saving
from efficient_transformers.support.files import PARTIAL

SIZES = ["--d-model", "8", "--n-layers", "1", "--n-heads", "2", "--batch-size", "2", "--seq-len", "8"]
TRAINING = ["--steps", "40", "--eval-every", "10", "--eval-batches", "1", "--dropout", "0.2", "--checkpoint-every", "2"]


MOMENTS = [
    ("beginning", 0),
    ("half", 1),
    ("half", 3),
    ("written", 3),
    ("replaced", 3),
    ("ending", 0),
    ("recorded", 0),
]


def die_at(moment, number):
    """Have this process kill itself while it begins, at a moment of the given checkpoint, or while it ends."""
    saved, save, replace, write_text = 0, torch.save, Path.replace, runs.write_text

    def die_if(condition):
        if condition:
            os.kill(os.getpid(), signal.SIGKILL)

    def dying_save(content, path):
        nonlocal saved
        saved += 1
        save(content, path)
        if (moment, number) == ("half", saved):
            os.truncate(path, path.stat().st_size // 2)
        die_if(moment in ("half", "written") and saved == number)

    def dying_replace(path, target):
        replace(path, target)
        die_if(moment == "replaced" and target.name == "checkpoint.pt" and saved == number)
        die_if(moment == "ending" and target.name == saving.WEIGHTS)  # before the config has its place

    def dying_write_text(path, text):
        die_if(moment == "beginning" and path.name == "run.json")
        write_text(path, text)
        die_if(moment == "recorded" and path.name == "training.json")

    torch.save, Path.replace = dying_save, dying_replace
    runs.write_text = dying_write_text


def start(*arguments, die=None):
    """A process that runs the command line, and kills itself at a moment if it is told so."""
    child = os.fork()
    if child == 0:
        if die:
            die_at(*die)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        sys.argv = ["efficient_transformers", *map(str, arguments)]
        code = 1
        try:
            cli.main()
            code = 0
        except SystemExit as leave:
            code = leave.code or 0
        finally:
            os._exit(code)
    return child


def finish(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(folder, text, kills, seed):
    torch.set_num_threads(1)
    train_it = ["train", "primer-ez", "--corpus", text, *SIZES, *TRAINING]
    warm = load_corpus(text)  # what is imported on first use is imported before the forks
    train(
        build_model("primer-ez", vocab_size=len(warm.vocabulary), d_model=8), warm, TrainingConfig(steps=1, seq_len=8)
    )
    begun = time.perf_counter()
    assert finish(start(*train_it, "--out", folder / "whole")) == 0
    duration = time.perf_counter() - begun
    moments, interrupted, ends = random.Random(seed), folder / "killed", 0
    while kills > 0:
        if not interrupted.exists():  # killed before there was anything to resume
            child = start(*train_it, "--out", interrupted)
        elif (interrupted / "training.json").exists():  # before it could be killed: begin another
            ends += 1
            go_on(interrupted, train_it)
            os.rename(interrupted, folder / f"killed-{ends}")
            continue
        else:
            child = start("resume", interrupted)
        time.sleep(moments.uniform(0, 0.7 * duration))
        os.kill(child, signal.SIGKILL)
        if finish(child) == -signal.SIGKILL:
            kills -= 1
            state = Checkpoints(interrupted / "checkpoint.pt").load()
            print(state and state["step"], flush=True)
    go_on(interrupted, train_it)
    for moment, number in MOMENTS:
        interrupted = folder / f"killed-{moment}-{number}"
        assert finish(start(*train_it, "--out", interrupted, die=(moment, number))) == -signal.SIGKILL
        state = Checkpoints(interrupted / "checkpoint.pt").load()
        left = interrupted.exists() and any(interrupted.glob(f"{PARTIAL}*"))
        print(f"{moment}-{number}:{state and state['step']}:{left}", flush=True)
        go_on(interrupted, train_it)


def go_on(folder, train_it):
    """To the end, whatever was reached; a run that is there already is refused, and what it left removed."""
    line = ["resume", folder] if folder.exists() else [*train_it, "--out", folder]
    ended = (folder / "training.json").exists()
    assert finish(start(*line)) == (2 if ended else 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
