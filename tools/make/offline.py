"""One zip for a machine without a network, at _build/offline.zip: `make offline`.

What is notable:
- the site, the executed notebooks, a wheel of the package with its weights and records, and the plays that are the
  default text; what else the package needs, the zip's README lists;
- the package's wheel is made from a copy, so that nothing of an earlier build gets into it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

from efficient_transformers import load_corpus
from efficient_transformers.training.corpus import PLAYS, data_folder

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
OUT = ROOT / "_build" / "offline.zip"
TOP = "efficient-transformers-annotated"
README = """# Efficient Transformers, Annotated: everything for a machine without a network

- `site/index.html`: the book. Open it in a browser; instruments, models that write, and search work from the disk.
- `notebooks/`: the chapters and the studies, executed, to be run again.
- `wheels/`: the package with its trained models and recorded runs.
- `data/`: the plays that it trains on.

To run the chapters, or to use the package, this has to be installed already, for Python {python}:

{needs}

and for the notebooks `jupyterlab`. Then, in this folder:

```
pip install --no-index --no-deps wheels/*.whl
export EFFICIENT_TRANSFORMERS_DATA="$PWD/data"
jupyter lab notebooks
```

Where something of the list is missing, fetch it on a machine of the same kind that has a network, and bring the folder:

```
pip download --dest needs {names} jupyterlab
pip install --no-index --find-links needs {names} jupyterlab
```
"""


def readme() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = project["dependencies"]
    return README.format(
        python=project["requires-python"].replace(">=", "") + " or later",
        needs="\n".join(f"- `{need}`" for need in needs),
        names=" ".join(f'"{need}"' for need in needs),
    )


def wheel(folder: Path) -> None:
    """The package's wheel."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary, "copy")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "_build", "__pycache__", "*.egg-info"))
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, copy], check=True)


def make(out: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        wheel(Path(temporary))
        load_corpus()  # fetches the plays, where they are not there yet
        made.write(data_folder() / PLAYS, f"{TOP}/data/{PLAYS}")
        made.writestr(f"{TOP}/README.md", readme())
        made.write(ROOT / "LICENSE", f"{TOP}/LICENSE")
        folders = (
            ("site", SITE, "**/*"),
            ("notebooks", ROOT / "notebooks", "**/*.ipynb"),
            ("wheels", Path(temporary), "*"),
        )
        for name, folder, pattern in folders:
            for path in sorted(folder.glob(pattern)):
                if path.is_file() and ".ipynb_checkpoints" not in path.parts:
                    made.write(path, f"{TOP}/{name}/{path.relative_to(folder)}")


if __name__ == "__main__":
    make(OUT)
    print(f"{OUT}: {OUT.stat().st_size / 1e6:.1f} MB")
