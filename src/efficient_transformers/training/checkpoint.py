"""Checkpoints: everything that a training run needs to go on as if it had never been interrupted.

What is notable:
- a checkpoint is one file, replaced as a whole: whatever happens while it is written, the one before it is there;
- it says nothing of the device, so that another one can go on from it.

See :doc:`/book/scaling-up`.
"""

from __future__ import annotations

import random
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..support.checks import is_number, require, require_instance, require_int
from ..support.files import reason, replacing

__all__ = ["Checkpoints"]

FORMAT = 2
PARTS = {"step", "seconds", "batches", "metrics", "training", "corpus", "model", "optimizer", "random"}
MEASURED = {"step", "seconds", "train_loss", "validation_loss"}  # what each of the metrics has


@dataclass
class Checkpoints:
    """Where a run keeps its last good checkpoint, and how often it writes one.

    The first is written before step 1, so that a place that cannot be written is noticed there; one more is written
    when the run ends or is asked to stop.

    Args:
        path: the file; its folder exists.
        every: steps from one checkpoint to the next.
        last: the step of the checkpoint at ``path`` as far as this run knows; None before there is one.

    Raises:
        TypeError: if ``path`` is not a Path, or ``every`` not an int.
        ValueError: if ``every`` is less than 1.
    """

    path: Path
    every: int = 1000
    last: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        require_instance("path", self.path, Path)
        require_int("every", self.every, at_least=1)

    def __str__(self) -> str:
        return "there is no checkpoint" if self.last is None else f"the last good checkpoint is of step {self.last}"

    def save(self, state: dict[str, Any], model: nn.Module, optimizer: Any) -> None:
        """Write a checkpoint in place of the one before.

        Args:
            state: what else the run needs: all other ``PARTS``, of numbers, strings, lists, tensors.
            model: whose weights to keep.
            optimizer: of the model.

        Raises:
            OSError: if it cannot be written, and there is none before it. Where there is one, a warning says so, and
                the run goes on: room may be made before the next one is due.
            FloatingPointError: if a weight is not finite; the checkpoint before is the last good one.
        """
        weights = model.state_dict()
        if not all(bool(tensor.isfinite().all()) for tensor in weights.values()):
            raise FloatingPointError(f"after step {state['step']} the model's weights are not finite; {self}")
        own = {"model": weights, "optimizer": optimizer.state_dict(), "random": random_states()}
        content = {"format": FORMAT, **state, **own}
        try:
            with replacing(self.path) as temporary:
                torch.save(content, temporary)
        except (OSError, RuntimeError) as error:  # PyTorch's writer makes a RuntimeError of a full disk
            message = f"the checkpoint of step {state['step']} could not be written to {self.path} ({reason(error)})"
            if self.last is None:
                raise OSError(message) from error
            warnings.warn(f"{message}; {self}", stacklevel=2)
        else:
            self.last = state["step"]

    def load(self) -> dict[str, Any] | None:
        """What :meth:`save` wrote, on the CPU; None if there is no checkpoint.

        Raises:
            ValueError: if the file is damaged, or of another format. Nothing in it is executed.
        """
        if not self.path.is_file():
            self.last = None  # the file of an earlier run may be gone
            return None
        try:
            with zipfile.ZipFile(self.path) as archive:  # PyTorch reads it without a look at its checksums
                if damaged := archive.testzip():
                    raise zipfile.BadZipFile(f"{damaged} is damaged")
            content = torch.load(self.path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise ValueError(f"{self.path} is not a checkpoint: {reason(error)}") from error
        found = content.get("format") if isinstance(content, dict) else None
        require(found == FORMAT, f"the format of {self.path}", found, str(FORMAT))
        missing = sorted(PARTS - set(content))
        require(not missing, f"what {self.path} lacks", missing, "nothing: a checkpoint has all of them")
        require(isinstance(content["step"], int), f"the step of {self.path}", content["step"], "an int")
        require(is_number(content["seconds"]), f"the seconds of {self.path}", content["seconds"], "a number")
        metrics = content["metrics"]
        known = isinstance(metrics, list) and all(map(is_record, metrics))
        require(known, f"the metrics of {self.path}", metrics, f"a list of records, each of {sorted(MEASURED)}")
        self.last = content["step"]
        return dict(content)


def is_record(value: Any) -> bool:
    """Whether it is one of the metrics."""
    return isinstance(value, dict) and set(value) >= MEASURED and all(map(is_number, value.values()))


def restore(content: dict[str, Any], model: nn.Module, optimizer: Any) -> None:
    """Put model, optimizer and random states back, as they were when ``content`` was saved."""
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    set_random_states(content["random"])


def random_states() -> dict[str, Any]:
    """The state of every generator that PyTorch, NumPy and Python draw from by themselves."""
    import numpy as np  # heavy libraries are imported where they are used

    legacy: Any = np.random.get_state()
    name, key, *rest = legacy
    states = {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": [name, key.tolist(), *rest]}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    if torch.backends.mps.is_available():
        states["mps"] = torch.mps.get_rng_state()
    return states


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Leave the random states of this process, those of all GPUs included, as they were before the block."""
    states, gpus = random_states(), torch.cuda.get_rng_state_all()
    try:
        yield
    finally:
        set_random_states(states)
        torch.cuda.set_rng_state_all(gpus)


def set_random_states(states: dict[str, Any]) -> None:
    """Undo whatever was drawn since :func:`random_states`."""
    import numpy as np  # heavy libraries are imported where they are used

    torch.set_rng_state(states["torch"])
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(tuple(states["numpy"]))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
    if "mps" in states and torch.backends.mps.is_available():
        torch.mps.set_rng_state(states["mps"])
