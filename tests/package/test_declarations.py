"""What was declared, when, and by which defaults: the order of declaration and run is in the files and in git."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from datetime import datetime
from functools import cache
from pathlib import Path

import planning
import pytest
import torch
from declared import STUDIES
from variants import build, complete

from efficient_transformers.studies.cost import effective_parameters, multiply_adds
from efficient_transformers.studies.protocol import PROTOCOL, Entry, Study
from efficient_transformers.studies.records import by_label, by_model, read_records

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
RESULTS, DECLARATIONS = planning.RESULTS, planning.DECLARATIONS
NEW = {name: study for name, study in STUDIES.items() if study.protocol == PROTOCOL}
FILES = {path.name: read_records(path) for path in sorted(RESULTS.glob("*.jsonl"))}
OF_OTHER_MODELS = {"squared-relu": ["experiments/results/machines.jsonl"]}  # in a declaration's commit, of no study
DEFAULTS = json.loads((DECLARATIONS / "defaults-of-protocol-2.json").read_text(encoding="utf-8"))


def git(*arguments: str) -> str | None:
    """What git prints; None if it fails."""
    if shutil.which("git") is None:
        return None
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


@pytest.mark.parametrize("name", NEW)
def test_a_declaration_is_what_was_written_down(name):
    assert planning.declared(NEW[name]) == NEW[name].declaration
    assert NEW[name].checksum == hashlib.sha256((DECLARATIONS / f"{name}.json").read_bytes()).hexdigest()


def test_nothing_else_is_declared():
    assert {path.stem for path in DECLARATIONS.glob("*.json")} == {*NEW, "defaults-of-protocol-2"}


@pytest.mark.parametrize("name", NEW)
def test_a_declaration_is_older_than_its_records_in_a_commit_without_any(name):
    found = git("log", "-1", "--format=%H %cI", "--", f"experiments/declarations/{name}.json")
    if not found or git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("the history is not there")
    declared, when = found.split()
    changed = (git("show", "--name-only", "--format=", declared) or "").splitlines()
    assert changed
    assert [path for path in changed if path.startswith("experiments/results/")] == OF_OTHER_MODELS.get(name, [])
    assert git("grep", "-l", f'"study": "{name}"', declared, "--", "experiments/results") is None
    for record in FILES.get(f"{name}.jsonl", []):
        assert datetime.fromisoformat(when) <= datetime.fromisoformat(record["started"])
        if git("cat-file", "-e", record["commit"]) is not None:
            assert git("merge-base", "--is-ancestor", declared, record["commit"]) is not None


def test_records_whose_order_is_not_provable_are_those_of_a_closed_list():
    frozen = planning.frozen()
    found = {name: hashlib.sha256((RESULTS / name).read_bytes()).hexdigest() for name in frozen}
    assert found == frozen
    assert {r.get("protocol") for name in frozen for r in FILES[name]} == {2}
    others = {name: {r.get("protocol") for r in records} for name, records in FILES.items() if name not in frozen}
    assert not [name for name, versions in others.items() if 2 in versions]
    assert {name for name, versions in others.items() if PROTOCOL in versions} <= {f"{name}.jsonl" for name in NEW}


def test_a_record_more_in_a_closed_file_is_an_error(tmp_path, monkeypatch):
    name = "masked.jsonl"
    lines = (RESULTS / name).read_bytes().splitlines(keepends=True)
    (tmp_path / name).write_bytes(b"".join(lines[:-1]))
    shutil.copy(RESULTS / "frozen.json", tmp_path)
    monkeypatch.setattr(planning, "RESULTS", tmp_path)
    with pytest.raises(ValueError, match=rf"{name} is '[0-9a-f]{{64}}'; expected [0-9a-f]{{64}}, as it was"):
        planning.records_of(STUDIES["masked"])


@pytest.mark.parametrize("name", NEW)
def test_every_option_is_declared_defaults_included(name):
    for entry in NEW[name].entries:
        assert entry.options == complete(entry.model, entry.options)
        assert "n_heads" in entry.options


def options_of(model: str, given: dict) -> dict:
    """All options of a model of protocol 2, which stored what was given: the others are the defaults of its time."""
    whole = DEFAULTS[model] | given
    return whole | ({"d_ff": 4 * whole["d_model"]} if whole.get("d_ff", 0) is None else {})


@cache
def sizes_of(model: str, options: str, vocabulary: int, context: int) -> tuple[int, int]:
    with torch.device("meta"):
        made = build(model, vocab_size=vocabulary, **json.loads(options))
    return effective_parameters(made), round(multiply_adds(made, context))


@pytest.mark.parametrize("file", planning.frozen())
def test_old_records_are_rebuilt_by_the_defaults_of_their_time(file):
    for record in FILES[file]:
        run = record["run"]
        whole = options_of(run["model"], run["options"])
        vocabulary = planning.VOCABULARIES[run["corpus"]] + (run.get("task") == "masked")
        found = sizes_of(run["model"], json.dumps(whole), vocabulary, run["training"]["seq_len"])
        assert found == (record["parameters"], record["multiply_adds"]), run["label"]


TINY = Entry(name="one", model="transformer", options={"d_model": 8, "n_layers": 1, "n_heads": 2}, steps=3)


def test_options_that_are_left_to_their_defaults_are_not_declared(tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "RESULTS", tmp_path)
    monkeypatch.setattr(planning, "DECLARATIONS", tmp_path)
    with pytest.raises(ValueError, match=r"the options of 'one, .*; expected .*'rotary': True.*, with defaults"):
        planning.declare([Study("tiny", "Is it so?", (TINY,), {})])
    assert list(tmp_path.iterdir()) == []


def test_what_has_records_is_not_declared_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "RESULTS", tmp_path)
    monkeypatch.setattr(planning, "DECLARATIONS", tmp_path)
    whole = Entry(name="one", model="transformer", options=complete("transformer", TINY.options), steps=3)
    study = Study("tiny", "Is it so?", (whole,), {})
    (path,) = planning.declare([study])
    assert path.read_text() == study.declaration
    assert planning.declare([study]) == []
    (tmp_path / "tiny.jsonl").touch()
    with pytest.raises(ValueError, match="the declaration of is 'tiny'; expected the one that its records are of"):
        planning.declare([Study("tiny", "Or so?", (whole,), {})])
    with pytest.raises(ValueError, match=r"the declaration of 'tiny' is 'tiny.json'; expected what --declare writes"):
        planning.run_declared([Study("tiny", "Or so?", (whole,), {})])


def run(protocol: int, name: str, seed: int = 0, loss: float = 1.0) -> dict:
    training = {"seed": seed, "learning_rate": 1e-3}
    made = {"label": f"{name}, 0.8M", "name": name, "training": training}
    return {"protocol": protocol, "role": "reported", "run": made, "test": {"loss": loss}}


def test_a_label_that_means_two_models_is_told_apart_by_its_protocol():
    both = [run(2, "gMLP"), run(3, "gMLP", loss=2.0)]
    losses, _ = by_model(both)
    assert losses == {"dense gMLP": {0: 1.0}, "gMLP": {0: 2.0}}
    with pytest.raises(ValueError, match=r"the protocol of 'gMLP, 0.8M' is \[2, 3\]; expected one: a label may mean"):
        by_label(both)
