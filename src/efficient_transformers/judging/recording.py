"""Records of runs: one line of JSON for each, which names all that made it.

What is notable:
- a record is appended when its run is complete, so that whoever is interrupted loses one run at most;
- several processes may append to one file.
"""

from __future__ import annotations

import json
import platform
import warnings
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from ..support.checks import require
from ..support.files import locked, sync

Record = dict[str, Any]


def environment() -> Record:
    """Versions and machine."""
    return {
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "machine": f"{processor()}, {torch.get_num_threads()} thread(s)",
    }


def processor() -> str:
    """The CPU's name where Linux tells it, else its architecture."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.machine()


def append_record(record: Record, path: Path) -> None:
    """Append one line, on a new one even if the last was cut off; processes that do so at once take turns."""
    line = json.dumps(record, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path):
        unfinished = path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        with path.open("a", encoding="utf-8") as file:
            file.write(("\n" if unfinished else "") + line + "\n")
        sync(path)


def read_records(path: Path) -> list[Record]:
    """The records of a file. Any other line, one cut off for example, is reported with a warning and skipped."""
    records = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            records.append(updated(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if line.strip():
                warnings.warn(f"{path.name}, line {number} is not a record ({error}); skipped", stacklevel=2)
    return records


def updated(record: Record) -> Record:
    """A record whose run has today's options, where it was made with others; a Python error if it is no record."""
    require(isinstance(record.get("metrics", []), list), "metrics", record.get("metrics"), "a list")
    run = dict(record["run"])
    if "options" in record.get("today", {}):
        run["options"] = record["today"]["options"]
    return record | {"run": run}


def results(package: str) -> Path:
    """The folder of results, ``"recorded"`` or ``"measured"``, that the installed package has.

    Raises:
        ModuleNotFoundError: if there is none, since Python found the package's source alone.
    """
    try:
        return Path(str(files(f"efficient_transformers.{package}")))
    except ModuleNotFoundError as error:
        where = "the book's results, which stand beside the source and not in it"
        raise ModuleNotFoundError(f"this Python has not {where}; install the package: pip install .") from error
