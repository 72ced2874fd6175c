"""The site builds from the stored outputs, quickly: alone in a file, since it runs while nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 30  # seconds of a processor; 19 when this was written, half of them for the links in the chapters' code


def test_the_book_builds_quickly_and_without_a_warning(tmp_path):
    jupyter_book = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    options = ["build", str(ROOT), "--path-output", str(tmp_path), "-W", "-n", "--keep-going", "--all"]
    seconds = []
    while not seconds or (seconds[-1] > LIMIT and len(seconds) < 2):  # another try if the machine was busy
        before = os.times()
        build = subprocess.run([*jupyter_book, *options], capture_output=True, text=True)
        after = os.times()
        assert build.returncode == 0, build.stdout + build.stderr
        assert (tmp_path / "_build" / "html" / "book" / "api.html").exists()
        # Processor time: what the clock says on a quiet machine, and nearly the same on a busy one.
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(seconds) <= LIMIT
