"""The study over size: its text is long enough, rates are taken as declared, the gate shuts, factors are read."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import planning
import pytest
import size
import studies
from declared import STUDIES
from declared.size import AFTER_THE_GATE, ASKED, BASELINE, CONTEXT, GATE, SUBWORDS, TRAIN_TOKENS, WIDTHS
from declared.sizes import count, on_paper
from test_protocol import small  # noqa: F401 (a fixture)

from efficient_transformers import BytePairVocabulary, Corpus, load_corpus
from efficient_transformers.studies import trials
from efficient_transformers.studies.protocol import (
    TUNING_SEED,
    Entry,
    Study,
    Trial,
    chosen_rate,
    missing_trials,
)
from efficient_transformers.studies.records import bits_per_byte, step_key
from efficient_transformers.studies.rules import problems
from efficient_transformers.training.evaluation import BLOCK, block_starts

pytestmark = pytest.mark.slow

PARTS = [STUDIES[f"size-{width}"] for width in WIDTHS]
ENTRIES = [entry for part in PARTS for entry in part.entries]


# What is declared


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.label)
def test_no_run_reads_more_than_the_text_holds(entry):
    assert entry.steps * entry.batch_size * entry.seq_len <= TRAIN_TOKENS
    assert entry.corpus == "source-code"
    assert entry.subwords == SUBWORDS


@pytest.mark.long  # encodes 44 MB once
def test_the_text_holds_what_is_declared():
    corpus = load_corpus("source-code", subwords=SUBWORDS)
    assert len(corpus.train) == TRAIN_TOKENS
    for part in (corpus.validation, corpus.test):
        assert len(block_starts(len(part), 400 * BLOCK, CONTEXT)) == 400


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_models_of_a_width_have_equal_parameters(part):
    counts = {e.name: count(on_paper(e.model, CONTEXT, e.options, SUBWORDS)) for e in part.entries}
    for found in counts.values():
        assert found == pytest.approx(counts[BASELINE], rel=0.05)


def test_factors_from_one_to_four_lie_between_runs():
    for part in PARTS:
        budgets = {name: sorted(e.steps for e in part.entries if e.name == name) for name in (BASELINE, *ASKED)}
        for name in ASKED:
            enclosed = [(n / budgets[name][-1], n / budgets[name][0]) for n in budgets[BASELINE]]
            assert min(low for low, _ in enclosed) <= 1
            assert max(high for _, high in enclosed) >= 4


def test_steps_double_with_the_width_and_compute_grows_about_forty_times():
    from efficient_transformers.studies.cost import multiply_adds

    spent = []
    for width, steps in zip(WIDTHS, (4000, 8000, 16_000), strict=True):
        (plain,) = (e for e in STUDIES[f"size-{width}"].entries if (e.name, e.steps) == (BASELINE, steps))
        spent.append(steps * multiply_adds(on_paper(plain.model, CONTEXT, plain.options, SUBWORDS), CONTEXT))
    assert 35 < spent[2] / spent[0] < 45


def test_a_step_on_subwords_is_timed_for_itself():
    (plain,) = (e for e in ENTRIES if e.size == "width 128" and e.name == BASELINE and e.steps == 4000)
    characters = replace(plain, subwords=None, corpus="shakespeare-with-test")
    assert step_key(plain.describe(1.0, 0)) != step_key(characters.describe(1.0, 0))
    assert planning.work(plain) > planning.work(characters)


# A rate that is taken from a shorter budget

OPTIONS = {"d_model": 8, "n_layers": 1, "n_heads": 2}
SHORT = Entry(name="one", model="transformer", options=OPTIONS, steps=3, seq_len=16, batch_size=64, seeds=(0, 1),
              corpus="source-code", subwords=300, blocks=2)  # fmt: skip
LONGER = replace(SHORT, steps=6, rate_of=SHORT)
TINY = Study("tiny", "Is it so?", (SHORT, LONGER), {})


def record(of, role, rate, seed, loss):
    """What a run would leave."""
    score = {"loss": loss, "targets": BLOCK * of.blocks, "bytes": 2 * BLOCK * of.blocks}
    made = {
        "protocol": 3,
        "study": "tiny",
        "declaration": TINY.checksum,
        "commit": "0" * 40,
        "started": "2026-01-01T00:00:00+00:00",
        "role": role,
        "run": of.describe(rate, seed),
        "parameters": 1,
        "multiply_adds": 1000,
        "metrics": [{"step": of.steps, "validation_loss": loss}],
        "validation": {"part": "validation", **score},
        "device": "cpu",
    }
    return json.loads(json.dumps(made | ({"test": {"part": "test", **score}} if role == "reported" else {})))


def tuned(of, best, low=2.0):
    """Tries of the first seed around a best rate."""
    rates = {rate: low + abs(math.log2(rate / best)) / 10 for rate in (*of.rates, best / 2**0.5, best * 2**0.5)}
    return [record(of, "tuning", float(f"{rate:.3g}"), TUNING_SEED, loss) for rate, loss in rates.items()]


def test_the_longer_budget_waits_for_the_rate_of_the_shorter_and_takes_it():
    assert [(t.entry, t.role) for t in missing_trials(LONGER, [])] == [(SHORT, "tuning")] * 3
    assert chosen_rate(LONGER, []) is None
    records = tuned(SHORT, 2e-3)
    assert chosen_rate(LONGER, records) == 2e-3
    assert [(t.entry, t.role, t.rate, t.seed) for t in missing_trials(LONGER, records)] == [
        (LONGER, "reported", 2e-3, seed) for seed in (0, 1)
    ]
    done = [*records, *(record(LONGER, "reported", 2e-3, seed, 1.9) for seed in (0, 1))]
    assert missing_trials(LONGER, done) == []
    assert list(problems(TINY, done)) == []
    (found,) = problems(TINY, [*records, record(LONGER, "tuning", 2e-3, TUNING_SEED, 1.9)])
    assert "tunes with seed 100" in found
    (found,) = problems(TINY, [*records, record(LONGER, "reported", 4e-3, 0, 1.9)])
    assert "has the rate 0.004; expected 0.002, the best of tuning" in found


def test_a_score_of_fewer_blocks_than_declared_is_refused():
    few = record(SHORT, "tuning", 1e-3, TUNING_SEED, 2.0)
    few["validation"]["targets"] = BLOCK
    assert [f"expected {2 * BLOCK}" in problem for problem in problems(TINY, [few])] == [True]


def test_a_declaration_names_the_entry_whose_rate_is_taken_and_no_field_that_is_not_given():
    declared = json.loads(TINY.declaration)["entries"]
    assert declared[1]["rate_of"] == SHORT.label
    assert "rate_of" not in declared[0]
    plain = Study("plain", "?", (Entry(name="one", model="transformer", options=OPTIONS, steps=3),), {})
    assert not {"subwords", "blocks", "rate_of"} & set(json.loads(plain.declaration)["entries"][0])


@pytest.mark.parametrize(
    "change",
    [{"steps": 3}, {"model": "primer"}, {"options": OPTIONS | {"d_model": 16}}, {"subwords": 400}, {"rate": 1e-3}],
    ids=str,
)
def test_a_rate_of_another_model_or_of_the_same_budget_is_refused(change):
    with pytest.raises(ValueError, match=r"rate_of is 'one, .*; expected the same model at other than"):
        replace(LONGER, **change)


def test_a_rate_of_an_entry_of_another_study_is_refused():
    with pytest.raises(ValueError, match=r"rate_of 'one, .*; expected one of the entries"):
        Study("tiny", "?", (LONGER,), {})
    with pytest.raises(ValueError, match="blocks is 0; expected an int of at least 1"):
        replace(SHORT, blocks=0)


# A dry run


@pytest.fixture
def words(small, monkeypatch):  # noqa: F811
    """A text of a few thousand subwords in three parts."""
    text = "for row in rows:\n    total += weights[row] * values[row]\n" * 300
    vocabulary = BytePairVocabulary.make([text], 300)
    tokens = vocabulary.encode(text)
    corpus = Corpus("source-code", vocabulary, tokens, tokens, tokens)
    monkeypatch.setattr(trials, "load_corpus", lambda name, subwords: corpus)
    return corpus


def test_three_steps_of_the_study_leave_a_record_that_follows_it(words, tmp_path):
    planning.run_declared([TINY])
    records = planning.records_of(TINY)
    assert [(r["run"]["training"]["steps"], r["role"]) for r in records] == [
        *[(3, "tuning")] * (len(records) - 4),
        *[(3, "reported")] * 2,
        *[(6, "reported")] * 2,
    ]
    for r in records:
        assert r["run"]["subwords"] == 300
        assert r["validation"]["targets"] == 2 * BLOCK
        rate = r["validation"]["bytes"] / r["validation"]["targets"]
        assert rate == pytest.approx(300 * 57 / len(words.test), rel=0.02)
    last = records[-1]["test"]
    assert bits_per_byte(last) == pytest.approx(last["loss"] / math.log(2) * last["targets"] / last["bytes"])
    planning.print_plan([TINY])


def test_a_declared_model_runs_on_subwords(words):
    declared = PARTS[0].entries[-1]
    options = declared.options | {"max_seq_len": 16}
    entry = replace(declared, steps=3, seq_len=16, batch_size=64, blocks=2, options=options)
    study, trial = Study("tiny", "?", (entry,), {}), Trial(entry, "reported", 4e-3, 0)
    found = trials.execute_trial(study, trial, show_progress=False)
    assert found["test"]["bytes"] > found["test"]["targets"]


# The gate, and what is read


def law(entry):
    """A loss that falls with steps, of models that need fewer of them."""
    faster = {BASELINE: 1.0, "Primer": 2.5, "SwiGLU and convolutions": 1.4, "gMLP": 1.2}[entry.name]
    return 6 - 0.4 * math.log2(entry.steps * faster)


def complete(part, spread=0.001, loss=law):
    """Records of every run of a part."""
    made = []
    for entry in part.entries:
        best = entry.rates[1]
        if entry.rate_of is None:
            made += tuned(entry, best)
        made += [record(entry, "reported", best, seed, loss(entry) + spread * (-1) ** seed) for seed in entry.seeds]
    return [r | {"study": part.name, "declaration": part.checksum} for r in made]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_factors_are_read_between_runs(part):
    records = complete(part)
    assert list(problems(part, records)) == []
    primer, mixed = (size.factor_of(part, name, records) for name in ASKED)
    assert primer.value == pytest.approx(2.5, rel=0.01)
    assert mixed.value == pytest.approx(1.4, rel=0.01)
    assert size.factor_of(part, ASKED[0], records[:-1]) is None or part.entries[-1].name != ASKED[0]


def test_the_gate_passes_and_each_reason_shuts_it():
    part = STUDIES[GATE]
    assert list(size.obstacles(part, complete(part))) == []
    assert "lacks" in next(iter(size.obstacles(part, complete(part)[:-1])))
    noisy = list(size.obstacles(part, complete(part, spread=0.05)))
    assert all("two seeds of" in reason for reason in noisy)
    assert len(noisy) == sum(entry.steps >= 4000 for entry in part.entries)
    far = list(size.obstacles(part, complete(part, loss=lambda e: law(e) - (1 if e.name == "Primer" else 0))))
    assert far == ["the factor of Primer lies beyond its runs, or runs are missing; expected one between them"]


def test_a_shut_gate_keeps_the_wider_parts_from_running(monkeypatch, capsys):
    monkeypatch.setattr(studies, "records_of", lambda study: [])
    assert studies.behind_the_gate(PARTS) == [STUDIES[GATE]]
    assert "not run: size-128, size-256, since Baseline, width 64" in capsys.readouterr().out
    monkeypatch.setattr(studies, "records_of", complete)
    assert studies.behind_the_gate(PARTS) == PARTS
    assert studies.behind_the_gate([STUDIES["depth"]]) == [STUDIES["depth"]]
    assert set(AFTER_THE_GATE) == {part.name for part in PARTS[1:]}


def test_the_report_has_a_verdict_for_each_model_that_is_asked(monkeypatch):
    monkeypatch.setattr(size, "records_of", lambda study: complete(study))
    lines = list(size.report())
    assert "  gate: passed" in lines
    assert [line for line in lines if line.startswith("  Primer: in steps 2.50")]
    assert len([line for line in lines if "slope of log factor" in line]) == 2
    monkeypatch.setattr(size, "records_of", lambda study: [])
    assert len([line for line in size.report() if "no factor between runs" in line]) == 8
