"""The queue that runs studies: who is at work, who waits while a clock runs, and what is kept of a run meanwhile.

What is notable:
- everything of it lies in one folder, ``experiments/queue``, which git ignores;
- locks end with the process that holds them, so that a process that was killed leaves nothing to clean up;
- whoever times something holds a lock, and a signal makes the queue wait for it: times are those of a quiet machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from efficient_transformers.checks import require
from efficient_transformers.files import locked
from efficient_transformers.studies.records import Record
from efficient_transformers.training.checkpoint import Checkpoints

ROOT = Path(__file__).parents[1]
QUEUE = Path(__file__).parent / "queue"
CHECKPOINT_SECONDS = 600  # of training that an interruption costs at most
COMMIT_SECONDS = 1800  # between two commits of records
SETTLING = 2.0  # seconds after which a process that was signaled has ended its step


def clock_lock() -> Path:
    """The file that is locked while something is timed."""
    QUEUE.mkdir(exist_ok=True)
    return QUEUE / "timing.lock"


def wait_for_the_clock(number: int, frame: FrameType | None) -> None:
    """As the handler of a signal: wait until nothing is timed any more."""
    with locked(clock_lock()):
        pass


@contextmanager
def at_work(index: int, of: int, nice: int = 10) -> Iterator[None]:
    """Be one of the queue's processes, for the length of the block: polite to other work, silent while a clock runs.

    Raises:
        ValueError: if there is one already at this part.
    """
    QUEUE.mkdir(exist_ok=True)
    path = QUEUE / f"worker-{index}-of-{of}"
    with locked(path, wait=False) as ours:
        expected = f"no other queue at this part, or another --shard: process {path.read_text() or '?'} is at it"
        require(ours, "the shard", f"{index}/{of}", expected)
        path.write_text(str(os.getpid()))
        before = signal.signal(signal.SIGUSR1, wait_for_the_clock)
        with suppress(OSError):
            os.nice(nice)
        try:
            wait_for_the_clock(0, None)  # one that starts meanwhile waits, too
            yield
        finally:
            signal.signal(signal.SIGUSR1, before)
            path.write_text("")


def workers() -> list[int]:
    """The numbers of the queue's processes on this machine."""
    found = []
    for path in sorted(QUEUE.glob("worker-*")):
        with locked(path, wait=False) as free:
            if not free and (text := path.read_text()):
                found.append(int(text))
    return [number for number in found if number != os.getpid()]


@contextmanager
def quiet() -> Iterator[None]:
    """Let the queue wait for the length of the block, in which something is timed."""
    with locked(clock_lock()):
        waiting = workers()
        for number in waiting:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGUSR1)
        if waiting:
            print(f"the queue waits meanwhile: processes {waiting}", flush=True)
            time.sleep(SETTLING)
        yield


def checkpoints_of(run: Record, seconds_per_step: float) -> Checkpoints:
    """Where a run is kept while it is trained."""
    folder = QUEUE / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()[:16]
    return Checkpoints(folder / f"{name}.pt", max(1, round(CHECKPOINT_SECONDS / seconds_per_step)))


def git(*arguments: str) -> str:
    """What git prints.

    Raises:
        ValueError: if it fails, with its message.
    """
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    require(done.returncode == 0, "git", " ".join(arguments), f"no error; it says: {done.stderr.strip()}")
    return done.stdout.strip()


def commit_of_code() -> str:
    """The commit whose code runs, for the records.

    Raises:
        ValueError: if files of the package or of the experiments differ from it.
    """
    changed = git("status", "--porcelain", "--", "src", "experiments", ":!experiments/results").splitlines()
    require(not changed, "the code", changed, "that of a commit, which each record names; commit it first")
    return git("rev-parse", "HEAD")


class Keeper:
    """Commits records, at most every half hour and when the block ends."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.last = folder, time.monotonic()

    def keep(self, now: bool = False) -> None:
        """Commit what was added, if it is time."""
        if not now and time.monotonic() - self.last < COMMIT_SECONDS:
            return
        self.last = time.monotonic()
        with locked(QUEUE / "commit.lock"):  # another process may be committing what is seen to have changed
            if changed := git("status", "--porcelain", "--untracked-files=all", "--", str(self.folder)):
                names = sorted(Path(line.split()[-1]).stem for line in changed.splitlines())
                git("add", "--", str(self.folder))
                git("commit", "--quiet", "--only", "-m", f"Records: {', '.join(names)}", "--", str(self.folder))
