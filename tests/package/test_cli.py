"""The command line: train, generate, interrupt; bad input is one line on stderr and exit code 2."""

import inspect
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest
import torch
from forked import forked
from helpers import SETTINGS, SIZES, TEXT

import efficient_transformers.__main__ as cli
from efficient_transformers import Execution, LanguageModel, TrainingConfig, Vocabulary, model_names

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


def in_a_process(*arguments):
    """The command line as a reader starts it."""
    line = [sys.executable, "-m", "efficient_transformers", *arguments]
    return subprocess.run(
        line, env={**os.environ, **SETTINGS}, capture_output=True, text=True, timeout=120, check=False
    )


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def paths(folder):
    """Everything in the folder, hidden files included, but for the text."""
    return {path.name for path in folder.iterdir()} - {"fox.txt"}


def strictly(text):
    """JSON as other programs read it: without NaN."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


# Help


def test_help_lists_the_commands(command):
    code, out, _ = command("--help")
    assert code == 0
    assert "Train a model on text" in out
    assert "Continue a text" in out


@pytest.mark.parametrize("name", ["train", "resume", "generate", "evaluate"])
def test_help_explains_every_option_and_its_default(command, name):
    code, out, _ = command(name, "--help")
    assert code == 0
    options = {p.name: p.default for p in inspect.signature(getattr(cli, name)).parameters.values()}
    if name == "train":
        options |= {f.name: f.default for f in (*fields(TrainingConfig), *fields(Execution))}
        assert options.pop("name") is None  # it has no flag
    options = {option: default for option, default in options.items() if default is not inspect.Parameter.empty}
    assert len(options) == {"train": 27, "resume": 0, "generate": 5, "evaluate": 3}[name]
    plain = " ".join(out.partition("\noptions:\n")[2].split()) + " --"
    for option, default in options.items():
        flag = f"--{option.replace('_', '-')}"
        value = rf"--no-{flag[2:]}" if isinstance(default, bool) else r"\S+"
        (explanation,) = re.findall(rf" {flag},? {value} (.*?)(?= --)", plain)
        text, _, shown = explanation.partition(" (default: ")
        assert len(text.split()) >= 2, f"{flag}: {text}"
        assert shown == ("" if default is None else f"{default!r})")


def test_options_may_stand_before_the_name_of_the_model(command, folder):
    assert command("train", "--corpus", "fox.txt", *SIZES, "--steps", 1, "primer-ez", "--out", "model")[0] == 0
    assert LanguageModel.from_pretrained("model").config["name"] == "primer-ez"


def test_a_switch_is_turned_on_and_off(command, folder):
    switches = ["--tensorboard", "--no-tensorboard", "--no-compile", "--no-shard"]
    assert command(*TRAIN, *switches, "--out", "model")[0] == 0
    assert not (folder / "model" / "tensorboard").exists()


EACH = """
import json
import sys

import efficient_transformers.__main__ as cli

for line in json.loads(sys.argv[1]):
    sys.argv[1:] = line
    try:
        cli.main()
    except SystemExit as leave:
        if leave.code:
            raise
"""


def test_help_and_commands_do_without_docstrings():
    """Which ``python -OO`` drops."""
    lines = (["--help"], ["train", "--help"], ["generate", "primer-ez", "--max-new-tokens", "1"])
    environment = {**os.environ, **SETTINGS}
    subprocess.run([sys.executable, "-OO", "-c", EACH, json.dumps(lines)], env=environment, check=True)


def test_help_names_every_model(command):
    assert ", ".join(model_names()) in command("train", "--help")[1]


# Train and generate


def test_a_reader_trains_and_generates(command, folder):
    code, said, complaint = forked(*TRAIN)
    assert (code, complaint) == (0, "")
    (new,) = (folder / "runs").iterdir()
    assert re.fullmatch(r"primer-ez-\d{8}-\d{6}", new.name)
    assert set(contents(new)) == FILES
    assert f"python -m efficient_transformers generate {new.relative_to(folder)}\n" in said
    sample = said.partition(f"generate {new.relative_to(folder)}\n")[2].removesuffix("\n")
    assert len(sample) == 1 + 201  # an empty line, the prompt, which is a line feed, and 200 characters
    assert set(sample) <= set(TEXT)

    generated = in_a_process("generate", str(new), "--seed", "1")
    assert generated.returncode == 0, generated.stderr
    assert len(generated.stdout) == 1 + 400 + 1
    assert set(generated.stdout) <= set(TEXT)
    assert command("generate", new, "--seed", 1) == (0, generated.stdout, "")


@pytest.mark.parametrize("name", ["gmlp", "amlp"])
def test_a_gate_reads_as_far_as_it_was_trained_unless_asked_otherwise(command, folder, name):
    sizes = [*SIZES, "--seq-len", "16"]
    assert command("train", name, "--steps", "1", "--corpus", "fox.txt", *sizes, "--out", "short")[0] == 0
    assert LanguageModel.from_pretrained(folder / "short").config["max_seq_len"] == 16
    longer = [*sizes, "--max-seq-len", "40", "--out", "long"]
    assert command("train", name, "--steps", "1", "--corpus", "fox.txt", *longer)[0] == 0
    assert LanguageModel.from_pretrained(folder / "long").config["max_seq_len"] == 40
    code, out, _ = command("generate", folder / "short", "--seed", 1)
    assert (code, len(out)) == (0, 16 + 1)


def test_the_saved_folder_holds_the_model_its_vocabulary_and_how_it_was_trained(saved):
    model = LanguageModel.from_pretrained(saved)
    assert model.config["name"] == "primer-ez"
    assert (model.config["d_model"], model.config["n_layers"], model.config["n_heads"]) == (8, 1, 2)
    assert model.config["max_seq_len"] == 1024
    assert strictly((saved / "vocabulary.json").read_text()) == {"characters": "".join(sorted(set(TEXT)))}
    record = strictly((saved / "training.json").read_text())
    assert record["corpus"] == "fox.txt"
    assert TrainingConfig(**record["training"]) == TrainingConfig(
        steps=3, batch_size=2, seq_len=8, eval_every=2, eval_batches=1
    )
    assert [m["step"] for m in record["metrics"]] == [0, 2, 3]
    assert all(m["validation_loss"] > 0 and m["seconds"] >= 0 for m in record["metrics"])
    assert ["train_loss" in m for m in record["metrics"]] == [False, True, True]


def test_nothing_but_the_folder_is_left(folder, saved):
    assert paths(folder) == {"model"}


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


def test_generate_without_a_seed_differs_each_time(command, saved):
    assert command("generate", saved)[1] != command("generate", saved)[1]
    assert command("generate", saved, "--seed", 5)[1] == command("generate", saved, "--seed", 5)[1]


def test_generate_with_one_likeliest_character_is_greedy(command, saved):
    likeliest = command("generate", saved, "--top-k", 1)
    assert likeliest == command("generate", saved, "--temperature", 0)
    assert likeliest != command("generate", saved, "--seed", 0)


@pytest.mark.parametrize(("text", "longest", "length"), [("a bc" * 99, 1024, 201), (TEXT, 16, 16), (TEXT, 8, 8)])
def test_the_sample_fits_the_text_and_the_model(command, folder, text, longest, length):
    (folder / "fox.txt").write_text(text)
    code, out, err = command(*TRAIN, "--max-seq-len", longest, "--out", "model")
    assert (code, err) == (0, "")
    assert len(out.partition("generate model\n")[2]) == 1 + length + 1


# Bad input


def one_line_of(result, *parts):
    """The result is exit code 2 and one line that holds the parts."""
    code, out, err = result
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: [^\n]+\n", err), err
    for part in parts:
        assert part in err


def test_an_existing_folder_is_refused_before_training_and_left_untouched(folder):
    (folder / "model").mkdir()
    (folder / "model" / "notes.txt").write_text("mine")
    result = forked("train", "primer-ez", "--steps", "1000000", "--corpus", "fox.txt", "--out", "model")
    one_line_of(result, "out is 'model'; expected a folder that does not exist yet")
    assert contents(folder / "model") == {"notes.txt": b"mine"}
    assert paths(folder) == {"model"}


def test_an_existing_file_is_refused_as_a_folder(command, folder):
    one_line_of(command(*TRAIN, "--out", "fox.txt"), "out is 'fox.txt'")
    assert (folder / "fox.txt").read_text() == TEXT


BAD = {
    "an unknown model": (["perceiver"], ["name is 'perceiver'", *map(repr, model_names())]),
    "a missing text": (
        ["primer-ez", "--corpus", "milton.txt"],
        ["corpus is 'milton.txt'", "'shakespeare'", "'tiny-shakespeare'", "path"],
    ),
    "no steps": (["primer-ez", "--steps", "0"], ["steps is 0", "at least 1"]),
    "a rate of nothing": (["primer-ez", "--learning-rate", "0"], ["learning_rate is 0.0", "more than 0"]),
    "an unknown optimizer": (["primer-ez", "--optimizer", "moun"], ["invalid choice: 'moun'", "adamw", "muon"]),
    "heads that do not fit": (["primer-ez", "--n-heads", "3"], ["d_model is 8", "a multiple of n_heads=3"]),
    "an impossible dropout": (["primer-ez", "--dropout", "1"], ["dropout is 1.0", "less than 1"]),
    "a short text": (["primer-ez", "--seq-len", "90"], ["validation text of 'fox.txt' is 90", "more than seq_len=90"]),
    "contexts beyond the model": (["primer-ez", "--max-seq-len", "7"], ["sequence length is 8", "max_seq_len=7"]),
}


@pytest.mark.parametrize(("arguments", "parts"), BAD.values(), ids=BAD)
def test_training_refuses(command, folder, arguments, parts):
    one_line_of(command("train", "--corpus", "fox.txt", *SIZES, *arguments), *parts)
    assert paths(folder) == set()


BAD_REQUESTS = {
    "an unknown character": (["--prompt", "fox é"], ["character is 'é'", repr("".join(sorted(set(TEXT))))]),
    "an empty prompt": (["--prompt", ""], ["prompt is ''", "at least one character"]),
    "too many characters": (["--max-new-tokens", "1024"], ["is 1025", "at most max_seq_len=1024"]),
    "a negative temperature": (["--temperature", "-1"], ["temperature is -1.0", "0 or more"]),
    "no likeliest character": (["--top-k", "0"], ["top_k is 0", "at least 1"]),
}


@pytest.mark.parametrize(("arguments", "parts"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_generation_refuses(command, saved, arguments, parts):
    one_line_of(command("generate", saved, *arguments), *parts)


@pytest.mark.parametrize("name", ["vocabulary.json", "config.json", "model.safetensors"])
def test_generation_refuses_a_folder_without(command, saved, name):
    (saved / name).unlink()
    one_line_of(command("generate", saved), "folder is 'model'", name)


def test_generation_refuses_a_folder_that_is_not_there(command):
    one_line_of(command("generate", "nowhere"), "folder is 'nowhere'", "primer-ez")


@pytest.mark.parametrize("line", [["generate"], ["evaluate", "--corpus", "fox.txt"], ["train", "--init"]], ids=str)
def test_a_folder_that_is_not_there_is_not_looked_for_on_the_hub(command, monkeypatch, line):
    asked = []
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: asked.append(1))
    one_line_of(
        command(*line, "run/foo"), "folder is 'run/foo'; expected a folder that `train` saved, or one of dense-gmlp,"
    )
    assert not asked


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_weights_that_are_no_numbers_are_said_in_one_line(command, saved, temperature):
    model = LanguageModel.from_pretrained(saved)
    model.norm.weight.data.fill_(torch.nan)
    model.save_pretrained("broken")
    (Path("broken") / "vocabulary.json").write_text((saved / "vocabulary.json").read_text())
    result = command("generate", "broken", "--temperature", temperature)
    one_line_of(result, "a prediction of the model is nan; expected a number")


# The environment


def test_a_rank_without_a_launcher_silences_nothing(command, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    one_line_of(command(*TRAIN, "--n-heads", 3), "a multiple of n_heads=3")


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"])
def test_an_environment_that_no_launcher_made_is_named(command, folder, monkeypatch, name):
    monkeypatch.setenv(name, "x")
    one_line_of(command(*TRAIN), f"{name} in the environment is 'x'; expected a number")
    assert paths(folder) == set()


def test_a_letter_that_the_terminal_lacks_is_no_failure(folder, monkeypatch):
    (folder / "fox.txt").write_text("é" * 200)
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    trained = in_a_process(*TRAIN, "--out", "model")
    assert (trained.returncode, trained.stderr) == (0, "")
    assert trained.stdout.endswith(r"\xe9\xe9" + "\n")


# Interruptions


def test_an_interrupted_training_leaves_a_folder_that_generates(command, folder):
    terminal, its_end = pty.openpty()  # progress is drawn only on a terminal
    termios.tcsetwinsize(terminal, (24, 100))
    steps = ["--steps", "20000", "--eval-every", "20000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "efficient_transformers", *TRAIN, *steps, "--out", "model"],
        env={**os.environ, **SETTINGS},
        stdout=subprocess.PIPE,
        stderr=its_end,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    os.close(its_end)
    try:
        progress = b""
        while not re.search(rb"[1-9]\d*/20000 [^\r]*tokens/s", progress):
            progress += os.read(terminal, 4096)
        assert paths(folder) == {"model"}
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    assert process.returncode == 130
    assert out == (
        "Interrupted; saved model. More text from it:\n    python -m efficient_transformers generate model\n"
        "To go on with the training:\n    python -m efficient_transformers resume model\n"
    )
    assert paths(folder) == {"model"}
    shown = progress.decode(errors="replace")
    assert re.search(r"\d+/20000 \[\d\d:\d\d<[\d:?]+.*loss \d\.\d{3}, [\d,]+ tokens/s", shown), shown
    assert [strictly(line)["step"] for line in (folder / "model" / "metrics.jsonl").read_text().splitlines()] == [0]
    code, text, err = command("generate", "model", "--seed", 1)
    assert (code, len(text), err) == (0, 1 + 400 + 1, "")


def test_a_short_model_is_asked_for_what_it_can_hold(command):
    assert command(*TRAIN, "--out", "model", "--max-seq-len", 20)[0] == 0
    code, text, err = command("generate", "model", "--prompt", "the fox")
    assert (code, len(text), err) == (0, 20 + 1, "")
    code, _, err = command("generate", "model", "--prompt", "the fox", "--max-new-tokens", 14)
    assert code == 2
    assert "at most max_seq_len=20" in err


# What a folder says of itself


def test_a_vocabulary_of_other_letters_is_refused(command, saved):
    """As many characters, so that the sizes agree, and every letter would be another."""
    characters = json.loads((saved / "vocabulary.json").read_text())["characters"]
    other = "".join(sorted(chr(ord(c) + 1) for c in characters))
    (saved / "vocabulary.json").write_text(json.dumps({"characters": other}))
    code, _, err = command("generate", saved)
    assert code == 2
    assert re.search(r"the sha256 of the vocabulary of model is .*; expected \w+, as its model has", err)


def test_a_larger_vocabulary_is_refused(command, saved):
    characters = json.loads((saved / "vocabulary.json").read_text())["characters"]
    (saved / "vocabulary.json").write_text(json.dumps({"characters": characters + "~"}))
    code, _, err = command("generate", saved)
    assert code == 2
    assert f"the size of the vocabulary of model is {len(characters) + 1}; expected {len(characters)}" in err


def test_control_characters_are_spelled_out():
    assert cli.printable("a\x1b[2J\r\tb\n\x00é") == "a\\x1b[2J\\r\tb\n\\x00é"


@pytest.mark.parametrize("c", "\u202e\u2066\u2069\u200e\u200b\u2060\ufeff\u00ad\U000e0041", ids=ascii)
def test_what_turns_the_text_or_is_not_seen_is_spelled_out(c):
    assert cli.printable(f"a{c}b") == f"a{c.encode('unicode_escape').decode()}b"


def test_what_scripts_and_emoji_are_written_with_stays():
    written = "می\u200cخواهم, क्\u200dष, 👩\u200d💻, ❤\ufe0f, e\u0301, 日\u3000本, 5\u00a0%"
    assert cli.printable(written) == written


def test_a_model_does_not_command_the_terminal(command, folder):
    (folder / "fox.txt").write_text("\x1b[2J" * 90)
    code, trained, _ = command(*TRAIN, "--out", "model")
    assert code == 0
    code, written, _ = command("generate", "model", "--prompt", "\x1b[", "--max-new-tokens", 9)
    assert (code, written[:5]) == (0, r"\x1b[")
    assert "\x1b" not in trained + written
