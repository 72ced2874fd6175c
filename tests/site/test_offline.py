"""The zip for a machine without a network: its site opens, and its chapters run from its wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import nbformat
import pytest

from tools.make import offline
from tools.notebooks import run_notebooks

pytestmark = pytest.mark.long
# Python reads it first, in every process: no connection leaves the machine.
NO_NETWORK = """
import socket

def connect(self, address, *, real=socket.socket.connect):
    if self.family != socket.AF_UNIX and not str(address[0]).startswith("127."):
        raise OSError(f"no network: {address}")
    return real(self, address)

socket.socket.connect = connect
"""
FROM_THE_ZIP = "import efficient_transformers, socket\nassert efficient_transformers.__file__.startswith({folder!r})"
CUT_OFF = """
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
except OSError as error:
    assert "no network" in str(error), error
"""
RUN = "import sys, nbformat, nbclient; nbclient.NotebookClient(nbformat.read(sys.argv[1], 4), timeout=900).execute()"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("offline")
    offline.make(folder / "offline.zip")
    with zipfile.ZipFile(folder / "offline.zip") as made:
        made.extractall(folder)
    return folder / offline.TOP


@pytest.fixture(scope="module")
def installed(unpacked):
    """The wheel in a folder of their own, beside what the book's environment has."""
    folder = unpacked / "installed"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", folder, *sorted((unpacked / "wheels").glob("*.whl"))], check=True)
    (folder / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", run_notebooks.notebooks())
def test_notebooks_run_from_the_wheel(unpacked, installed, name, tmp_path):
    notebook = nbformat.read(unpacked / "notebooks" / f"{name}.ipynb", 4)
    check = FROM_THE_ZIP.format(folder=str(installed)) + CUT_OFF
    notebook.cells.insert(0, nbformat.v4.new_code_cell(check))
    nbformat.write(notebook, tmp_path / "chapter.ipynb")
    environment = os.environ | {
        "PYTHONPATH": str(installed),
        "OMP_NUM_THREADS": "1",
        "EFFICIENT_TRANSFORMERS_DATA": str(unpacked / "data"),
    }
    ran = subprocess.run(
        [sys.executable, "-c", RUN, tmp_path / "chapter.ipynb"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]


def test_the_site_opens(unpacked, chromium):
    tab = chromium.new_page()
    tab.goto((unpacked / "site" / "index.html").as_uri())
    tab.get_by_role("heading", name="Efficient Transformers, Annotated").wait_for()
    assert tab.url.endswith("site/book/index.html")
    tab.close()
