"""The protocol: what comes next follows from the records, and records that break a rule are refused."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import pytest

from efficient_transformers import TrainingConfig, build_model, load_corpus
from efficient_transformers.studies import trials
from efficient_transformers.studies.protocol import (
    RATES,
    SEEDS,
    TUNING_SEED,
    Entry,
    Study,
    Trial,
    chosen_rate,
    tuning_trials,
)
from efficient_transformers.studies.records import step_key
from efficient_transformers.studies.trials import execute_trial

pytestmark = pytest.mark.slow

TINY = {"d_model": 8, "n_layers": 1, "n_heads": 2}
OF_ONE_PAIR = "gMLP and two layers in its time, context 1,024"  # nothing is corrected; declared by itself
FEWER_SEEDS = {"eight-thousand": 3, "shut-for-long": 3, "size-64": 3, "size-128": 3, "size-256": 2}


def entry(name="one", **changes):
    return Entry(
        **{"name": name, "model": "transformer", "options": TINY, "steps": 3, "seq_len": 16, "batch_size": 64} | changes
    )


ONE = entry()
STUDY = Study("tiny", "Is it so?", (ONE, entry("two")), {"figure": ((ONE.key, entry("two").key),)})


def record(role="tuning", rate=2e-3, seed=TUNING_SEED, loss=2.0, of=ONE):
    """What a run would leave."""
    made = {
        "protocol": 3,
        "study": "tiny",
        "declaration": STUDY.checksum,
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


TUNED = tuning({1e-3: 2.4, 2e-3: 2.0, 4e-3: 2.3, 1.41e-3: 2.2, 2.83e-3: 2.1})
BEST = 2e-3


def test_another_decay_is_declared_and_trained_with():
    other = entry("one, no decay", weight_decay=0.0)
    assert "weight_decay" not in ONE.declared
    assert other.declared["weight_decay"] == 0.0
    assert (ONE.training["weight_decay"], other.training["weight_decay"]) == (0.1, 0.0)
    with pytest.raises(ValueError, match="weight_decay is -1; expected 0 or more"):
        entry(weight_decay=-1)


def test_another_optimizer_is_declared_and_trained_with():
    other = entry("one, Muon", optimizer="muon")
    assert "optimizer" not in ONE.declared | ONE.training
    assert other.declared["optimizer"] == other.training["optimizer"] == "muon"
    assert step_key(other.describe(1.0, 0)) != step_key(ONE.describe(1.0, 0))
    with pytest.raises(ValueError, match="optimizer is 'moun'; expected one of 'adamw', 'muon'"):
        entry(optimizer="moun")
    assert TrainingConfig(**other.describe(1.0, 0)["training"]).optimizer == "muon"


def test_the_first_rates_come_on_the_tuning_seed():
    trials = tuning_trials(ONE, [])
    assert [(t.role, t.rate, t.seed) for t in trials] == [("tuning", rate, TUNING_SEED) for rate in RATES]
    assert [t.rate for t in tuning_trials(ONE, TUNED[1:])] == [RATES[0]]
    assert TUNING_SEED not in SEEDS


def test_the_two_rates_beside_the_best_come_last_and_may_be_better():
    trials = tuning_trials(ONE, TUNED[:3])
    assert [(t.role, t.rate, t.seed) for t in trials] == [("tuning", r, TUNING_SEED) for r in (1.41e-3, 2.83e-3)]
    assert [t.rate for t in tuning_trials(ONE, TUNED[:4])] == [2.83e-3]
    assert chosen_rate(ONE, TUNED[:4]) is None
    assert chosen_rate(ONE, TUNED) == BEST
    assert chosen_rate(ONE, [*TUNED[:4], record(rate=2.83e-3, loss=1.9)]) == 2.83e-3


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


@pytest.mark.parametrize(("losses", "expected"), [((1.0, 2.0, 3.0), 5e-4), ((3.0, 2.0, 1.0), 8e-3)], ids=str)
def test_a_grid_whose_best_is_at_its_edge_is_extended(losses, expected):
    tried = dict(zip(RATES, losses, strict=True))
    (trial,) = tuning_trials(ONE, tuning(tried))
    assert (trial.role, trial.rate) == ("tuning", expected)
    assert chosen_rate(ONE, tuning(tried)) is None
    inside = tuning(tried | {expected: 1.5})
    assert len(tuning_trials(ONE, inside)) == 2


def test_a_rate_at_which_training_broke_down_is_never_the_best():
    broken = tuning({1e-3: 2.2, 2e-3: 2.0, 4e-3: None, 1.41e-3: 2.1, 2.83e-3: None})
    assert chosen_rate(ONE, broken) == 2e-3


def test_extension_has_an_end():
    with pytest.raises(ValueError, match=r"the best rate of 'one, .*; expected one inside the grid"):
        tuning_trials(ONE, tuning({1e-3 * 2**i: 20.0 - i for i in range(11)}))


ROUGH = {1e-3: 2.4, 2e-3: 2.02, 4e-3: 2.01, 8e-3: 2.2, 2.83e-3: 2.06, 5.66e-3: 2.1}


def test_where_the_curve_is_not_smooth_three_seeds_choose_between_the_three_lowest_rates():
    close = [2e-3, 2.83e-3, 4e-3]
    trials = tuning_trials(ONE, tuning(ROUGH))
    assert [(t.role, t.seed, t.rate) for t in trials] == [("tuning", s, r) for s in (101, 102) for r in close]
    assert chosen_rate(ONE, tuning(ROUGH)) is None
    losses = {101: {2e-3: 2.01, 2.83e-3: 2.0, 4e-3: 2.2}, 102: {2e-3: 2.1, 2.83e-3: 2.0, 4e-3: 2.2}}
    more = [record(rate=rate, seed=seed, loss=losses[seed][rate]) for seed in losses for rate in close]
    assert {t.role for t in tuning_trials(ONE, tuning(ROUGH) + more[1:])} == {"tuning"}
    assert chosen_rate(ONE, tuning(ROUGH) + more) == 2.83e-3  # the mean of 2.06, 2.0 and 2.0
    assert tuning_trials(ONE, tuning(ROUGH) + more) == []


def test_a_rule_of_a_later_protocol_changes_no_older_study():
    old = [r | {"protocol": 2} for r in tuning(ROUGH)]
    assert chosen_rate(replace(ONE, protocol=2), old) == 4e-3


def test_a_given_rate_is_not_tuned():
    given = entry(rate=1e-3)
    assert tuning_trials(given, []) == []
    assert chosen_rate(given, []) == 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 1}, "steps is 1; expected more than warmup_steps=1"),
        ({"steps": 100, "warmup_steps": 100}, "steps is 100; expected more than warmup_steps=100: a run is annealed"),
        ({"steps": 0}, "steps is 0; expected an int of at least 1"),
        ({"seeds": (0, TUNING_SEED)}, r"without \(100, 101, 102\), which are for tuning"),
        ({"seeds": (0, 0)}, "each once"),
        ({"rates": RATES[:2]}, "at least three"),
        ({"rates": (1e-3, 3e-3, 9e-3)}, "each twice the one before"),
        ({"rates": tuple(reversed(RATES))}, "each twice the one before"),
    ],
    ids=str,
)
def test_an_entry_that_breaks_the_protocol_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        entry(**change)


def test_a_study_refuses_pairs_of_what_it_does_not_have_and_of_what_cannot_be_paired():
    with pytest.raises(ValueError, match="labels that differ"):
        Study("s", "?", (ONE, ONE), {})
    with pytest.raises(ValueError, match="two keys of 's'"):
        Study("s", "?", (ONE,), {"f": ((ONE.key, (3, "other")),)})
    with pytest.raises(ValueError, match=r"entries is \[2, 3\]; expected those of one protocol"):
        Study("s", "?", (ONE, entry("two", protocol=2)), {})
    fewer = entry("two", seeds=(0, 1, 2))
    with pytest.raises(ValueError, match="the same seeds"):
        Study("s", "?", (ONE, fewer), {"f": ((ONE.key, fewer.key),)})


def test_warm_up_is_a_tenth_and_the_curve_ends_with_the_run():
    long = entry(steps=2000).training
    assert (long["warmup_steps"], long["eval_every"], long["weight_decay"]) == (200, 200, 0.1)
    assert entry(steps=2000, warmup_steps=100).training["warmup_steps"] == 100


GOOD = [*TUNED, *(record("reported", seed=seed) for seed in (0, 1))]


@pytest.fixture
def small(on_the_cpu, monkeypatch):
    """Samples that a test has time for, and a small text in three parts."""
    monkeypatch.setattr(trials, "TUNING_TARGETS", 1024)
    monkeypatch.setattr(trials, "TEST_TARGETS", 2048)
    text = load_corpus("shakespeare-with-test")
    cut = replace(text, train=text.train[:9000], validation=text.validation[:9000], test=text.test[:9000])
    monkeypatch.setattr(trials, "load_corpus", lambda name, subwords: cut)


def test_a_record_has_what_its_role_allows(small):
    tuned, first, second = (
        execute_trial(STUDY, Trial(ONE, role, 4e-3, seed), show_progress=False)
        for role, seed in (("tuning", TUNING_SEED), ("reported", 0), ("reported", 1))
    )
    assert "test" not in tuned
    assert tuned["validation"]["targets"] == 1024
    assert ["blocks" in r["test"] for r in (first, second)] == [True, False]
    assert first["test"]["loss"] == pytest.approx(sum(first["test"]["blocks"]) / 2, abs=1e-4)
    assert set(first["versions"]) == {"torch", "python"}
    assert first["device"] == "cpu"
    assert first["parameters"] == sum(p.numel() for p in build_model("transformer", vocab_size=79, **TINY).parameters())


def test_a_rate_at_which_training_breaks_down_has_a_record_and_a_reported_run_has_none(small, monkeypatch):
    original = trials.train

    def unstable(model, corpus, config, **options):
        model.embedding.weight.register_hook(lambda gradient: gradient * math.nan)
        return original(model, corpus, config, **options)

    monkeypatch.setattr(trials, "train", unstable)
    broken = execute_trial(STUDY, Trial(ONE, "tuning", 4e-3, TUNING_SEED), show_progress=False)
    assert broken["validation"]["loss"] is None
    assert "the validation loss of step 1 is nan; the learning rate was" in broken["validation"]["broke_down"]
    assert [m["step"] for m in broken["metrics"]] == [0]
    with pytest.raises(FloatingPointError, match="the validation loss of step 1 is nan"):
        execute_trial(STUDY, Trial(ONE, "reported", 4e-3, 0), show_progress=False)


def test_a_run_is_the_same_when_it_is_made_again_and_another_with_another_seed(small):
    first, again, other = (
        execute_trial(STUDY, Trial(ONE, "reported", 4e-3, s), show_progress=False) for s in (0, 0, 1)
    )
    assert first["test"] == again["test"]
    assert first["test"]["loss"] != other["test"]["loss"]
    assert math.isfinite(first["test"]["loss"])


def test_a_reported_run_whose_score_is_not_finite_is_no_record(monkeypatch):
    monkeypatch.setattr(trials, "scored", lambda *_: {"part": "test", "loss": None})
    with pytest.raises(FloatingPointError, match=r"a score of .*, seed 0, is not finite"):
        execute_trial(STUDY, Trial(ONE, "reported", 4e-3, 0), show_progress=False)
