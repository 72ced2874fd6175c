"""What a run says while it lasts: a file with a line of JSON for each evaluation, a progress bar.

See :doc:`/book/scaling-up`.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..support.files import reason, write_text

Record = dict[str, float]


def finite(record: Record) -> Record:
    """The record without what JSON cannot say: before the first step there is no training loss."""
    return {name: value for name, value in record.items() if math.isfinite(value)}


def json_lines(path: Path, before: Iterable[Record]) -> Callable[[Record], None]:
    """A callback of :func:`train` that writes a file anew with each record; where it cannot, a warning says so.

    Args:
        path: the file; what it held is replaced.
        before: records of the same run from before it was interrupted, which come first.
    """
    lines = [json.dumps(finite(record)) + "\n" for record in before]
    write_text(path, "".join(lines))

    def add(record: Record) -> None:
        lines.append(json.dumps(finite(record)) + "\n")
        try:
            write_text(path, "".join(lines))
        except OSError as error:
            step = record["step"]
            warnings.warn(f"the metrics of step {step} could not be written to {path} ({reason(error)})", stacklevel=2)

    return add


def bar(values: Iterable[Any] | None = None, *, show: bool, **options: Any) -> Any:
    """A progress bar of tqdm, if ``show`` asks for one and the output is a terminal or a notebook.

    In a notebook it is text too: a widget would be stored as one, and gone when the notebook is opened again.
    """
    from tqdm import tqdm  # heavy libraries are imported where they are used

    if type(sys.stdout).__module__.startswith("ipykernel"):
        return tqdm(values, disable=not show, file=sys.stdout, **options)
    return tqdm(values, disable=None if show else True, **options)
