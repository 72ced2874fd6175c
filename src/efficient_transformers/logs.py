"""Where the metrics of a run go while it lasts: a file with a line of JSON for each evaluation, and TensorBoard."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .files import write_text

Record = dict[str, float]


def finite(record: Record) -> Record:
    """The record without what JSON cannot say: before the first step there is no training loss."""
    return {name: value for name, value in record.items() if math.isfinite(value)}


def json_lines(path: Path, before: Iterable[Record] = ()) -> Callable[[Record], None]:
    """A callback of :func:`train` that appends each record to a file.

    Args:
        path: the file; what it held is replaced.
        before: records of the same run from before it was interrupted, which come first.
    """
    write_text(path, "".join(json.dumps(finite(record)) + "\n" for record in before))

    def append(record: Record) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(finite(record)) + "\n")

    return append


def tensorboard(folder: Path, tokens_per_step: int) -> Callable[[Record], None]:
    """A callback of :func:`train` that writes each record for TensorBoard.

    Args:
        folder: where TensorBoard's files go.
        tokens_per_step: of the training, for the speed.

    Raises:
        ModuleNotFoundError: if TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter  # heavy libraries are imported where they are used
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("tensorboard is not installed; expected it: pip install tensorboard") from error
    writer: Any = SummaryWriter(str(folder))

    def write(record: Record) -> None:
        step = int(record["step"])
        for name in ("train_loss", "validation_loss"):
            if name in finite(record):
                writer.add_scalar(name, record[name], step)
        if record["seconds"] > 0:
            speed = step * tokens_per_step / record["seconds"]
            writer.add_scalar("tokens_per_second", speed, step)
        writer.flush()

    return write
