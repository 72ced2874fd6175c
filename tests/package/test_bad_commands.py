"""Every bad command line ends in one short message that names the cause, exit code 2, no traceback, nothing written."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import SETTINGS, SIZES, TEXT, edit_config

import efficient_transformers.__main__ as cli
import efficient_transformers.training.corpus as corpora
from efficient_transformers.models import saving

pytestmark = pytest.mark.slow

TRAIN = ["train", "primer-ez", "--corpus", "fox.txt", "--steps", "2", *SIZES]
HUGE = 10**30
TEXTS = {
    "fox.txt": TEXT.encode(),
    "long.txt": TEXT.encode() * 200,
    "empty.txt": b"\xef\xbb\xbf",
    "short.txt": b"abcdefgh" * 2,
    "latin.txt": "naïve".encode("latin-1") * 20,
    "other.txt": "the dog\nsays ß. ".encode() * 20,
}


MODEL = {"name": "primer-ez", "vocab_size": 29, "d_model": 8, "n_layers": 1, "n_heads": 2}
# A file, what it holds instead (nothing, a text, or other values of some fields), and what is said then: of a saved
# folder, and of a run that was not finished.
SAVED = [
    ("vocabulary.json", None, "a folder that `train` saved, with vocabulary.json"),
    ("vocabulary.json", '{"charact', "vocabulary.json is not JSON"),
    ("vocabulary.json", "[1]", "vocabulary.json is [1]; expected an object"),
    ("vocabulary.json", "{}", "vocabulary.json is not a vocabulary"),
    ("vocabulary.json", '{"characters": "ba"}', "characters is 'ba'"),
    ("vocabulary.json", '{"tokens": "bytes"}', " is 256; expected 29, as"),
    ("vocabulary.json", {"characters": "".join(sorted(set(TEXT)))[:-1] + "~"}, "the sha256 of the vocabulary of "),
    ("config.json", {"name": "perceiver"}, "name is 'perceiver'"),
    ("config.json", '{"format": 3, "name": "primer-ez"}', "the sha256 of what "),
    ("model.safetensors", "none", "does not hold weights"),
]
PLANNED = [
    ("run.json", None, "a folder that `train` made, with run.json"),
    ("run.json", '{"model', "run.json is not JSON"),
    ("run.json", "{}", "run.json is None; expected one; version 0.2.0 goes on with older"),
    ("run.json", {"colour": "red"}, "is not the plan of a run: "),
    ("run.json", {"sha256": "0"}, "expected 0, as the run began"),
    ("run.json", {"training": {"steps": 0}}, "steps is 0"),
    ("run.json", {"execution": {"precision": "int8"}}, "precision is 'int8'"),
    ("run.json", {"corpus": "lost.txt"}, "lost.txt'; expected 'shakespeare'"),
    ("run.json", {"model": MODEL | {"n_layers": 10**9}}, "n_layers is 1000000000; expected at most 1000"),
    ("run.json", {"model": MODEL | {"n_layers": 2}}, "checkpoint.pt does not go with the model"),
    ("checkpoint.pt", {"batches": 3}, "checkpoint.pt does not go with the model"),
    ("checkpoint.pt", {"format": 0}, "checkpoint.pt is 0; expected 2"),
]
DAMAGES = [*SAVED, *PLANNED]


def damage(file, instead):
    if instead is None:
        file.unlink()
    elif isinstance(instead, str):
        file.write_text(instead)
    elif file.suffix == ".pt":
        torch.save(torch.load(file, weights_only=True) | instead, file)
    elif file.name == "config.json":
        edit_config(file.parent, **instead)
    else:
        found = json.loads(file.read_text())
        if found.pop("sha256", None):  # as if it had been written so
            sealed = {**found, **instead, "vocabulary.json": "".join(sorted(set(TEXT)))}
            instead = {"sha256": saving.seal(sealed)} | instead
        file.write_text(json.dumps(found | instead))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with texts good and bad, a saved model, and copies of it that were damaged."""
    folder = tmp_path_factory.mktemp("place")
    for name, content in TEXTS.items():
        (folder / name).write_bytes(content)
    (folder / "loop").symlink_to("loop")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(torch.cuda, "is_available", lambda: False)
        patch.setattr(Path, "unlink", lambda *_, **__: None)  # so that the checkpoint stays
        patch.setattr(sys, "argv", ["", *TRAIN, "--out", "model"])
        cli.main()
    checkpoint = (folder / "model" / "checkpoint.pt").rename(folder / "checkpoint.pt")
    for number, (file, instead, cause) in enumerate(DAMAGES):
        copy = shutil.copytree(folder / "model", folder / f"broken-{number}")  # a name that says nothing
        if (file, instead, cause) in PLANNED:
            (copy / "training.json").unlink()
            shutil.copy(checkpoint, copy)
        damage(copy / file, instead)
    return folder


@pytest.fixture
def there(place, monkeypatch):
    """Inside that folder, in which nothing changes."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv(corpora.DATA_VARIABLE, raising=False)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    yield place
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def assert_refused(result, cause):
    code, out, err = result
    assert (code, out) == (2, ""), err
    assert re.fullmatch(r"error: [^\n]{5,999}\n", err), err
    assert "Traceback" not in err
    assert cause in err


LINES = {
    # the command
    "": "the following arguments are required: command; python -m efficient_transformers --help lists what there is",
    "trian": "trian",
    "train": "name is None",
    "train primer-ez --step 3": "unrecognized arguments: --step 3",
    "train perceiver": "name is 'perceiver'",
    "train primer-ez --init model": "name is 'primer-ez'",
    "train --init owner/name": "folder is 'owner/name'; expected a folder that `train` saved",
    "train --init model --corpus other.txt": "a character is 'ß', in line 2",
    "train --init model --corpus fox.txt --d-model 16": "d_model is 16; expected none with --init",
    "train dense-gmlp --corpus fox.txt --max-seq-len 600000": "the memory for the weights",
    "compare primer-ez --against perceiver": "against is 'perceiver'",
    "compare primer-ez --minutes 1e308": "minutes is 1e+308; expected at most 525,600, a year",
    "compare primer-ez --minutes 1e9": "expected at most 525,600, a year",
    "compare primer-ez --minutes nan": "minutes is nan; expected a finite number",
    "compare primer-ez --corpus fox.txt": "expected at least 4,096 tokens",
    "resume model": "not at its end",
    "generate owner/name": "folder is 'owner/name'; expected a folder that `train` saved, or one of dense-gmlp,",
    f"generate {'z' * 300}": "zzz",
    "generate model --prompt 'fox\né'": "a character is 'é', in line 2",
    "generate model --prompt ''": "prompt is ''; expected at least one character",
    "generate model --max-new-tokens 1024": "at most max_seq_len=1024",
    "generate model --top-k 0": "top_k is 0",
    f"generate model --seed {HUGE}": "seed is 1000000",
    "evaluate model": "--corpus",
    "evaluate model --corpus other.txt": "a character is 'ß', in line 2",
    "evaluate model --corpus shakespeare": "part is None",
    "evaluate model --corpus fox.txt --part test": "part is 'test'",
    "evaluate model --corpus fox.txt --seq-len 2000": "expected at most max_seq_len=1024",
    f"evaluate model --corpus fox.txt --batch-size {HUGE}": "the memory for the tokens of a batch",
}
TRAINING = {  # options after a good line
    "--n-heads 3": "a multiple of n_heads=3",
    "--optimizer moun": "moun",
    "--max-seq-len 7": "max_seq_len=7",
    "--seq-len 90": "more than seq_len=90",
    f"--seed {HUGE}": "seed is 1000000",
    # sizes that no machine has
    f"--n-layers {HUGE}": f"n_layers is {HUGE}; expected at most 1000",
    "--d-model 2000000": "the memory for the weights is '192,001 GB'; expected at most",
    f"--batch-size {HUGE}": "the memory for the tokens of a batch",
    f"--eval-batches {HUGE}": "the memory for the places of the evaluation batches",
    # texts
    **{
        f"--corpus {text!r}": f"the corpus is '{text[:9]}"
        for text in ("milton.txt", ".", "/dev/zero", "loop", "x" * 300, "fox.txt/x", "Shakespeare")
    },
    "--corpus 'shakespeare\0'": "corpus",
    "--corpus empty.txt": "a file that is not empty",
    "--corpus short.txt": "the validation text of 'short.txt' is 2",
    "--corpus latin.txt": "expected UTF-8 text",
    "--corpus tiny-shakespeare": "could not be downloaded",
}
LINES |= {shlex.join([*TRAIN, *shlex.split(options)]): cause for options, cause in TRAINING.items()}


@pytest.fixture
def offline(there, monkeypatch):
    import requests

    def fail(*_, **__):
        raise requests.ConnectionError("no network")

    monkeypatch.setattr("requests.get", fail)
    monkeypatch.setattr("pooch.os_cache", lambda project: there / "cache")


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[-60:].replace("\0", "0") or "nothing")
def test_a_bad_command_line_ends_in_one_line_that_names_the_cause(line, offline, command):
    assert_refused(command(*shlex.split(line)), LINES[line])


@pytest.mark.parametrize("batch_size", [10**6, 10**13])
def test_a_batch_that_cannot_fit_is_estimated_and_not_tried(batch_size, there, command):
    code, _, err = command("compare", "primer-ez", "--corpus", "long.txt", "--batch-size", batch_size, "--out", "new")
    assert_refused((code, "", err), "the memory for a step of the baseline is '")
    assert not (there / "new").exists()


FLOATS = ["learning-rate", "weight-decay", "clip-norm", "dropout"]
NUMBERS = ["steps", "batch-size", "seq-len", "warmup-steps", "eval-every", "eval-batches", "seed", "checkpoint-every"]
NUMBERS += ["d-model", "n-layers", "n-heads", "max-seq-len", *FLOATS]


@pytest.mark.parametrize("option", NUMBERS)
def test_every_number_is_refused_by_name_where_it_is_none_or_less_than_it_can_be(option, there, command):
    assert_refused(command(*TRAIN, f"--{option}", "x"), f"--{option}")
    least = "-1" if option != "seed" else f"-{HUGE}"
    assert_refused(command(*TRAIN, f"--{option}", least), f"{option.replace('-', '_')} is {least}")
    if option in FLOATS:
        assert_refused(command(*TRAIN, f"--{option}", "nan"), f"{option.replace('-', '_')} is nan")


@pytest.mark.parametrize("number", range(len(DAMAGES)), ids=[f"{file}, {cause[-30:]}" for file, _, cause in DAMAGES])
def test_a_damaged_folder_is_said_in_one_line(number, there, command):
    folder, cause = f"broken-{number}", DAMAGES[number][2]
    if DAMAGES[number] in PLANNED:
        assert_refused(command("resume", folder), cause)
    else:
        assert_refused(command("evaluate", folder, "--corpus", "fox.txt"), cause)
    if DAMAGES[number] in SAVED:
        assert_refused(command("generate", folder), cause)
        assert_refused(command("train", "--init", folder, "--corpus", "fox.txt"), cause)


@pytest.mark.parametrize(
    "out", ["model", "fox.txt", "fox.txt/x", "/proc/x", "/dev/null", "loop", "loop/x", ".", "/", "y" * 300]
)
def test_a_place_that_cannot_be_written_is_noticed_before_the_first_step(out, there, command, monkeypatch):
    monkeypatch.setattr("efficient_transformers.training.runs.train", None)  # is not reached
    assert_refused(command(*TRAIN, "--out", out), f"out is {out!r}; expected ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_full_output_is_said_in_one_line(there, monkeypatch, command):
    with open("/dev/full", "w") as full:  # which can be closed afterwards without another error
        monkeypatch.setattr(sys, "stdout", full)
        assert_refused(command("generate", "model", "--seed", "1"), "No space left on device")


# In a process of its own, as a reader starts it


def in_a_process(*line, script=("-m", "efficient_transformers"), **options):
    command, environment = [sys.executable, *script, *line], {**os.environ, **SETTINGS}
    result = subprocess.run(
        command, env=environment, stderr=subprocess.PIPE, text=True, timeout=120, check=False, **options
    )
    return result.returncode, result.stdout or "", result.stderr


def test_a_pipe_that_is_closed_is_said_in_one_line(there):
    read, write = os.pipe()
    os.close(read)
    result = in_a_process("generate", "model", "--seed", "1", stdout=write)
    os.close(write)
    assert_refused(result, "the output was closed before everything was written")


SHORT_OF_MEMORY = """
import resource
from pathlib import Path

import torch
import efficient_transformers.__main__ as cli

torch.nn.Linear(8, 8)(torch.zeros(1, 8)).sum().backward()  # what starts threads has started them
limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + 300 * 10**6
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
cli.main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_limit_on_memory_is_not_a_traceback(there):
    line = [*TRAIN, "--d-model", "4096", "--out", "new"]
    assert_refused(in_a_process(*line, script=("-c", SHORT_OF_MEMORY)), "can't allocate memory")
    assert not (there / "new").exists()
