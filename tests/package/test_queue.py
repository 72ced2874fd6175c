"""The queue of runs: killed at any moment, started twice, or silent while something is timed."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import planning
import pytest
import running
from test_protocol import STUDY, entry, small  # noqa: F401 (a fixture)
from variants import build

from efficient_transformers.files import locked
from efficient_transformers.studies.protocol import Trial
from efficient_transformers.studies.records import read_records
from efficient_transformers.studies.trials import execute_trial
from efficient_transformers.training.checkpoint import Checkpoints

pytestmark = pytest.mark.slow
LONGER = entry(steps=12, seeds=(0, 1))
ONE_MODEL = replace(STUDY, entries=(LONGER,), figures={})
CHANGING = ("started", "commit")  # of a record, from one start of a run to the next


def kept(folder: Path):
    """Checkpoints every few steps, in a folder; a rate is tuned with one seed and reported with others."""

    def of(run: dict, seconds: float) -> Checkpoints:
        config = run["run"]["training"]
        return Checkpoints(folder / f"{config['learning_rate']:g}-{config['seed']}.pt", 4)

    return of


def in_a_child(work) -> int:
    """The number of a process that does this, and nothing else."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def without_times(records: list[dict]) -> list[dict]:
    """What must not depend on when a run was made."""
    kept = [{key: value for key, value in record.items() if key not in CHANGING} for record in records]
    return [r | {"metrics": [{k: v for k, v in m.items() if k != "seconds"} for m in r["metrics"]]} for r in kept]


def test_a_queue_that_is_killed_at_any_moment_loses_no_record_and_changes_none(
    small,  # noqa: F811
    tmp_path,
    monkeypatch,
):
    monkeypatch.setattr(planning, "checkpoints_of", kept(tmp_path))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    monkeypatch.setattr(planning, "RESULTS", whole)
    started = time.monotonic()
    planning.run_declared([ONE_MODEL])
    seconds = time.monotonic() - started
    monkeypatch.setattr(planning, "RESULTS", killed)
    path, generator, kills, before = killed / "tiny.jsonl", random.Random(0), 0, b""
    for _ in range(60):
        child = in_a_child(lambda: planning.run_declared([ONE_MODEL]))
        time.sleep(generator.uniform(0.0, seconds / 4))
        done, _ = os.waitpid(child, os.WNOHANG)
        if not done:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            kills += 1
        after = path.read_bytes() if path.exists() else b""
        assert after.startswith(before)
        before = after
        if done:
            break
    planning.run_declared([ONE_MODEL])
    assert kills > 2
    assert without_times(read_records(path)) == without_times(read_records(whole / "tiny.jsonl"))


def test_a_run_that_was_interrupted_goes_on_from_its_checkpoint(small, tmp_path):  # noqa: F811
    trial = Trial(LONGER, "reported", 4e-3, 0)
    whole = execute_trial(ONE_MODEL, trial, build, show_progress=False)
    steps: list[int] = []

    def counted(name, **options):
        """Count training steps; stop in the tenth."""
        model = build(name, **options)

        def count(module, inputs):
            if module.training:
                steps.append(len(steps))
                if len(steps) == 10:
                    raise KeyboardInterrupt

        model.register_forward_pre_hook(count)
        return model

    checkpoints = Checkpoints(tmp_path / "run.pt", 4)
    with pytest.raises(KeyboardInterrupt):
        execute_trial(ONE_MODEL, trial, counted, checkpoints=checkpoints, show_progress=False)
    again = execute_trial(ONE_MODEL, trial, counted, checkpoints=checkpoints, show_progress=False)
    assert len(steps) < 10 + LONGER.steps - 2
    assert without_times([again]) == without_times([whole])


def test_a_queue_that_is_started_twice_is_one_sentence(small):  # noqa: F811
    with running.at_work(0, 2, nice=0), running.at_work(1, 2, nice=0):
        expected = rf"the shard is '0/2'; expected no other queue at this part, .*: process {os.getpid()} is at it"
        with pytest.raises(ValueError, match=expected), running.at_work(0, 2, nice=0):
            pass
    with running.at_work(0, 2, nice=0):
        pass


def test_what_is_timed_is_alone(small, tmp_path, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setattr(running, "SETTLING", 0.2)
    counter = tmp_path / "counter"

    def count():
        with running.at_work(0, 1, nice=0):
            for number in range(2000):
                counter.write_text(str(number))
                time.sleep(0.01)

    child = in_a_child(count)
    try:
        while not counter.exists():
            time.sleep(0.01)
        assert running.workers() == [child]
        with running.quiet():
            before = counter.read_bytes()
            time.sleep(0.3)
            assert counter.read_bytes() == before
        time.sleep(0.3)
        assert counter.read_bytes() != before
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert f"the queue waits meanwhile: processes [{child}]" in capsys.readouterr().out
    assert running.workers() == []


def test_a_command_runs_alone_and_ends_as_it_ends(small, monkeypatch):  # noqa: F811
    import alone

    for code in (0, 3):
        monkeypatch.setattr(sys, "argv", ["alone.py", sys.executable, "-c", f"raise SystemExit({code})"])
        with pytest.raises(SystemExit) as ended:
            alone.main()
        assert ended.value.code == code
    monkeypatch.setattr(sys, "argv", ["alone.py"])
    with pytest.raises(SystemExit, match="the command is missing; expected one to run"):
        alone.main()


def test_code_that_is_not_committed_makes_no_record(monkeypatch):
    monkeypatch.setattr(running, "git", lambda *arguments: " M src/efficient_transformers/layers/gmlp.py")
    with pytest.raises(ValueError, match=r"the code is \[' M src/.*gmlp.py'\]; expected that of a commit"):
        running.commit_of_code()


def test_git_that_fails_says_so():
    with pytest.raises(ValueError, match=r"git is 'nonsense'; expected no error; it says: .*nonsense"):
        running.git("nonsense")


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder in a repository of its own, for records."""
    monkeypatch.setattr(running, "ROOT", tmp_path)
    monkeypatch.setattr(running, "QUEUE", tmp_path)
    (tmp_path / "results").mkdir()
    for line in ("init", "config user.name Somebody", "config user.email somebody@example.org"):
        running.git(*line.split())
    return tmp_path / "results"


def test_records_are_committed_alone_and_at_the_end_of_their_time(results, tmp_path, monkeypatch):
    (tmp_path / "code.py").touch()
    running.git("add", "code.py")
    (results / "tiny.jsonl").write_text(json.dumps({"run": {}}) + "\n")
    keeper = running.Keeper(results)
    keeper.keep()
    assert running.git("status", "--porcelain").splitlines()[-1] == "?? results/"
    monkeypatch.setattr(running, "COMMIT_SECONDS", 0)
    keeper.keep()
    assert running.git("log", "--format=%s") == "Records: tiny"
    assert running.git("show", "--name-only", "--format=") == "results/tiny.jsonl"
    assert running.git("status", "--porcelain").splitlines()[0] == "A  code.py"
    keeper.keep(now=True)
    assert running.git("log", "--format=%s") == "Records: tiny"


def test_two_that_keep_the_same_record_commit_it_once(results):
    (results / "tiny.jsonl").write_text(json.dumps({"run": {}}) + "\n")
    with ThreadPoolExecutor(2) as pool:
        with locked(running.QUEUE / "commit.lock"):
            kept = [pool.submit(running.Keeper(results).keep, now=True) for _ in range(2)]
            time.sleep(0.5)  # both have come as far as they come
        for each in kept:
            each.result(10)
    assert running.git("log", "--format=%s") == "Records: tiny"
