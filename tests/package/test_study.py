"""Records: one line for each run, append-only; what the book's own say, and that nobody has changed them."""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from efficient_transformers import Metrics, figures, files, load_corpus, study
from efficient_transformers.studies.records import claimed, read_records, record_once

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
ALL = sorted(path.stem for path in RESULTS.glob("*.jsonl"))
LIVE = ("live", "gmlp-live", "hourglass-live")  # what a reader trains in a chapter


@pytest.fixture
def runs():
    return [{"label": "tiny", "model": "primer-ez", "options": {}, "training": {"seed": seed}} for seed in (0, 1)]


@pytest.fixture
def counted(monkeypatch):
    """The runs that were executed, in order."""
    executed, original = [], globals()["execute"]
    monkeypatch.setitem(globals(), "execute", lambda run: (executed.append(run), original(run))[1])
    return executed


def execute(run):
    return {"run": run, "metrics": [{"step": step, "validation_loss": 4.0 - step} for step in (0, 1, 2)]}


def run_study(runs, path):
    for run in runs:
        name = f"{run['label']}, seed {run['training']['seed']}"
        record_once(run, path, partial(lambda run: execute(run), run), name=name, wait=True)


def test_a_record_is_one_line_of_json(runs, tmp_path):
    run_study(runs, tmp_path / "r.jsonl")
    text = (tmp_path / "r.jsonl").read_text()
    assert text.endswith("}\n")
    assert [json.loads(line)["run"] for line in text.splitlines()] == runs


@pytest.mark.parametrize(
    "change", [{"label": "other"}, {"model": "transformer"}, {"options": {"d_model": 16}}], ids=str
)
def test_a_run_that_differs_is_run(runs, tmp_path, counted, change):
    other = runs[0] | change
    run_study([runs[0]], tmp_path / "r.jsonl")
    run_study([runs[0], other], tmp_path / "r.jsonl")
    assert counted == [runs[0], other]


def test_a_folder_that_is_missing_is_made_before_the_first_run(runs, tmp_path):
    run_study(runs[:1], tmp_path / "new" / "folder" / "r.jsonl")
    assert len(read_records(tmp_path / "new" / "folder" / "r.jsonl")) == 1


def test_what_is_recorded_is_not_run_again(runs, tmp_path, counted):
    path = tmp_path / "r.jsonl"
    run_study(runs[:1], path)
    first = path.read_text()
    run_study(runs, path)
    assert counted == runs
    assert path.read_text().startswith(first)
    assert len(read_records(path)) == 2


def test_an_interruption_keeps_the_runs_that_were_complete(runs, tmp_path, monkeypatch):
    path, original = tmp_path / "r.jsonl", execute

    def interrupted(run):
        if run["training"]["seed"] == 1:
            raise KeyboardInterrupt
        return original(run)

    monkeypatch.setitem(globals(), "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_study(runs, path)
    monkeypatch.setitem(globals(), "execute", original)
    assert [r["run"]["training"]["seed"] for r in read_records(path)] == [0]
    first = path.read_text()
    run_study(runs, path)
    assert path.read_text().startswith(first)
    assert [r["run"]["training"]["seed"] for r in read_records(path)] == [0, 1]


def test_a_line_that_was_cut_off_is_reported_and_the_rest_is_kept(runs, tmp_path):
    path = tmp_path / "r.jsonl"
    run_study(runs, path)
    good, cut = path.read_text().splitlines()
    path.write_text(good + "\n" + cut[: len(cut) // 2])
    with pytest.warns(UserWarning, match=r"r\.jsonl, line 2 is not a record"):
        assert [r["run"]["training"]["seed"] for r in read_records(path)] == [0]
    with pytest.warns(UserWarning, match="line 2"):
        run_study(runs, path)
    with pytest.warns(UserWarning, match="line 2"):
        assert [r["run"]["training"]["seed"] for r in read_records(path)] == [0, 1]
    lines = path.read_text().splitlines()
    assert lines[:2] == [good, cut[: len(cut) // 2]]
    assert len(lines) == 3


def test_a_last_line_that_lacks_only_its_end_is_a_record(runs, tmp_path, counted):
    path = tmp_path / "r.jsonl"
    run_study(runs[:1], path)
    path.write_text(path.read_text().rstrip("\n"))
    run_study(runs, path)
    assert counted == runs
    assert [r["run"]["training"]["seed"] for r in read_records(path)] == [0, 1]


def test_options_of_old_records_have_todays_names():
    record = study.current({"run": {"model": "transformer", "options": {"start": "random", "d_model": 8}}})
    assert record["run"]["options"] == {"init": "random", "d_model": 8}
    record = study.current({"run": {"model": "gmlp", "options": {"d_model": 8}}})
    assert record["run"]["options"] == {"d_model": 8, "weight": "dense", "start": "open"}


def test_records_state_the_start_of_a_gate():
    """Their lines do not: a start is shut where biases were declared to be 0 at first, and open elsewhere."""
    records = [r for name in ("gate-kinds", "masked", "shut-gate", "gmlp-live") for r in study.load_study(name)]
    gated = {"gmlp", "amlp", "changed-gates"}
    stated = {False: set(), True: set()}
    for run in (record["run"] for record in records):
        has_gates = run["model"] in gated or run["options"].get("kind") == "gmlp"
        assert ("start" in run["options"]) == has_gates
        if has_gates:
            stated["b = 0" in run["label"]].add(run["options"]["start"])
    assert stated == {False: {"open"}, True: {"shut"}}


def test_where_python_finds_the_source_alone_it_says_to_install_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficient_transformers.recorded", None)
    for load in (study.load_study, study.load_seconds):
        with pytest.raises(ModuleNotFoundError, match="install the package: pip install"):
            load("live")


def test_lines_that_are_not_records_are_skipped_and_kept(runs, tmp_path):
    path = tmp_path / "r.jsonl"
    run_study(runs[:1], path)
    good = path.read_text()
    bad = [
        b"null",
        b"[]",
        b"3",
        b'"text"',
        b"{}",
        b'{"run": 1}',
        b'{"run": {}, "metrics": 2}',
        b"\xff\xfe",
        b'{"run": null}',
    ]
    path.write_bytes(b"\n".join(bad) + b"\n" + good.encode())
    with pytest.warns(UserWarning, match="is not a record") as warned:
        assert [r["run"] for r in read_records(path)] == [json.loads(good)["run"]]
    assert [int(str(w.message).split("line ")[1].split()[0]) for w in warned] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    with pytest.warns(UserWarning, match="is not a record"):
        run_study(runs, path)
    assert path.read_bytes().splitlines()[: len(bad)] == bad
    assert len(path.read_bytes().splitlines()) == len(bad) + 2


def test_a_record_that_is_not_json_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        study.append_record({"run": {}, "metrics": [{"validation_loss": math.nan}]}, tmp_path / "r.jsonl")
    assert not (tmp_path / "r.jsonl").exists()


TWO = """
import sys, time
from pathlib import Path
from efficient_transformers.studies.records import record_once

def make(seed):
    time.sleep(0.05)
    return {"run": {"seed": seed}}

print("ready", flush=True)
sys.stdin.readline()
for wait in (False, True):
    for seed in range(12):
        record_once({"seed": seed}, Path(sys.argv[1]), lambda: make(seed), name=f"seed {seed}", wait=wait)
"""


def test_two_processes_at_one_study_lose_and_double_nothing(tmp_path):
    path = tmp_path / "new" / "r.jsonl"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen([sys.executable, "-c", TWO, path], **pipes) for _ in range(2)]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    printed = [process.communicate(timeout=600)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(r["run"]["seed"] for r in read_records(path)) == list(range(12))
    assert all(out.count("  seed") > 0 for out in printed)  # both took part
    assert sum(out.count("  seed") for out in printed) == 12


def test_a_run_that_a_killed_process_had_claimed_is_free(runs, tmp_path, counted):
    path = tmp_path / "r.jsonl"
    with files.locked(path):
        pass
    child = os.fork()
    if child == 0:
        try:
            with claimed(runs[0], path, wait=True):
                (tmp_path / "claimed").touch()
                time.sleep(60)
        finally:
            os._exit(1)
    while not (tmp_path / "claimed").exists():
        time.sleep(0.01)
    with claimed(runs[0], path, wait=False) as ours:
        assert not ours
    with claimed(runs[1], path, wait=False) as ours:
        assert ours
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    run_study(runs, path)
    assert counted == runs


def test_a_final_loss_and_a_spread():
    record = {"metrics": [{"step": s, "validation_loss": v} for s, v in ((0, 4.0), (5, 2.0), (10, 1.5))]}
    assert study.final_loss(record) == 1.5
    assert study.mean_and_spread([1.0, 2.0, 3.0], 1) == "2.0 ± 1.0"
    assert study.mean_and_spread(iter([1.0, 1.5])) == "1.250 ± 0.354"
    with pytest.raises(ValueError, match="at least two"):
        study.mean_and_spread([1.0])


def test_records_are_grouped_by_label_and_ordered_by_seed(runs, tmp_path):
    path = tmp_path / "r.jsonl"
    other = runs[0] | {"label": "other"}
    run_study([runs[1], other, runs[0]], path)
    groups = study.by_label(read_records(path))
    seeds = {label: [r["run"]["training"]["seed"] for r in records] for label, records in groups.items()}
    assert seeds == {"other": [0], "tiny": [0, 1]}


def test_metrics_of_a_record_plot_themselves(runs, tmp_path):
    run_study(runs[:1], tmp_path / "r.jsonl")
    (record,) = read_records(tmp_path / "r.jsonl")
    metrics = study.metrics_of(record)
    assert isinstance(metrics, Metrics)
    assert list(figures.plot_losses({"some": metrics}).lines[0].get_ydata()) == [
        m["validation_loss"] for m in record["metrics"]
    ]
    plt.close("all")


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


@pytest.mark.parametrize("name", LIVE)
def test_recorded_runs_reached_their_last_step_and_say_where_they_come_from(name):
    records = study.load_study(name)
    assert records == read_records(RESULTS / f"{name}.jsonl")
    assert records
    guessing = {"shakespeare": math.log(len(load_corpus().vocabulary)), "tiny-shakespeare": math.log(65)}
    for record in records:
        training, metrics = record["run"]["training"], record["metrics"]
        assert [m["step"] for m in metrics] == list(range(0, training["steps"] + 1, training["eval_every"]))
        seconds = [m["seconds"] for m in metrics]
        assert seconds == sorted(seconds)
        assert seconds[-1] > 0
        before, after = metrics[0]["validation_loss"], study.final_loss(record)
        assert before == pytest.approx(guessing[record["run"]["corpus"]], abs=0.3)
        assert after < before - 1
        assert after > 1.3  # less than the book's best by far would be a leak
        assert set(record["versions"]) == {"python", "torch"}
        assert record["machine"].endswith(", 1 thread(s)")
        assert record["parameters"] > 0


def test_no_record_was_changed():
    """Studies are complete: `checksums.json` has the SHA-256 of each file; `own/` alone may grow."""
    known = json.loads((RESULTS / "checksums.json").read_text(encoding="utf-8"))
    assert sorted(known) == sorted(path.name for path in RESULTS.glob("*.json*") if path.name != "checksums.json")
    assert {name: hashlib.sha256((RESULTS / name).read_bytes()).hexdigest() for name in known} == known


def test_primer_ez_passes_the_baseline_in_at_most_80_percent_of_the_steps_in_every_seed():
    groups = study.by_label(study.load_study("live"))
    pairs = list(zip(groups["transformer 0.003"], groups["primer-ez 0.003"], strict=True))
    assert len(pairs) == 3
    for base, primer in pairs:
        assert base["run"]["training"] == primer["run"]["training"]
        passed = next(m["step"] for m in primer["metrics"] if m["validation_loss"] <= study.final_loss(base))
        assert passed <= 0.8 * base["run"]["training"]["steps"]


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


@pytest.mark.parametrize("budget", ["", ", equal time", ", equal work"])
def test_a_budget_is_no_part_of_a_models_name(budget):
    model = "Hourglass, equal multiply-adds"
    assert study.model_name({"run": {"name": model + budget}}) == model


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


def test_each_model_of_the_digits_has_its_own_best_rate_among_those_that_were_tried():
    records = study.load_study("digits")
    rates: dict[tuple[str, str], dict[float, list[float]]] = {}
    for record in records:
        run = record["run"]
        rates.setdefault((run["model"], run["role"]), {}).setdefault(run["learning_rate"], []).append(record["loss"])
    for model in {model for model, _ in rates}:
        tried, reported = rates[model, "tuning"], rates[model, "reported"]
        assert [len(losses) for losses in reported.values()] == [5]
        best = min(tried, key=lambda rate: tried[rate])
        assert list(reported) == [best]
        assert min(tried) < best < max(tried)
    ours = [r["accuracy"] for r in records if (r["run"]["model"], r["run"]["role"]) == ("gMLP", "reported")]
    assert sum(ours) / 5 >= 0.97
    assert min(ours) >= 0.96


def test_a_leak_pays_the_more_the_less_an_hourglass_shifts():
    records = study.load_study("hourglass-shifts")
    losses = [[study.final_loss(r) for r in group] for group in study.by_label(records).values()]  # by shift
    assert [len(group) for group in losses] == [3, 3, 3, 3]
    assert all(max(leaky) < min(less) for leaky, less in pairwise(losses))
