"""No work is lost: kills, signals, full disks, two writers; and what a resumed run ends with."""

import errno
import json
import math
import multiprocessing
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import termios
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import helpers
import pytest
import torch
from helpers import SIZES, TEXT, without_seconds
from killing import MOMENTS
from safetensors import SafetensorError

import efficient_transformers.__main__ as cli
from efficient_transformers import (
    Checkpoints,
    Execution,
    LanguageModel,
    TrainingConfig,
    build_model,
    load_corpus,
    train,
)
from efficient_transformers.support.files import PARTIAL, locked, replacing
from efficient_transformers.training import logs
from efficient_transformers.training.execution import Stop

pytestmark = [pytest.mark.usefixtures("on_the_cpu"), pytest.mark.slow]

TRAIN = ["train", "primer-ez", "--corpus", "fox.txt", *SIZES]
SETTINGS = helpers.SETTINGS | {"COLUMNS": "200"}
SMALL = {"steps": 12, "batch_size": 4, "seq_len": 16, "eval_every": 4, "eval_batches": 2, "warmup_steps": 2}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory that holds nothing but a text."""
    (tmp_path / "fox.txt").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def interrupt(command, line=(*TRAIN, "--steps", 10)):
    """A run in the folder `model` that was asked to stop at its second evaluation."""
    finite = logs.finite

    def ask(record):
        if record["step"] == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return finite(record)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "finite", ask)
        code, out, _ = command(*line, "--out", "model")
    assert code == 128 + signal.SIGTERM
    assert "python -m efficient_transformers resume model\n" in out


def losses(folder):
    """What was measured, without the clock."""
    metrics = json.loads((folder / "training.json").read_text())["metrics"]
    return [{k: v for k, v in record.items() if k != "seconds"} for record in metrics]


def same_end(one, other):
    """Two runs ended with the same losses and weights, bit for bit."""
    lines = [[json.loads(line) for line in (f / "metrics.jsonl").read_text().splitlines()] for f in (one, other)]
    assert [[r["step"] for r in run] for run in lines] == [[r["step"] for r in losses(one)]] * 2
    return losses(one) == losses(other) and all(
        (one / name).read_bytes() == (other / name).read_bytes() for name in ("model.safetensors", "config.json")
    )


def new_run(dropout=0.2, **changes):
    """A model, its text, and how to train it."""
    corpus = load_corpus("fox.txt")
    torch.manual_seed(0)
    sizes = {"d_model": 16, "n_layers": 1, "n_heads": 2, "max_seq_len": 40, "dropout": dropout}
    return (
        build_model("primer-ez", vocab_size=len(corpus.vocabulary), **sizes),
        corpus,
        TrainingConfig(**SMALL | changes),
    )


# Killed


def killed(folder, kills, seed):
    script = Path(__file__).parents[1] / "killing.py"
    line = [sys.executable, script, folder, folder / "fox.txt", str(kills), str(seed)]
    result = subprocess.run(line, env={**os.environ, **SETTINGS}, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    steps = result.stdout.split()
    ends = list(folder.glob("killed*"))
    for end in ends:
        assert same_end(folder / "whole", end)
        assert not (end / "checkpoint.pt").exists()
    assert not list(folder.rglob(f"{PARTIAL}*"))
    return steps[:kills], steps[kills:], len(ends)


def test_a_run_that_is_killed_at_random_moments_and_chosen_ones_ends_as_if_it_had_not_been(folder):
    steps, chosen, _ = killed(folder, 5, seed=0)
    assert len(set(steps)) > 1
    assert chosen == [  # the moment and which checkpoint; the step of the last good one; whether a part of one is left
        "beginning-0:None:False",  # beside the folder, which does not exist yet
        "half-1:None:True",
        "half-3:2:True",
        "written-3:2:True",
        "replaced-3:4:False",
        "ending-0:40:True",
        "recorded-0:40:False",
    ]


@pytest.mark.long
def test_a_hundred_kills(folder):
    steps, _, ends = killed(folder, 100, seed=1)
    assert len(set(steps)) > 10
    assert ends > 5 + len(MOMENTS)


# Resumed


@pytest.mark.parametrize(("moment", "optimizer"), [(1, "adamw"), (4, "adamw"), (7, "adamw"), (4, "muon")])
def test_a_resumed_run_has_the_losses_and_weights_of_one_that_was_not_interrupted(folder, moment, optimizer):
    expected, corpus, config = new_run(optimizer=optimizer)
    metrics = train(expected, corpus, config, show_progress=False)
    model, stop = new_run()[0], Stop()
    calls = []

    def stop_in_time(module, *_):
        calls.append(module.training)
        if sum(calls) == moment:
            stop.ask(signal.SIGTERM)

    hook = model.register_forward_hook(stop_in_time)
    where = Checkpoints(folder / "c.pt", every=5)
    before = train(model, corpus, config, checkpoints=where, stop=stop, show_progress=False)
    hook.remove()
    assert where.last == moment
    assert len(before) < len(metrics)
    torch.manual_seed(99)  # nothing of this process is needed
    again = new_run()[0]
    after = train(again, corpus, config, checkpoints=Checkpoints(folder / "c.pt", every=5), show_progress=False)
    assert without_seconds(after) == without_seconds(metrics)
    assert all(map(torch.equal, again.state_dict().values(), expected.state_dict().values()))
    seconds = [record["seconds"] for record in after]
    assert seconds == sorted(seconds)


def test_a_checkpoint_of_another_run_is_refused(folder):
    model, corpus, config = new_run()
    where = Checkpoints(folder / "c.pt")
    train(model, corpus, config, checkpoints=where, show_progress=False)
    content = where.load()
    for other in (replace(config, seed=5), replace(config, optimizer="muon")):
        with pytest.raises(ValueError, match=r"the training of .*c\.pt is "):
            train(new_run()[0], corpus, other, checkpoints=where, show_progress=False)
    assert train(new_run()[0], corpus, config, checkpoints=where, show_progress=False)[-1]["step"] == config.steps
    (folder / "fox.txt").write_text(TEXT.replace("lazy", "yzal"))
    with pytest.raises(ValueError, match=r"the corpus of .*c\.pt is"):
        train(new_run()[0], load_corpus("fox.txt"), config, checkpoints=where, show_progress=False)
    parts = {"metrics": [[1, 2], [{}], [{"step": 1}], {}, None], "step": ["3", 2.5, None], "seconds": ["1", None]}
    torch.save({"format": 2}, where.path)
    with pytest.raises(ValueError, match=r"c\.pt lacks is \['batches'"):
        where.load()
    for part, value in ((part, value) for part, values in parts.items() for value in values):
        torch.save(content | {part: value}, where.path)
        with pytest.raises(ValueError, match=rf"^the {part} of .*c\.pt is {re.escape(repr(value))}; expected "):
            where.load()


def test_a_checkpoint_with_a_flipped_bit_is_refused_or_reads_as_it_was(folder):
    model, corpus, config = new_run()
    where = Checkpoints(folder / "c.pt")
    train(model, corpus, config, checkpoints=where, show_progress=False)
    expected, content, refused = str(where.load()), (folder / "c.pt").read_bytes(), 0
    weight = content.index(model.embedding.weight.detach().numpy().tobytes())
    bits = torch.randint(8 * len(content), (20,), generator=torch.Generator().manual_seed(0)).tolist()
    for bit in [8 * (weight + 3) + 6, *bits]:  # the first makes a weight 2**128 times as large or as small
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        (folder / "c.pt").write_bytes(damaged)
        try:
            assert str(where.load()) == expected
        except ValueError as error:
            assert "c.pt is not a checkpoint" in str(error)  # noqa: PT017 (or there is no error)
            refused += 1
        else:
            assert refused > 0  # at least by the first
    assert refused > 4


def test_nothing_in_a_checkpoint_is_executed(folder):
    class Evil:
        def __reduce__(self):
            return os.mkdir, ("owned",)

    torch.save({"format": 2, "x": Evil()}, folder / "c.pt")
    with pytest.raises(ValueError, match="is not a checkpoint"):
        Checkpoints(folder / "c.pt").load()
    assert not (folder / "owned").exists()


# Asked to stop


def start(line):
    """The command line in a process of its own, and the terminal that it writes errors and progress to."""
    terminal, its_end = pty.openpty()  # progress is drawn only on a terminal
    termios.tcsetwinsize(terminal, (24, 100))
    command = [sys.executable, "-m", "efficient_transformers", *line, "--out", "model"]
    process = subprocess.Popen(
        [*command, "--steps", str(10**6), "--checkpoint-every", str(10**6)],
        env={**os.environ, **SETTINGS},
        stdout=subprocess.PIPE,
        stderr=its_end,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    os.close(its_end)
    return process, terminal


def read_until(pattern, terminal):
    """What is shown there, up to a pattern."""
    shown = ""
    while not re.search(pattern, shown):
        shown += os.read(terminal, 4096).decode(errors="replace")
    return shown


def rest(terminal):
    """What is shown there until the last process has closed it, which Linux says by an error."""
    shown = ""
    with suppress(OSError):
        while part := os.read(terminal, 4096):
            shown += part.decode(errors="replace")
    os.close(terminal)
    return shown


PROGRESS = r"[1-9]\d*/1000000 \[\d\d:\d\d<[^\r]*loss \d\.\d{3}, [\d,]+ tokens/s"


def assert_stopped(folder, out, shown):
    """After a step, with one checkpoint, and a model that generates."""
    assert "Interrupted; saved model" in out, shown
    state = Checkpoints(folder / "model" / "checkpoint.pt").load()
    assert state["step"] > 0
    assert not list((folder / "model").glob(f"{PARTIAL}*"))
    assert LanguageModel.from_pretrained("model").config["d_model"] == 8


def test_ctrl_c_twice_stops_after_the_step_with_a_checkpoint(folder):
    process, terminal = start(TRAIN)
    read_until(PROGRESS, terminal)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    shown = rest(terminal)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT
    assert shown.count("Stopping after this step") == 1
    assert "Traceback" not in shown
    assert out.endswith("To go on with the training:\n    python -m efficient_transformers resume model\n")
    assert_stopped(folder, out, shown)


def test_what_goes_wrong_after_the_end_does_not_cost_the_model(command, folder, monkeypatch):
    def closed(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr(cli, "sample", closed)
    assert command(*TRAIN, "--steps", 2, "--out", "model")[0] == 2
    assert LanguageModel.from_pretrained("model").config["d_model"] == 8
    assert (folder / "model" / "training.json").exists()


# Places that cannot be written


def no_room(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_the_last_good_checkpoint_and_says_so(folder, monkeypatch):
    model, corpus, config = new_run()
    where, original = Checkpoints(folder / "c.pt", every=3), torch.save

    def full_at_six(content, path):
        original(content, path)
        if content["step"] == 6:
            no_room()

    monkeypatch.setattr(torch, "save", full_at_six)
    with pytest.warns(UserWarning, match=r"step 6 could not .*No space left.*the last good checkpoint is of step 3"):
        train(model, corpus, config, checkpoints=where, show_progress=False)
    assert where.last == 12  # there was room again
    assert [path.name for path in folder.iterdir() if path.name.startswith(PARTIAL)] == []


def safetensors_without_room(*_):
    raise SafetensorError("Error while serializing: No space left on device")  # not an OSError


def test_a_disk_that_fills_up_at_the_end_says_what_is_left_and_resumes(command, folder, monkeypatch):
    assert command(*TRAIN, "--steps", 6, "--out", "whole")[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr("safetensors.torch.save_file", safetensors_without_room)
        code, _, err = command(*TRAIN, "--steps", 6, "--out", "model")
    assert code == 2
    assert "the model could not be written to model (Error while serializing: No space left on device)" in err
    assert "the last good checkpoint is of step 6" in err
    assert command("resume", "model")[0] == 0
    assert same_end(folder / "whole", folder / "model")


def test_a_limit_on_the_size_of_files_is_a_full_disk(folder):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    line = [sys.executable, "-m", "efficient_transformers", *TRAIN, "--out", "model"]
    environment = {**os.environ, **SETTINGS}
    result = subprocess.run(line, env=environment, capture_output=True, text=True, check=False, preexec_fn=limit)
    assert result.returncode == 2
    assert re.fullmatch(r"error: the checkpoint of step 0 could not be written .*\n", result.stderr), result.stderr
    assert not (folder / "model").exists()


def write_half(path, error):
    with replacing(path) as temporary:
        temporary.write_text("half")
        raise error


def test_a_file_is_whole_or_as_it_was(folder):
    (folder / "a").write_text("before")
    for error in (OSError, KeyboardInterrupt):
        with pytest.raises(error):
            write_half(folder / "a", error)
        assert (folder / "a").read_text() == "before"
    with replacing(folder / "a") as temporary:
        temporary.write_text("after")
    assert (folder / "a").read_text() == "after"
    assert (folder / "a").stat().st_mode == (folder / "fox.txt").stat().st_mode
    assert {path.name for path in folder.iterdir()} == {"a", "fox.txt"}


# Losses that are not finite


def test_a_loss_that_is_not_finite_stops_at_once(folder):
    model, corpus, config = new_run(steps=40, learning_rate=1e9, warmup_steps=0)
    where = Checkpoints(folder / "c.pt", every=1)
    with pytest.raises(FloatingPointError) as stopped:
        train(model, corpus, config, checkpoints=where, show_progress=False)
    found = re.fullmatch(
        r"the (training|validation) loss of step (\d+) is (nan|inf); the learning rate was (\S+); "
        r"the last good checkpoint is of step (\d+)",
        str(stopped.value),
    )
    assert found, stopped.value
    assert int(found[2]) < 40
    assert int(found[5]) == int(found[2]) - 1
    assert found[4] == f"{config.rate(int(found[2]) - 1):g}"
    state = Checkpoints(folder / "c.pt").load()
    assert state["step"] == int(found[5])


def test_weights_that_are_not_finite_take_no_good_checkpoints_place(folder):
    model, corpus, config = new_run()
    model.embedding.weight.register_hook(lambda gradient: gradient * float("nan"))  # the loss is finite all the same
    with pytest.raises(
        FloatingPointError, match=r"after step 1 .* not finite; .* of step 0; the learning rate was 0\.0015"
    ):
        train(model, corpus, config, checkpoints=Checkpoints(folder / "c.pt", every=1), show_progress=False)
    weights = Checkpoints(folder / "c.pt").load()["model"]
    assert all(tensor.isfinite().all() for tensor in weights.values())


def test_the_command_line_says_that_a_loss_is_not_finite(command, folder):
    code, out, err = command(*TRAIN, "--learning-rate", "1e9", "--warmup-steps", "0", "--steps", "50", "--out", "model")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: the \w+ loss of step \d+ is (nan|inf); .*\n", err)
    assert not (folder / "model" / "model.safetensors").exists()


# Two processes


def test_a_folder_is_made_by_one_of_two_processes(folder, monkeypatch, capfd):
    fork, begin = multiprocessing.get_context("fork"), cli.begin
    barrier = fork.Barrier(2)  # where both have seen that there is no such folder
    monkeypatch.setattr(cli, "begin", lambda *given, **named: (barrier.wait(120), begin(*given, **named))[1])
    monkeypatch.setattr(sys, "argv", ["", *TRAIN, "--steps", "2", "--out", "model"])
    both = [fork.Process(target=cli.main) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(120)
    assert sorted(process.exitcode for process in both) == [0, 2]
    assert "error: out is 'model'; expected a folder that does not exist yet\n" in capfd.readouterr().err
    assert LanguageModel.from_pretrained("model").config["d_model"] == 8
    assert {path.name for path in folder.iterdir()} == {"fox.txt", "model"}


def test_a_run_that_another_process_goes_on_with_is_not_removed(command, folder, monkeypatch):
    original, held = cli.begin, ExitStack()

    def begin_and_be_overtaken(*arguments, **options):
        made = original(*arguments, **options)
        assert held.enter_context(locked(made / "run.json", wait=False))
        return made

    with held, monkeypatch.context() as patch:
        patch.setattr(cli, "begin", begin_and_be_overtaken)
        code, _, err = command(*TRAIN, "--steps", 2, "--out", "model")
    assert code == 2
    assert "expected a run that no other process is training at this moment" in err
    assert command("resume", "model")[0] == 0


def test_two_runs_of_the_same_second_have_folders_of_their_own(command, folder, monkeypatch):
    class Noon(cli.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2024, 1, 1, 12)

    monkeypatch.setattr(cli, "datetime", Noon)
    assert command(*TRAIN, "--steps", 1)[0] == command(*TRAIN, "--steps", 1)[0] == 0
    names = {path.name for path in (folder / "runs").iterdir()}
    assert names == {"primer-ez-20240101-120000", "primer-ez-20240101-120000-2"}


def test_a_run_is_resumed_by_one_process(command, folder):
    interrupt(command)
    with locked(folder / "model" / "run.json"):
        code, _, err = command("resume", "model")
    assert code == 2
    assert "folder is 'model'; expected a run that no other process is training at this moment" in err
    os.chdir("/")  # where it is resumed from does not matter
    assert command("resume", folder / "model")[0] == 0


# What is written meanwhile


# Fine-tuning


def test_training_goes_on_from_a_saved_model_on_another_text(command, folder):
    assert command(*TRAIN, "--steps", 3, "--out", "model")[0] == 0
    (folder / "dogs.txt").write_text("the dog jumps over the dog. " * 30)
    tune = ["train", "--init", "model", "--corpus", "dogs.txt", "--seq-len", 8, "--batch-size", 2]
    assert command(*tune, "--steps", 2, "--eval-batches", 1, "--out", "tuned")[0] == 0
    first, tuned = LanguageModel.from_pretrained("model"), LanguageModel.from_pretrained("tuned")
    assert tuned.config == first.config
    corpus = load_corpus("dogs.txt", vocabulary=load_corpus("fox.txt").vocabulary)
    copy = LanguageModel.from_pretrained("model")
    config = TrainingConfig(steps=2, batch_size=2, seq_len=8, eval_batches=1)
    train(copy, corpus, config, show_progress=False)
    assert all(map(torch.equal, copy.state_dict().values(), tuned.state_dict().values()))


def test_a_run_that_began_with_a_saved_model_goes_on_without_it_where_there_is_a_checkpoint(command, folder):
    assert command(*TRAIN, "--steps", 3, "--out", "first")[0] == 0
    tune = ["train", "--init", "first", "--corpus", "fox.txt", *SIZES[6:], "--steps", 10]
    assert command(*tune, "--out", "whole")[0] == 0
    interrupt(command, line=tune)
    shutil.rmtree("first")
    shutil.copytree("model", "without")
    (folder / "without" / "checkpoint.pt").unlink()
    code, _, err = command("resume", "without")
    assert code == 2
    assert "first'; expected a folder" in err
    assert command("resume", "model")[0] == 0
    assert same_end(folder / "whole", folder / "model")


# Evaluation


@pytest.mark.parametrize("unit", ["characters", "bytes"])
def test_evaluate_prints_nats_and_bits_of_the_whole_text(command, folder, unit):
    text = "Grüße, Jürgen ❤\n" * 60
    (folder / "fox.txt").write_text(text)
    assert command(*TRAIN, "--tokens", unit, "--steps", 2, "--out", "model")[0] == 0
    code, out, err = command("evaluate", "model", "--corpus", "fox.txt")
    assert (code, err) == (0, "")
    characters, size = len(text) - 1, len(text.encode()) - 1
    tokens = characters if unit == "characters" else size
    first, *lines = out.splitlines()
    assert first == f"{tokens:,} tokens, {characters:,} characters, {size:,} bytes"
    (nats, bits), (nats_per_byte, bits_per_byte) = ([float(n) for n in re.findall(r"\d+\.\d{4}", x)] for x in lines)
    assert bits == pytest.approx(nats / math.log(2), abs=1e-3)
    assert nats_per_byte == pytest.approx(nats * characters / size, abs=1e-3)
    assert bits_per_byte == pytest.approx(bits * characters / size, abs=1e-3)
    vocabulary = len(set(text)) if unit == "characters" else 256
    assert nats == pytest.approx(math.log(vocabulary) * tokens / characters, abs=0.5)


# How the machine carries it out


def test_bfloat16_trains_nearly_as_float32():
    whole, corpus, config = new_run(dropout=0.0, steps=20)
    expected = train(whole, corpus, config, show_progress=False)
    model = new_run(dropout=0.0)[0]
    found = train(model, corpus, config, execution=Execution(precision="bfloat16"), show_progress=False)
    difference = found[-1]["validation_loss"] - expected[-1]["validation_loss"]
    assert 0 < abs(difference) < 0.05
    assert all(p.dtype == torch.float32 for p in model.parameters())


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling for the CPU needs g++")
def test_a_compiled_model_trains_alike():
    whole, corpus, config = new_run(dropout=0.0, steps=5)
    expected = train(whole, corpus, config, show_progress=False)
    model = new_run(dropout=0.0)[0]
    found = train(model, corpus, config, execution=Execution(compile=True), show_progress=False)
    assert type(model) is LanguageModel
    for ours, theirs in zip(without_seconds(found), without_seconds(expected), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)
