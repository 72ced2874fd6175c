"""What was declared, when: a declaration is older than its records, in its file and in git."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from efficient_transformers.judging.recording import read_records

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
DECLARED = {
    path.stem: path
    for path in sorted((RESULTS / "declarations").glob("*.json"))
    if path.stem not in ("defaults-of-protocol-2", "not-provable")
}
FILES = {path.name: read_records(path) for path in sorted(RESULTS.glob("*.jsonl"))}
OF_OTHER_MODELS = {"squared-relu": ["experiments/results/machines.jsonl"]}  # in a declaration's commit, of no study
CUT = {"size-128"}  # declared, and not run


def git(*arguments: str) -> str | None:
    """What git prints; None if it fails."""
    if shutil.which("git") is None:
        return None
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


@pytest.mark.parametrize("name", DECLARED)
def test_a_record_repeats_the_checksum_of_its_declaration(name):
    checksum = hashlib.sha256(DECLARED[name].read_bytes()).hexdigest()
    records = FILES.get(f"{name}.jsonl", [])
    assert bool(records) == (name not in CUT)
    assert {record["declaration"] for record in records} <= {checksum}
    labels = {entry["label"] for entry in json.loads(DECLARED[name].read_text(encoding="utf-8"))["entries"]}
    assert {record["run"]["label"] for record in records} <= labels


@pytest.mark.parametrize("name", DECLARED)
def test_a_declaration_is_older_than_its_records_in_a_commit_without_any(name):
    path = f"experiments/declarations/{name}.json"  # where it stood until all runs were made
    found = git("log", "--diff-filter=AM", "-1", "--format=%H %cI", "--", path)
    if not found or git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("the history is not there")
    declared, when = found.split()
    assert git("show", f"{declared}:{path}") == DECLARED[name].read_text(encoding="utf-8").strip()
    changed = (git("show", "--name-only", "--format=", declared) or "").splitlines()
    assert [path for path in changed if path.startswith("experiments/results/")] == OF_OTHER_MODELS.get(name, [])
    assert git("grep", "-l", f'"study": "{name}"', declared, "--", "experiments/results") is None
    records = FILES.get(f"{name}.jsonl", [])
    assert all(datetime.fromisoformat(when) <= datetime.fromisoformat(record["started"]) for record in records)
    for commit in {record["commit"] for record in records}:
        if git("cat-file", "-e", commit) is not None:
            assert git("merge-base", "--is-ancestor", declared, commit) is not None


def test_studies_whose_order_is_not_provable_are_those_of_a_closed_list():
    closed = json.loads((RESULTS / "declarations" / "not-provable.json").read_text(encoding="utf-8"))
    versions = {name: {record.get("protocol") for record in records} for name, records in FILES.items()}
    assert {name for name, found in versions.items() if 2 in found} == {*closed["order not provable"]}
    assert {name for name, found in versions.items() if 3 in found} == {f"{name}.jsonl" for name in {*DECLARED} - CUT}
