"""Train in a folder, be killed at random moments, resume, until the run is at its end.

    python killing.py FOLDER TEXT KILLS SEED

Each start is a fork of this process, so that none waits for imports. Prints the step of the checkpoint after each kill.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

import efficient_transformers.__main__ as cli
from efficient_transformers import Checkpoints, TrainingConfig, build_model, load_corpus, train

SIZES = ["--d-model", "8", "--n-layers", "1", "--n-heads", "2", "--batch-size", "2", "--seq-len", "8"]
TRAINING = ["--steps", "40", "--eval-every", "10", "--eval-batches", "1", "--dropout", "0.2", "--checkpoint-every", "2"]


def start(*arguments):
    """A process that runs the command line."""
    child = os.fork()
    if child == 0:
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
        if not (interrupted / "run.json").exists():  # killed before there was anything to resume
            for file in interrupted.glob("*") if interrupted.exists() else ():
                file.unlink()
            if interrupted.exists():
                interrupted.rmdir()
            child = start(*train_it, "--out", interrupted)
        elif (interrupted / "training.json").exists():
            print("ended")  # before it could be killed: begin another
            ends += 1
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
    if not (interrupted / "training.json").exists():
        begun_again = [*train_it, "--out", interrupted]
        assert finish(start(*(["resume", interrupted] if (interrupted / "run.json").exists() else begun_again))) == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
