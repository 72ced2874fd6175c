"""The one place where bad input is turned into an error that says what to do about it."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = 200  # a vocabulary can be long
SHORT.maxlist = SHORT.maxtuple = SHORT.maxdict = 40


def require(condition: bool, argument: str, value: Any, expected: str, error: type[Exception] = ValueError) -> None:
    """Raise ``error`` unless ``condition`` holds, naming the argument, its value and what was expected."""
    if not condition:
        raise error(f"{argument} is {SHORT.repr(value)}; expected {expected}")


def require_int(argument: str, value: Any, at_least: int | None = None) -> None:
    """Raise TypeError unless ``value`` is an int, and ValueError if it is below ``at_least``."""
    is_int = isinstance(value, int | torch.SymInt) and not isinstance(value, bool)
    expected = "an int" if at_least is None else f"an int of at least {at_least}"
    require(is_int, argument, value, expected, TypeError)
    require(at_least is None or value >= at_least, argument, value, expected)


def is_number(value: Any) -> bool:
    """Whether ``value`` is a number; True and False do not count as such."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def require_number(argument: str, value: Any) -> None:
    """Raise TypeError unless ``value`` is a number, and ValueError unless it is finite as a float."""
    require(is_number(value), argument, value, "a number", TypeError)
    require(abs(value) <= sys.float_info.max, argument, value, "a finite number")


def require_seed(argument: str, value: Any) -> None:
    """Raise TypeError unless ``value`` is an int, and ValueError unless a generator of PyTorch takes it."""
    require_int(argument, value)
    require(-(2**63) <= value < 2**63, argument, value, "an int from -2**63 to 2**63 - 1")


def require_bool(argument: str, value: Any) -> None:
    """Raise TypeError unless ``value`` is a bool."""
    require(isinstance(value, bool), argument, value, "True or False", TypeError)


def require_probability(argument: str, value: Any) -> None:
    """Raise unless ``value`` is a number from 0 to below 1."""
    expected = "a probability, at least 0 and less than 1"
    require(is_number(value), argument, value, expected, TypeError)
    require(0 <= value < 1, argument, value, expected)


def require_known(argument: str, value: Any, known: Iterable[str]) -> None:
    """Raise ValueError unless ``value`` is one of the ``known`` names, and list them."""
    names = list(known)
    require(value in names, argument, value, "one of " + ", ".join(map(repr, names)))


def require_input(argument: str, x: Any, channels: int, *, is_sequence: bool = True) -> None:
    """Raise TypeError unless ``x`` is a tensor of floating-point numbers, ValueError unless ``[batch, seq, channels]``.

    Where a layer does not care for positions, any dimensions may stand before the channels.
    """
    require(isinstance(x, Tensor), argument, x, "a tensor", TypeError)
    require(x.is_floating_point(), f"{argument}.dtype", x.dtype, "a floating-point type", TypeError)
    fits = (x.dim() == 3 if is_sequence else x.dim() > 0) and x.shape[-1] == channels
    expected = f"[{'batch, seq' if is_sequence else '...'}, {channels}]"
    require(fits, f"{argument}.shape", tuple(x.shape), expected)


def require_module(argument: str, value: Any) -> None:
    """Raise TypeError unless ``value`` is a module."""
    require(isinstance(value, nn.Module), argument, value, "a torch.nn.Module", TypeError)


def require_instance(argument: str, value: Any, kind: type) -> None:
    """Raise TypeError unless ``value`` is of a class, or of one of its subclasses."""
    require(isinstance(value, kind), argument, value, f"an instance of {kind.__name__}", TypeError)
