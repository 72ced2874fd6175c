"""The page of names: each model that a question compares is on it, once, and is built as it says, at its runs' size."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache, partial
from pathlib import Path

import pytest

from efficient_transformers import build_model
from efficient_transformers.book import records, results
from efficient_transformers.models.cost import effective_parameters

TEXT = (Path(__file__).parents[2] / "book" / "names.md").read_text(encoding="utf-8")
MODELS, ENDINGS = (re.findall(r"^\| (`.*)$", part, re.MULTILINE) for part in TEXT.split("\n## ")[1:])
BUILT = [cells for row in MODELS if (cells := [cell.strip(" `") for cell in row.split("|")])[2].startswith("build")]
BUDGET = re.compile(r"(, equal (time|work))?(, [\d.]+M, [\d,]+ steps of .*)?$")
NAMES = list(results.written()["questions"])
LISTED = re.compile("`([^`]+)`")


def names(rows):
    return [name for row in rows for name in LISTED.findall(row.split("|")[0])]


def explained(name):
    """Whether the page has the name, or its beginning and each part that follows."""
    parts = BUDGET.sub("", name).split(", ")
    known, endings = names(MODELS), names(ENDINGS)
    cuts = range(len(parts), -1, -1)
    return any(
        (not cut or ", ".join(parts[:cut]) in known) and all(part in endings for part in parts[cut:]) for cut in cuts
    )


def test_each_model_of_a_question_has_its_name_on_the_page():
    questions = results.written()["questions"].values()
    asked = {name for says in questions for _, _, *pair in says["rows"].values() for name in pair}
    asked |= {model.name for name in NAMES for row in results.find(name).rows.values() for model in row.models}
    assert sorted(name for name in asked if not explained(name)) == []


@pytest.mark.parametrize("row", BUILT, ids=lambda row: row[0])
def test_a_model_is_built_as_the_page_says_and_its_runs_had_it(row):
    _, _, call, parameters, *_ = row
    model = eval(call, {"build_model": partial(build_model, vocab_size=79)})
    assert f"{effective_parameters(model):,}" == parameters
    assert parameters in sizes()[row[0].split("`")[0]]


@cache
def sizes():
    """The parameters of each model of the records, by name."""
    found = defaultdict(set)
    for path in records.results("recorded").glob("*.jsonl"):
        for record in records.read_records(path):
            if record.get("role") == "reported":
                found[records.model_name(record)].add(f"{record['parameters']:,}")
    return found
