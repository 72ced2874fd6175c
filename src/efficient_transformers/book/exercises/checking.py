"""How the checks of the exercises answer: what was expected, what came, and for the usual mistakes why."""

from __future__ import annotations

import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import FrameType
from typing import Any

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor

from ...support.checks import SHORT, is_number, require_known
from ..figures.maps import leak_maps

Check = Callable[[Any], str]
CHECKS: dict[str, Check] = {}

TORCH_STOPPED = {  # what PyTorch says where sizes do not fit, and what it means
    "must match the size of tensor": "two tensors are combined whose sizes do not fit",
    "must match except in dimension": "tensors are joined whose other sizes differ",
    "cannot be multiplied": "in a matrix product, rows of the left and columns of the right differ in length",
    "batch2 tensor": "in a matrix product, rows of the left and columns of the right differ in length",
    "is invalid for input of size": "a tensor is viewed in a shape of another number of entries",
    "expanded size": "a tensor is expanded to a shape that it does not fit",
    "channels": "a convolution meets another number of channels than its kernels have",
    "out of range": "an index is beyond the end",
    "out of bounds": "an index is beyond the end",
}


class WrongAnswerError(Exception):
    """What is wrong with an answer, in words for the reader."""


def exercise(number: str, *, takes: str = "") -> Callable[[Check], Check]:
    """Register a check, which raises :class:`WrongAnswerError` unless the answer is right, and returns what it saw.

    Args:
        number: of the exercise.
        takes: the arguments of the answer, if that is a function or a class: ``"x, k"``.
    """

    def register(check: Check) -> Check:
        @wraps(check)
        def checked(answer: Any) -> str:
            if takes:
                expect_function(answer, takes)
            return check(answer)

        CHECKS[number] = checked
        return checked

    return register


def drawn(seed: int, *shape: int) -> Tensor:
    """Normal numbers, the same for every reader."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def check(number: str, answer: Any) -> None:
    """Print whether ``answer`` solves the exercise ``number``: if so, what it shows, if not, why.

    Raises:
        ValueError: if there is no such exercise.
    """
    require_known("number", number, CHECKS)
    if answer is None:
        print("no answer yet: put yours in the place of None, and run this cell again")
        return
    try:
        with torch.random.fork_rng(devices=[]):  # cells after this one draw what they would have drawn without it
            shown = CHECKS[number](answer)
    except WrongAnswerError as wrong:
        print(f"not yet: {wrong}")
    except Exception as error:  # whatever a reader's own code raises is an answer too
        print(f"not yet: {stopped(error)}")
    else:
        print(f"right: {shown}")


def expect_function(answer: Any, takes: str) -> None:
    """Raise :class:`WrongAnswerError` unless ``answer`` can be called with these arguments."""
    what = f"your answer is {SHORT.repr(answer)}, of the type {type(answer).__name__}; expected a function of {takes}"
    expect(callable(answer), what)
    try:
        signature = inspect.signature(answer)
    except ValueError:  # some functions of C do not tell
        return
    try:
        signature.bind(*takes.split(", "))
    except TypeError as error:
        raise WrongAnswerError(f"your function takes {signature}; expected one of {takes}, in this order") from error


def stopped(error: Exception) -> str:
    """Where the reader's code stopped: its line, the shapes of the tensors there, and the reason in words."""
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, RuntimeError | IndexError):
        known = (words for said, words in TORCH_STOPPED.items() if said in str(error))
        of_torch = "PyTorch cannot do this with these tensors" if type(error) is RuntimeError else reason
        reason = next(known, of_torch)
    steps = [step for step in traceback.walk_tb(error.__traceback__) if is_reader(step[0])]
    if not steps:
        return f"your answer stopped: {reason}"
    frame, line = steps[-1]
    source = linecache.getline(frame.f_code.co_filename, line).strip()
    where = f"at `{source}`" if source else f"in line {line}"
    shapes = [f"{name} {tuple(z.shape)}" for name, z in frame.f_locals.items() if isinstance(z, Tensor)]
    tensors = f" (shapes: {', '.join(shapes)})" if shapes else ""
    return f"your answer stopped {where}: {reason}{tensors}"


def is_reader(frame: FrameType) -> bool:
    """Whether it is the reader's code that runs in ``frame``: neither the book's, nor PyTorch's, nor Python's."""
    module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return module not in {"efficient_transformers", "torch", *sys.stdlib_module_names}


def as_number(what: str, got: Any) -> float:
    """``got`` as a float; raise :class:`WrongAnswerError` unless it is one number."""
    if isinstance(got, Tensor) and got.numel() == 1:
        got = got.item()
    expect(is_number(got), f"{what} is {SHORT.repr(got)}; expected a number")
    return float(got)


def expect(condition: bool, message: str) -> None:
    """Raise :class:`WrongAnswerError` with this message unless the condition holds."""
    if not condition:
        raise WrongAnswerError(message)


def expect_equal(
    what: str,
    got: Any,
    expected: Tensor,
    mistakes: Mapping[str, Tensor] | None = None,
    *,
    reads: Callable[[], Tensor] | None = None,
) -> None:
    """Raise :class:`WrongAnswerError` unless ``got`` is ``expected`` up to rounding: say where the first difference is.

    Args:
        what: is compared, as it stands in the sentence: ``"your convolution's output"``.
        got: by the reader's answer.
        expected: the right values.
        mistakes: what the usual wrong answers would give, by the sentence that explains each.
        reads: gives what each output of the answer depends on, which is drawn if that is wrong and sees its future.
    """
    expect(isinstance(got, Tensor), f"{what} is a {type(got).__name__}; expected a tensor")
    shapes = f"{what} has the shape {tuple(got.shape)}; expected {tuple(expected.shape)}"
    expect(got.shape == expected.shape, shapes)
    got = got.detach()
    if reads is not None and not close(got, expected) and (seen := reads()).triu(1).any():
        show_leaks(what, seen)
    for reason, wrong in (mistakes or {}).items():
        expect(not close(got, wrong) or close(wrong, expected), reason)
    if not close(got, expected):
        off = ((got - expected).abs() > 1e-4 * (1 + expected.abs())) | got.isnan()
        place = tuple(torch.nonzero(off)[0].tolist())
        values = f"{got[place].item():.4g}; expected {expected[place].item():.4g}"
        count = f"{int(off.sum())} of {off.numel()} numbers differ"
        raise WrongAnswerError(f"{what} at {list(place)} is {values} ({count})")


def close(a: Any, b: Tensor) -> bool:
    """Whether ``a`` is a tensor that equals ``b`` up to the rounding of float32."""
    return isinstance(a, Tensor) and a.shape == b.shape and torch.allclose(a.to(b.dtype), b, rtol=1e-4, atol=1e-4)


def convolved(x: Tensor, weight: Tensor, back: Sequence[int]) -> Tensor:
    """Each channel's own values, ``back[j]`` tokens earlier, weighted by ``weight[:, j]``; below 0, later."""
    T = x.shape[1]
    shifted = [F.pad(x, (0, 0, max(b, 0), max(-b, 0)))[:, max(-b, 0) :][:, :T] for b in back]
    return torch.stack([w * z for w, z in zip(weight.T, shifted, strict=True)]).sum(0)


def dependence(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """By how much each output ``[batch, seq, channels]`` changes with each input token: ``[seq, seq]``, else 0."""
    before = function(x)
    moved = []
    for s in range(x.shape[1]):
        other = x.clone()
        other[:, s] = other[:, s].flip(-1) + 1
        moved.append((function(other) - before).abs().amax((0, 2)))
    moved_by = torch.stack(moved, dim=1)
    return moved_by * (moved_by > 1e-5)


def show_leaks(what: str, seen: Tensor) -> None:
    """Draw the leak map ``[seq, seq]`` of an answer, where there is a notebook to draw it in."""
    if "inline" in plt.get_backend():
        leak_maps({what: seen})
        plt.show()


def no_leak(what: str, seen: Tensor) -> None:
    """Draw the leak map ``[T, T]`` of an answer that sees its future, and say so."""
    future = (seen > 0).triu(1)
    if future.any():
        t, s = future.nonzero()[0].tolist()
        show_leaks(what, seen)
        count = int(future.sum())
        expect(False, f"{what} sees its future: output {t} depends on token {s} ({count} leaks in its leak map)")
