"""The command line in processes of their own that need not import PyTorch: each is forked from one that has."""

from __future__ import annotations

import os
import runpy
import sys
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from helpers import SETTINGS

SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(["efficient_transformers", "torch.distributed.nn"])


def run(line: tuple[str, ...], folder: str, streams: str) -> None:
    """What ``python -m efficient_transformers`` does there."""
    os.chdir(folder)
    os.environ.update(SETTINGS)
    for number, name in enumerate(("out", "err"), 1):
        os.dup2(os.open(f"{streams}/{name}", os.O_WRONLY | os.O_CREAT), number)
    sys.argv = ["efficient_transformers", *line]
    runpy.run_module("efficient_transformers", run_name="__main__", alter_sys=True)


def forked(*line: str) -> tuple[int, str, str]:
    """The command line in a process of its own, in this folder; its exit code, stdout and stderr."""
    with TemporaryDirectory() as streams:
        process = SERVER.Process(target=run, args=(line, os.getcwd(), streams))
        process.start()
        process.join(120)
        process.kill()  # nothing, where it has ended
        process.join()
        return process.exitcode, *((Path(streams) / name).read_text() for name in ("out", "err"))
