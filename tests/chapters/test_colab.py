"""A rehearsal of Colab: each notebook, from an empty folder, installs the package and runs to its end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.make import repository
from tools.notebooks import run_notebooks

ROOT = Path(__file__).parents[2]
NOTEBOOKS = run_notebooks.notebooks()
# What Colab brings of what the package needs.
BROUGHT = ["ipywidgets", "matplotlib", "numpy", "pillow", "pooch", "safetensors"]
BROUGHT += ["scikit-learn", "scipy", "torch", "tqdm"]
RUNNER = ["ipykernel", "nbclient"]


def interpreters() -> dict[str, str]:
    """The Python that runs this test, and the one that Colab has, where it is installed."""
    found = {"{}.{}".format(*sys.version_info): sys._base_executable}
    others = [shutil.which("python3.13"), *Path.home().glob(".pyenv/versions/3.13.*/bin/python3.13")]
    for python in filter(None, others):
        said = subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True)
        if said.returncode == 0:
            found.setdefault(said.stdout.decode().strip(), str(python))
    return found


INTERPRETERS = interpreters()


class Colab:
    """An environment and an empty folder."""

    def __init__(self, version: str, home: Path) -> None:
        self.bin, self.folder, clone = home / "env" / "bin", home / "content", home / "clone"
        self.folder.mkdir()
        subprocess.run([INTERPRETERS[version], "-m", "venv", home / "env"], check=True)
        # The versions that the book is built with, where they are meant for this Python; else the newest.
        pins = ["-c", ROOT / "constraints.txt"] if version == "3.11" else []
        self.pip("install", *pins, *BROUGHT, *RUNNER)
        self.brought = self.versions()
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        self.environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{clone.as_uri()}.insteadOf",
            "GIT_CONFIG_VALUE_0": repository.address(),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "JUPYTER_PATH": str(home / "env" / "share" / "jupyter"),
        }

    def pip(self, *arguments: object) -> str:
        command = [self.bin / "python", "-m", "pip", "--disable-pip-version-check", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def versions(self) -> dict[str, str]:
        return {p["name"]: p["version"] for p in json.loads(self.pip("list", "--format", "json"))}

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """Execute a notebook as Colab would, in a folder where nothing else is."""
        notebook = ROOT / "notebooks" / f"{name}.ipynb"
        shutil.copy(notebook, self.folder)
        command = [self.bin / "jupyter-execute", "--timeout=900", notebook.name]
        return subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)

    def reset(self) -> None:
        """Back to what Colab brings, for the next notebook."""
        if new := [name for name in self.versions() if name not in self.brought]:
            self.pip("uninstall", "--yes", *new)
        shutil.rmtree(self.folder)
        self.folder.mkdir()


@pytest.fixture(scope="module", params=INTERPRETERS)
def colab(request, tmp_path_factory):
    return Colab(request.param, tmp_path_factory.mktemp("colab"))


@pytest.fixture
def fresh(colab):
    yield colab
    colab.reset()


@pytest.mark.long
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_installs_the_package_and_runs(fresh, name):
    assert fresh.versions() == fresh.brought
    run = fresh.run(name)
    assert run.returncode == 0, run.stderr[-5000:]
    after = fresh.versions()
    assert "efficient-transformers-annotated" in after
    changed = {
        name: (version, after.get(name)) for name, version in fresh.brought.items() if after.get(name) != version
    }
    assert changed == {}, "Colab's own packages must stay as they are"
