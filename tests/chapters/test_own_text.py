"""*Train on your own text*: what the page says to type does what it says, on a small text."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from efficient_transformers import load
from efficient_transformers.__main__ import main

PAGE = (Path(__file__).parents[2] / "book" / "your-own-text.md").read_text(encoding="utf-8")
LINES = "The cat sat on the mat, and The dog sat on the log.\n"

pytestmark = pytest.mark.slow  # it trains


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "my.txt").write_text(LINES * 60, encoding="utf-8")
    (tmp_path / "another.txt").write_text(LINES * 9, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_ten_lines_lead_from_a_file_to_a_loss_a_sample_and_a_folder(here, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 10
    exec(code.replace("steps=500", "steps=2, batch_size=2, seq_len=32"), {})
    told = capsys.readouterr().out
    assert re.match(r"loss [\d.]+ nats per character\nThe ", told)
    model, vocabulary = load("my-model")
    assert len(vocabulary) == model.embedding.num_embeddings == len(set(LINES))


def test_the_commands_run_one_after_the_other(here, monkeypatch, capsys):
    commands = [line for block in re.findall(r"\n\n```\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    assert [command.split()[3] for command in commands] == ["train", "generate", "evaluate", "train"]
    for command in commands:
        typed = shlex.split(command)[2:]
        short = ["--steps", "2", "--batch-size", "2", "--seq-len", "32"] if "train" in typed else []
        monkeypatch.setattr(sys, "argv", [*typed, *short])
        main()
        assert capsys.readouterr().out
    assert (here / "tuned" / "model.safetensors").exists()
