"""How the checks of the exercises answer: what was expected, what came, and for the usual mistakes why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from ...checks import require_known
from ..figures import leak_maps

CHECKS: dict[str, Callable[[Any], None]] = {}
C = TypeVar("C", bound=Callable[[Any], None])


class WrongAnswerError(Exception):
    """What is wrong with an answer, in words for the reader."""


def exercise(number: str) -> Callable[[C], C]:
    """Register a check, which raises :class:`WrongAnswerError` unless the answer is right."""

    def register(check: C) -> C:
        CHECKS[number] = check
        return check

    return register


def drawn(seed: int, *shape: int) -> Tensor:
    """Normal numbers, the same for every reader."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def check(number: str, answer: Any) -> None:
    """Print whether ``answer`` solves the exercise ``number``, and if not, why; None is not an answer yet.

    Raises:
        ValueError: if there is no such exercise.
    """
    require_known("number", number, CHECKS)
    if answer is None:
        return
    try:
        with torch.random.fork_rng(devices=[]):  # cells after this one draw what they would have drawn without it
            CHECKS[number](answer)
    except WrongAnswerError as wrong:
        print(f"not yet: {wrong}")
    except Exception as error:  # whatever a reader's own code raises is an answer too
        print(f"not yet: your answer stopped with {type(error).__name__}: {error}")
    else:
        print("right")


def expect(condition: bool, message: str) -> None:
    """Raise :class:`WrongAnswerError` with this message unless the condition holds."""
    if not condition:
        raise WrongAnswerError(message)


def compare(
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
        is_this = wrong.shape == got.shape and close(got, wrong) and not close(wrong, expected)
        expect(not is_this, reason)
    if not close(got, expected):
        off = ((got - expected).abs() > 1e-4 * (1 + expected.abs())) | got.isnan()
        place = tuple(torch.nonzero(off)[0].tolist())
        values = f"{got[place].item():.4g}; expected {expected[place].item():.4g}"
        count = f"{int(off.sum())} of {off.numel()} numbers differ"
        raise WrongAnswerError(f"{what} at {list(place)} is {values} ({count})")


def close(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are equal up to the rounding of float32."""
    return torch.allclose(a.to(b.dtype), b, rtol=1e-4, atol=1e-4)


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
