"""The protocol: what comes next follows from the records, and a run's record has what its role allows."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import pytest

from efficient_transformers import build_model, load_corpus
from efficient_transformers.judging import trials
from efficient_transformers.judging.protocol import (
    RATES,
    SEEDS,
    TUNING_SEED,
    Entry,
    Trial,
    chosen_rate,
    tuning_trials,
)
from efficient_transformers.judging.trials import execute_trial

pytestmark = pytest.mark.slow

TINY = {"d_model": 8, "n_layers": 1, "n_heads": 2}


def entry(name="one", **changes):
    made = {"name": name, "model": "transformer", "options": TINY, "steps": 3, "seq_len": 16, "batch_size": 64}
    return Entry(**made | {"corpus": "shakespeare-with-test", "blocks": 1, "size": "tiny"} | changes)


ONE = entry()


def record(role="tuning", rate=4e-3, seed=TUNING_SEED, loss=2.0, of=ONE):
    """What a run would leave."""
    made = {
        "commit": "0" * 40,
        "started": "2026-01-01T00:00:00+00:00",
        "role": role,
        "run": of.describe(rate, seed),
        "metrics": [{"step": 0, "validation_loss": 4.0}, {"step": of.steps, "validation_loss": 2.0}],
        "validation": {"part": "validation", "loss": loss, "targets": 50_176},
        "device": "cpu",
    }
    if role == "reported":
        made["test"] = {"part": "test", "loss": loss, "targets": 200_704}
    return json.loads(json.dumps(made))


def tuning(losses):
    return [record(rate=rate, loss=loss) for rate, loss in losses.items()]


TUNED = tuning({2e-3: 2.4, 4e-3: 2.0, 8e-3: 2.3, 2.83e-3: 2.2, 5.66e-3: 2.1})
BEST = 4e-3


def test_the_first_rates_come_on_the_tuning_seed():
    trials = tuning_trials(ONE, [])
    assert [(t.role, t.rate, t.seed) for t in trials] == [("tuning", rate, TUNING_SEED) for rate in RATES]
    assert [t.rate for t in tuning_trials(ONE, TUNED[1:])] == [RATES[0]]
    assert TUNING_SEED not in SEEDS


def test_the_two_rates_beside_the_best_come_last_and_may_be_better():
    trials = tuning_trials(ONE, TUNED[:3])
    assert [(t.role, t.rate, t.seed) for t in trials] == [("tuning", r, TUNING_SEED) for r in (2.83e-3, 5.66e-3)]
    assert [t.rate for t in tuning_trials(ONE, TUNED[:4])] == [5.66e-3]
    assert chosen_rate(ONE, TUNED[:4]) is None
    assert chosen_rate(ONE, TUNED) == BEST
    assert chosen_rate(ONE, [*TUNED[:4], record(rate=5.66e-3, loss=1.9)]) == 5.66e-3


def test_at_least_five_rates_are_tried_and_the_best_lies_between_neighbors_a_factor_root_two_away():
    generator = random.Random(0)
    for _ in range(200):
        center = generator.uniform(math.log2(1e-4), math.log2(0.1))
        tried = {}
        while trials := tuning_trials(ONE, tuning(tried)):
            tried[trials[0].rate] = (math.log2(trials[0].rate) - center) ** 2 + generator.uniform(0, 0.05)
        best, grid = chosen_rate(ONE, tuning(tried)), sorted(tried)
        place = grid.index(best)
        assert len(grid) >= 5
        assert 0 < place < len(grid) - 1
        assert [grid[place + 1] / best, best / grid[place - 1]] == pytest.approx([2**0.5] * 2, rel=0.01)
        assert abs(math.log2(best) - center) < 0.5


@pytest.mark.parametrize(("losses", "expected"), [((1.0, 2.0, 3.0), 1e-3), ((3.0, 2.0, 1.0), 1.6e-2)], ids=str)
def test_a_grid_whose_best_is_at_its_edge_is_extended(losses, expected):
    tried = dict(zip(RATES, losses, strict=True))
    (trial,) = tuning_trials(ONE, tuning(tried))
    assert (trial.role, trial.rate) == ("tuning", expected)
    assert chosen_rate(ONE, tuning(tried)) is None
    inside = tuning(tried | {expected: 1.5})
    assert len(tuning_trials(ONE, inside)) == 2


def test_a_rate_at_which_training_broke_down_is_never_the_best():
    broken = tuning({2e-3: 2.2, 4e-3: 2.0, 8e-3: None, 2.83e-3: 2.1, 5.66e-3: None})
    assert chosen_rate(ONE, broken) == 4e-3


def test_extension_has_an_end():
    with pytest.raises(ValueError, match=r"the best rate of 'one, .*; expected one inside the grid"):
        tuning_trials(ONE, tuning({2e-3 * 2**i: 20.0 - i for i in range(11)}))


ROUGH = {2e-3: 2.4, 4e-3: 2.02, 8e-3: 2.01, 1.6e-2: 2.2, 5.66e-3: 2.06, 1.13e-2: 2.1}


def test_where_the_curve_is_not_smooth_three_seeds_choose_between_the_three_lowest_rates():
    close = [4e-3, 5.66e-3, 8e-3]
    trials = tuning_trials(ONE, tuning(ROUGH))
    assert [(t.role, t.seed, t.rate) for t in trials] == [("tuning", s, r) for s in (101, 102) for r in close]
    assert chosen_rate(ONE, tuning(ROUGH)) is None
    losses = {101: {4e-3: 2.01, 5.66e-3: 2.0, 8e-3: 2.2}, 102: {4e-3: 2.1, 5.66e-3: 2.0, 8e-3: 2.2}}
    more = [record(rate=rate, seed=seed, loss=losses[seed][rate]) for seed in losses for rate in close]
    assert {t.role for t in tuning_trials(ONE, tuning(ROUGH) + more[1:])} == {"tuning"}
    assert chosen_rate(ONE, tuning(ROUGH) + more) == 5.66e-3  # the mean of 2.06, 2.0 and 2.0
    assert tuning_trials(ONE, tuning(ROUGH) + more) == []


@pytest.fixture
def small(on_the_cpu, monkeypatch):
    """Samples that a test has time for, and a small text in three parts."""
    text = load_corpus("shakespeare-with-test")
    cut = replace(text, train=text.train[:9000], validation=text.validation[:9000], test=text.test[:9000])
    monkeypatch.setattr(trials, "load_corpus", lambda name, tokens: cut)


def test_a_record_has_what_its_role_allows(small):
    tuned, first, second, again = (
        execute_trial(Trial(ONE, role, 8e-3, seed), build_model, show_progress=False)
        for role, seed in (("tuning", TUNING_SEED), ("reported", 0), ("reported", 1), ("reported", 0))
    )
    assert first["test"] == again["test"]
    assert first["test"]["loss"] != second["test"]["loss"]
    assert "test" not in tuned
    assert tuned["validation"]["targets"] == 1024
    assert set(first["versions"]) == {"torch", "python"}
    assert first["device"] == "cpu"
    assert first["parameters"] == sum(p.numel() for p in build_model("transformer", vocab_size=79, **TINY).parameters())


def test_a_rate_at_which_training_breaks_down_has_a_record_and_a_reported_run_has_none(small, monkeypatch):
    original = trials.train

    def unstable(model, corpus, config, **options):
        model.embedding.weight.register_hook(lambda gradient: gradient * math.nan)
        return original(model, corpus, config, **options)

    monkeypatch.setattr(trials, "train", unstable)
    broken = execute_trial(Trial(ONE, "tuning", 8e-3, TUNING_SEED), build_model, show_progress=False)
    assert broken["validation"]["loss"] is None
    assert "the training loss of step 2 is nan; the learning rate was" in broken["validation"]["broke_down"]
    assert [m["step"] for m in broken["metrics"]] == [0]
    with pytest.raises(FloatingPointError, match="the training loss of step 2 is nan"):
        execute_trial(Trial(ONE, "reported", 8e-3, 0), build_model, show_progress=False)


def test_a_reported_run_whose_score_is_not_finite_is_no_record(monkeypatch):
    monkeypatch.setattr(trials, "scored", lambda *_: {"part": "test", "loss": None})
    with pytest.raises(FloatingPointError, match=r"a score of .*, seed 0, is not finite"):
        execute_trial(Trial(ONE, "reported", 8e-3, 0), build_model, show_progress=False)
