"""Whether a lead lasts: how many times fewer steps reach the baseline's loss, and how that changes with compute.

What is notable:
- a factor is read at a loss of the baseline, on the model's curve through runs that were annealed at several lengths;
- what lies beyond the shortest or the longest run is not read;
- intervals are of seeds: residuals are drawn again from those of all runs of both models, since two seeds say little.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from ..checks import require, require_int, require_probability
from .evidence import Losses, holm

DRAWS = 2000
MARGIN = 0.05  # of a slope: within it, a factor changes by less than a fifth while compute grows 40 times

Verdict = Literal["grows", "stays", "shrinks", "undecided"]


@dataclass(frozen=True)
class Factor:
    """How many times as many steps the baseline makes until it has a loss.

    Args:
        value: the factor.
        error: the standard error of its logarithm, over seeds.
        freedom: the degrees of freedom of the error.
        steps: of the baseline, whose loss it is read at.
    """

    value: float
    error: float
    freedom: int
    steps: int

    def interval(self, level: float = 0.05) -> tuple[float, float]:
        """Student's, on the logarithm."""
        from scipy import stats  # heavy libraries are imported where they are used

        require_probability("level", level)
        reach = math.exp(float(stats.t.ppf(1 - level / 2, self.freedom)) * self.error)
        return self.value / reach, self.value * reach

    def in_time(self, ratio: float) -> Factor:
        """The same in seconds, where a step takes ``ratio`` times as long as the baseline's."""
        require(ratio > 0, "ratio", ratio, "more than 0")
        return replace(self, value=self.value / ratio)

    def __str__(self) -> str:
        low, high = self.interval()
        return f"{self.value:.2f}  [{low:.2f}, {high:.2f}]"


def factor(reference: Mapping[int, Losses], curve: Mapping[int, Losses], *, draws: int = DRAWS) -> Factor | None:
    r"""How many times fewer steps a model needs for a loss of the baseline; None where its runs do not enclose one.

    Read at the longest budget :math:`N` of the baseline whose mean loss lies on the model's curve: between neighbors
    :math:`a < b` of the curve, the loss is taken to be linear in :math:`\log n`, so that it is reached at
    :math:`\log n = \log a + \frac{L_a - L}{L_a - L_b} \log \frac b a`, and the factor is :math:`N / n`.

    The standard error of its logarithm is found by drawing: each mean gets the mean of as many residuals as it has
    seeds, drawn from those of all runs given, each times :math:`\sqrt{m / (m - 1)}` for the m seeds of its run. A draw
    reads on the line through a and b, and beyond them too. What the two sides share, by the same batches, is not used,
    so that the error is rather too large.

    Args:
        reference: the baseline's losses by seed, for each number of steps.
        curve: the model's, for each number of steps that its runs were annealed at.
        draws: how many.

    Raises:
        TypeError: if ``draws`` is not an int.
        ValueError: if it is less than 2, if no run of the baseline, or fewer than two lengths of the model are given,
            or if one has fewer than two seeds.
    """
    require_int("draws", draws, at_least=2)
    require(len(reference) > 0, "reference", dict(reference), "losses at one number of steps, or more")
    require(len(curve) > 1, "curve", sorted(curve), "at least two numbers of steps")
    groups = [*reference.values(), *curve.values()]
    fewest = min(map(len, groups))
    require(fewest > 1, "the seeds", fewest, "at least two of every length")
    means = {steps: statistics.fmean(losses.values()) for steps, losses in curve.items()}
    for steps in sorted(reference, reverse=True):
        loss = statistics.fmean(reference[steps].values())
        for a, b in pairwise(sorted(curve)):
            if means[a] >= loss >= means[b] and means[a] > means[b]:
                break
        else:
            continue
        residuals = [residual for losses in groups for residual in _residuals(losses)]
        generator, found = random.Random(0), []
        for _ in range(draws):
            theirs, first, second = (
                mean + statistics.fmean(generator.choices(residuals, k=len(losses)))
                for mean, losses in ((loss, reference[steps]), (means[a], curve[a]), (means[b], curve[b]))
            )
            if first <= second:  # the seeds do not tell that the curve falls here
                return None
            found.append(math.log(steps / a) - (first - theirs) / (first - second) * math.log(b / a))
        reached = a * (b / a) ** ((means[a] - loss) / (means[a] - means[b]))
        return Factor(steps / reached, statistics.stdev(found), sum(len(losses) - 1 for losses in groups), steps)
    return None


def _residuals(losses: Losses) -> list[float]:
    """Losses less their mean, as large as those from the true mean are expected to be."""
    mean, count = statistics.fmean(losses.values()), len(losses)
    return [(loss - mean) * math.sqrt(count / (count - 1)) for loss in losses.values()]


@dataclass(frozen=True)
class Trend:
    """How a factor changes with compute.

    Args:
        slope: of its logarithm against the logarithm of compute.
        low, high: an interval that leaves 0 out exactly where the slope is told from 0.
        p: that the slope is 0, two-sided, corrected for the number of models.
        verdict: ``"stays"`` if the interval lies within ±0.05; else ``"grows"`` or ``"shrinks"`` if it leaves 0 out;
            else ``"undecided"``.
    """

    slope: float
    low: float
    high: float
    p: float
    verdict: Verdict

    def __str__(self) -> str:
        return f"{self.slope:+.3f}  [{self.low:+.3f}, {self.high:+.3f}], p = {self.p:.3f}: {self.verdict}"


def trends(models: Mapping[str, Mapping[float, Factor]], level: float = 0.05) -> dict[str, Trend]:
    r"""Of each model, the slope of :math:`\log F` against :math:`\log C` and its verdict.

    The slope is that of least squares; its error follows from those of the factors, which are independent between
    sizes; p-values are Student's with the fewest degrees of freedom among the sizes, corrected by Holm's method.

    Args:
        models: for each model its factors, by the compute that the baseline spent, in any unit.
        level: the chance that any of the models is told to change, if none does.

    Raises:
        ValueError: if there is no model, one has factors at fewer than two sizes, or a compute is not above 0.
    """
    from scipy import stats  # heavy libraries are imported where they are used

    require_probability("level", level)
    require(len(models) > 0, "models", dict(models), "at least one")
    lines = {name: _line(factors) for name, factors in models.items()}
    raw = {
        name: 2 * float(stats.t.sf(abs(slope) / error, freedom)) if error else float(slope == 0)
        for name, (slope, error, freedom) in lines.items()
    }
    corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
    found, divisor = {}, len(models)
    for name in sorted(raw, key=raw.__getitem__):
        slope, error, freedom = lines[name]
        apart = corrected[name] <= level
        half = error * float(stats.t.ppf(1 - level / divisor / 2, freedom))
        verdict: Verdict = "undecided"
        if slope - half > -MARGIN and slope + half < MARGIN:
            verdict = "stays"
        elif apart:
            verdict = "grows" if slope > 0 else "shrinks"
        found[name] = Trend(slope, slope - half, slope + half, corrected[name], verdict)
        divisor -= apart
    return {name: found[name] for name in models}


def _line(factors: Mapping[float, Factor]) -> tuple[float, float, int]:
    """The slope through factors, its standard error, and its degrees of freedom."""
    computes = sorted(factors)
    require(len(computes) > 1 and computes[0] > 0, "the compute", computes, "at least two sizes, above 0")
    logs = [math.log(compute) for compute in computes]
    middle = statistics.fmean(logs)
    square = sum((x - middle) ** 2 for x in logs)
    weights = [(x - middle) / square for x in logs]
    slope = sum(w * math.log(factors[c].value) for w, c in zip(weights, computes, strict=True))
    error = math.hypot(*(w * factors[c].error for w, c in zip(weights, computes, strict=True)))
    return slope, error, min(factors[c].freedom for c in computes)
