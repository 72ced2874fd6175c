"""The protocol: what comes next follows from the records, and records that break a rule are refused."""

from __future__ import annotations

import copy
import json
import math
import os
import random
import sys
from dataclasses import replace
from pathlib import Path

import planning
import pytest
import running
import torch
from declared import STUDIES, contexts, shortening, times
from declared.head_to_head import families, table
from declared.sizes import D_MODEL, VOCABULARY, baseline, count, on_paper

from efficient_transformers import TrainingConfig, load_corpus
from efficient_transformers.studies import rules, trials
from efficient_transformers.studies.cost import multiply_adds
from efficient_transformers.studies.protocol import (
    RATES,
    SEEDS,
    TUNING_SEED,
    Entry,
    Study,
    Trial,
    chosen_rate,
    missing_trials,
)
from efficient_transformers.studies.records import current, load_study, step_key
from efficient_transformers.studies.rules import check_records, problems
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
    trials = missing_trials(ONE, [])
    assert [(t.role, t.rate, t.seed) for t in trials] == [("tuning", rate, TUNING_SEED) for rate in RATES]
    assert [t.rate for t in missing_trials(ONE, TUNED[1:])] == [RATES[0]]
    assert TUNING_SEED not in SEEDS


def test_the_two_rates_beside_the_best_come_last_and_may_be_better():
    trials = missing_trials(ONE, TUNED[:3])
    assert [(t.role, t.rate, t.seed) for t in trials] == [("tuning", r, TUNING_SEED) for r in (1.41e-3, 2.83e-3)]
    assert [t.rate for t in missing_trials(ONE, TUNED[:4])] == [2.83e-3]
    assert chosen_rate(ONE, TUNED[:4]) is None
    assert chosen_rate(ONE, TUNED) == BEST
    assert chosen_rate(ONE, [*TUNED[:4], record(rate=2.83e-3, loss=1.9)]) == 2.83e-3


def test_at_least_five_rates_are_tried_and_the_best_lies_between_neighbors_a_factor_root_two_away():
    generator = random.Random(0)
    for _ in range(200):
        center = generator.uniform(math.log2(1e-4), math.log2(0.1))
        tried = {}
        while trials := [t for t in missing_trials(ONE, tuning(tried)) if t.role == "tuning"]:
            tried[trials[0].rate] = (math.log2(trials[0].rate) - center) ** 2 + generator.uniform(0, 0.05)
        best, grid = chosen_rate(ONE, tuning(tried)), sorted(tried)
        place = grid.index(best)
        assert len(grid) >= 5
        assert 0 < place < len(grid) - 1
        assert [grid[place + 1] / best, best / grid[place - 1]] == pytest.approx([2**0.5] * 2, rel=0.01)
        assert abs(math.log2(best) - center) < 0.5
        assert list(problems(STUDY, tuning(tried))) == []


def test_reported_seeds_come_at_the_best_rate_inside_the_grid():
    trials = missing_trials(ONE, TUNED)
    assert [(t.role, t.rate, t.seed) for t in trials] == [("reported", BEST, seed) for seed in SEEDS]
    more = [*TUNED, record("reported", seed=3), record("reported", seed=0)]
    assert [t.seed for t in missing_trials(ONE, more)] == [1, 2, 4]
    other = [*TUNED, record("reported", seed=0, of=entry("two"))]
    assert len(missing_trials(ONE, other)) == 5


@pytest.mark.parametrize(("losses", "expected"), [((1.0, 2.0, 3.0), 5e-4), ((3.0, 2.0, 1.0), 8e-3)], ids=str)
def test_a_grid_whose_best_is_at_its_edge_is_extended(losses, expected):
    tried = dict(zip(RATES, losses, strict=True))
    (trial,) = missing_trials(ONE, tuning(tried))
    assert (trial.role, trial.rate) == ("tuning", expected)
    assert chosen_rate(ONE, tuning(tried)) is None
    inside = tuning(tried | {expected: 1.5})
    assert len(missing_trials(ONE, inside)) == 2
    assert list(problems(STUDY, inside)) == []


def test_a_rate_at_which_training_broke_down_is_never_the_best():
    broken = tuning({1e-3: 2.2, 2e-3: 2.0, 4e-3: None, 1.41e-3: 2.1, 2.83e-3: None})
    assert chosen_rate(ONE, broken) == 2e-3


def test_extension_has_an_end():
    with pytest.raises(ValueError, match=r"the best rate of 'one, .*; expected one inside the grid"):
        missing_trials(ONE, tuning({1e-3 * 2**i: 20.0 - i for i in range(11)}))


ROUGH = {1e-3: 2.4, 2e-3: 2.02, 4e-3: 2.01, 8e-3: 2.2, 2.83e-3: 2.06, 5.66e-3: 2.1}


def test_where_the_curve_is_not_smooth_three_seeds_choose_between_the_three_lowest_rates():
    close = [2e-3, 2.83e-3, 4e-3]
    trials = missing_trials(ONE, tuning(ROUGH))
    assert [(t.role, t.seed, t.rate) for t in trials] == [("tuning", s, r) for s in (101, 102) for r in close]
    assert chosen_rate(ONE, tuning(ROUGH)) is None
    losses = {101: {2e-3: 2.01, 2.83e-3: 2.0, 4e-3: 2.2}, 102: {2e-3: 2.1, 2.83e-3: 2.0, 4e-3: 2.2}}
    more = [record(rate=rate, seed=seed, loss=losses[seed][rate]) for seed in losses for rate in close]
    assert {t.role for t in missing_trials(ONE, tuning(ROUGH) + more[1:])} == {"tuning"}
    assert chosen_rate(ONE, tuning(ROUGH) + more) == 2.83e-3  # the mean of 2.06, 2.0 and 2.0
    assert {(t.role, t.rate) for t in missing_trials(ONE, tuning(ROUGH) + more)} == {("reported", 2.83e-3)}
    assert list(problems(STUDY, tuning(ROUGH) + more)) == []
    (found,) = problems(STUDY, [*tuning(ROUGH), record(rate=1e-3, seed=101)])
    assert "tunes with seed 101 at the rate 0.001; expected one of [0.002, 0.00283, 0.004]" in found


def test_a_rule_of_a_later_protocol_changes_no_older_study():
    old = [r | {"protocol": 2} for r in tuning(ROUGH)]
    assert chosen_rate(replace(ONE, protocol=2), old) == 4e-3


def test_a_given_rate_is_not_tuned():
    given = entry(rate=1e-3)
    assert [(t.role, t.rate) for t in missing_trials(given, [])] == [("reported", 1e-3)] * 5


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


def test_good_records_are_accepted_while_incomplete():
    for n in range(len(GOOD) + 1):
        check_records(STUDY, GOOD[:n])


def spoiled(number, **changes):
    """Good records, one of them changed; a key with dots goes inside."""
    records = copy.deepcopy(GOOD)
    for path, value in changes.items():
        *inside, last = path.split("__")
        place = records[number]
        for key in inside:
            place = place[key]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return records


BAD = {
    "another version": (spoiled(0, protocol=1), "is of protocol 1; expected 3"),
    "the version before": (spoiled(0, protocol=2), "is of protocol 2; expected 3"),
    "no version": (spoiled(0, protocol=None), "is of protocol None; expected 3"),
    "another declaration": (spoiled(0, declaration="1234"), "is of the declaration '1234'; expected '"),
    "no declaration": (spoiled(0, declaration=None), "is of protocol 3 and lacks ['declaration']"),
    "no commit": (spoiled(0, commit=None), "is of protocol 3 and lacks ['commit']"),
    "no start": (spoiled(0, started=None), "is of protocol 3 and lacks ['started']"),
    "more seeds where one was enough": (
        [*GOOD, record(seed=101)],
        "tunes with seed 101 at the rate 0.002; expected one of [], which seed 100 left",
    ),
    "another study": (spoiled(0, study="other"), "of 'other'; expected a declared run"),
    "an undeclared run": (spoiled(0, run__label="three"), "is 'three' of 'tiny'; expected a declared run"),
    "other options": (spoiled(0, run__options={"d_model": 16}), "differs from its declaration"),
    "another budget": (spoiled(0, run__training__steps=4), "differs from its declaration"),
    "another schedule": (spoiled(6, run__training__warmup_steps=2), "differs from its declaration"),
    "not to its end": (spoiled(5, metrics=[{"step": 2}]), "does not reach its last step, 3"),
    "a small sample": (spoiled(0, validation__targets=6144), "was judged on 6144 characters; expected 50000"),
    "tuned on a reported seed": (spoiled(0, run__training__seed=0), "tunes with seed 0"),
    "tuned on the test": (spoiled(0, test={"loss": 2.0}), "has looked at the test text"),
    "a rate between": (
        spoiled(0, run__training__learning_rate=1.5e-3),
        "has the rate 0.0015; expected one of the grid",
    ),
    "an unknown seed": (spoiled(5, run__training__seed=7), "has seed 7; expected one of (0, 1, 2, 3, 4)"),
    "not the best rate": (spoiled(5, run__training__learning_rate=4e-3), "has the rate 0.004; expected 0.002"),
    "no test loss": (spoiled(5, test=None), "has the test None; expected a loss"),
    "a test that broke down": (spoiled(5, test={"part": "test", "loss": None, "targets": 200_704}), "expected a loss"),
    "a small test": (spoiled(5, test__targets=50_176), "expected a loss on at least 200000 characters"),
    "validation as test": (spoiled(5, test__part="validation"), "characters of the test text"),
    "an unknown role": (spoiled(5, role="shown"), "has the role 'shown'"),
    "another device": (spoiled(3, device="a GPU"), "was run on ['a GPU', 'cpu']; expected one kind of device"),
    "no device": (spoiled(3, device=None), "was run on ['None', 'cpu']"),
    "a reported run that broke down": (
        spoiled(5, validation={"loss": None, "broke_down": "nan"}),
        "broke down, and has the loss None; expected none, and tuning alone",
    ),
    "a loss of a run that broke down": (spoiled(0, validation__broke_down="nan"), "broke down, and has the loss 2.4"),
    "a run twice": ([*GOOD, GOOD[-1]], "repeats a run"),
    "reported before tuning ended": (GOOD[1:], "expected None, the best of tuning"),
    "best at the edge": ([*tuning({1e-3: 1.0, 2e-3: 2.0, 4e-3: 2.1}), GOOD[-1]], "expected None, the best of tuning"),
}


@pytest.mark.parametrize(("records", "message"), BAD.values(), ids=BAD)
def test_records_that_break_a_rule_are_refused(records, message):
    with pytest.raises(ValueError, match="the records of 'tiny'") as caught:
        check_records(STUDY, records)
    del caught
    assert any(message in problem for problem in problems(STUDY, records))


def test_a_record_of_before_the_protocol_is_refused_by_its_version_alone():
    old = load_study("live")[0]
    assert list(problems(STUDY, [old, *GOOD])) == ["record 1 of 'tiny' is of protocol None; expected 3"]


def test_a_record_that_lacks_a_field_is_refused_by_its_name_alone():
    found = list(problems(STUDY, [{"protocol": 3}, *GOOD]))
    lacks = ["role", "run", "metrics", "validation", "declaration", "commit", "started"]
    assert found == [f"record 1 of 'tiny' is of protocol 3 and lacks {lacks}"]


@pytest.fixture
def small(on_the_cpu, monkeypatch, tmp_path):
    """Samples that a test has time for, a small text in three parts, and a folder for results."""
    monkeypatch.setattr(planning, "declared", lambda study: study.declaration)
    for module in (rules, trials):
        monkeypatch.setattr(module, "TUNING_TARGETS", 1024)
        monkeypatch.setattr(module, "TEST_TARGETS", 2048)
    monkeypatch.setattr(planning, "RESULTS", tmp_path)
    monkeypatch.setattr(planning, "DECLARATIONS", tmp_path / "declarations")
    monkeypatch.setattr(running, "QUEUE", tmp_path / "queue")
    (tmp_path / "queue").mkdir()
    text = load_corpus("shakespeare-with-test")
    cut = replace(text, train=text.train[:9000], validation=text.validation[:9000], test=text.test[:9000])
    loads = []
    monkeypatch.setattr(trials, "load_corpus", lambda name, subwords: (loads.append(name), cut)[1])
    return loads


def test_a_study_runs_to_its_end_and_its_records_follow_the_declaration(small, tmp_path, capsys):
    study = replace(STUDY, entries=(entry(seeds=(0, 1)),), figures={})
    planning.run_declared([study])
    records = planning.records_of(study)
    roles = [r["role"] for r in records]
    assert roles == sorted(roles, reverse=True)  # tuning, then reported
    assert roles.count("reported") == 2
    assert len(roles) >= 7
    assert set(small) == {"shakespeare-with-test"}
    for r in records:
        assert ("test" in r) == (r["role"] == "reported")
        assert r["validation"]["targets"] == 1024
        assert set(r["versions"]) == {"torch", "python"}
        assert r["device"] == "cpu"
        assert r["parameters"] == count(on_paper("transformer", 16, TINY))
    shown = [r["test"] for r in records if r["role"] == "reported"]
    assert ["blocks" in test for test in shown] == [True, False]
    assert shown[0]["loss"] == pytest.approx(sum(shown[0]["blocks"]) / 2, abs=1e-4)
    before = (tmp_path / "tiny.jsonl").read_text()
    planning.run_declared([study])
    assert (tmp_path / "tiny.jsonl").read_text() == before  # nothing is run twice
    capsys.readouterr()
    planning.print_plan([study])
    assert "in all 0.0 h" in capsys.readouterr().out


def test_a_run_is_the_same_when_it_is_made_again_and_another_with_another_seed(small):
    first, again, other = (
        execute_trial(STUDY, Trial(ONE, "reported", 4e-3, s), show_progress=False) for s in (0, 0, 1)
    )
    assert first["test"] == again["test"]
    assert first["test"]["loss"] != other["test"]["loss"]
    assert math.isfinite(first["test"]["loss"])


def test_records_of_another_version_stop_a_run(small, tmp_path):
    (tmp_path / "tiny.jsonl").write_text(json.dumps(spoiled(0, protocol=1)[0]) + "\n")
    with pytest.raises(ValueError, match=r"is of protocol 1; expected 3"):
        planning.run_declared([STUDY])


def test_two_processes_at_one_declared_study_double_nothing(small, tmp_path, capfd):
    study = replace(STUDY, entries=(entry(seeds=(0, 1)),), figures={})
    child = os.fork()
    if child == 0:
        code = 1
        try:
            planning.run_entry(study, study.entries[0])
            code = 0
        finally:
            os._exit(code)
    planning.run_entry(study, study.entries[0])
    assert os.waitpid(child, 0)[1] == 0
    done = [(r["role"], r["run"]["training"]) for r in planning.records_of(study)]
    assert all(done.count(run) == 1 for run in done)
    assert capfd.readouterr().out.count("tiny: ") == len(done)
    assert [role for role, _ in done].count("reported") == 2


def test_a_rate_at_which_training_breaks_down_is_recorded_and_does_not_end_the_study(small, monkeypatch):
    study, original = replace(STUDY, entries=(entry(seeds=(0, 1)),), figures={}), trials.train

    def unstable(model, corpus, config, **options):
        if config.learning_rate >= 4e-3:
            model.embedding.weight.register_hook(lambda gradient: gradient * math.nan)
        return original(model, corpus, config, **options)

    monkeypatch.setattr(trials, "train", unstable)
    planning.run_declared([study])
    records = planning.records_of(study)  # refuses those that break a rule
    broken = [r for r in records if "broke_down" in r["validation"]]
    assert [r["run"]["training"]["learning_rate"] for r in broken] == [4e-3]
    assert broken[0]["validation"]["loss"] is None
    assert "the validation loss of step 1 is nan; the learning rate was" in broken[0]["validation"]["broke_down"]
    assert [m["step"] for m in broken[0]["metrics"]] == [0]
    reported = [r["run"]["training"]["learning_rate"] for r in records if r["role"] == "reported"]
    assert len(reported) == 2
    assert max(reported) < 4e-3
    with pytest.raises(FloatingPointError, match="the validation loss of step 1 is nan"):
        execute_trial(study, Trial(study.entries[0], "reported", 4e-3, 0), show_progress=False)


def test_a_reported_run_whose_score_is_not_finite_is_no_record(monkeypatch):
    monkeypatch.setattr(trials, "scored", lambda *_: {"part": "test", "loss": None})
    with pytest.raises(FloatingPointError, match=r"a score of .*, seed 0, is not finite"):
        execute_trial(STUDY, Trial(ONE, "reported", 4e-3, 0), show_progress=False)


@pytest.mark.parametrize("of", [1, 2, 5])
def test_shards_overlap_nowhere_and_leave_nothing_out(of):
    studies = list(STUDIES.values())
    parts = [planning.shard(studies, index, of) for index in range(of)]
    found = [(name, e.label) for part in parts for name, entries in part.items() for e in entries]
    assert sorted(found) == sorted((study.name, e.label) for study in studies for e in study.entries)


def test_a_plan_lists_what_is_missing(capsys):
    planning.print_plan(STUDIES.values())
    printed = capsys.readouterr().out
    for study in STUDIES.values():
        records = planning.records_of(study)
        for e in study.entries:
            assert (f"  {e.label}: " in printed) == (e.protocol == 3 and bool(missing_trials(e, records)))
        assert f"{study.name}{' (protocol 2, order not provable)' if study.protocol == 2 else ''}: " in printed


@pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))
def test_recorded_runs_follow_the_declared_studies(study):
    planning.records_of(study)  # refuses those that do not


@pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))
def test_declared_studies_keep_the_protocol(study):
    assert len({e.label for e in study.entries}) == len(study.entries)
    for e in study.entries:
        run = e.describe(0.001, 0)
        assert current({"run": run})["run"] == run  # no option has a name of before, which reading would change
        half = e.name.startswith("Baseline, half a batch")
        assert e.batch_size * e.seq_len == (512 if half else 1024) or study.name == "nanogpt-recipe"
        assert len(e.seeds) >= FEWER_SEEDS.get(study.name, 5)
        assert planning.VOCABULARIES["shakespeare-with-test"] == VOCABULARY


def test_the_vocabulary_that_sizes_are_counted_with_is_that_of_the_plays():
    assert len(load_corpus("shakespeare-with-test").vocabulary) == VOCABULARY


@pytest.fixture
def timed(monkeypatch):
    """Made-up times: a microsecond for each channel, layer and so on does not matter here; 50 ms and 100 ms do."""
    made = {times.sizes_key(e): {"seconds": 0.05 * (1 + (e.model == "hourglass"))} for e in shortening.TIMED}
    monkeypatch.setattr(times, "load_times", lambda: made)
    return made


def test_runs_at_equal_time_have_the_steps_that_measured_times_allow(timed):
    study = shortening.declare()
    steps = {e.name.split(",")[0]: e.steps for e in study.entries if e.name.endswith("equal time")}
    assert steps == {"baseline": 1200, "hourglass": 600}
    for e in study.entries:
        if e.name.endswith("equal work"):
            done = e.steps * multiply_adds(on_paper(e.model, e.seq_len, e.options), e.seq_len)
            wanted = 700 * multiply_adds(on_paper("transformer", 256, baseline("0.8M")), 256)
            assert done == pytest.approx(wanted, rel=0.02)


def test_equal_time_needs_measured_times(timed):
    timed.popitem()
    with pytest.raises(
        ValueError, match=r"the entry is 'baseline, .*; expected one whose steps are timed in step-times"
    ):
        shortening.declare()


def test_a_pair_that_is_compared_at_equal_steps_sees_the_same_batches():
    for study in STUDIES.values():
        known = {e.key: e for e in (*study.borrowed, *study.entries)}
        for figure, pairs in study.figures.items():
            assert len(pairs) == 1 if figure == OF_ONE_PAIR else 1 < len(pairs) <= 12
            for pair in pairs:
                ours, theirs = (known[key] for key in pair)
                one, other = ({"optimizer": None} | of.training for of in (ours, theirs))
                differs = {key for key in one if one[key] != other[key]}
                other_steps = ("equal time", "equal work", "in its time", "twice the steps")
                allowed = {"steps", "warmup_steps", "eval_every"} if any(w in figure for w in other_steps) else set()
                if "any context" in figure:
                    allowed |= {"batch_size", "seq_len"}
                if "any batch" in figure:
                    allowed |= {"batch_size", "eval_batches"}
                if "decay" in figure:
                    allowed |= {"weight_decay"}
                if "optimizers" in figure:
                    allowed |= {"optimizer"}
                assert differs <= allowed, figure


@pytest.mark.parametrize("name", ["head-to-head-equal-time", "head-to-head-equal-time-2000"])
def test_at_equal_time_a_model_makes_the_steps_that_fit(name):
    study = STUDIES[name]
    seconds = times.load_times()
    first = study.borrowed[0]
    available = first.steps * seconds[times.sizes_key(first)]["seconds"]
    for e in study.entries:
        assert e.steps * seconds[times.sizes_key(e)]["seconds"] <= available
        assert (e.steps + 1) * seconds[times.sizes_key(e)]["seconds"] > available


@pytest.mark.parametrize("size", D_MODEL)
def test_parameters_are_equal_within_five_percent(size):
    wanted = count(on_paper("transformer", 256, baseline(size)))
    assert wanted == pytest.approx({"0.2M": 0.2e6, "0.8M": 0.8e6, "3M": 3.2e6}[size], rel=0.02)
    for name, (model, options) in families(size).items():
        made = on_paper(model, 256, options)
        if name == "Hourglass, equal multiply-adds":
            cost = multiply_adds(on_paper("transformer", 256, baseline(size)), 256)
            assert multiply_adds(made, 256) == pytest.approx(cost, rel=0.05)
        else:
            assert count(made, matrices="not counted" not in name) == pytest.approx(wanted, rel=0.05)


def test_models_that_another_study_trained_at_a_context_of_64_are_those_of_the_families():
    trained = {e.name: e for e in contexts.GATE_ENTRIES}
    for name in contexts.NAMES[:-1]:
        theirs = trained[contexts.AT_64.get(name, name)]
        shapes = [
            [(key, p.shape) for key, p in on_paper(model, 64, options).named_parameters()]
            for model, options in (families("0.8M", 64)[name], (theirs.model, theirs.options))
        ]
        assert shapes[0] == shapes[1], name


def test_the_table_of_sizes_is_the_computed_one():
    assert table() in (Path(planning.__file__).parent / "README.md").read_text(encoding="utf-8")


def test_spatial_matrices_are_counted_by_their_lower_triangle():
    model = on_paper("dense-gmlp", 64, {"d_model": 16, "n_layers": 2, "d_ff": 32})
    assert count(model) - count(model, matrices=False) == 2 * (64 * 65 // 2 + 64)
    assert sum(p.numel() for p in model.parameters()) - count(model) == 2 * 64 * 63 // 2


def test_times_are_recorded_with_their_spread_and_used_by_the_plan(tmp_path, monkeypatch):
    monkeypatch.setattr(times, "TIMES", tmp_path / "times.json")
    text = load_corpus("shakespeare-with-test")
    monkeypatch.setattr(planning, "shared_corpus", lambda name, subwords: text)
    study = replace(STUDY, entries=(entry(), entry(steps=30)), figures={})  # two budgets of one model
    guessed, measured = planning.step_seconds(ONE, planning.load_times())
    assert not measured
    planning.measure(study.entries, rounds=3, steps=1)
    (timed,) = planning.load_times().values()
    planning.measure([*study.entries, entry("one, Muon", seq_len=32, optimizer="muon")], rounds=3, steps=1)
    _, muon = planning.load_times().values()
    assert next(iter(planning.load_times().values())) == timed  # what was timed once keeps its time
    assert json.loads(muon["key"])[-1] == "muon"
    assert "times_adamw" not in timed
    assert muon["times_adamw"] > 0
    assert 0 < timed["low"] <= timed["seconds"] <= timed["high"] < 1
    assert planning.step_seconds(ONE, planning.load_times()) == (timed["seconds"], True)
    assert timed["machine"].endswith(", 1 thread(s)")
    assert guessed > 0
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "names is ['nonsense']; expected some of ['head-to-head', "),
        (["--shard", "4/4"], "shard is '4/4'; expected i/n with i from 0 to n - 1"),
        (["--shard", "half"], "shard is 'half'"),
    ],
    ids=str,
)
def test_the_script_refuses_what_it_does_not_know(arguments, message, monkeypatch, capsys):
    import studies

    monkeypatch.setattr(sys, "argv", ["studies.py", *arguments])
    with pytest.raises(SystemExit):
        studies.main()
    assert message in capsys.readouterr().err
