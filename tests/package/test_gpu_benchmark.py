"""The benchmark for a GPU: its code paths run on the CPU in small, and without a GPU it says so."""

import importlib
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from declared.size import TRAIN_TOKENS

from efficient_transformers import BytePairVocabulary, Corpus, TrainingConfig

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("gpu")


@pytest.fixture
def plan(gpu, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("to be, or not to be, that is the question: " * 40, encoding="utf-8")
    return gpu.Plan(
        device="cpu",
        names=("transformer", "hourglass", "gmlp"),
        backend="eager",
        repeats=2,
        d_head=8,
        vocab_size=11,
        tests=("tests/package/test_devices.py::test_the_causal_product_has_the_low_precision_under_autocast",),
        layer=(2, 12, 16),
        matmul=64,
        models=((8_000, 2),),
        step=(2, 16),
        decode=(2, 5, 6),
        corpus=str(text),
        recipe={"d_model": 8, "n_layers": 1, "n_heads": 2, "max_seq_len": 8, "dropout": 0.2},
        training=TrainingConfig(steps=4, batch_size=2, seq_len=8, eval_every=2, eval_batches=1, warmup_steps=1),
    )


def rows(gpu, name, plan, tmp_path):
    """What a section leaves in the file."""
    file = tmp_path / "gpu.json"
    assert gpu.measure([name], plan, file)
    record = json.loads(file.read_text(encoding="utf-8"))
    assert record["machine"]["name"]
    section = record["sections"][name]
    assert section["complete"]
    assert section["error"] is None
    return section["rows"]


def test_tests(gpu, plan, tmp_path):
    (row,) = rows(gpu, "tests", plan, tmp_path)
    assert row == {"tests": 1, "failures": 0, "errors": 0, "skipped": 0, "finished": True, "failed": []}


def test_tests_that_fail_are_named(gpu, plan, tmp_path):
    bad = tmp_path / "test_bad.py"
    bad.write_text("def test_bad_on_cpu():\n    assert False\n", encoding="utf-8")
    (row,) = rows(gpu, "tests", replace(plan, tests=(str(bad),)), tmp_path)
    assert row["failures"] == 1
    assert row["failed"] == ["test_bad_on_cpu"]


def test_layers(gpu, plan, tmp_path):
    found = rows(gpu, "layers", plan, tmp_path)
    assert {row["precision"] for row in found} == {"float32", "bfloat16 autocast"}
    assert len({row["layer"] for row in found}) == len(found) / 2 == 14
    for row in found:
        assert row["ratio"] == pytest.approx(row["milliseconds"] / row["plain_milliseconds"])
        assert row["ratio"] > 0


def test_a_layer_that_is_not_its_plain_form_is_an_error(gpu, plan, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("plain").PlainSquaredReLU, "forward", lambda self, x: x.relu())
    file = tmp_path / "gpu.json"
    assert not gpu.measure(["layers", "utilization"], plan, file)
    sections = json.loads(file.read_text(encoding="utf-8"))["sections"]
    assert "squared ReLU differs from its plain form" in sections["layers"]["error"]
    assert not sections["layers"]["complete"]
    assert len(sections["layers"]["rows"]) == 4
    assert sections["utilization"]["complete"]  # the others do not suffer


def test_recipe(gpu, plan, tmp_path, on_the_cpu):
    _, *found = rows(gpu, "recipe", plan, tmp_path)
    assert [row["model"] for row in found] == ["transformer", "primer-ez"]
    for row in found:
        assert row["finished"]
        assert row["steps"] == 4
        assert [step for step, _ in row["curve"]] == [0, 2, 4]
        assert row["best_validation_loss"] == min(loss for _, loss in row["curve"])


def test_recipe_keeps_what_it_reached(gpu, plan, tmp_path, on_the_cpu, monkeypatch):
    clock = SimpleNamespace(monotonic=iter(range(1000)).__next__)  # a second for every look at it
    monkeypatch.setattr(gpu, "time", clock)
    file = tmp_path / "gpu.json"
    assert gpu.measure(["recipe"], replace(plan, seconds={"recipe": 8}), file)  # four looks for each model
    section = json.loads(file.read_text(encoding="utf-8"))["sections"]["recipe"]
    row = section["rows"][1]
    assert not row["finished"]
    assert row["steps"] == 2
    assert [step for step, _ in row["curve"]] == [0, 2]
    assert not section["complete"]  # there was no time for the second model


def test_utilization(gpu, plan, tmp_path):
    peak, *found = rows(gpu, "utilization", plan, tmp_path)
    assert [(row["model"], row["compiled"]) for row in found] == [(n, c) for n in plan.names for c in (False, True)]
    for row in found:
        assert 4_000 < row["parameters"] < 16_000
        assert row["flops_per_token"] > 0
        flops_per_second = row["flops_per_token"] * row["tokens_per_second"]
        assert row["utilization"] == pytest.approx(flops_per_second / peak["matmul_flops_per_second"])
        assert row["utilization"] > 0


def test_operations_are_counted_by_hand(gpu, plan):
    D, (B, T) = 16, plan.step
    layer = 12 * D**2 + 2 * T * D  # multiply-adds per token: matrices, and scores and mixture against T keys
    by_hand = 2 * layer + plan.vocab_size * D
    assert gpu.step_flops("transformer", D, 2, plan) == 3 * 2 * B * T * by_hand


def test_a_width_fits_the_parameters(gpu, plan):
    for name in plan.names:
        D = gpu.fitting_width(name, 8_000, 2, plan)
        off = {d: abs(gpu.parameter_count(gpu.sized(name, d, 2, 16, plan)) - 8_000) for d in (D - 8, D, D + 8) if d > 0}
        assert min(off, key=off.get) == D


def test_decoding(gpu, plan, tmp_path):
    found = rows(gpu, "decoding", plan, tmp_path)
    caches = ("growing", "static, compiled")
    assert [(row["model"], row["cache"]) for row in found] == [(n, c) for n in plan.names for c in caches]
    assert all(row["tokens_per_second"] > 0 for row in found)


def test_a_section_whose_time_is_over_keeps_its_rows(gpu, plan, tmp_path):
    file = tmp_path / "gpu.json"
    assert gpu.measure(["layers"], replace(plan, seconds={"layers": 0}), file)
    section = json.loads(file.read_text(encoding="utf-8"))["sections"]["layers"]
    assert len(section["rows"]) == 1
    assert not section["complete"]


def test_what_an_earlier_run_recorded_stays_if_it_was_on_the_same_machine(gpu, plan, tmp_path, monkeypatch):
    file = tmp_path / "gpu.json"
    gpu.measure(["layers"], plan, file)
    gpu.measure(["utilization"], plan, file)
    assert set(json.loads(file.read_text(encoding="utf-8"))["sections"]) == {"layers", "utilization"}
    monkeypatch.setattr(gpu, "machine", lambda device: {"device": device, "name": "another"})
    gpu.measure(["layers"], plan, file)
    assert set(json.loads(file.read_text(encoding="utf-8"))["sections"]) == {"layers"}


def test_a_run_that_is_cut_off_keeps_what_it_had(gpu, plan, tmp_path, monkeypatch):
    def cut_off(plan):
        yield {"number": 1}
        raise KeyboardInterrupt

    monkeypatch.setitem(gpu.SECTIONS, "layers", cut_off)
    file = tmp_path / "gpu.json"
    with pytest.raises(KeyboardInterrupt):
        gpu.measure(["layers"], plan, file)
    section = json.loads(file.read_text(encoding="utf-8"))["sections"]["layers"]
    assert section["rows"] == [{"number": 1}]
    assert not section["complete"]
    assert [f.name for f in tmp_path.iterdir() if "partial" in f.name] == []


def test_without_a_gpu_it_says_so():
    environment = {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, FOLDER / "gpu.py"], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "benchmarks/gpu.py needs a GPU: PyTorch finds no CUDA here, so nothing was measured.\n"
    assert done.stdout == ""
    unknown = subprocess.run(
        [sys.executable, FOLDER / "gpu.py", "nothing"], capture_output=True, text=True, env=environment, check=False
    )
    assert unknown.returncode == 2
    assert "no section nothing" in unknown.stderr


def test_the_sections_together_take_at_most_45_minutes_and_without_that_of_size_eight(gpu):
    seconds = dict(gpu.Plan().seconds)
    assert set(seconds) == set(gpu.SECTIONS)
    assert sum(seconds.values()) <= 45 * 60  # what the Makefile says
    assert sum(seconds.values()) - seconds["size"] <= 8 * 60


@pytest.fixture
def small_text(gpu, monkeypatch):
    """A text in three parts, in subwords, in place of those that are asked for; the first cannot be had."""
    text = "for row in rows:\n    total += weights[row] * values[row]\n" * 700
    vocabulary = BytePairVocabulary.make([text], 300)
    tokens = vocabulary.encode(text)

    def load(name, subwords):
        if name == "enwik8":
            raise ConnectionError("there is no network")
        return Corpus(name, vocabulary, tokens, tokens, tokens)

    monkeypatch.setattr(gpu, "load_corpus", load)
    return len(tokens), len(vocabulary)


def test_size(gpu, plan, tmp_path, on_the_cpu, small_text, capsys, monkeypatch):
    monkeypatch.setattr(gpu, "next_rates", lambda entry, tries: [] if tries else [1e-3, 2e-3])
    length, subwords = small_text
    more = length // 1024 + 1
    small = replace(plan, widths=((8, 8), (16, more)), sequences=(64, 16), blocks=1, subwords=300)
    first, *found, last = rows(gpu, "size", small, tmp_path)
    assert first == {"text": "source-code", "tokens": length, "subwords": subwords}
    assert "there is no network; source-code instead" in capsys.readouterr().out
    assert last["width"] == 16
    assert last["not_run"] == f"{more * 1024:,} tokens are more than source-code has"
    runs = [row for row in found if "rate" in row]
    for name, budgets in (("Baseline", [8]), ("Primer", [2, 4, 8]), ("SwiGLU and convolutions", [2, 4, 8])):
        tuned = [row for row in runs if row["model"] == name and row["seed"] == 100]
        assert [row["rate"] for row in tuned] == [1e-3, 2e-3]
        assert {row["steps"] for row in tuned} == {2}
        best = min(tuned, key=lambda row: row["validation_loss"])["rate"]
        reported = [row for row in runs if row["model"] == name and row["seed"] != 100]
        assert [(row["steps"], row["seed"]) for row in reported] == [(n, seed) for n in budgets for seed in (0, 1)]
        assert {row["rate"] for row in reported} == {best}
        assert all(row["test_loss"] > 0 and "validation_loss" not in row for row in reported)
    factors = [row for row in found if "factor" in row]
    assert [row["model"] for row in factors] == ["Primer", "SwiGLU and convolutions"]


def test_size_reads_factors_between_runs(gpu, plan, tmp_path, small_text, monkeypatch):
    faster = {"Baseline": 1.0, "Primer": 1.7, "SwiGLU and convolutions": 9.0}

    def run(name, width, steps, rate, seed, corpus, plan):
        lost = 5 - math.log2(steps * faster[name]) / 2 + abs(math.log2(rate / 1e-3)) / 9 + (-1) ** seed / 1e4
        row = {"width": width, "model": name, "steps": steps, "rate": rate, "seed": seed}
        return row | {
            "seconds": steps * (1.0 if name == "Baseline" else 1.25),
            "validation_loss": lost,
            "test_loss": lost,
        }

    monkeypatch.setattr(gpu, "sized_run", run)
    found = rows(gpu, "size", replace(plan, widths=((8, 8),), sequences=(8, 16)), tmp_path)
    primer, other = (row for row in found if "factor" in row)
    assert primer["factor"] == pytest.approx(1.7, rel=0.01)
    assert primer["low"] < primer["factor"] < primer["high"]
    assert primer["in_time"] == pytest.approx(1.7 / 1.25, rel=0.01)
    assert other["factor"] is None
    assert other["why"] == "the baseline's loss lies beyond its runs"


def test_the_texts_have_room_for_what_is_planned(gpu):
    """enwik8 has 90 million bytes to train on; at less than 2.7 of them in a token, one pass of the widest fits."""
    plan = gpu.Plan()
    reads = [steps * math.prod(plan.sequences) for _, steps in plan.widths]
    assert max(reads) < 90_000_000 / 2.7
    assert reads[0] < TRAIN_TOKENS < max(reads)
    assert sum(plan.seconds.values()) < 45 * 60
