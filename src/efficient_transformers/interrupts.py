"""Ctrl-C and SIGTERM as a request: the loop that is asked ends its step, saves, and leaves."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether somebody asked to stop.

    Attributes:
        signal: the number of the first signal that asked; None while nobody has.
    """

    def __init__(self) -> None:
        self.signal: int | None = None

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """Ask, as the handler of a signal does. Asking again changes nothing: a save is not interrupted."""
        if self.signal is None and os.environ.get("RANK", "0") == "0":
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
