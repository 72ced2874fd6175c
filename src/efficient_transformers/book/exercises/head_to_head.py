"""The exercises of Chapter 6, Head to head."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...checks import is_number
from .checking import exercise, expect

OURS = {2: 1.80, 0: 1.83, 4: 1.90, 1: 1.79}  # by seed, in the order in which runs ended
THEIRS = {0: 1.86, 1: 1.85, 2: 1.88, 3: 1.70}


def near(a: float, b: float) -> bool:
    """Whether two numbers agree up to rounding."""
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)


@exercise("6.1")
def repair_pairs(answer: Callable[[Mapping[int, float], Mapping[int, float]], Any]) -> None:
    """A function of two dicts, loss by seed: the differences of the seeds that both have, ascending."""
    got = answer(OURS, THEIRS)
    expect(isinstance(got, list), f"you return a {type(got).__name__}; expected a list of differences")
    seeds = sorted(OURS.keys() & THEIRS.keys())
    expected = [OURS[seed] - THEIRS[seed] for seed in seeds]
    expect(
        len(got) == len(seeds), f"you return {len(got)} differences; expected {len(seeds)}, for the seeds of both sides"
    )
    backward = all(near(a, -b) for a, b in zip(got, expected, strict=True))
    expect(not backward, "the signs are reversed: a difference below 0 is to say that ours is better")
    unordered = not all(map(near, got, expected)) and all(map(near, sorted(got), sorted(expected)))
    expect(not unordered, "the right differences, but not by ascending seed")
    for seed, a, b in zip(seeds, got, expected, strict=True):
        expect(near(a, b), f"the difference of seed {seed} is {a:.3f}; expected {b:.3f}: are both losses of that seed?")


@exercise("6.2")
def worth(answer: Any) -> None:
    """Nats that a lead must have at equal steps."""
    right = 0.12 * math.log2(1.25)
    expect(is_number(answer), f"your answer is a {type(answer).__name__}; expected a number of nats")
    expect(not abs(answer - 0.12 * 0.25) < 1e-3, "a quarter more time is not a quarter of a halving: take a logarithm")
    expect(not abs(answer - 0.12 * math.log(1.25)) < 1e-4, "halvings are counted by the logarithm to the base 2")
    expect(not abs(answer + right) < 1e-3, "the model must be ahead: give the lead as a positive number")
    expect(abs(answer - right) < 1e-3, f"{answer:g} is not it; expected 0.12 nats for each of the halvings in (6.5)")


@exercise("6.3")
def sign_flips(answer: Callable[[Sequence[float]], Any]) -> None:
    """The exact p-value of a list of differences, by giving them all signs."""
    for differences in ([-0.05, -0.01, -0.03, -0.02, -0.04], [0.02, -0.01, 0.03], [0.01, -0.01], [-0.3]):
        ways = itertools.product((1, -1), repeat=len(differences))
        sums = [sum(map(math.prod, zip(signs, differences, strict=True))) for signs in ways]
        observed = sum(differences)
        expected = sum(abs(x) >= abs(observed) - 1e-12 for x in sums) / len(sums)
        one_sided = sum(x <= observed + 1e-12 for x in sums) / len(sums)
        got = float(answer(differences))
        shown = f"for {differences} your p-value is {got:g}; expected {expected:g}"
        expect(0 <= got <= 1, f"{shown}: a p-value is a share, between 0 and 1")
        larger = sum(abs(x) > abs(observed) + 1e-12 for x in sums) / len(sums)
        if not near(got, expected):
            expect(
                not near(got, larger), f"{shown}: the observed signs are one of the ways, so count 'at least as far'"
            )
            expect(not near(got, one_sided), f"{shown}: far from 0 on either side counts: compare absolute values")
        expect(near(got, expected), shown)


@exercise("6.4")
def steps_to_that_loss(answer: Callable[[Mapping[int, float], float], Any]) -> None:
    """Steps, by interpolation in their logarithm, of a dict of losses by steps, for a target."""
    lengths = {2000: 1.70, 500: 1.86, 1000: 1.78}
    cases = (
        (1.82, math.sqrt(500 * 1000)),
        (1.72, 1000**0.25 * 2000**0.75),
        (1.78, 1000.0),
        (1.9, 500.0),
        (1.6, math.inf),
    )
    for target, expected in cases:
        got = float(answer(lengths, target))
        shown = f"for the target {target} you return {got:g} steps; expected {expected:g}"
        if near(got, expected):
            continue
        expect(expected != math.inf, f"{shown}: no run reaches it, and beyond the longest nothing is known")
        expect(target < 1.9, f"{shown}: the shortest run reaches it already")
        linear = {1.82: 750.0, 1.72: 1750.0}.get(target)
        reason = "you interpolate in the steps, not in their logarithm" if linear and near(got, linear) else ""
        expect(False, f"{shown}: {reason}" if reason else shown)
