"""One file for each family: it is the chapters', runs by itself, and computes what the package computes."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys

import pytest
import torch

from efficient_transformers import build_model
from tools.make import single

FILES = list(single.PARTS)
OPTIONS = {"primer_ez": "primer-ez"}


def module(name):
    spec = importlib.util.spec_from_file_location(f"single_{name}", single.FOLDER / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("name", FILES)
def test_it_is_what_the_cells_of_the_chapters_make(name):
    text = (single.FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert text == single.made(name), "run `make single`"
    assert sum(bool(line) for line in text.splitlines()) < 200, "too long to be read in five minutes"


@pytest.mark.parametrize("name", FILES)
def test_it_imports_pytorch_and_the_standard_library_alone(name):
    tree = ast.parse(single.made(name))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    roots = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(".")[0] for node in imports
    }
    assert roots - {"torch"} <= sys.stdlib_module_names


@pytest.mark.parametrize("name", FILES)
def test_its_logits_are_those_of_the_package(name):
    ours = module(name).build(79)
    theirs = build_model(OPTIONS.get(name, name), vocab_size=79, max_seq_len=64)
    with torch.no_grad():
        for p in ours.parameters():
            p.add_(0.02 * torch.randn_like(p))  # so that every branch does something
    theirs.load_state_dict(ours.state_dict())
    tokens = torch.randint(79, (2, 50))
    torch.testing.assert_close(ours(tokens), theirs(tokens), rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_it_trains_and_writes_from_a_text_alone(name, tmp_path):
    (tmp_path / "text.txt").write_text("to be, or not to be: that is the question.\n" * 60, encoding="utf-8")
    run = [sys.executable, "-I", single.FOLDER / f"{name}.py", tmp_path / "text.txt", "15"]
    ran = subprocess.run(run, capture_output=True, text=True, check=True, cwd=tmp_path)
    losses = [float(line.rpartition(" ")[2]) for line in ran.stdout.splitlines() if "validation loss" in line]
    assert losses[-1] < losses[0] - 0.5
    assert len(ran.stdout.partition("\n")[2]) > 300
