"""Records are written a line for each run; what is cut off, or no record, is said, kept and skipped."""

from __future__ import annotations

import json
import math

import pytest

from efficient_transformers.judging.recording import append_record, read_records

RECORDS = [{"run": {"label": "tiny", "training": {"seed": seed}}, "metrics": []} for seed in (0, 1, 2)]


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "new" / "folder" / "r.jsonl"
    for record in RECORDS[:2]:
        append_record(record, found)
    return found


def test_a_record_is_one_line_of_json(path):
    assert path.read_text().endswith("}\n")
    assert [json.loads(line) for line in path.read_text().splitlines()] == RECORDS[:2] == read_records(path)


def test_a_line_that_was_cut_off_is_reported_and_the_next_is_a_line_of_its_own(path):
    good, cut = path.read_text().splitlines()
    path.write_text(good + "\n" + cut[: len(cut) // 2])
    with pytest.warns(UserWarning, match=r"r\.jsonl, line 2 is not a record"):
        assert read_records(path) == RECORDS[:1]
    append_record(RECORDS[2], path)
    with pytest.warns(UserWarning, match="line 2"):
        assert read_records(path) == [RECORDS[0], RECORDS[2]]
    assert path.read_text().splitlines()[:2] == [good, cut[: len(cut) // 2]]


def test_a_last_line_that_lacks_only_its_end_is_a_record(path):
    path.write_text(path.read_text().rstrip("\n"))
    append_record(RECORDS[2], path)
    assert read_records(path) == RECORDS


def test_lines_that_are_not_records_are_skipped_and_kept(path):
    good = path.read_bytes()
    bad = [b"null", b"[]", b"3", b'"text"', b"{}", b'{"run": 1}', b'{"run": {}, "metrics": 2}', b"\xff\xfe"]
    bad.append(b'{"run": null}')
    path.write_bytes(b"\n".join(bad) + b"\n" + good)
    with pytest.warns(UserWarning, match="is not a record") as warned:
        assert read_records(path) == RECORDS[:2]
    assert [int(str(w.message).split("line ")[1].split()[0]) for w in warned] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    append_record(RECORDS[2], path)
    assert path.read_bytes().splitlines()[: len(bad)] == bad


def test_a_record_that_is_not_json_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        append_record({"run": {}, "metrics": [{"validation_loss": math.nan}]}, tmp_path / "r.jsonl")
    assert not (tmp_path / "r.jsonl").exists()
