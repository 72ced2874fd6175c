"""Records are written a line for each run, once, whatever is interrupted and whoever else writes."""

from __future__ import annotations

import json
import math
import multiprocessing
import time
from functools import partial

import pytest

from efficient_transformers.judging.recording import append_record, claimed, read_records, record_once

pytestmark = pytest.mark.slow


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
        append_record({"run": {}, "metrics": [{"validation_loss": math.nan}]}, tmp_path / "r.jsonl")
    assert not (tmp_path / "r.jsonl").exists()


def hold(run, path, begun):
    with claimed(run, path, wait=True):
        begun.set()
        time.sleep(0.5)
        append_record(execute(run), path)


def test_what_another_process_recorded_meanwhile_is_not_run_again(runs, tmp_path, counted):
    fork = multiprocessing.get_context("fork")
    begun, path = fork.Event(), tmp_path / "r.jsonl"
    other = fork.Process(target=hold, args=(runs[0], path, begun))
    other.start()
    assert begun.wait(60)
    run_study(runs, path)
    other.join()
    assert counted == runs[1:]
