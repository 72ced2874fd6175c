"""How long the whole book takes to build from its stored outputs, in units of a fixed piece of Python's work."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import report

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 80  # times `fixed_work`: 70 to 72 on an Intel Xeon


def fixed_work() -> float:
    """Processor time of the same piece of Python: it took 0.56 s and, two minutes later on the same machine, 0.77."""
    start, counts = time.process_time(), dict.fromkeys(range(1000), 0)
    for i in range(3_000_000):
        counts[i % 1000] += i
    assert sum(len(word) for word in " ".join(map(str, range(200_000))).split()) == 1_088_890
    return time.process_time() - start


def build() -> float:
    """Processor time of a build from nothing, divided by that of the work before and after it."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["-c", "from jupyter_book.cli.main import main; main()", "build", str(ROOT), "--path-output", folder]
        work, before = fixed_work() + fixed_work(), os.times()
        subprocess.run([sys.executable, *command, "-W", "-n", "--keep-going", "--all"], capture_output=True, check=True)
        after, work = os.times(), work + fixed_work() + fixed_work()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds / (work / 4)


def main() -> None:
    ratio = min(build() for _ in range(2))
    sys.exit(0 if report([("the book: build / fixed work", ratio, LIMIT)]) else 1)


if __name__ == "__main__":
    main()
