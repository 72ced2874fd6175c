"""The benchmark for a GPU: its code paths run on the CPU in small, and without a GPU it says so."""

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from torch import nn

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.delenv("NANOGPT", raising=False)
    return importlib.import_module("gpu")


@pytest.fixture
def plan(gpu):
    test = "tests/package/test_devices.py::test_the_causal_product_has_the_low_precision_under_autocast"
    small = {"layer": (2, 12, 16, 2), "step": (2, 16), "size": (2, 2, 16), "vocab_size": 11}
    return gpu.Plan(device="cpu", backend="eager", repeats=2, tests=(test,), processes=1, **small)


def sections(gpu, names, plan, tmp_path, well=True):
    """What a run leaves in the file."""
    file = tmp_path / "gpu.json"
    assert gpu.measure(names, plan, file) == well
    return json.loads(file.read_text(encoding="utf-8"))["sections"]


@pytest.mark.long
def test_tests_are_counted_and_those_that_fail_are_named(gpu, plan, tmp_path):
    bad = tmp_path / "test_bad.py"
    bad.write_text("def test_bad_on_cpu():\n    assert False\n", encoding="utf-8")
    (row,) = sections(gpu, ["tests"], replace(plan, tests=(*plan.tests, str(bad))), tmp_path)["tests"]["rows"]
    assert (row["tests"], row["failures"], row["errors"], row["skipped"], row["finished"]) == (2, 1, 0, 0, True)
    assert [name.rpartition("::")[2] for name in row["failed"]] == ["test_bad_on_cpu"]


def test_layers_stand_beside_their_plain_forms_and_those_of_others(gpu, plan, tmp_path, monkeypatch):
    def made(length):
        layer = nn.Linear(gpu.peers.D, gpu.peers.D)
        labml = gpu.peers.TimeFirst(layer, length, named=False)
        return {"Hourglass": {"ours": nn.Identity(), "labml": labml}, "Layer": {"ours": layer, "torch": layer}}

    monkeypatch.setattr(gpu.peers, "layers", made)
    rows = sections(gpu, ["layers"], plan, tmp_path)["layers"]["rows"]
    assert [row["beside"] for row in rows] == ["plain"] * 28 + ["labml", "labml", "torch", "torch"]
    assert {row["precision"] for row in rows} == {"float32", "bfloat16 autocast"}
    assert all(row["ratio"] == pytest.approx(row["milliseconds"] / row["their_milliseconds"]) for row in rows)
    assert [row["difference"] for row in rows[28:]] == [None, None, 0, 0]
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "g_mlp_pytorch", None)
    assert "not installed" in list(gpu.layers(plan))[-1]["peers"]


def test_a_layer_that_is_not_its_plain_form_is_an_error_and_others_go_on(gpu, plan, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("plain"), "plain_squared_relu", lambda _, x: x.relu())
    found = sections(gpu, ["layers", "step"], plan, tmp_path, well=False)
    assert "squared ReLU differs from its plain form" in found["layers"]["error"]
    assert (len(found["layers"]["rows"]), found["layers"]["complete"]) == (4, False)
    missing, *rows = found["step"]["rows"]
    assert found["step"]["complete"]
    assert "names no checkout" in missing["nanoGPT"]
    assert [(row["model"], row["compiled"]) for row in rows] == [(n, c) for c in (False, True) for n in plan.models]
    assert all(row["tokens_per_second"] > 0 and row["ratio_to_nanoGPT"] is None for row in rows)


def test_without_a_gpu_it_says_so():
    command, environment = [sys.executable, FOLDER / "gpu.py"], {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "benchmarks/gpu.py needs a GPU: PyTorch finds no CUDA here, so nothing was measured.\n"


def test_what_the_page_says_of_a_gpu_was_measured(gpu):
    sections = json.loads(gpu.RESULTS.read_text(encoding="utf-8"))["sections"]
    ours, compiled = (row for row in sections["step"]["rows"] if row["model"] == "transformer")
    beside = [row["ratio"] for row in sections["layers"]["rows"] if row.get("beside") == "labml"]
    page = (gpu.ROOT / "book" / "scaling-up.md").read_text(encoding="utf-8")
    for number in (compiled["milliseconds"] / ours["milliseconds"], compiled["ratio_to_nanoGPT"]):
        assert f"{number:.2f}" in page
    assert f"{min(beside):.2f} to {max(beside):.2f} of the time of labml's" in page
