"""Every bad command line ends in one short message that names the cause, exit code 2, no traceback."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import efficient_transformers.__main__ as cli
import efficient_transformers.corpus as corpora

TEXT = "the quick brown fox\njumps over the lazy dog. " * 20
SIZES = ["--d-model", "8", "--n-layers", "1", "--n-heads", "2", "--batch-size", "2"]
SIZES += ["--seq-len", "8", "--eval-every", "2", "--eval-batches", "1"]
TRAIN = ["train", "primer-ez", "--corpus", "fox.txt", "--steps", "2", *SIZES]
SETTINGS = {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""}
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
BROKEN = {  # what is done to a copy of a saved folder
    "no-vocabulary": lambda f: (f / "vocabulary.json").unlink(),
    "no-config": lambda f: (f / "config.json").unlink(),
    "no-weights": lambda f: (f / "model.safetensors").unlink(),
    "cut-vocabulary": lambda f: (f / "vocabulary.json").write_text('{"charact'),
    "empty-vocabulary": lambda f: (f / "vocabulary.json").write_text("{}"),
    "list-vocabulary": lambda f: (f / "vocabulary.json").write_text("[1]"),
    "null-vocabulary": lambda f: (f / "vocabulary.json").write_text('{"characters": null}'),
    "unsorted-vocabulary": lambda f: (f / "vocabulary.json").write_text('{"characters": "ba"}'),
    "small-vocabulary": lambda f: (f / "vocabulary.json").write_text('{"characters": "ab"}'),
    "large-vocabulary": lambda f: (f / "vocabulary.json").write_text('{"tokens": "bytes"}'),
    "binary-vocabulary": lambda f: (f / "vocabulary.json").write_bytes(b"\xff\xfe"),
    "cut-config": lambda f: (f / "config.json").write_text('{"name"'),
    "list-config": lambda f: (f / "config.json").write_text("[1]"),
    "null-config": lambda f: (f / "config.json").write_text("null"),
    "many-layers": lambda f: change(f / "config.json", n_layers=10**9),
    "wide-config": lambda f: change(f / "config.json", d_model=64),
    "odd-config": lambda f: change(f / "config.json", colour="red"),
    "other-config": lambda f: change(f / "config.json", name="perceiver"),
    "old-config": lambda f: change(f / "config.json", format=1),
    "empty-weights": lambda f: (f / "model.safetensors").write_bytes(b""),
    "cut-weights": lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:500]),
    "text-weights": lambda f: (f / "model.safetensors").write_text(TEXT),
    "folder-weights": lambda f: ((f / "model.safetensors").unlink(), (f / "model.safetensors").mkdir()),
}
PLANS = {  # what is done to the plan of a run that was not finished
    "no-plan": lambda f: (f / "run.json").unlink(),
    "cut-plan": lambda f: (f / "run.json").write_text('{"model'),
    "null-plan": lambda f: (f / "run.json").write_text("null"),
    "empty-plan": lambda f: (f / "run.json").write_text("{}"),
    "odd-plan": lambda f: change(f / "run.json", colour="red"),
    "odd-training": lambda f: change(f / "run.json", training={"steps": 0}),
    "odd-execution": lambda f: change(f / "run.json", execution={"precision": "int8"}),
    "lost-text": lambda f: change(f / "run.json", corpus="lost.txt"),
    "damaged-checkpoint": lambda f: (f / "checkpoint.pt").write_bytes(b"nothing"),
    "lost-vocabulary": lambda f: (f / "vocabulary.json").unlink(),
}


def change(file, **values):
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def run(monkeypatch, capsys, *arguments):
    """Call ``main`` as the shell would; its exit code, stdout and stderr."""
    monkeypatch.setattr(sys, "argv", ["efficient_transformers", *map(str, arguments)])
    capsys.readouterr()
    try:
        cli.main()
        code = 0
    except SystemExit as leave:
        code = leave.code or 0
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with texts good and bad, a saved model, and copies of it that were damaged."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "fox.txt").write_text(TEXT)
    for name, content in TEXTS.items():
        (folder / name).write_bytes(content)
    line = [sys.executable, "-m", "efficient_transformers", *TRAIN, "--out", "model"]
    subprocess.run(line, cwd=folder, env={**os.environ, **SETTINGS}, check=True, capture_output=True)
    for name, damage in {**BROKEN, **PLANS}.items():
        shutil.copytree(folder / "model", folder / name)
        if name in PLANS:
            (folder / name / "training.json").unlink()
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
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*") if path.is_file()}
    yield place
    after = {path: path.stat().st_mtime_ns for path in place.rglob("*") if path.is_file()}
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
    (): "Expected one of {train",
    ("trian",): "trian",
    ("--bogus",): "--bogus",
    ("train",): "name is None",
    ("generate",): "Missing",
    ("evaluate",): "Missing",
    ("resume",): "Missing",
    ("train", "primer-ez", "transformer"): "transformer",
    ("train", "primer-ez", "--bogus", "3"): "--bogus",
    ("generate", "model", "--bogus"): "--bogus",
    ("train", "primer-ez", "--steps"): "--steps",
    ("train", "perceiver"): "name is 'perceiver'",
    ("train", ""): "name is ''",
    ("train", "primer-ez", "--init", "model"): "name is 'primer-ez'",
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
    tuple(more("--d-model", HUGE)): "beyond what PyTorch can count",
    tuple(more("--d-model", "2000000")): "the memory for a model of",
    tuple(more("--n-layers", HUGE)): "the memory for a model of",
    tuple(more("--n-layers", "1000000000")): "the memory for a model of",
    tuple(more("--batch-size", "1000000000000")): "the memory for 1000000000000 sequences",
    tuple(more("--batch-size", HUGE)): "the memory for",
    tuple(more("--seq-len", HUGE)): "the memory for",
    tuple(more("--eval-batches", HUGE)): "evaluation batches is",
    tuple(more("--seed", HUGE)): "seed is 1000000000000000000000000000000",
    tuple(more("--seed", "-" + HUGE)): "seed is -1000000000000000000000000000000",
    ("train", "gmlp", "--corpus", "fox.txt", "--max-seq-len", "600000"): "the memory for a model of",
    ("train", "gmlp", "--corpus", "fox.txt", "--max-seq-len", HUGE): "beyond what PyTorch can count",
    ("train", "hourglass", "--corpus", "fox.txt", "--n-layers", "1000000000"): "the memory for a model of",
    ("train", "hourglass", "--corpus", "fox.txt", "--d-model", HUGE): "beyond what PyTorch can count",
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
    ("train", "--init", "model", "--corpus", "other.txt"): "a character is 'ß', in line 2",
    ("train", "--init", "model", "--corpus", "fox.txt", "--d-model", "16"): "d_model is 16; expected none with --init",
    ("train", "--init", "model", "--corpus", "fox.txt", "--n-layers", "1"): "n_layers is 1; expected none",
    ("train", "--init", "model", "--corpus", "fox.txt", "--dropout", "2"): "dropout is 2.0",
    # saved folders
    **{("generate", name): name.split("-")[1] for name in BROKEN},
    **{("evaluate", name, "--corpus", "fox.txt"): name.split("-")[1] for name in BROKEN},
    **{("train", "--init", name, "--corpus", "fox.txt"): name.split("-")[1] for name in BROKEN},
    **{("resume", name): name for name in PLANS if name not in ("lost-text", "odd-training")},
    ("resume", "odd-training"): "steps is 0",
    ("resume", "lost-text"): "lost.txt",
    ("resume", "model"): "not at its end",
    ("resume", "nowhere"): "folder is 'nowhere'",
    ("resume", "fox.txt"): "folder is 'fox.txt'",
    ("resume", ""): "folder is '.'",
    # generation
    ("generate", "nowhere"): "folder is 'nowhere'",
    ("generate", "runs/typo"): "folder is 'runs/typo'",
    ("generate", "fox.txt"): "folder is 'fox.txt'",
    ("generate", "z" * 300): "zzz",
    ("generate", "model", "--prompt", "fox é"): "a character is 'é', in line 1",
    ("generate", "model", "--prompt", "fox\né"): "a character is 'é', in line 2",
    ("generate", "model", "--prompt", ""): "tokens.shape is (1, 0)",
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
    ("evaluate", "model", "--corpus", "fox.txt", "--seq-len", HUGE): "the memory for",
    ("evaluate", "model", "--corpus", "fox.txt", "--batch-size", "0"): "batch_size is 0",
    ("evaluate", "model", "--corpus", "fox.txt", "--batch-size", HUGE): "the memory for",
}  # fmt: skip


def test_there_are_enough_of_them():
    assert len(LINES) >= 150


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line)[-60:].replace("\0", "0") or "nothing")
def test_a_bad_command_line_ends_in_one_line_that_names_the_cause(line, there, monkeypatch, capsys):
    import requests

    def offline(*_, **__):
        raise requests.ConnectionError("no network")

    monkeypatch.setattr("requests.get", offline)
    monkeypatch.setattr("pooch.os_cache", lambda project: there / "cache")
    assert_refused(run(monkeypatch, capsys, *line), LINES[line])


# In a process of its own, as a reader starts it

ALONE = [
    line for line in LINES if line in {
        (), ("trian",), ("train",), ("train", "perceiver"), ("generate", "nowhere"), ("resume", "model"),
        ("generate", "model", "--prompt", "fox é"), ("generate", "model", "--temperature", "-1"),
        ("evaluate", "model", "--corpus", "latin.txt"), ("generate", "cut-config"), ("generate", "empty-weights"),
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
    process = start(line, stdout=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert_refused((process.returncode, out, err), LINES[line])


def test_fifteen_are_started_as_a_reader_does():
    assert len(ALONE) == 15


def test_a_pipe_that_is_closed_is_said_in_one_line(there):
    read, write = os.pipe()
    os.close(read)
    process = start(["generate", "model", "--seed", "1"], stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert_refused((process.returncode, "", err), "the output was closed before everything was written")


def test_a_full_output_is_said_in_one_line(there):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with open("/dev/full", "w") as full:
        process = start(["generate", "model", "--seed", "1"], stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "No space left on device" in err
    assert "Traceback" not in err


def test_too_little_memory_is_said_in_one_line(there, monkeypatch, capsys):
    def full(*_, **__):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory\nbacktrace:\n...")

    monkeypatch.setattr("efficient_transformers.runs.train", full)
    result = run(monkeypatch, capsys, *TRAIN, "--out", "new")
    assert_refused(result, "can't allocate memory")
    assert not (there / "new").exists()


def test_a_limit_on_memory_is_not_a_traceback(there):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))

    process = start([*TRAIN, "--out", "new"], stdout=subprocess.PIPE, preexec_fn=limit)
    out, err = process.communicate(timeout=60)
    assert_refused((process.returncode, out, err), "out is 'new'")
    assert not (there / "new").exists()
