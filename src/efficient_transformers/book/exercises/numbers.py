"""Questions whose answer is a number or two: which is right, what the usual mistakes give, and what each is told.

What is notable:
- they are data, so that a page of the site tells a reader what :func:`check` tells them in a notebook, word for word;
- a function is asked for its numbers in some cases; a page asks for those of one case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from .checking import CHECKS, as_number, expect


@dataclass(frozen=True)
class Mistake:
    """What is told of these numbers, one for each field, up to a tolerance."""

    numbers: tuple[float, ...]
    told: str
    tolerance: float = 0.0


@dataclass(frozen=True)
class Field:
    """One number of an answer.

    Args:
        what: the number is called, where something else came.
        right: the number.
        otherwise: told of any other one. It may hold ``{given:g}``, and with another format ``{scaled}``.
        scale: times what is given is ``scaled``.
        tolerance: how far from ``right`` a number may be.
    """

    what: str
    right: float
    otherwise: str
    scale: float = 1.0
    tolerance: float = 0.0


@dataclass(frozen=True)
class Numbers:
    """All that a check knows of an answer of one number or more."""

    fields: tuple[Field, ...]
    mistakes: tuple[Mistake, ...] = ()

    def judge(self, *answer: Any) -> None:
        """Raise :class:`WrongAnswerError`, with what is wrong, unless the numbers are right."""
        given = [as_number(field.what, got) for field, got in zip(self.fields, answer, strict=True)]
        wrong = [
            i
            for i, (field, x) in enumerate(zip(self.fields, given, strict=True))
            if abs(x - field.right) > field.tolerance
        ]
        if not wrong:
            return
        place = wrong[0]
        values = {"given": given[place], "scaled": self.fields[place].scale * given[place]}
        for mistake in self.mistakes:
            pairs = zip(mistake.numbers, given, strict=True)
            expect(not all(abs(a - b) <= mistake.tolerance for a, b in pairs), mistake.told.format(**values))
        expect(False, self.fields[place].otherwise.format(**values))


class Question(NamedTuple):
    """What a page asks, a label for each number; how it judges; and a right answer to the check."""

    labels: tuple[str, ...]
    numbers: Numbers
    solution: Any

    def for_page(self, number: str) -> Mapping[str, Any]:
        """What a script needs to answer as :func:`check` does."""
        return {"labels": self.labels, "right": CHECKS[number](self.solution), **asdict(self.numbers)}


QUESTIONS: dict[str, Question] = {}  # by the number of the exercise


def one_number(
    what: str, right: float, otherwise: str, *mistakes: tuple[Any, ...], scale: float = 1.0, tolerance: float = 0.0
) -> Numbers:
    """What a check knows of an answer of one number; a mistake is a number, its words, and a tolerance if another."""
    told = tuple(Mistake((number,), words, *(own or [tolerance])) for number, words, *own in mistakes)
    return Numbers((Field(what, right, otherwise, scale, tolerance),), told)
