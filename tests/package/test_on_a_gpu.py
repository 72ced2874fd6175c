"""Many runs at once: nothing twice, the longest chain first, nothing that cannot end in time."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace

import again
import on_a_gpu
import planning
import pytest
import torch
from test_protocol import STUDY, entry, small  # noqa: F401 (a fixture)
from test_queue import in_a_child
from variants import build

from efficient_transformers.studies import trials
from efficient_transformers.studies.protocol import missing_trials
from efficient_transformers.studies.records import load_study, read_records
from efficient_transformers.studies.rules import check_records

pytestmark = pytest.mark.slow

SHORT, LONG = entry(seeds=(0, 1)), entry("two", steps=8, seeds=(0, 1))
BOTH = replace(STUDY, entries=(SHORT, LONG), figures={})
ANOTHER = replace(STUDY, name="another", entries=(replace(SHORT, name="three"),), figures={})


@pytest.fixture
def on_a_cpu(small, tmp_path, monkeypatch):  # noqa: F811
    """The same, without graphs, on a small text."""
    cut = trials.load_corpus("shakespeare-with-test", subwords=None)
    monkeypatch.setattr(on_a_gpu, "shared_corpus", lambda name, subwords: cut)
    monkeypatch.setattr(on_a_gpu, "replayed", lambda entry: build)
    monkeypatch.setattr(on_a_gpu, "RESULTS", tmp_path)
    monkeypatch.setattr(on_a_gpu, "PAUSE", 0.02)
    monkeypatch.setattr(on_a_gpu, "STUDIES", {"tiny": BOTH, "another": ANOTHER})
    return tmp_path


def test_processes_share_a_study_and_make_no_run_twice(on_a_cpu):
    children = [in_a_child(lambda: on_a_gpu.work(["tiny"], time.time() + 300, "0" * 40)) for _ in range(3)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    records = read_records(on_a_cpu / "tiny.jsonl")
    check_records(BOTH, records)
    assert not any(missing_trials(each, records) for each in BOTH.entries)
    assert {record["commit"] for record in records} == {"0" * 40}


def test_studies_come_in_their_order_and_the_longest_chain_of_a_study_first(on_a_cpu):
    found = list(on_a_gpu.open_trials([ANOTHER, BOTH]))
    assert [study.name for study, _ in found] == ["another"] * 3 + ["tiny"] * 6
    assert [trial.entry for _, trial in found[3:]] == [LONG] * 3 + [SHORT] * 3


def test_a_run_that_cannot_end_in_time_is_not_begun(on_a_cpu, monkeypatch):
    done = []
    run = trials.execute_trial

    def slow(*arguments, **options):
        done.append(arguments[1].entry.name)
        time.sleep(0.3)
        return run(*arguments, **options)

    monkeypatch.setattr(trials, "execute_trial", slow)
    monkeypatch.setattr(on_a_gpu, "PAUSE", 0.1)
    clock = time.time()
    monkeypatch.setattr(on_a_gpu.time, "sleep", lambda seconds: (_ for _ in ()).throw(TimeoutError))
    with pytest.raises(TimeoutError):  # it waits for better times
        on_a_gpu.work(["another"], clock + 0.1, "0" * 40)
    assert len(done) <= 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_a_sentence_names_the_way_without_one(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["on_a_gpu.py", "size-64"])
    with pytest.raises(SystemExit):
        on_a_gpu.main()
    assert "python experiments/studies.py runs the same" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["size-64", "--processes", "0"], "processes is 0; expected"),
        (["size-64", "--minutes", "-1"], "minutes is -1.0; expected more than 0"),
        (["head-to-head"], "invalid choice: 'head-to-head'"),  # complete, by older rules
        (["size-64"], "the declaration of 'size-64' is 'size-64.json'; expected what --declare writes"),
    ],
)
def test_a_line_that_says_what_cannot_be_is_a_sentence(line, message, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["on_a_gpu.py", *line])
    monkeypatch.setattr(on_a_gpu.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(planning, "DECLARATIONS", tmp_path)
    with pytest.raises(SystemExit):
        on_a_gpu.main()
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (
            "devices",
            [("Baseline", 4000), ("Primer", 2000), ("SwiGLU and convolutions", 2000), ("gMLP", 2000)],
        ),
        ("versions", [("Baseline, 2 layers, equal time", 3842), ("Primer EZ, equal time", 1819)]),
        ("starts", [("gMLP Toeplitz", 2000)]),
        ("machines", [(name, steps) for name in ("Baseline", "Primer EZ") for steps in (500, 2000)]),
    ],
)
def test_runs_are_made_again_once_and_belong_to_no_study(what, expected, tmp_path, monkeypatch):
    made = {"test": {"loss": 1.0}, "device": "cpu", "versions": {}, "machine": "", "protocol": 3, "validation": {}}
    monkeypatch.setattr(
        again, "execute_trial", lambda study, trial, *_, **__: made | {"study": study.name, "run": trial.describe()}
    )
    monkeypatch.setattr(again, "RESULTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["again.py", what])
    again.main()
    again.main()  # what is there is not made again
    records = read_records(tmp_path / f"{what}.jsonl")
    assert not any("protocol" in record for record in records)
    runs = [(r["run"]["name"], r["run"]["training"]["steps"], r["run"]["training"]["seed"]) for r in records]
    assert sorted(runs) == sorted((name, steps, seed) for seed in again.SEEDS for name, steps in expected)


def test_what_was_made_again_is_of_the_study_and_on_another_device():
    study = load_study(again.GATE)
    made = {json.dumps(r["run"], sort_keys=True): r["device"] for r in study if r["role"] == "reported"}
    here = load_study("devices")
    assert len(here) >= 4
    assert {made[json.dumps(r["run"], sort_keys=True)] for r in here} == {"NVIDIA H100 80GB HBM3"}
    assert {r["device"] for r in here} == {"cpu"}
