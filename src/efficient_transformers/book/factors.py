"""Whether a lead lasts: how many times fewer steps reach the baseline's loss.

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

from ..judging.evidence import LEVEL, Losses
from ..support.checks import require

DRAWS = 2000


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

    def interval(self) -> tuple[float, float]:
        """Student's, on the logarithm."""
        from scipy import stats  # heavy libraries are imported where they are used

        reach = math.exp(float(stats.t.ppf(1 - LEVEL / 2, self.freedom)) * self.error)
        return self.value / reach, self.value * reach

    def in_time(self, ratio: float) -> Factor:
        """The same in seconds, where a step takes ``ratio`` times as long as the baseline's."""
        require(ratio > 0, "ratio", ratio, "more than 0")
        return replace(self, value=self.value / ratio)

    def __str__(self) -> str:
        low, high = self.interval()
        return f"{self.value:.2f}  [{low:.2f}, {high:.2f}]"


def factor(reference: Mapping[int, Losses], curve: Mapping[int, Losses]) -> Factor | None:
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

    Raises:
        ValueError: if no run of the baseline, or fewer than two lengths of the model are given, or if one has fewer
            than two seeds.
    """
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
        residuals = []
        for losses in groups:  # as large as those from the true mean are expected to be
            mean, scale = statistics.fmean(losses.values()), math.sqrt(len(losses) / (len(losses) - 1))
            residuals += [(loss - mean) * scale for loss in losses.values()]
        generator, found = random.Random(0), []
        for _ in range(DRAWS):
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
