"""How the machine carries a training run out: device, precision, compilation, and how it is stopped.

What is notable:
- none of it changes what is computed, but for rounding;
- Ctrl-C and SIGTERM are requests: the loop that is asked ends its step, saves, and leaves.

See :doc:`/book/scaling-up`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Literal, get_args

import torch

from ..support.checks import require_bool, require_known

__all__ = ["Execution", "Stop", "stop_on_signals"]

Precision = Literal["auto", "float32", "bfloat16"]


def find_device() -> torch.device:
    """The device that a run uses: a GPU with CUDA, Apple's MPS, or the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


@dataclass(frozen=True)
class Execution:
    """How a training run is carried out; the losses are those of the plain way, but for rounding.

    Args:
        precision: of the matrix products; ``"auto"`` is bfloat16 on a GPU that has it, float32 elsewhere. A norm
            divides by the spread of its channels, and the rounding of products with it: with four channels, which may
            lie close together, logits of 0.6 can be 0.3 off, as they are if the weights alone are rounded.
        compile: compile the model first, which takes a minute and makes steps on a GPU faster.

    Raises:
        TypeError: if ``compile`` is not a bool.
        ValueError: if the precision is not known.
    """

    precision: Precision = "auto"
    compile: bool = False

    def __post_init__(self) -> None:
        require_known("precision", self.precision, get_args(Precision))
        require_bool("compile", self.compile)

    def autocast(self, device: torch.device) -> torch.autocast:
        """The context in which a forward pass has this precision."""
        native = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        wanted = self.precision == "bfloat16" or (self.precision == "auto" and native)
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=wanted)


class Stop:
    """Whether somebody asked to stop.

    Attributes:
        signal: the number of the first signal that asked; None while nobody has.
    """

    def __init__(self) -> None:
        self.signal: int | None = None

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """Ask, as the handler of a signal does. Asking again changes nothing: a save is not interrupted."""
        if self.signal is None:
            # os.write, since a handler may run in the middle of a print
            os.write(2, b"\nStopping after this step ...\n")
        self.signal = self.signal or number


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Turn SIGINT and SIGTERM into a request to stop, for the length of the block."""
    stop, before = Stop(), {}
    if threading.current_thread() is threading.main_thread():  # Python lets no other thread set handlers
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, stop.ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
