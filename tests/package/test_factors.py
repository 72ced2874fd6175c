"""Factors to equal loss, on curves that are made up, so that the answer is known."""

from __future__ import annotations

import math
import random

import pytest

from efficient_transformers.book import factors
from efficient_transformers.book.factors import Factor, factor

SEEDS = range(3)


def power(steps, faster=1.0, drop=0.3):
    """A loss that falls by ``drop`` with each doubling, of a model that needs ``faster`` times fewer steps."""
    return 5 - drop * math.log2(steps * faster)


def runs(lengths, faster=1.0, noise=0.0, generator=None, seeds=SEEDS):
    generator = generator or random.Random(1)
    return {n: {seed: power(n, faster) + generator.gauss(0, noise) for seed in seeds} for n in lengths}


@pytest.mark.parametrize(("faster", "steps"), [(1.0, 4000), (1.3, 4000), (1.9, 4000), (2.1, 8000), (3.9, 8000)])
def test_a_curve_that_is_a_line_gives_its_factor_beyond_two_at_the_loss_of_twice_the_steps(faster, steps):
    found = factor(runs([4000, 8000]), runs([2000, 4000], faster))
    assert (found.value, found.error) == pytest.approx((faster, 0), abs=1e-6)
    assert found.steps == steps


@pytest.mark.parametrize("faster", [0.9, 2.1, 5.0])
def test_what_no_run_encloses_is_not_read(faster):
    assert factor(runs([4000]), runs([2000, 4000], faster)) is None


def test_three_lengths_are_read_between_their_neighbors():
    curve = {1000: {0: 4.0, 1: 4.0}, 2000: {0: 3.0, 1: 3.0}, 4000: {0: 2.8, 1: 2.8}}
    found = factor({4000: {0: 2.9, 1: 2.9}}, curve)
    assert found.value == pytest.approx(2**0.5)
    assert factor({4000: {0: 3.5, 1: 3.5}}, curve).value == pytest.approx(4000 / (1000 * 2**0.5))


def test_the_standard_error_is_that_of_the_means(monkeypatch):
    """Of a reference alone that spreads, on a curve without noise: d log F = log 2 / drop times its error."""
    curve = {
        n: {seed: loss[0] + spread for seed, spread in enumerate((-1e-9, 1e-9))}
        for n, loss in runs([2000, 4000], 1.4).items()
    }
    values = (-0.02, 0.0, 0.02)
    reference = {4000: {seed: power(4000) + x for seed, x in enumerate(values)}}
    pooled = [*values, *[0.0] * 4]
    spread = math.sqrt(3 / 2 * sum(x * x for x in pooled) / len(pooled))
    by_hand = math.log(2) / 0.3 * spread * math.sqrt(1 / 3 + 0.5 * (0.486**2 + 0.514**2))
    monkeypatch.setattr(factors, "DRAWS", 20_000)
    found = factor(reference, curve)
    assert found.error == pytest.approx(by_hand, rel=0.03)
    assert found.freedom == 4


def test_intervals_hold_the_true_factor_about_as_often_as_they_say(monkeypatch):
    monkeypatch.setattr(factors, "DRAWS", 200)
    generator, held, wide = random.Random(0), 0, 0
    for _ in range(300):
        curve = runs([2000, 4000], 1.5, 0.02, generator)
        found = factor(runs([4000], 1.0, 0.02, generator), curve)
        low, high = found.interval()
        held += low < 1.5 < high
        wide += high / low > 1.6
    assert 0.91 < held / 300 < 0.99
    assert wide < 30


def test_a_curve_that_seeds_do_not_tell_to_fall_gives_nothing():
    flat = {2000: {0: 3.01, 1: 2.99}, 4000: {0: 2.999, 1: 2.998}}
    assert factor({4000: {0: 2.999, 1: 2.9992}}, flat) is None


def test_the_time_of_a_step_divides():
    found = Factor(2.0, 0.1, 8, 4000)
    assert found.in_time(1.25).value == pytest.approx(1.6)
    assert found.in_time(1.25).error == 0.1
    assert str(found).startswith("2.00  [1.59, 2.52]")
    with pytest.raises(ValueError, match="ratio is 0; expected more than 0"):
        found.in_time(0)


@pytest.mark.parametrize(
    ("reference", "curve", "message"),
    [
        ({}, runs([1, 2]), "reference is {}; expected losses at one"),
        (runs([1]), runs([1]), r"curve is \[1\]; expected at least two numbers of steps"),
        (runs([2]), runs([1, 2], seeds=(0,)), "the seeds is 1; expected at least two of every length"),
    ],
)
def test_bad_curves_are_refused(reference, curve, message):
    with pytest.raises(ValueError, match=message):
        factor(reference, curve)
