"""What the book says of results: each word is the one that the runs say, and no sentence says another."""

from __future__ import annotations

import json
import re
import statistics
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args

import matplotlib.pyplot as plt
import pytest

from efficient_transformers.book import results
from efficient_transformers.book.records import model_name
from efficient_transformers.judging.evidence import ALIKE, Comparison, Word, regrouped, word_for
from efficient_transformers.judging.recording import updated

ROOT = Path(__file__).parents[2]
NAMES = list(results.written()["questions"])


def comparison(low, high, told_apart):
    mean = (low + high) / 2
    return Comparison([mean], mean, low, high, 0.01 if told_apart else 0.5, told_apart, 0.01)


@pytest.mark.parametrize(
    ("low", "high", "undone", "word"),
    [
        (-0.05, -0.01, (), "better"),
        (0.01, 0.05, (), "worse"),
        (-0.05, -0.01, ("Dunnett",), "cannot tell"),
        (-0.02, -0.01, ("own spreads",), "as good"),
        (-ALIKE, ALIKE, (), "as good"),
        (-ALIKE, ALIKE + 0.001, (), "cannot tell"),
        (-ALIKE - 0.001, ALIKE, (), "cannot tell"),
    ],
)
def test_the_rule(low, high, undone, word):
    assert word_for(comparison(low, high, not low <= 0 <= high), undone) == word


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_says_what_its_runs_say(name):
    found = results.find(name)
    assert "?" in found.question
    assert not re.search(r"[][{}]", found.sentence)


@pytest.mark.parametrize("name", NAMES)
def test_another_word_is_refused(name):
    says, rows = results.written()["questions"][name]["answer"], results.find(name).rows
    for said in results.SAID.finditer(says):
        for wrong in {*get_args(Word)} - {said[1]}:
            planted = says[: said.start(1)] + wrong + says[said.end(1) :]
            with pytest.raises(ValueError, match=f"the word of .* is {wrong!r}; expected {said[1]!r}"):
                results.told(planted, rows)


def test_what_is_wrong_in_a_sentence_is_named():
    rows = results.find("primer-ez").rows
    with pytest.raises(ValueError, match="a row is 'shrt'"):
        results.told("[better](shrt; twice as long), [cannot tell](long)", rows)
    with pytest.raises(ValueError, match=r"a word for each of its rows, \['long'\] too"):
        results.told("[better](short; twice as long)", rows)
    with pytest.raises(ValueError, match="each word with its rows"):
        results.told("[better](short; twice as long) and worse, [cannot tell](long)", rows)


def test_an_entry_that_names_no_runs_is_named(monkeypatch):
    says = results.written()
    for row, reason in (
        (["nobody", "a list", "a", "b"], "the study is 'nobody'"),
        (["distances", "a list", "a", "b"], "the list of 'distances' is 'a list'"),
        (["distances", "distances, equal time", "a", "b"], "the pair is 'a − b'"),
    ):
        entry = says["questions"]["primer-ez"] | {"rows": {"short": row}}
        monkeypatch.setattr(results, "written", lambda entry=entry: says | {"questions": {"x": entry}})
        results.find.cache_clear()
        with pytest.raises(ValueError, match=f"results.yml, x: {reason}"):
            results.find("x")
    results.find.cache_clear()
    with pytest.raises(ValueError, match="name is 'y'"):
        results.find("y")


def test_a_pair_whose_models_have_not_run_the_same_seeds_is_left_out(monkeypatch):
    asked, pair, known = ("muon", "optimizers, 500 steps"), ("gMLP, Muon", "gMLP"), dict(results.reported())
    assert pair in results.judged(*asked)
    key = next(key for key in known if key[1].startswith("gMLP, Muon, 0.8M, 500"))
    known[key] = replace(known[key], losses={0: known[key].losses[0]})
    monkeypatch.setattr(results, "reported", lambda: known)
    assert pair not in results.judged.__wrapped__(*asked)


def test_the_lists_are_those_that_the_studies_declared():
    lists = results.lists()
    for path in sorted((ROOT / "experiments" / "results" / "declarations").glob("*.json")):
        declared = json.loads(path.read_text(encoding="utf-8"))
        if "figures" in declared:
            figures = {name: [((*a,), (*b,)) for a, b in pairs] for name, pairs in declared["figures"].items()}
            assert lists[declared["name"]] == figures


def test_an_answer_is_printed_and_drawn(drawn, capsys):
    results.answer("gmlp")
    assert capsys.readouterr().out == f"{results.find('gmlp')}\n"
    (ax,) = plt.gcf().axes
    assert [text.get_text() for text in ax.texts] == [str(row) for row in results.find("gmlp").rows.values()]


def test_only_better_and_worse_are_filled(drawn):
    found = results.find("primer-ez")
    figure = results.strips({k: (r.comparison, r.word) for k, r in found.rows.items()})
    diamonds = [line for line in figure.axes[0].lines if line.get_marker() == "D"]
    assert [mark.get_markerfacecolor() == "white" for mark in diamonds] == [False, True, False]


@cache
def lines():
    """Test losses by seed, as the files of the records have them, and the shown name of the model, by entry."""
    losses, names = {}, {}
    for path in sorted((ROOT / "experiments" / "results").glob("*.jsonl")):
        for record in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            if record.get("role") == "reported":
                entry = record.get("protocol", 1), record["run"]["label"]
                score = record["test"] if record.get("test") else record["validation"]
                losses.setdefault(entry, {})[record["run"]["training"]["seed"]] = score["loss"]
                names[entry] = model_name(updated(record))
    return losses, names


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_of_a_row_is_that_of_the_lines_of_the_records(name):
    losses, names = lines()
    rows = results.written()["questions"][name]["rows"]
    for label, (study, name_of_list, *pair) in rows.items():
        means = [
            statistics.mean(losses[a][seed] - losses[b][seed] for seed in losses[a].keys() & losses[b].keys())
            for a, b in results.lists()[study][name_of_list]
            if pair in ([names.get(a), names.get(b)], [a[1], b[1]])
        ]
        assert results.find(name).rows[label].comparison.mean == pytest.approx(*means)


def test_the_finding_of_the_first_page_is_what_the_runs_say():
    """Two plain layers are better than an hourglass of eight, which is better than eight plain ones."""
    two, eight = (results.find("hourglass-two").rows[f"against {n} layers, 1,024 characters"] for n in ("two", "eight"))
    assert (two.word, eight.word) == ("worse", "better")
    assert max(two.models[1].losses.values()) < min(eight.models[1].losses.values())
    (found,) = re.findall(r"^One of its results: .+$", (ROOT / "book" / "index.md").read_text("utf-8"), re.MULTILINE)
    assert found in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("page", ["how-we-compare", "06-head-to-head"])
def test_the_bound_of_as_good_is_that_of_the_pages(page):
    assert f"within {ALIKE:g} nats of 0" in (ROOT / "book" / f"{page}.md").read_text("utf-8")


@pytest.mark.slow
def test_the_page_says_how_many_words_a_correction_for_whole_studies_would_take():
    asked = taken = 0
    for study in results.lists().keys() - {results.AFTERWARDS}:
        rows, losses = {}, {}
        for name in results.lists()[study]:
            with suppress(ValueError):  # declared, and not run as declared
                judged = [] if [study, name] in results.written()["given"] else results.judged(study, name).values()
                rows |= (of := {f"{name} {i}": row for i, row in enumerate(judged)})
                losses |= (
                    {name: {i: tuple(model.losses for model in row.models) for i, row in of.items()}} if of else {}
                )
        undone = regrouped(losses) if losses else {}
        asked += len(rows)
        taken += sum(word_for(row.comparison, undone[i]) != row.word for i, row in rows.items())
    page = (ROOT / "book" / "how-we-compare.md").read_text(encoding="utf-8")
    assert f"of {asked} pairs it would take *better* or *worse* from {taken}." in page
