"""The records of the book's studies: how they are read, what they say, and that nobody has changed them."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest

from efficient_transformers import study
from efficient_transformers.judging.recording import updated

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
ALL = sorted(path.stem for path in RESULTS.glob("*.jsonl"))


def test_where_python_finds_the_source_alone_it_says_to_install_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficient_transformers.recorded", None)
    for load in (study.load_study, study.load_seconds):
        with pytest.raises(ModuleNotFoundError, match="install the package: pip install"):
            load("live")


def test_a_final_loss_and_a_spread():
    record = {"metrics": [{"step": s, "validation_loss": v} for s, v in ((0, 4.0), (5, 2.0), (10, 1.5))]}
    assert study.final_loss(record) == 1.5
    assert study.mean_and_spread([1.0, 2.0, 3.0], 1) == "2.0 ± 1.0"
    assert study.mean_and_spread(iter([1.0, 1.5])) == "1.250 ± 0.354"
    with pytest.raises(ValueError, match="at least two"):
        study.mean_and_spread([1.0])


def run(protocol, name, seed=0, loss=1.0):
    training = {"seed": seed, "learning_rate": 1e-3}
    made = {"label": f"{name}, 0.8M", "name": name, "training": training}
    return {"protocol": protocol, "role": "reported", "run": made, "test": {"loss": loss}}


def test_a_record_is_read_by_todays_names():
    """A label that means two models is told apart by its protocol."""
    old = run(2, "gMLP") | {"today": {"name": "dense gMLP", "options": {"weight": "dense"}}}
    assert updated(old)["run"] == old["run"] | {"options": {"weight": "dense"}}
    both = [updated(old), run(3, "gMLP", loss=2.0)]
    losses, _ = study.by_model(both)
    assert losses == {"dense gMLP": {0: 1.0}, "gMLP": {0: 2.0}}
    with pytest.raises(ValueError, match=r"the protocol of 'gMLP, 0.8M' is \[2, 3\]; expected one: a label may mean"):
        study.by_label(both)


def test_records_are_grouped_by_label_and_ordered_by_seed():
    groups = study.by_label([run(3, "tiny", 1), run(3, "other"), run(3, "tiny", 0)])
    seeds = {label: [r["run"]["training"]["seed"] for r in records] for label, records in groups.items()}
    assert seeds == {"other, 0.8M": [0], "tiny, 0.8M": [0, 1]}


def test_an_unknown_study_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"name is 'none such'; expected one of " + ", ".join(map(repr, ALL))):
        study.load_study("none such")


def test_a_study_is_read_at_a_budget_and_a_context():
    whole = study.load_study("distances")
    part = study.load_study("distances", steps=500, seq_len=64)
    assert 0 < len(part) < len(whole)
    assert part == [r for r in whole if r["run"]["training"]["steps"] == 500 and r["run"]["training"]["seq_len"] == 64]
    with pytest.raises(ValueError, match=r"steps of 'head-to-head' is 300; expected one of \[500, 2000\]"):
        study.load_study("head-to-head", steps=300)
    with pytest.raises(ValueError, match=r"seq_len of 'head-to-head' is 64; expected one of \[256\]"):
        study.load_study("head-to-head", seq_len=64)


def test_a_mean_curve_is_that_of_all_runs_and_refuses_others_steps():
    one, other = ([{"step": 0, "validation_loss": 4}, {"step": 10, "validation_loss": last}] for last in (2, 3))
    found = study.mean_curve([{"metrics": one}, {"metrics": other}], 0.5)
    assert found == [
        {"step": 0, "seconds": 0.0, "validation_loss": 4.0},
        {"step": 10, "seconds": 5.0, "validation_loss": 2.5},
    ]
    with pytest.raises(ValueError, match="the steps of the runs is"):
        study.mean_curve([{"metrics": one}, {"metrics": other[:1]}], 0.5)


def test_a_step_has_the_time_of_its_model_and_size():
    run = study.load_study("head-to-head")[0]["run"]
    took = study.load_step_time(run)
    assert 0 < took["low"] <= took["seconds"] <= took["high"]
    other = run | {"training": run["training"] | {"batch_size": 3}}
    with pytest.raises(ValueError, match=r"the model and size is .*, 3, 256\]'; expected one of"):
        study.load_step_time(other)


def test_a_benchmark_has_rows_and_its_machine():
    found = study.load_benchmark("peers")
    assert found["machine"]
    with pytest.raises(ValueError, match=r"name is 'peer'; expected one of .*'peers'"):
        study.load_benchmark("peer")


def test_no_record_was_changed():
    """Studies are complete: `checksums.json` has the SHA-256 of each file, and each line that of how it was written."""
    known = json.loads((RESULTS / "checksums.json").read_text(encoding="utf-8"))
    assert sorted(known) == sorted(path.name for path in RESULTS.glob("*.json*") if path.name != "checksums.json")
    assert {name: hashlib.sha256((RESULTS / name).read_bytes()).hexdigest() for name in known} == known
    for path in RESULTS.rglob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            written, added = json.loads(line), {}
            for name in ("sha256", "today"):
                added[name] = written.pop(name, None)
            assert hashlib.sha256(json.dumps(written).encode()).hexdigest() == added["sha256"]


def test_reported_runs_are_grouped_by_model_and_seed():
    records = study.load_study("head-to-head-equal-time")
    losses, training = study.by_model(records)
    assert set(losses) == {study.model_name(r) for r in records}
    assert all(sorted(found) == [0, 1, 2, 3, 4] for found in losses.values())
    one = next(r for r in records if r["role"] == "reported" and r["run"]["training"]["seed"] == 3)
    name = study.model_name(one)
    assert losses[name][3] == one["test"]["loss"] != one["validation"]["loss"]
    assert study.by_model(records, "validation")[0][name][3] == one["validation"]["loss"]
    assert training[name]["learning_rate"] == one["run"]["training"]["learning_rate"]


def test_runs_of_several_budgets_are_not_mixed_up():
    records = study.load_study("head-to-head")
    with pytest.raises(ValueError, match=r"the records is .*; expected one run of 'Baseline' with seed 0"):
        study.by_model(records)
    with pytest.raises(ValueError, match=r"the records is .*; expected one run of 'Baseline' at rate 0.001"):
        study.rates_tried(records)


@pytest.mark.parametrize("name", ["machines", "starts", "versions"])
def test_runs_made_again_are_compared_with_the_run_of_their_label_and_seed(name):
    again = study.load_study(name)
    first = {r["run"]["label"]: [] for r in again}
    for record in again:
        (known,) = (
            r
            for r in study.load_study(record["study"])
            if (r["role"], r["run"]["label"]) == ("reported", record["run"]["label"])
            and r["run"]["training"] == record["run"]["training"]
        )
        first[record["run"]["label"]].append(record["test"]["loss"] - known["test"]["loss"])
    assert [*study.strays(name).values()] == [*first.values()]


def test_the_rates_that_were_tried_are_in_order_and_hold_the_chosen_one_inside():
    records = study.load_study("head-to-head-equal-time")
    (_, training), tried = study.by_model(records), study.rates_tried(records)
    assert set(tried) == set(training)
    assert sum(map(len, tried.values())) == sum(r["role"] == "tuning" for r in records)
    for name, found in tried.items():
        rates = list(found)
        assert rates == sorted(rates)
        assert rates[0] < training[name]["learning_rate"] == min(found, key=found.get) < rates[-1]
    one = next(r for r in records if r["role"] == "tuning")
    name = study.model_name(one)
    assert tried[name][one["run"]["training"]["learning_rate"]] == one["validation"]["loss"]
