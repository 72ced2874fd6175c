"""Every bad command line ends in one short message that names the cause, exit code 2, no traceback."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from forked import forked
from helpers import SETTINGS, SIZES, TEXT

import efficient_transformers.training.corpus as corpora

pytestmark = pytest.mark.slow

TRAIN = ["train", "primer-ez", "--corpus", "fox.txt", "--steps", "2", *SIZES]
HUGE = str(10**30)

TEXTS = {
    "empty.txt": b"",
    "one.txt": b"a",
    "short.txt": b"abcdefgh" * 2,
    "latin.txt": "naïve".encode("latin-1") * 20,
    "utf16.txt": TEXT.encode("utf-16"),
    "cut.txt": "€".encode()[:2],
    "mark.txt": b"\xef\xbb\xbf",
    "other.txt": "the dog\nsays ß. ".encode() * 20,
    "binary.txt": bytes(range(256)) * 4,
}
BROKEN = {  # what is done to a copy of a saved folder, and what the message says then
    "no vocabulary": (lambda f: (f / "vocabulary.json").unlink(), "a folder that `train` saved, with vocabulary.json"),
    "no config": (lambda f: (f / "config.json").unlink(), "a folder with config.json"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "a folder with model.safetensors"),
    "cut vocabulary": (lambda f: (f / "vocabulary.json").write_text('{"charact'), "vocabulary.json is not JSON"),
    "empty vocabulary": (lambda f: (f / "vocabulary.json").write_text("{}"), "vocabulary.json is not a vocabulary"),
    "list vocabulary": (
        lambda f: (f / "vocabulary.json").write_text("[1]"),
        "is [1]; expected an object, a vocabulary",
    ),
    "null vocabulary": (lambda f: (f / "vocabulary.json").write_text('{"characters": null}'), "characters is None"),
    "unsorted vocabulary": (lambda f: (f / "vocabulary.json").write_text('{"characters": "ba"}'), "characters is 'ba'"),
    "small vocabulary": (
        lambda f: (f / "vocabulary.json").write_text('{"characters": "ab"}'),
        " is 2; expected 29, as",
    ),
    "large vocabulary": (
        lambda f: (f / "vocabulary.json").write_text('{"tokens": "bytes"}'),
        " is 256; expected 29, as",
    ),
    "binary vocabulary": (lambda f: (f / "vocabulary.json").write_bytes(b"\xff\xfe"), "vocabulary.json is not JSON"),
    "cut config": (lambda f: (f / "config.json").write_text('{"name"'), "config.json is not JSON"),
    "list config": (lambda f: (f / "config.json").write_text("[1]"), "config.json is [1]; expected an object"),
    "null config": (lambda f: (f / "config.json").write_text("null"), "config.json is None; expected an object"),
    "many layers": (
        lambda f: change(f / "config.json", n_layers=10**9),
        "config.json is 1000000000; expected an int, at",
    ),
    "wide config": (
        lambda f: change(f / "config.json", d_model=64),
        "does not hold the weights of the model in config",
    ),
    "odd config": (lambda f: change(f / "config.json", colour="red"), "option is 'colour'"),
    "other config": (lambda f: change(f / "config.json", name="perceiver"), "name is 'perceiver'"),
    "old config": (
        lambda f: change(f / "config.json", format=1),
        "config.json is 1; expected 3; version 0.2.0",
    ),
    "empty weights": (lambda f: (f / "model.safetensors").write_bytes(b""), "model.safetensors does not hold weights"),
    "cut weights": (lambda f: cut(f / "model.safetensors"), "model.safetensors does not hold weights"),
    "text weights": (lambda f: (f / "model.safetensors").write_text(TEXT), "model.safetensors does not hold weights"),
    "folder for weights": (
        lambda f: ((f / "model.safetensors").unlink(), (f / "model.safetensors").mkdir()),
        "a folder with model.safetensors",
    ),
}
PLANS = {  # what is done to a run that was not finished, and what the message says then
    "no plan": (lambda f: (f / "run.json").unlink(), "a folder that `train` made, with run.json"),
    "cut plan": (lambda f: (f / "run.json").write_text('{"model'), "run.json is not JSON"),
    "null plan": (lambda f: (f / "run.json").write_text("null"), "run.json is None; expected an object"),
    "empty plan": (lambda f: (f / "run.json").write_text("{}"), "run.json is not the plan of a run: 'training'"),
    "odd plan": (lambda f: change(f / "run.json", colour="red"), "run.json is not the plan of a run: "),
    "no model": (lambda f: change(f / "run.json", model=None), "run.json is not the plan of a run: model is None"),
    "empty model": (lambda f: change(f / "run.json", model={}), "run.json is not the plan of a run: model is {}"),
    "odd model": (lambda f: change(f / "run.json", model={"name": "x", "vocab_size": 29}), "name is 'x'"),
    "many layers": (lambda f: inside(f / "run.json", "model", n_layers=10**9), "n_layers is 1000000000; expected at"),
    "many tokens": (lambda f: inside(f / "run.json", "model", vocab_size=10**30), "vocab_size is 1000000000"),
    "other layers": (lambda f: inside(f / "run.json", "model", n_layers=2), "checkpoint.pt does not go with the model"),
    "other sizes": (lambda f: inside(f / "run.json", "model", d_model=16), "checkpoint.pt does not go with the model"),
    "no training": (lambda f: change(f / "run.json", training=None), "run.json is not the plan of a run: "),
    "odd training": (lambda f: change(f / "run.json", training={"steps": 0}), "steps is 0"),
    "odd execution": (lambda f: change(f / "run.json", execution={"precision": "int8"}), "precision is 'int8'"),
    "odd text": (lambda f: change(f / "run.json", corpus=5), "run.json is not the plan of a run: corpus is 5"),
    "lost text": (lambda f: change(f / "run.json", corpus="lost.txt"), "lost.txt'; expected 'shakespeare'"),
    "odd tokens": (lambda f: change(f / "run.json", tokens="words"), "run.json is not the plan of a run: tokens is 'w"),
    "no directory": (
        lambda f: change(f / "run.json", directory=None),
        "run.json is not the plan of a run: directory is",
    ),
    "odd start": (lambda f: change(f / "run.json", init=5), "run.json is not the plan of a run: init is 5"),
    "never saved": (lambda f: change(f / "run.json", checkpoint_every=0), "checkpoint_every is 0"),
    "odd metrics": (lambda f: change(f / "run.json", tensorboard="yes"), "tensorboard is 'yes'"),
    "damaged checkpoint": (
        lambda f: (f / "checkpoint.pt").write_bytes(b"nothing"),
        "checkpoint.pt is not a checkpoint",
    ),
    "old checkpoint": (lambda f: torch.save({"format": 0}, f / "checkpoint.pt"), "checkpoint.pt is 0; expected 1"),
    "empty checkpoint": (lambda f: torch.save({"format": 1}, f / "checkpoint.pt"), "checkpoint.pt lacks is ['batches'"),
    "no metrics": (lambda f: less(f / "checkpoint.pt", "metrics"), "checkpoint.pt lacks is ['metrics']"),
    "odd batches": (lambda f: less(f / "checkpoint.pt", batches=3), "checkpoint.pt does not go with the model"),
    "lost vocabulary": (
        lambda f: (f / "vocabulary.json").unlink(),
        "a folder that `train` saved, with vocabulary.json",
    ),
}
RECORDS = {  # what is done to the record of one that was finished, and what `evaluate` says then
    "no training": (lambda f: change(f / "training.json", training=None), "the seq_len of the training in"),
    "odd training": (
        lambda f: change(f / "training.json", training={"seq_len": "8"}),
        "training.json is '8'; expected",
    ),
    "null record": (lambda f: (f / "training.json").write_text("null"), "training.json is None; expected an object"),
}
# The names of the copies say nothing, so that the message must.
DAMAGES = {f"broken-{n}": made for n, made in enumerate([*BROKEN.values(), *PLANS.values(), *RECORDS.values()])}
CAUSES = {name: cause for name, (_, cause) in DAMAGES.items()}
SAVED, PLANNED, RECORDED = (
    list(DAMAGES)[: len(BROKEN)],
    list(DAMAGES)[len(BROKEN) : len(BROKEN) + len(PLANS)],
    list(DAMAGES)[len(BROKEN) + len(PLANS) :],
)
WITH = dict(zip(BROKEN, SAVED, strict=True))


def change(file, **values):
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def inside(file, name, **values):
    change(file, **{name: {**json.loads(file.read_text())[name], **values}})


def cut(file):
    file.write_bytes(file.read_bytes()[:500])


def less(checkpoint, *names, **values):
    content = {**torch.load(checkpoint, weights_only=True), **values}
    torch.save({name: value for name, value in content.items() if name not in names}, checkpoint)


THAT_KEEPS_ITS_CHECKPOINT = """
from pathlib import Path
Path.unlink = lambda *_, **__: None
import efficient_transformers.__main__ as cli
cli.main()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with texts good and bad, a saved model, and copies of it that were damaged."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "fox.txt").write_text(TEXT)
    (folder / "cache").mkdir()
    (folder / "cache" / corpora.PLAYS).symlink_to(corpora.data_folder() / corpora.PLAYS)
    for name, content in TEXTS.items():
        (folder / name).write_bytes(content)
    line = [sys.executable, "-c", THAT_KEEPS_ITS_CHECKPOINT, *TRAIN, "--out", "model"]
    subprocess.run(line, cwd=folder, env={**os.environ, **SETTINGS}, check=True, capture_output=True)
    checkpoint = (folder / "model" / "checkpoint.pt").read_bytes()
    (folder / "model" / "checkpoint.pt").unlink()
    for name, (damage, _) in DAMAGES.items():
        shutil.copytree(folder / "model", folder / name)
        if name in PLANNED:
            (folder / name / "training.json").unlink()
            (folder / name / "checkpoint.pt").write_bytes(checkpoint)
        damage(folder / name)
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to("loop")
    return folder


@pytest.fixture
def there(place, monkeypatch):
    """Inside that folder; nothing is downloaded, nothing trains."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    monkeypatch.delenv(corpora.DATA_VARIABLE, raising=False)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    yield place
    after = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert after == before


def assert_refused(result, cause):
    code, out, err = result
    assert (code, out) == (2, ""), err
    assert re.fullmatch(r"error: [^\n]{5,999}\n", err), err
    assert "Traceback" not in err
    assert cause in err


def more(*arguments):
    return [*TRAIN, *arguments]


LINES = {
    # the command
    (): "the following arguments are required: command; python -m efficient_transformers --help lists what there is",
    ("trian",): "trian",
    ("--bogus",): "the following arguments are required: command",
    ("train",): "name is None",
    ("generate",): "the following arguments are required: folder",
    ("evaluate",): "the following arguments are required: --corpus",
    ("resume",): "the following arguments are required: folder",
    ("train", "primer-ez", "transformer"): "transformer",
    ("train", "primer-ez", "--bogus", "3"): "--bogus",
    ("generate", "model", "--bogus"): "--bogus",
    ("train", "primer-ez", "--step", "3"): "unrecognized arguments: --step 3",
    ("train", "primer-ez", "--steps"): "--steps",
    ("train", "perceiver"): "name is 'perceiver'",
    ("train", ""): "name is ''",
    ("train", "primer-ez", "--init", "model"): "name is 'primer-ez'",
    # a comparison
    ("compare",): "the following arguments are required: build",
    ("compare", "nowhere.py:build"): "build is 'nowhere.py:build'; expected one of transformer",
    ("compare", "fox.txt:build"): "build is 'fox.txt:build'",
    ("compare", "primer-ez", "--against", "perceiver"): "against is 'perceiver'",
    ("compare", "primer-ez", "--shard", "2/2"): "shard is (2, 2)",
    ("compare", "primer-ez", "--shard", "one"): "shard is 'one'; expected two numbers",
    ("compare", "primer-ez", "--shard", "0/2"): "out is None; expected a folder that all processes share",
    ("compare", "primer-ez", "--minutes", "nan"): "minutes is nan; expected a finite number",
    ("compare", "primer-ez", "--minutes", "5", "--steps", "30"): "minutes is 5.0; expected none where steps are given",
    ("compare", "primer-ez", "--corpus", "none.txt"): "none.txt",
    ("compare", "primer-ez", "--corpus", "fox.txt"): "expected at least 4,096 tokens",
    ("compare", "primer-ez", "--seq-len", "15"): "seq_len is 15; expected an even number whose half divides 1024",
    # numbers
    **{tuple(more(f"--{size}", "x")): f"--{size}" for size in (
        "steps", "batch-size", "seq-len", "warmup-steps", "eval-every", "eval-batches", "seed", "checkpoint-every",
        "accumulation", "learning-rate", "weight-decay", "clip-norm", "d-model", "n-layers", "n-heads", "max-seq-len",
        "dropout")},
    **{tuple(more(f"--{size}", "0")): f"{size.replace('-', '_')} is 0" for size in (
        "steps", "batch-size", "seq-len", "eval-every", "eval-batches", "checkpoint-every", "accumulation", "d-model",
        "n-layers", "n-heads", "max-seq-len", "learning-rate", "clip-norm")},
    **{tuple(more(f"--{size}", "-1")): f"{size.replace('-', '_')} is -1" for size in (
        "steps", "batch-size", "seq-len", "warmup-steps", "eval-every", "eval-batches", "checkpoint-every",
        "accumulation", "d-model", "n-layers", "n-heads", "max-seq-len", "learning-rate", "weight-decay",
        "clip-norm", "dropout")},
    **{tuple(more(f"--{size}", value)): f"{size.replace('-', '_')} is {value}" for value in ("nan", "inf") for size in (
        "learning-rate", "weight-decay", "clip-norm", "dropout")},
    **{tuple(more(f"--{size}", "1.5")): f"--{size}" for size in ("steps", "batch-size", "seed", "d-model", "n-layers")},
    # sizes that no machine has
    tuple(more("--d-model", HUGE)): "d_model is 1000000000000000000000000000000; expected at most 16777216",
    tuple(more("--d-model", "1000000000")): "d_model is 1000000000; expected at most 16777216",
    tuple(more("--d-model", "2000000")): "the memory for the weights is '192,001 GB'; expected at most",
    tuple(more("--n-layers", HUGE)): "n_layers is 1000000000000000000000000000000; expected at most 1000",
    tuple(more("--n-layers", "1000000000")): "n_layers is 1000000000; expected at most 1000",
    tuple(more("--n-layers", "200000")): "n_layers is 200000; expected at most 1000",
    tuple(more("--batch-size", "1000000000000")): "the memory for the tokens of a batch is '72,000 GB'",
    tuple(more("--batch-size", HUGE)): "the memory for the tokens of a batch",
    tuple(more("--seq-len", HUGE)): "the memory for the tokens of a batch",
    tuple(more("--eval-batches", HUGE)): "the memory for the places of the evaluation batches",
    tuple(more("--max-seq-len", HUGE)): "max_seq_len is 1000000000000000000000000000000; expected at most",
    tuple(more("--seed", HUGE)): "seed is 1000000000000000000000000000000",
    tuple(more("--seed", "-" + HUGE)): "seed is -1000000000000000000000000000000",
    ("train", "dense-gmlp", "--corpus", "fox.txt", "--max-seq-len", "600000"): "the memory for the weights",
    ("train", "dense-gmlp", "--corpus", "fox.txt", "--max-seq-len", str(2**28)): "the memory for the weights",
    ("train", "gmlp", "--corpus", "fox.txt", "--max-seq-len", HUGE): "max_seq_len is 1000000000",
    ("train", "hourglass", "--corpus", "fox.txt", "--n-layers", "1000000000"): "n_layers is 1000000000",
    ("train", "hourglass", "--corpus", "fox.txt", "--d-model", HUGE): "d_model is 1000000000",
    ("train", "hourglass", "--corpus", "fox.txt", "--d-model", str(2**24)): "the memory for the weights",
    # what does not fit together
    tuple(more("--n-heads", "3")): "a multiple of n_heads=3",
    tuple(more("--d-model", "6")): "even",
    tuple(more("--dropout", "1")): "dropout is 1.0",
    tuple(more("--accumulation", "3")): "batch_size is 2; expected a multiple of 1 processes times 3 pieces",
    tuple(more("--shard")): "shard is True",
    tuple(more("--precision", "int8")): "int8",
    tuple(more("--tokens", "words")): "words",
    tuple(more("--max-seq-len", "7")): "max_seq_len=7",
    tuple(more("--seq-len", "90")): "more than seq_len=90",
    # texts
    **{tuple(more("--corpus", text)): cause for text, cause in {
        "milton.txt": "the corpus is 'milton.txt'", "": "the corpus is '.'", ".": "the corpus is '.'",
        "model": "the corpus is 'model'", "/dev/zero": "the corpus is '/dev/zero'", "fifo": "the corpus is 'fifo'",
        "loop": "the corpus is 'loop'", "x" * 300: "the corpus is 'xxx", "fox.txt/": "fox.txt",
        "fox.txt/x": "the corpus is 'fox.txt/x'", "empty.txt": "a file that is not empty",
        "mark.txt": "a file that is not empty", "one.txt": "text of 'one.txt' is 1; expected more than seq_len=8",
        "short.txt": "the validation text of 'short.txt' is 2", "latin.txt": "expected UTF-8 text",
        "utf16.txt": "expected UTF-8 text", "cut.txt": "expected UTF-8 text", "binary.txt": "expected UTF-8 text",
        "tiny-shakespeare": "could not be downloaded", "enwik8": "could not be downloaded",
        "text8": "could not be downloaded", "Shakespeare": "'shakespeare'", "/proc/self/mem": "/proc/self/mem",
        "shakespeare\0": "corpus"}.items() if text != "fox.txt/"},
    tuple(more("--corpus", "enwik8", "--tokens", "characters")): "tokens is 'characters'",
    # places
    **{tuple(more("--out", out)): f"out is {out!r}" for out in (
        "model", "fox.txt", "fox.txt/x", "/proc/x", "/dev/null", "loop", ".", "/", "y" * 300, "loop/x")},
    # models to train on
    ("train", "--init", "nowhere"): "folder is 'nowhere'",
    ("train", "--init", "fox.txt"): "folder is 'fox.txt'",
    ("train", "--init", "owner/name"): "folder is 'owner/name'; expected a folder that `train` saved",
    ("train", "--init", "model", "--corpus", "other.txt"): "a character is 'ß', in line 2",
    ("train", "--init", "model", "--corpus", "fox.txt", "--d-model", "16"): "d_model is 16; expected none with --init",
    ("train", "--init", "model", "--corpus", "fox.txt", "--n-layers", "1"): "n_layers is 1; expected none",
    ("train", "--init", "model", "--corpus", "fox.txt", "--dropout", "2"): "dropout is 2.0",
    # saved folders
    **{("generate", name): CAUSES[name] for name in SAVED},
    **{("evaluate", name, "--corpus", "fox.txt"): CAUSES[name] for name in [*SAVED, *RECORDED]},
    **{("train", "--init", name, "--corpus", "fox.txt"): CAUSES[name] for name in SAVED},
    **{("resume", name): CAUSES[name] for name in PLANNED},
    ("resume", "model"): "not at its end",
    ("resume", "nowhere"): "folder is 'nowhere'",
    ("resume", "fox.txt"): "folder is 'fox.txt'",
    ("resume", ""): "folder is '.'",
    # generation
    ("generate", "nowhere"): "folder is 'nowhere'",
    ("generate", "runs/typo"): "folder is 'runs/typo'",
    ("generate", "fox.txt"): "folder is 'fox.txt'",
    ("generate", "z" * 300): "zzz",
    ("generate", "owner/name"): "folder is 'owner/name'; expected a folder that `train` saved, or one of dense-gmlp,",
    ("generate", "model", "--prompt", "fox é"): "a character is 'é', in line 1",
    ("generate", "model", "--prompt", "fox\né"): "a character is 'é', in line 2",
    ("generate", "model", "--prompt", ""): "prompt is ''; expected at least one character",
    ("generate", "model", "--prompt", "fox " * 300): "at most max_seq_len=1024",
    ("generate", "model", "--max-new-tokens", "1024"): "at most max_seq_len=1024",
    ("generate", "model", "--max-new-tokens", HUGE): "at most max_seq_len=1024",
    ("generate", "model", "--max-new-tokens", "-1"): "max_new_tokens is -1",
    ("generate", "model", "--max-new-tokens", "x"): "--max-new-tokens",
    ("generate", "model", "--temperature", "-1"): "temperature is -1.0",
    ("generate", "model", "--temperature", "nan"): "temperature is nan",
    ("generate", "model", "--temperature", "hot"): "--temperature",
    ("generate", "model", "--top-k", "0"): "top_k is 0",
    ("generate", "model", "--top-k", "-3"): "top_k is -3",
    ("generate", "model", "--seed", HUGE): "seed is 1000000",
    ("generate", "model", "--seed", "-" + HUGE): "seed is -1000000",
    # evaluation
    ("evaluate", "model"): "--corpus",
    ("evaluate", "nowhere", "--corpus", "fox.txt"): "folder is 'nowhere'",
    ("evaluate", "model", "--corpus", "nothing.txt"): "the corpus is 'nothing.txt'",
    ("evaluate", "model", "--corpus", "other.txt"): "a character is 'ß', in line 2",
    ("evaluate", "model", "--corpus", "empty.txt"): "at least two tokens",
    ("evaluate", "model", "--corpus", "latin.txt"): "expected UTF-8 text",
    ("evaluate", "model", "--corpus", "shakespeare"): "part is None",
    ("evaluate", "model", "--corpus", "shakespeare", "--part", "test"): "a character is",
    ("evaluate", "model", "--corpus", "shakespeare", "--part", "all"): "part is 'all'",
    ("evaluate", "model", "--corpus", "fox.txt", "--part", "test"): "part is 'test'",
    ("evaluate", "model", "--corpus", "fox.txt", "--seq-len", "0"): "seq_len is 0",
    ("evaluate", "model", "--corpus", "fox.txt", "--seq-len", "-1"): "seq_len is -1",
    ("evaluate", "model", "--corpus", "fox.txt", "--seq-len", HUGE): "expected at most max_seq_len=1024",
    ("evaluate", "model", "--corpus", "fox.txt", "--batch-size", "0"): "batch_size is 0",
    ("evaluate", "model", "--corpus", "fox.txt", "--batch-size", HUGE): "the memory for the tokens of a batch",
}  # fmt: skip


def test_there_are_enough_of_them():
    assert len(LINES) >= 150


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line)[-60:].replace("\0", "0") or "nothing")
def test_a_bad_command_line_ends_in_one_line_that_names_the_cause(line, there, monkeypatch, command):
    import requests

    def offline(*_, **__):
        raise requests.ConnectionError("no network")

    monkeypatch.setattr("requests.get", offline)
    monkeypatch.setattr("socket.socket.connect", lambda *_: offline())  # of the Hub's library
    monkeypatch.setattr("socket.getaddrinfo", offline)
    monkeypatch.setattr("pooch.os_cache", lambda project: there / "cache")
    assert_refused(command(*line), LINES[line])


# In a process of its own, as a reader starts it

ALONE = [
    line for line in LINES if line in {
        (), ("trian",), ("train",), ("train", "perceiver"), ("generate", "nowhere"), ("resume", "model"),
        ("generate", "model", "--prompt", "fox é"), ("generate", "model", "--temperature", "-1"),
        ("evaluate", "model", "--corpus", "latin.txt"), ("generate", WITH["cut config"]),
        ("generate", WITH["empty weights"]),
        tuple(more("--n-heads", "3")), tuple(more("--n-layers", "1000000000")), tuple(more("--out", "fox.txt/x")),
        tuple(more("--corpus", "utf16.txt")),
    }
]  # fmt: skip


def start(line, **options):
    command = [sys.executable, "-m", "efficient_transformers", *line]
    environment = {**os.environ, **SETTINGS}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize("line", ALONE, ids=lambda line: " ".join(line)[-60:] or "nothing")
def test_a_process_of_its_own_ends_the_same(line, there):
    assert_refused(forked(*line), LINES[line])


def test_fifteen_have_a_process_of_their_own():
    assert len(ALONE) == 15


BUFFERED = pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])


@BUFFERED
def test_a_pipe_that_is_closed_is_said_in_one_line(there, unbuffered, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    read, write = os.pipe()
    os.close(read)
    process = start(["generate", "model", "--seed", "1"], stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert_refused((process.returncode, "", err), "the output was closed before everything was written")


@BUFFERED
def test_a_full_output_is_said_in_one_line(there, unbuffered, monkeypatch):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full, which is Linux's")
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with open("/dev/full", "w") as full:
        process = start(["generate", "model", "--seed", "1"], stdout=full)
        _, err = process.communicate(timeout=60)
    assert_refused((process.returncode, "", err), "No space left on device")


def test_too_little_memory_is_said_in_one_line(there, monkeypatch, command):
    def full(*_, **__):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory\nbacktrace:\n...")

    monkeypatch.setattr("efficient_transformers.training.runs.train", full)
    result = command(*TRAIN, "--out", "new")
    assert_refused(result, "can't allocate memory")
    assert not (there / "new").exists()


SHORT_OF_SPACE = """
import resource
import signal

import torch.distributed.nn  # which, up to 2.9, writes a file when it is imported
import efficient_transformers.__main__ as cli

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
cli.main()
"""
SHORT_OF_MEMORY = """
import resource
import sys
from pathlib import Path

import torch
import efficient_transformers.__main__ as cli

torch.nn.Linear(8, 8)(torch.zeros(1, 8)).sum().backward()  # what starts threads has started them
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + 300 * 10**6
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
cli.main()
"""


def limited(script, line):
    command = [sys.executable, "-c", script, *line]
    result = subprocess.run(command, env={**os.environ, **SETTINGS}, capture_output=True, text=True, timeout=60)
    return result.returncode, result.stdout, result.stderr


def test_a_limit_on_the_size_of_files_is_not_a_traceback(there):
    assert_refused(limited(SHORT_OF_SPACE, [*TRAIN, "--out", "new"]), "out is 'new'")
    assert not (there / "new").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_limit_on_memory_is_not_a_traceback(there):
    line = [*TRAIN, "--d-model", "4096", "--out", "new"]
    assert_refused(limited(SHORT_OF_MEMORY, line), "can't allocate memory")
    assert not (there / "new").exists()
