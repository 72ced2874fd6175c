"""What runs show, and what they do not: paired differences, corrected for their number, and where curves cross.

What is notable:
- a difference is taken seed by seed: both sides saw the same batches;
- the spread is pooled over the pairs of a figure: five seeds alone say little about it;
- what choosing a rate on one seed may cost is in each interval, since more seeds at that rate do not see it;
- Holm's correction: a figure of ten pairs is wrong somewhere no more often than a figure of one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from ..support.checks import require

Losses = Mapping[int, float]  # by seed
LEVEL = 0.05  # the chance that a figure without any difference says that there is one
STRETCHES = 14  # runs of neighbors that the blocks of a text are parted in

RATE_ERROR = 0.0025
"""What choosing a rate on one seed costs a model, as a standard deviation between models, in nats.

The loss of a run varies with its rate from seed to seed, so that the rate with the lowest loss on one seed lies beside
the best one. ``tests/package/test_error_rate.py`` repeats the whole rule on losses that vary as those of the records:
with this number in the intervals, five pairs without a difference are told apart 2 to 5 % of the time, without it 10 %.
"""


def paired(ours: Losses, theirs: Losses) -> list[float]:
    """Our losses minus theirs, by ascending seed.

    Raises:
        ValueError: if the seeds are not the same, or fewer than two.
    """
    seeds = sorted(ours)
    require(seeds == sorted(theirs) and len(seeds) > 1, "the seeds", seeds, f"{sorted(theirs)}, at least two")
    return [ours[seed] - theirs[seed] for seed in seeds]


def pooled_spread(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    r"""The standard deviation within groups, and its degrees of freedom.

    :math:`s^2 = \sum_i \sum_j (x_{ij} - \bar x_i)^2 / \nu` with :math:`\nu = \sum_i (n_i - 1)`. It supposes that all
    groups spread alike.

    Raises:
        ValueError: if no group has two values.
    """
    freedom = sum(len(group) - 1 for group in groups)
    require(freedom > 0, "groups", [len(group) for group in groups], "a group with at least two values")
    squares = sum((x - statistics.fmean(group)) ** 2 for group in groups for x in group)
    return math.sqrt(squares / freedom), freedom


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for their number by Holm's method, in the order given.

    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected


def sampling_error(blocks: Sequence[float]) -> float:
    """The standard error of a mean loss, or of a difference of two, as an estimate for more text of this kind.

    Neighboring blocks are alike, so that single ones promise too much: the error is that of the means of long
    stretches, the method of batch means.

    Args:
        blocks: losses or differences of equal blocks, in the order of the text.

    Raises:
        ValueError: if they cannot be parted in ``STRETCHES``.
    """
    each, rest = divmod(len(blocks), STRETCHES)
    require(each > 0 and rest == 0, "the number of blocks", len(blocks), f"a multiple of {STRETCHES}")
    means = [statistics.fmean(blocks[i : i + each]) for i in range(0, len(blocks), each)]
    return statistics.stdev(means) / math.sqrt(STRETCHES)


@dataclass(frozen=True)
class Comparison:
    """One pair of a figure.

    Args:
        values: the differences, by seed.
        mean: of the differences.
        low, high: an interval that leaves 0 out exactly where the pair is told apart.
        p: the corrected p-value.
        told_apart: whether it is at most ``LEVEL``.
        error: the standard error of the mean, from the figure's spread over seeds and the choice of rates.
    """

    values: list[float]
    mean: float
    low: float
    high: float
    p: float
    told_apart: bool
    error: float

    def __str__(self) -> str:
        verdict = "" if self.told_apart else ", not told apart"
        return f"{self.mean:+.3f}  [{self.low:+.3f}, {self.high:+.3f}]{verdict}"


def standard_error(spread: float, seeds: int, rate_error: float) -> float:
    r""":math:`\sqrt{s^2 / n + 2 r^2}`: of a mean over ``seeds``, and of the rates of both sides.

    Raises:
        ValueError: if the spread is 0, so that nothing says what chance does.
    """
    require(spread > 0, "the spread of the differences", spread, "more than 0: runs with other seeds differ")
    return math.sqrt(spread**2 / seeds + 2 * rate_error**2)


def compare(pairs: Mapping[str, tuple[Losses, Losses]], *, rate_error: float = RATE_ERROR) -> dict[str, Comparison]:
    r"""The pairs of one figure: who is lower, by how much, and whether that can be told.

    A pair's statistic is :math:`t = \bar d / e` with :math:`e = \sqrt{s^2 / n + 2 r^2}`, :math:`s` from
    :func:`pooled_spread` over the figure and :math:`r` the error of a rate; its p-value is Student's with that
    spread's degrees of freedom, corrected by :func:`holm`. The interval is
    :math:`\bar d \pm t_{1 - \alpha / 2}\, e`, where :math:`\alpha` is ``LEVEL`` divided by the number that Holm's
    method divides by for this pair; from the first pair on that it does not tell apart, by that pair's number.

    Args:
        pairs: for each name, the losses by seed of one model and of the one that it is compared with.
        rate_error: of each side, in the unit of the losses; 0 where the rates were given.

    Raises:
        ValueError: if there are no pairs, all differences of each are the same, so that nothing says what chance does,
            or as for :func:`paired`.
    """
    from scipy import stats  # heavy libraries are imported where they are used

    require(len(pairs) > 0, "pairs", dict(pairs), "at least one pair")
    differences = {name: paired(*sides) for name, sides in pairs.items()}
    spread, freedom = pooled_spread(list(differences.values()))
    means = {name: statistics.fmean(values) for name, values in differences.items()}
    errors = {name: standard_error(spread, len(values), rate_error) for name, values in differences.items()}
    raw = {name: 2 * float(stats.t.sf(abs(means[name]) / errors[name], freedom)) for name in pairs}
    corrected = dict(zip(pairs, holm(list(raw.values())), strict=True))
    found, divisor = {}, len(pairs)
    for name in sorted(pairs, key=raw.__getitem__):
        apart = corrected[name] <= LEVEL
        half = errors[name] * float(stats.t.ppf(1 - LEVEL / divisor / 2, freedom))
        mean = means[name]
        found[name] = Comparison(
            differences[name], mean, mean - half, mean + half, corrected[name], apart, errors[name]
        )
        divisor -= apart
    return {name: found[name] for name in pairs}


def regrouped(
    lists: Mapping[str, Mapping[str, tuple[Losses, Losses]]], *, rate_error: float = RATE_ERROR
) -> dict[str, tuple[str, ...]]:
    """In which groupings a verdict of :func:`compare` is another one; none: it holds in every grouping.

    Which pairs make a list, and that all of a list spread alike, are choices; these are the others:

    - *one list*: all pairs are corrected together, with one spread;
    - *own spreads*: each pair has the spread of its own seeds, in its list, and in one list of all;
    - *Dunnett*: all that are compared with one control, unpaired, by Dunnett's exact test.

    Args:
        lists: for each list, as it was declared, its pairs: as for :func:`compare`.
        rate_error: as for :func:`compare`.

    Raises:
        ValueError: if two lists have a name of a pair in common, or as for :func:`compare`.
    """
    together = {name: sides for pairs in lists.values() for name, sides in pairs.items()}
    names = [name for pairs in lists.values() for name in pairs]
    require(len(together) == len(names), "the names of pairs", names, "names that differ")
    declared: dict[str, bool] = {}
    in_lists: dict[str, bool] = {}
    for pairs in lists.values():
        declared |= {name: c.told_apart for name, c in compare(pairs, rate_error=rate_error).items()}
        in_lists |= _with_own_spreads(pairs, rate_error)
    in_one = {name: c.told_apart for name, c in compare(together, rate_error=rate_error).items()}
    others = {
        "one list": [in_one],
        "own spreads": [in_lists, _with_own_spreads(together, rate_error)],
        "Dunnett": [_by_dunnett(together, rate_error)],
    }
    return {
        name: tuple(kind for kind, found in others.items() if any(each[name] != verdict for each in found))
        for name, verdict in declared.items()
    }


def _with_own_spreads(pairs: Mapping[str, tuple[Losses, Losses]], rate_error: float) -> dict[str, bool]:
    """Which pairs are told apart by Student's test of each alone, corrected by Holm's method."""
    p_values = [compare({"": sides}, rate_error=rate_error)[""].p for sides in pairs.values()]
    return {name: p <= LEVEL for name, p in zip(pairs, holm(p_values), strict=True)}


def _by_dunnett(pairs: Mapping[str, tuple[Losses, Losses]], rate_error: float) -> dict[str, bool]:
    """Which pairs are told apart where each control is compared with all that name it.

    All have as many seeds, so that any two differences from a control have a correlation of a half.

    Source: Dunnett, A Multiple Comparison Procedure for Comparing Several Treatments with a Control, 1955.
    """
    from scipy import stats  # heavy libraries are imported where they are used

    by_control: dict[tuple[tuple[int, float], ...], list[str]] = {}
    for name, (_, theirs) in pairs.items():
        by_control.setdefault(tuple(sorted(theirs.items())), []).append(name)
    found: dict[str, bool] = {}
    for control, names in by_control.items():
        losses = [[loss for _, loss in control], *(list(pairs[name][0].values()) for name in names)]
        spread, freedom = pooled_spread(losses)
        error = standard_error(math.sqrt(2) * spread, len(control), rate_error)
        middle, *means = map(statistics.fmean, losses)
        alike = [[1.0 if i == j else 0.5 for i in range(len(names))] for j in range(len(names))]
        both = stats.multivariate_t(shape=alike, df=freedom, seed=0)  # the integral is drawn at random
        for name, mean in zip(names, means, strict=True):
            reach = [abs(mean - middle) / error] * len(names)
            found[name] = bool(1 - both.cdf(reach, lower_limit=[-t for t in reach]) <= LEVEL)
    return found


def signed(difference: float) -> str:
    """With its sign, which a zero has not."""
    text = f"{difference:+.3f}"
    return text.replace("-", "−") if float(text) else text[1:]


Word = Literal["better", "worse", "as good", "cannot tell"]
ALIKE = 0.024
"""Two models are *as good* where the whole interval lies within so many nats of 0.

It is the smallest bound that half of the pairs without a difference meet, with five seeds and rates chosen on one:
``tests/package/test_error_rate.py`` draws them.
"""


def word_for(comparison: Comparison, undone: Sequence[str] = ()) -> Word:
    """What a comparison says of the first model's loss, in one of four words.

    Args:
        comparison: of the losses, the first model's minus the second's.
        undone: the groupings that give another verdict, of :func:`regrouped`.
    """
    if comparison.told_apart and not undone:
        return "better" if comparison.mean < 0 else "worse"
    return "as good" if max(-comparison.low, comparison.high) <= ALIKE else "cannot tell"


@dataclass(frozen=True)
class Crossing:
    """Where a difference changes its sign, on a logarithmic axis.

    Args:
        at: the place, by linear interpolation in its logarithm.
        low, high: the places between which 0 lies in the interval of the interpolated difference.
        open_below, open_above: whether the interval reaches the first or the last place measured, so that it may be
            wider than can be seen.
    """

    at: float
    low: float
    high: float
    open_below: bool
    open_above: bool

    def __str__(self) -> str:
        low, high = f"{self.low:,.0f}", f"{self.high:,.0f}"
        return f"{self.at:,.0f}  [{'≤ ' if self.open_below else ''}{low}, {'≥ ' if self.open_above else ''}{high}]"


def crossing(differences: Mapping[float, Sequence[float]]) -> Crossing | None:
    r"""Where, along budgets or sizes, one model overtakes another; None: no crossing seen.

    Between neighbors :math:`a < b` the difference is :math:`d(x) = (1 - w)\, \bar d_a + w\, \bar d_b` with
    :math:`w = \log(x / a) / \log(b / a)`. Its standard error is taken to be that of one place, as in :func:`compare`,
    with the spread :math:`s` pooled over all places and the fewest seeds: it would be smaller between two places if
    their errors were independent, but they may share a reference. The interval holds the places around the crossing
    where :math:`d(x)` is closer to 0 than t standard errors. That the true curve is straight between two places is
    supposed, not tested.

    With one model's runs annealed at several lengths, minus the other's at one, it is the number of steps that the
    first model needs to reach the loss of the second.

    Args:
        differences: for each place, a number above 0, the differences by seed.

    Raises:
        ValueError: if there are fewer than two places or one is not above 0, or no place has two values.
    """
    from scipy import stats  # heavy libraries are imported where they are used

    places = sorted(differences)
    require(len(places) > 1 and places[0] > 0, "differences", places, "at least two places, above 0")
    means = [statistics.fmean(differences[x]) for x in places]
    starts = [i for i in range(len(places) - 1) if (means[i] < 0) != (means[i + 1] < 0)]
    if not starts:
        return None
    spread, freedom = pooled_spread([differences[x] for x in places])
    error = standard_error(spread, min(map(len, differences.values())), RATE_ERROR)
    reach = float(stats.t.ppf(1 - LEVEL / 2, freedom)) * error
    points = 2000  # how finely each stretch between neighbors is looked at
    x = np.concatenate([*(np.geomspace(a, b, points, endpoint=False) for a, b in pairwise(places)), places[-1:]])
    between = np.interp(np.log(x), np.log(places), means)
    clear = np.flatnonzero(np.abs(between) > reach)  # 0 is not in the interval there
    first = starts[0]  # the first change of sign; a curve may have more
    w = means[first] / (means[first] - means[first + 1])
    at = places[first] ** (1 - w) * places[first + 1] ** w
    nearest = first * points + round(w * points)
    low, high = clear[clear < nearest].max(initial=-1) + 1, clear[clear > nearest].min(initial=len(x)) - 1
    below, above = low == 0 and 0 not in clear, high == len(x) - 1 and high not in clear
    return Crossing(at, min(at, float(x[low])), max(at, float(x[high])), bool(below), bool(above))


def steps_to_loss(lengths: Mapping[int, Losses], reference: Losses) -> Crossing | None:
    """How many steps, annealed to their own end, reach the loss of ``reference``: :func:`crossing` of the differences.

    Args:
        lengths: for each number of steps, the losses by seed of runs that were annealed to it.
        reference: the losses by seed that are to be reached.

    Raises:
        ValueError: as for :func:`paired` and :func:`crossing`.
    """
    return crossing({steps: paired(losses, reference) for steps, losses in lengths.items()})
