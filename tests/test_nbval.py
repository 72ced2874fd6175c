"""Every cell of every chapter runs and gives what is stored: the longest test, in a file of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]


def cells() -> int:
    """The code cells of all chapters."""
    notebooks = [nbformat.read(path, 4) for path in (ROOT / "notebooks").glob("*.ipynb")]
    return sum(cell.cell_type == "code" for notebook in notebooks for cell in notebook.cells)


def test_strict_nbval_from_the_root_and_from_another_folder(tmp_path):
    """Two runs side by side, one thread each; the stored outputs were made with as many threads as there are cores."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", str(ROOT / "notebooks")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    runs = [subprocess.Popen(command, cwd=folder, env=environment, **pipes) for folder in (ROOT, tmp_path)]
    printed = [run.communicate()[0] for run in runs]
    for run, text in zip(runs, printed, strict=True):
        assert run.returncode == 0, text[-8000:]
        assert f"{cells()} passed" in text, text[-2000:]
