"""Records are written a line for each run, once, whatever is interrupted and whoever else writes."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from efficient_transformers.judging.recording import append_record, claimed, read_records, record_once
from efficient_transformers.support import files

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


TWO = """
import sys, time
from pathlib import Path
from efficient_transformers.judging.recording import record_once

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
