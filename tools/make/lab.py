"""JupyterLab on a copy of the notebooks, so that the checkout stays as it is: ``make lab``.

What is notable:
- the copy, ``mine/``, lies beside ``notebooks/``, and what a reader has there is never written over;
- JupyterLab has an environment of its own, ``.lab``; its kernel is that of ``.venv``;
- it saves what the panels of ipywidgets hold, which JupyterLab by itself does not: opened again, without a kernel, a
  panel is there as it was left;
- one thread, unless OMP_NUM_THREADS says otherwise: on a busy machine more of them wait for each other.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
from ipykernel.ipkernel import IPythonKernel
from nbformat.sign import NotebookNotary

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / ".lab" / "bin" / "jupyter-lab"
OVERRIDES = PROGRAM.parents[1] / "share" / "jupyter" / "lab" / "settings" / "overrides.json"


def copy(to: Path) -> None:
    """Copy the notebooks that are not there yet, and trust them, so that what they store is shown as it is.

    All that the kernel says of its language is there before: JupyterLab would complete it, and ask to save that.
    """
    notary = NotebookNotary()
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        target = to / path.relative_to(ROOT / "notebooks")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            notebook = nbformat.read(path, 4)
            notebook.metadata.language_info = IPythonKernel.language_info
            nbformat.write(notebook, target)
            notary.sign(notebook)


def save_panels() -> None:
    """Set JupyterLab's *Save Widget State Automatically*, in ``.lab`` alone."""
    OVERRIDES.parent.mkdir(parents=True, exist_ok=True)
    OVERRIDES.write_text('{"@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": true}}\n', encoding="utf-8")


def main() -> None:
    copy(ROOT / "mine")
    save_panels()
    os.chdir(ROOT)  # from here links to any file of the checkout work
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    root = ["--allow-root"] if os.geteuid() == 0 else []  # in a container
    os.execv(PROGRAM, [str(PROGRAM), "--LabApp.default_url=/lab/tree/mine", *root, *sys.argv[1:]])


if __name__ == "__main__":
    main()
