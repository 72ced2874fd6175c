"""The exercises of Chapter 6, Head to head."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from ...layers.family import parameter_count
from ...layers.primer import GatedFeedForward
from ...models.language_model import LanguageModel, initialize
from .checking import WrongAnswerError, as_number, close, exercise, expect
from .numbers import QUESTIONS, Question, one_number
from .trained import SEQ_LEN, Answer, against, expect_change, fresh, probe, result, text, trained

OURS = {2: 1.80, 0: 1.83, 4: 1.90, 1: 1.79}  # by seed, in the order in which runs ended
THEIRS = {0: 1.86, 1: 1.85, 2: 1.88, 3: 1.70}


def near(a: float, b: float) -> bool:
    """Whether two numbers agree up to rounding."""
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)


@exercise("6.1", takes="ours, theirs")
def repair_pairs(answer: Callable[[Mapping[int, float], Mapping[int, float]], Any]) -> str:
    """A function of two dicts, loss by seed: the differences of the seeds that both have, ascending."""
    try:
        got = answer(OURS, THEIRS)
    except KeyError as error:
        alone = f"seed {error} was run on one side alone: take the seeds of both, ours.keys() & theirs.keys()"
        raise WrongAnswerError(alone) from error
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
    arrived = [a - b for a, b in zip(OURS.values(), THEIRS.values(), strict=True)]
    return (
        f"ours is better by {-statistics.mean(got):.3f}, with a spread of {statistics.stdev(got):.3f}. Paired as they "
        f"arrived, the same runs say worse by {statistics.mean(arrived):.3f}, with a spread of "
        f"{statistics.stdev(arrived):.3f}"
    )


WORTH = 0.12 * math.log2(1.25)
LEAD = one_number(
    "your answer",
    WORTH,
    "{given:g} is not it; expected 0.12 nats for each of the halvings in (6.5)",
    (0.12 * 0.25, "a quarter more time is not a quarter of a halving: take a logarithm"),
    (0.12 * (1 - 0.8), "a fifth fewer steps are not a fifth of a halving: take a logarithm of the factor"),
    (0.12 * math.log(1.25), "halvings are counted by the logarithm to the base 2", 0.0001),
    (-WORTH, "the model must be ahead: give the lead as a positive number"),
    (0.04, "0.04 is right, if rounded to two decimals; give three, or the expression itself", 1e-9),
    tolerance=0.001,
)
QUESTIONS["6.2"] = Question(("By how many nats?",), LEAD, WORTH)


@exercise("6.2")
def worth(answer: Any) -> str:
    """Nats that a lead must have at equal steps."""
    LEAD.judge(answer)
    twice = 0.12 * math.log2(2.5)
    return (
        f"{WORTH:.3f} nats, whether the baseline makes 500 steps or 500,000, as long as the slope lasts. A step that "
        f"takes twice as long again costs {twice:.2f}"
    )


FLIPPED = (
    [-0.05, -0.01, -0.03, -0.02, -0.04],
    [0.02, -0.01, 0.03],
    [0.01, -0.01],
    [-0.3],
    [-0.01, -0.06, 0.03, -0.02],
)
"""The sums of the last are equal for more than one choice of signs, but not as floats."""


def shares(counts: Callable[[float, float], bool]) -> list[float]:
    """For each list of :data:`FLIPPED`, the share of sums that count beside the observed one."""
    found = []
    for differences in FLIPPED:
        ways = itertools.product((1, -1), repeat=len(differences))
        sums = [sum(map(math.prod, zip(signs, differences, strict=True))) for signs in ways]
        found.append(sum(counts(x, sum(differences)) for x in sums) / len(sums))
    return found


@exercise("6.3", takes="differences")
def sign_flips(answer: Callable[[Sequence[float]], Any]) -> str:
    """The exact p-value of a list of differences, by giving them all signs."""
    from scipy import stats  # heavy libraries are imported where they are used

    room = 1e-12
    expected = shares(lambda x, observed: abs(x) >= abs(observed) - room)
    got = [as_number(f"your p-value for {differences}", answer(differences)) for differences in FLIPPED]
    mistakes = {
        "the observed signs are one of the ways, so count 'at least as far'": shares(
            lambda x, observed: abs(x) > abs(observed) + room
        ),
        "far from 0 on either side counts: compare absolute values": shares(lambda x, observed: x <= observed + room),
        "far from 0 on either side counts, not above it alone: compare absolute values": shares(
            lambda x, observed: x >= observed - room
        ),
        "that is the share of the two ways in which all signs are alike; count how far each sum is from 0": [
            2 * 0.5 ** len(differences) for differences in FLIPPED
        ],
        "that counts signs and forgets sizes, as the sign test does; compare how far the sums are from 0": [
            stats.binomtest(sum(d > 0 for d in differences), len(differences)).pvalue for differences in FLIPPED
        ],
        "that is Student's test, which supposes a bell curve; here nothing is supposed, so count": [
            stats.ttest_1samp(differences, 0).pvalue if len(differences) > 1 else got[i]
            for i, differences in enumerate(FLIPPED)
        ],
    }
    wrong = next((i for i, (a, b) in enumerate(zip(got, expected, strict=True)) if not near(a, b)), None)
    if wrong is not None:
        shown = f"for {FLIPPED[wrong]} your p-value is {got[wrong]:g}; expected {expected[wrong]:g}"
        expect(0 <= got[wrong] <= 1, f"{shown}: a p-value is a share, between 0 and 1")
        alike = (reason for reason, values in mistakes.items() if all(map(near, got, values)))
        tie = "another choice of signs has the same sum, and rounding puts it below: leave room, like 1e-12"
        reason = next(alike, tie if wrong == len(FLIPPED) - 1 else "")
        expect(False, f"{shown}: {reason}" if reason else shown)
    five, six = answer([-1.0] * 5), answer([-1.0] * 6)
    return (
        f"five differences of one sign, however large, give {five:g}: five seeds can never pass 5 % this way. Six can, "
        f"with {six:g}"
    )


@exercise("6.4", takes="lengths, target")
def steps_to_that_loss(answer: Callable[[Mapping[int, float], float], Any]) -> str:
    """Steps, by interpolation in their logarithm, of a dict of losses by steps, for a target."""
    lengths = {2000: 1.70, 500: 1.86, 1000: 1.78}
    again = {500: 1.86, 1000: 1.78, 2000: 1.82, 4000: 1.74}
    cases = (
        (lengths, 1.82, math.sqrt(500 * 1000)),
        (lengths, 1.72, 1000**0.25 * 2000**0.75),
        (lengths, 1.78, 1000.0),
        (lengths, 1.9, 500.0),
        (lengths, 1.6, math.inf),
        (again, 1.80, 500**0.25 * 1000**0.75),
    )
    for losses, target, expected in cases:
        got = as_number(f"what you return for the target {target}", answer(losses, target))
        shown = f"for the target {target} you return {got:g} steps; expected {expected:g}"
        if near(got, expected):
            continue
        expect(expected != math.inf, f"{shown}: no run reaches it, and beyond the longest nothing is known")
        unsorted = losses is lengths and target >= 1.7 and got == 2000
        expect(not unsorted, f"{shown}: the dictionary is in any order, and begins with its longest run; sort it first")
        expect(target < 1.9, f"{shown}: the shortest run reaches it already")
        twice = "the loss rises again after 1,000 steps and passes the target twice; the first time counts"
        expect(losses is not again, f"{shown}: {twice}")
        linear = {1.82: 750.0, 1.72: 1750.0}.get(target)
        reason = "you interpolate in the steps, not in their logarithm" if linear and near(got, linear) else ""
        expect(False, f"{shown}: {reason}" if reason else shown)
    half = answer(lengths, 1.82)
    return (
        f"half of the way from 1.86 to 1.78 is done after {half:.0f} steps, not after 750: the first steps of a "
        "training are worth the most"
    )


def sized(d_ff: int) -> Callable[[Any], None]:
    """A change of a model: SwiGLU of so many channels."""

    def change(model: Any) -> None:
        for layer in model.body:
            layer.feed_forward = GatedFeedForward(model.d_model, d_ff, nn.SiLU())
        initialize(model.body)

    return change


@exercise("6.5", takes="model, corpus, config")
def same_size(answer: Answer) -> str:
    """A Transformer with SwiGLU, of the same size and the same start, trained."""
    make = partial(fresh, "transformer", n_layers=2)
    model, first, _ = probe(answer, make)
    usual, found = parameter_count(make()), parameter_count(model)
    kept = ": SwiGLU has three matrices where there were two" if found > 1.2 * usual else ""
    sizes = f"your model has {found:,} parameters, the one before {usual:,}; expected a difference of at most 1 %{kept}"
    expect(abs(found - usual) <= 0.01 * usual, sizes)
    forwards = [layer.feed_forward for layer in model.body]
    gated = all(isinstance(forward, GatedFeedForward) for forward in forwards)
    expect(gated, "a feed-forward network is no GatedFeedForward: change every layer")
    kinds = [type(forward.activation).__name__ for forward in forwards]
    expect(set(kinds) == {"SiLU"}, f"the activations are {', '.join(kinds)}; expected nn.SiLU() in every layer")
    expect_change(model, make, sized(forwards[0].up.out_features), [])
    inputs = text().batch(12, SEQ_LEN, torch.Generator().manual_seed(0))[0]
    starts = "the branches of your layers do not start in zeros, as those of the other model do: call initialize"
    with torch.no_grad():
        expect(close(first, make()(inputs)), starts)

    def larger() -> LanguageModel:
        sized(256)(model := make())
        return model

    changed, plain, unfair = result(answer, make), trained(make), trained(larger)
    return (
        f"of the same size, SwiGLU ends {against(changed, plain)} than ReLU, at {changed:.3f}. With all 256 channels, "
        f"and {parameter_count(larger()) / usual - 1:.0%} more parameters, it ends at {unfair:.3f}: so much was size"
    )
