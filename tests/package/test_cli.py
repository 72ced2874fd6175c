"""The command line: help, train, generate, and what a terminal is given."""

import inspect
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from helpers import SETTINGS, SIZES, TEXT

import efficient_transformers.__main__ as cli
from efficient_transformers import Execution, LanguageModel, TrainingConfig, Vocabulary, model_names
from efficient_transformers.training.runs import trained_at

pytestmark = [pytest.mark.usefixtures("on_the_cpu"), pytest.mark.slow]

TRAIN = ["train", "primer-ez", "--steps", "3", "--corpus", "fox.txt", *SIZES]
FILES = {"config.json", "metrics.jsonl", "model.safetensors", "run.json", "training.json", "vocabulary.json"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory that holds nothing but a text."""
    (tmp_path / "fox.txt").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")  # so that help is not broken within a name
    return tmp_path


@pytest.fixture
def saved(command):
    """A folder that `train` saved."""
    assert command(*TRAIN, "--out", "model")[0] == 0
    return Path("model")


def strictly(text):
    """JSON as other programs read it: without NaN."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


# Help


@pytest.mark.parametrize("name", ["train", "resume", "generate", "evaluate"])
def test_help_explains_every_option_and_its_default(command, name):
    code, out, _ = command(name, "--help")
    assert code == 0
    options = {p.name: p.default for p in inspect.signature(getattr(cli, name)).parameters.values()}
    if name == "train":
        options |= {f.name: f.default for f in (*fields(TrainingConfig), *fields(Execution))}
        assert options.pop("name") is None  # it has no flag
        assert ", ".join(model_names()) in out
    options = {option: default for option, default in options.items() if default is not inspect.Parameter.empty}
    plain = " ".join(out.partition("\noptions:\n")[2].split()) + " --"
    for option, default in options.items():
        flag = f"--{option.replace('_', '-')}"
        value = rf"--no-{flag[2:]}" if isinstance(default, bool) else r"\S+"
        (explanation,) = re.findall(rf" {flag},? {value} (.*?)(?= --)", plain)
        text, _, shown = explanation.partition(" (default: ")
        assert len(text.split()) >= 2, f"{flag}: {text}"
        assert shown == ("" if default is None else f"{default!r})")


# Train and generate


def test_a_reader_trains_and_generates(command, folder):
    code, said, complaint = command(*TRAIN)
    assert (code, complaint) == (0, "")
    (new,) = (folder / "runs").iterdir()
    assert re.fullmatch(r"primer-ez-\d{8}-\d{6}", new.name)
    assert {path.name for path in new.iterdir()} == FILES
    sample = said.partition(f"python -m efficient_transformers generate {new.relative_to(folder)}\n")[2][:-1]
    assert len(sample) == 1 + 201  # an empty line, the prompt, which is a line feed, and 200 characters
    assert set(sample) <= set(TEXT)

    line = [sys.executable, "-m", "efficient_transformers", "generate", new, "--seed", "1"]  # as a reader starts it
    generated = subprocess.run(line, env={**os.environ, **SETTINGS}, capture_output=True, text=True, check=True)
    assert len(generated.stdout) == 1 + 400 + 1
    assert set(generated.stdout) <= set(TEXT)
    assert command("generate", new, "--seed", 1) == (0, generated.stdout, generated.stderr)


def test_a_gate_reads_as_far_as_it_was_trained_unless_asked_otherwise(command):
    train = ["train", "gmlp", "--steps", "1", "--corpus", "fox.txt", *SIZES, "--seq-len", "16"]
    assert command(*train, "--out", "short")[0] == command(*train, "--max-seq-len", "40", "--out", "long")[0] == 0
    assert LanguageModel.from_pretrained("short").config["max_seq_len"] == 16
    assert LanguageModel.from_pretrained("long").config["max_seq_len"] == 40
    code, out, _ = command("generate", "short", "--seed", 1)
    assert (code, len(out)) == (0, 16 + 1)


def test_the_saved_folder_holds_the_model_its_vocabulary_and_how_it_was_trained(saved, folder):
    config = LanguageModel.from_pretrained(saved).config
    sizes = {"name": "primer-ez", "d_model": 8, "n_layers": 1, "n_heads": 2, "max_seq_len": 1024}
    assert config == config | sizes
    assert strictly((saved / "vocabulary.json").read_text()) == {"characters": "".join(sorted(set(TEXT)))}
    record = strictly((saved / "training.json").read_text())
    assert record["corpus"] == "fox.txt"
    assert TrainingConfig(**record["training"]) == TrainingConfig(
        steps=3, batch_size=2, seq_len=8, eval_every=2, eval_batches=1
    )
    assert [m["step"] for m in record["metrics"]] == [0, 2, 3]
    assert all(m["validation_loss"] > 0 and m["seconds"] >= 0 for m in record["metrics"])
    assert ["train_loss" in m for m in record["metrics"]] == [False, True, True]
    assert {path.name for path in folder.iterdir()} == {"fox.txt", "model"}  # and nothing else is left
    (saved / "training.json").unlink()
    assert trained_at(saved) == 8, "which the config knows too"


def test_the_seed_decides_weights_and_sample(command, folder):
    def trained(out, seed):
        torch.seed()  # what was drawn before does not matter
        code, text, _ = command(*TRAIN, "--seed", seed, "--out", out)
        assert code == 0
        return (folder / out / "model.safetensors").read_bytes(), text.partition(f"generate {out}\n")[2]

    first, same, other = trained("a", 0), trained("b", 0), trained("c", 1)
    assert first == same
    assert first[0] != other[0]
    assert first[1] != other[1]


def test_generate_continues_the_prompt(command, saved):
    code, out, _ = command("generate", saved, "--prompt", "the fox", "--max-new-tokens", 5, "--temperature", 0)
    assert code == 0
    model = LanguageModel.from_pretrained(saved)
    vocabulary = Vocabulary("".join(sorted(set(TEXT))))
    expected = model.generate(vocabulary.encode("the fox")[None], 5, temperature=0)
    assert out == vocabulary.decode(expected[0]) + "\n"


def test_the_options_of_generate_decide_the_draws(command, saved):
    generate = ["generate", saved, "--max-new-tokens", 30]
    assert command(*generate) != command(*generate)
    assert command(*generate, "--seed", 5) == command(*generate, "--seed", 5)
    greedy = command(*generate, "--temperature", 0)
    assert command(*generate, "--top-k", 1) == greedy != command(*generate, "--seed", 0)


@pytest.mark.parametrize(("text", "longest", "length"), [("a bc" * 99, 1024, 201), (TEXT, 16, 16)])
def test_the_sample_fits_the_text_and_the_model(command, folder, text, longest, length):
    (folder / "fox.txt").write_text(text)
    code, out, err = command(*TRAIN, "--max-seq-len", longest, "--out", "model")
    assert (code, err) == (0, "")
    assert len(out.partition("generate model\n")[2]) == 1 + length + 1
    assert len(command("generate", "model", "--prompt", text[:7])[1]) == min(407, longest) + 1


# The environment


def test_a_letter_that_the_terminal_lacks_is_no_failure(command, folder, monkeypatch):
    (folder / "fox.txt").write_text("é" * 200)
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert command(*TRAIN, "--out", "model")[0] == 0
    assert terminal.buffer.getvalue().endswith(rb"\xe9\xe9" + b"\n")


def test_what_a_terminal_obeys_or_nobody_sees_is_spelled_out():
    assert cli.printable("a\x1b[2J\r\tb\n\x00é") == "a\\x1b[2J\\r\tb\n\\x00é"
    for c in "\u202e\u2066\u2069\u200e\u200b\u2060\ufeff\u00ad\U000e0041":
        assert cli.printable(f"a{c}b") == f"a{c.encode('unicode_escape').decode()}b"
    written = "می\u200cخواهم, क्\u200dष, 👩\u200d💻, ❤\ufe0f, e\u0301, 日\u3000本, 5\u00a0%"
    assert cli.printable(written) == written  # what scripts and emoji are written with


def test_a_model_does_not_command_the_terminal(command, folder):
    (folder / "fox.txt").write_text("\x1b[2J" * 90)
    code, trained, _ = command(*TRAIN, "--out", "model")
    assert code == 0
    code, written, _ = command("generate", "model", "--prompt", "\x1b[", "--max-new-tokens", 9)
    assert (code, written[:5]) == (0, r"\x1b[")
    assert "\x1b" not in trained + written
