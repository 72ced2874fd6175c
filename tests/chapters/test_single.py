"""One file for each family: it is the chapters', runs by itself, and computes what the package computes."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from efficient_transformers import build_model
from tools.notebooks import chapters, drift, run_notebooks

FOLDER = Path(__file__).parents[2] / "single"
FILES = [path.stem for path in sorted(FOLDER.glob("*.py"))]
OPTIONS = {"primer_ez": "primer-ez"}
OWN = {"build", "Corpus"}  # of the files: what makes the model of a family, and the text
# Names of the package, which later chapters import, and those of the chapter that derives them.
DERIVED = {
    r"rotate\b": "turn_pairs",
    r"Stack\(\[": "nn.Sequential(*[",
    r"MultiHeadAttention\b": "PlainAttention",
    r"TransformerLayer\b": "PlainLayer",
    r"FeedForward\(": "PlainFeedForward(",
    r"model\(tokens\)": "model(tokens[:, -64:])",  # of gMLP, which reads no more than it was made for
}


def text_of(name):
    return (FOLDER / f"{name}.py").read_text(encoding="utf-8")


def module(name):
    spec = importlib.util.spec_from_file_location(f"single_{name}", FOLDER / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def written(chapter):
    """Each definition of a chapter, as it is and with its own names in the place of the package's."""
    for node in (node for cell in chapters.cells(chapter) for node in cell.definitions()):
        source = ast.unparse(node)
        yield node.name, source
        for theirs, ours in DERIVED.items():
            source = re.sub(rf"(?<![\w.]){theirs}", ours, source)
        yield node.name, source


@pytest.mark.parametrize("name", FILES)
def test_its_definitions_are_those_of_the_chapters(name):
    text = text_of(name)
    in_chapters = [found for chapter in run_notebooks.chapters() for found in written(chapter)]
    nodes = {node.name: node for node in drift.definitions(ast.parse(text)) if node.name not in OWN}
    assert [n for n, node in nodes.items() if (n, ast.unparse(node)) not in in_chapters] == []
    assert sum(bool(line) for line in text.splitlines()) < 200, "too long to be read in five minutes"


@pytest.mark.parametrize("name", FILES)
def test_it_imports_pytorch_and_the_standard_library_alone(name):
    tree = ast.parse(text_of(name))
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
    run = [sys.executable, "-I", FOLDER / f"{name}.py", tmp_path / "text.txt", "30"]
    ran = subprocess.run(run, capture_output=True, text=True, check=True, cwd=tmp_path)
    losses = [float(line.rpartition(" ")[2]) for line in ran.stdout.splitlines() if "validation loss" in line]
    assert losses[-1] < losses[0] - 0.5
    assert len(ran.stdout.partition("\n")[2]) > 300
