"""How often the whole rule is wrong: rates chosen on one seed, five reported seeds, five pairs with one baseline.

The losses are made up, and vary as those of the records: a run by 0.0094 nats around its model's mean, of which 0.0062
go with rate and seed together, and a model's loss rises by 0.027 per squared octave from its best rate.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from efficient_transformers.judging.evidence import ALIKE, RATE_ERROR, compare
from efficient_transformers.judging.protocol import RATES, SEEDS, Entry, chosen_rate, tuning_trials

SPREAD, RATE_AND_SEED, CURVATURE = 0.0094, 0.0062, 0.027
TRIALS = 1000
SIZES = {"seq_len": 256, "batch_size": 4, "blocks": 49, "size": "0.8M"}
ENTRY = Entry(name="a model", model="transformer", steps=500, corpus="shakespeare-with-test", **SIZES)


def octaves(rate):
    return math.log2(rate / RATES[0])


class Model:
    """Losses by rate and seed of a model whose best rate and whose noise are drawn; its rate is tuned by the rule."""

    def __init__(self, generator):
        self.generator, self.best = generator, generator.uniform(1.25, 1.75)
        self.of_seed, self.of_run = {}, {}
        records = []
        while trials := tuning_trials(ENTRY, records):
            records += [
                {
                    "role": trial.role,
                    "run": trial.entry.describe(trial.rate, trial.seed),
                    "validation": {"loss": self.loss(trial.rate, trial.seed)},
                }
                for trial in trials
            ]
        self.rate = chosen_rate(ENTRY, records)

    def loss(self, rate, seed):
        own = math.sqrt(SPREAD**2 - RATE_AND_SEED**2)
        of_seed = self.of_seed.setdefault(seed, self.generator.normal(0, own))
        of_run = self.of_run.setdefault((rate, seed), self.generator.normal(0, RATE_AND_SEED))
        return self.cost(rate) + of_seed + of_run

    def cost(self, rate):
        return CURVATURE * (octaves(rate) - self.best) ** 2

    def reported(self, lead=0.0):
        return {seed: self.loss(self.rate, seed) - lead for seed in SEEDS}


@pytest.fixture(scope="module")
def trials():
    generator = np.random.default_rng(0)
    return [[Model(generator) for _ in range(6)] for _ in range(TRIALS)]


def share(trials, verdict):
    return sum(map(verdict, trials)) / len(trials)


def five(models, lead=0.0, rate_error=RATE_ERROR):
    """The five pairs with the baseline, of which the first has a lead."""
    baseline, first, *others = models
    sides = [first.reported(lead), *(model.reported() for model in others)]
    pairs = {f"{i}": (side, baseline.reported()) for i, side in enumerate(sides)}
    return [*compare(pairs, rate_error=rate_error).values()]


def test_a_rate_chosen_on_one_seed_costs_what_the_intervals_hold(trials):
    costs = [model.cost(model.rate) for models in trials for model in models]
    assert np.std(costs) == pytest.approx(RATE_ERROR, rel=0.1)


def test_five_pairs_without_a_difference_are_told_apart_rarely_and_too_often_without_the_rates_error(trials):
    wrong = share(trials, lambda models: any(one.told_apart for one in five(models)))
    assert 0.02 <= wrong <= 0.05
    assert share(trials, lambda models: any(one.told_apart for one in five(models, rate_error=0.0))) > 0.08


def test_a_true_lead_is_found(trials):
    assert share(trials, lambda models: five(models, lead=0.03)[0].told_apart) >= 0.9
    assert share(trials, lambda models: five(models, lead=0.056)[0].told_apart) == 1


@pytest.mark.parametrize(("lead", "least", "most"), [(0.03, 0.92, 0.98), (0.02, 0.55, 0.7), (0.01, 0.1, 0.19)])
def test_the_two_questions_of_a_card_find_what_the_readme_says(trials, lead, least, most):
    def found(models):
        pairs = {ours: (models[ours].reported(lead), models[ours - 1].reported()) for ours in (1, 3)}
        return compare(pairs)[1].told_apart

    assert least <= share(trials[:400], found) <= most


def test_half_of_the_pairs_without_a_difference_are_as_good(trials):
    reach = [max(-one.low, one.high) for models in trials for one in five(models)]
    assert np.median(reach) == pytest.approx(ALIKE, abs=0.001)
