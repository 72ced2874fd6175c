"""The table by idea: short cells, each number of ours computed again from its records, each source there."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import planning
import pytest
import yaml
from declared import STUDIES

from efficient_transformers.studies import evidence
from efficient_transformers.studies.protocol import Entry, Key, key_of
from efficient_transformers.studies.records import read_records
from tools.notebooks import chapters

BOOK = Path(__file__).parents[2] / "book"
ROWS = yaml.safe_load((BOOK / "by-idea.yml").read_text(encoding="utf-8"))
BIBLIOGRAPHY = (BOOK / "references.bib").read_text(encoding="utf-8")
KEYS = set(re.findall(r"^@\w+\{(\w+),", BIBLIOGRAPHY, re.MULTILINE))
READ = {"abstract", "two readings", "one reading", "text", "log", "thread", "README", "card"}
NUMBER = re.compile(r"\d\.\d{3}")

every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row["idea"])


@cache
def losses() -> dict[Key, dict[int, float]]:
    """Test losses of all reported runs, by entry and seed."""
    found: dict[Key, dict[int, float]] = defaultdict(dict)
    for path in sorted(planning.RESULTS.glob("*.jsonl")):
        for record in read_records(path):
            if record.get("role") == "reported" and "test" in record:
                found[key_of(record)][record["run"]["training"]["seed"]] = record["test"]["loss"]
    return found


def plain(entry: Entry) -> str:
    """The name of a model, without the budget."""
    return re.sub(", equal (time|work)$", "", entry.name)


@cache
def verdicts(study: str, is_short: bool, asked: tuple[str, str] | None = None) -> dict[str, tuple[float, bool]]:
    """The mean of each complete pair of a study's lists of one budget, and whether it is sure, by list and pair.

    A budget is short, 500 steps or their time, or long. A pair that was asked afterwards is a list of its own.
    """
    entries = {entry.key: entry for entry in (*STUDIES[study].borrowed, *STUDIES[study].entries)}
    of_budget = {key: plain(entry) for key, entry in entries.items() if (entry.steps < 1000) == is_short}
    listed = dict(STUDIES[study].figures)
    if asked:
        key = {name: key for key, name in of_budget.items()}
        listed[""] = ((key[asked[0]], key[asked[1]]),)
    lists = {}
    for title, pairs in listed.items():
        whole = [pair for pair in pairs if all({*losses()[key]} == {*entries[key].seeds} for key in pair)]
        if whole and all(key in of_budget for pair in whole for key in pair):
            sides = {f"{title}: {of_budget[a]} − {of_budget[b]}": (losses()[a], losses()[b]) for a, b in whole}
            assert len(sides) == len(whole), "a name that is two entries of a list"
            lists[title] = sides
    undone = evidence.regrouped(lists) if lists else {}
    return {
        name: (found.mean, found.told_apart and not undone[name])
        for sides in lists.values()
        for name, found in evidence.compare(sides).items()
    }


def verdict(source: dict) -> tuple[float, bool]:
    """The mean of a source's pair, and whether it is sure."""
    name = f"{source.get('list', '')}: {' − '.join(source['pair'])}"
    if "list" not in source:
        return verdicts(source["study"], source["steps"] < 1000, tuple(source["pair"]))[name]
    (found,) = (of[name] for short in (True, False) if name in (of := verdicts(source["study"], short)))
    return found


def source_link(source: dict) -> str:
    """A link with the author, or project, and the year of an entry of references.bib."""
    entry = re.search(rf"^@\w+\{{{source['key']},(.*?)^\}}", BIBLIOGRAPHY, re.MULTILINE | re.DOTALL)[1]
    field = dict(re.findall(r"^  (\w+) = \{(.*)\},$", entry, re.MULTILINE))
    address = f"https://arxiv.org/abs/{field['eprint']}" if "eprint" in field else field["howpublished"][5:-1]
    who = re.split(r",| and ", field["author"])[0].strip("{}")
    return f"[{who} {field.get('year', '')}".rstrip() + f"]({address})"


def made_table() -> str:
    """The table as it stands in Chapter 6."""
    lines = ["| Idea | At our scale | Reported at 100M to 8B | Try first? |", "| --- | --- | --- | --- |"]
    for row in ROWS:
        reported = f"{row['reported']} {', '.join(map(source_link, row['reported_source']))}"
        lines.append(f"| {row['idea']} | {row['ours']} | {reported} | {row['first']} |")
    return "\n".join(lines)


@every_row
def test_no_cell_is_empty_and_what_they_name_exists(row):
    assert row["section"] in chapters.sections()
    for field in ("idea", "ours", "reported", "first"):
        assert row[field].strip(), field
    assert row["reported_source"]
    for source in row["reported_source"]:
        assert source["key"] in KEYS
        assert source["place"]
        assert source["read"] in READ
        assert source["read"] != "one reading" or "(one reading)" in row["reported"]


@every_row
def test_what_is_ours_is_in_the_records(row):
    for source in row["ours_source"]:
        mean, sure = verdict(source)
        assert f"{mean:+.3f}" == f"{source['mean']:+.3f}"
        assert sure == source["sure"]
        number = f"{abs(mean):.3f}"
        assert sure or number not in re.sub(rf"{number}[^.;]*, not sure", "", row["ours"])
    said = {float(number) for number in NUMBER.findall(row["ours"])}
    assert said <= {abs(source["mean"]) for source in row["ours_source"]}
    assert {abs(source["mean"]) for source in row["ours_source"]} <= said


def test_the_table_of_the_chapter_is_this_one():
    assert made_table() in (BOOK / "06-head-to-head.md").read_text(encoding="utf-8")
