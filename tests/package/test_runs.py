"""No work is lost: kills, signals, full disks, two writers; and what a resumed run ends with."""

import errno
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import helpers
import psutil
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
    model_names,
    train,
)
from efficient_transformers.files import PARTIAL, locked, replacing
from efficient_transformers.layers.family import parameter_count
from efficient_transformers.training import checkpoint, runs
from efficient_transformers.training.execution import Stop, stop_on_signals

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


def start(*arguments, **options):
    """The command line in a process of its own, once it is training."""
    process = subprocess.Popen(
        [sys.executable, *options.pop("launch", []), "-m", "efficient_transformers", *map(str, arguments)],
        env={**os.environ, **SETTINGS},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
        **options,
    )
    metrics = Path("model/metrics.jsonl")
    deadline = time.monotonic() + 100
    while not (metrics.exists() and metrics.read_text().count("\n") > 1) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()
    return process


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


def test_what_a_killed_save_left_is_removed_by_the_next_start(command, folder):
    interrupt(command)
    (folder / "model" / f"{PARTIAL}checkpoint.pt-x").write_bytes(b"half")
    (folder / "model" / f"{PARTIAL}y").mkdir()
    assert command("resume", "model")[0] == 0
    assert not list((folder / "model").glob(f"{PARTIAL}*"))


# Resumed


@pytest.mark.parametrize(("dropout", "optimizer"), [(0.0, "adamw"), (0.2, "adamw"), (0.2, "muon")])
@pytest.mark.parametrize("moment", [1, 4, 7])
def test_a_resumed_run_has_the_losses_and_weights_of_one_that_was_not_interrupted(folder, moment, dropout, optimizer):
    expected, corpus, config = new_run(dropout, optimizer=optimizer)
    metrics = train(expected, corpus, config, show_progress=False)
    model, stop = new_run(dropout)[0], Stop()
    hook = model.register_forward_hook(lambda module, *_: calls.append(module.training))
    calls = []

    def stop_in_time(*_):
        if sum(calls) == moment:
            stop.ask(signal.SIGTERM)

    second = model.register_forward_hook(stop_in_time)
    where = Checkpoints(folder / "c.pt", every=5)
    before = train(model, corpus, config, checkpoints=where, stop=stop, show_progress=False)
    hook.remove(), second.remove()
    assert where.last == moment
    assert len(before) < len(metrics)
    torch.manual_seed(99)  # nothing of this process is needed
    again = new_run(dropout, steps=12)[0]
    after = train(again, corpus, config, checkpoints=Checkpoints(folder / "c.pt", every=5), show_progress=False)
    assert without_seconds(after) == without_seconds(metrics)
    assert all(map(torch.equal, again.state_dict().values(), expected.state_dict().values()))
    seconds = [record["seconds"] for record in after]
    assert seconds == sorted(seconds)


def test_a_checkpoint_of_before_there_was_another_optimizer_is_adamws(folder):
    _, corpus, config = new_run()
    where, stop = Checkpoints(folder / "c.pt"), Stop()
    stop.ask(signal.SIGTERM)  # which ends it after a step
    train(new_run()[0], corpus, config, checkpoints=where, stop=stop, show_progress=False)
    content = torch.load(where.path, weights_only=True)
    del content["training"]["optimizer"]
    torch.save(content, where.path)
    with pytest.raises(ValueError, match=r"'optimizer': 'adamw'.*'optimizer': 'muon'"):
        train(new_run()[0], corpus, replace(config, optimizer="muon"), checkpoints=where, show_progress=False)
    assert train(new_run()[0], corpus, config, checkpoints=where, show_progress=False)[-1]["step"] == config.steps


def test_checkpoints_do_not_change_the_training(folder):
    plain, corpus, config = new_run()
    train(plain, corpus, config, show_progress=False)
    kept = new_run()[0]
    where = Checkpoints(folder / "c.pt", every=1)
    train(kept, corpus, config, checkpoints=where, show_progress=False)
    assert where.last == 12
    assert all(map(torch.equal, plain.state_dict().values(), kept.state_dict().values()))


def test_a_checkpoint_holds_every_random_state(folder):
    import random

    import numpy as np

    states = checkpoint.random_states()
    drawn = torch.rand(3), random.random(), np.random.rand()
    checkpoint.set_random_states(states)
    assert torch.equal(drawn[0], torch.rand(3))
    assert drawn[1:] == (random.random(), np.random.rand())


def test_a_checkpoint_of_another_run_is_refused(folder):
    model, corpus, config = new_run()
    train(model, corpus, config, checkpoints=Checkpoints(folder / "c.pt"), show_progress=False)
    other = TrainingConfig(**{**SMALL, "seed": 5})
    with pytest.raises(ValueError, match=r"the training of .*c\.pt is .*'seed': 0.*'seed': 5"):
        train(new_run()[0], corpus, other, checkpoints=Checkpoints(folder / "c.pt"), show_progress=False)
    muon = replace(config, optimizer="muon")
    with pytest.raises(ValueError, match=r"the training of .*c\.pt is .*'optimizer': 'adamw'.*'optimizer': 'muon'"):
        train(new_run()[0], corpus, muon, checkpoints=Checkpoints(folder / "c.pt"), show_progress=False)
    (folder / "fox.txt").write_text(TEXT.replace("lazy", "yzal"))
    with pytest.raises(ValueError, match=r"the corpus of .*c\.pt is"):
        train(
            new_run()[0], load_corpus("fox.txt"), config, checkpoints=Checkpoints(folder / "c.pt"), show_progress=False
        )


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"PK\x03\x04"], ids=repr)
def test_a_damaged_checkpoint_is_refused(folder, content):
    (folder / "c.pt").write_bytes(content)
    model, corpus, config = new_run()
    with pytest.raises(ValueError, match=r"c\.pt is not a checkpoint"):
        train(model, corpus, config, checkpoints=Checkpoints(folder / "c.pt"), show_progress=False)


def test_a_checkpoint_with_a_flipped_bit_is_refused_or_reads_as_it_was(folder):
    model, corpus, config = new_run()
    where = Checkpoints(folder / "c.pt")
    train(model, corpus, config, checkpoints=where, show_progress=False)
    expected, content, refused = str(where.load()), (folder / "c.pt").read_bytes(), 0
    weight = content.index(model.embedding.weight.detach().numpy().tobytes())
    bits = torch.randint(8 * len(content), (50,), generator=torch.Generator().manual_seed(0)).tolist()
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
    assert refused > 10


TAMPERED = {"metrics": [[1, 2], [{}], [{"step": 1}], {}, None], "step": ["3", 2.5, None], "seconds": ["1", None]}


@pytest.mark.parametrize(("part", "value"), [(part, value) for part, values in TAMPERED.items() for value in values])
def test_a_tampered_checkpoint_is_refused(command, folder, part, value):
    interrupt(command)
    file = folder / "model" / "checkpoint.pt"
    torch.save(Checkpoints(file).load() | {part: value}, file)
    code, out, err = command("resume", "model")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: the {part} of model/checkpoint.pt is {value!r}; expected ")


def test_a_place_for_checkpoints_that_is_not_a_path_is_refused():
    with pytest.raises(TypeError, match=r"^path is 'c\.pt'; expected an instance of Path$"):
        Checkpoints("c.pt")


def test_nothing_in_a_checkpoint_is_executed(folder):
    class Evil:
        def __reduce__(self):
            return os.mkdir, ("owned",)

    torch.save({"format": 1, "x": Evil()}, folder / "c.pt")
    with pytest.raises(ValueError, match="is not a checkpoint"):
        Checkpoints(folder / "c.pt").load()
    assert not (folder / "owned").exists()


def interrupt(command, line=(*TRAIN, "--steps", 10)):
    """A run in the folder `model` that was asked to stop at its second evaluation."""
    original, seen = Stop.__init__, []

    def watch(stop):
        original(stop)
        seen.append(stop)

    class Asking(dict):
        pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stop, "__init__", watch)
        evaluate = cli.carry_out.__globals__["finite"]
        patch.setitem(
            cli.carry_out.__globals__["json_lines"].__globals__,
            "finite",
            lambda record: (record["step"] == 4 and seen[-1].ask(signal.SIGTERM), evaluate(record))[1],
        )
        code, out, _ = command(*line, "--out", "model")
    assert code == 128 + signal.SIGTERM
    assert "python -m efficient_transformers resume model\n" in out


def test_resume_goes_on_to_the_same_end(command, folder):
    assert command(*TRAIN, "--steps", 10, "--out", "whole")[0] == 0
    interrupt(command)
    assert (folder / "model" / "checkpoint.pt").exists()
    assert command("generate", "model", "--seed", 1)[0] == 0  # the model as it was then
    assert not (folder / "model" / "training.json").exists()
    os.chdir("/")  # where it is resumed from does not matter
    code, out, _ = command("resume", folder / "model")
    assert code == 0
    assert f"Saved {folder / 'model'}" in out
    assert same_end(folder / "whole", folder / "model")
    assert not (folder / "model" / "checkpoint.pt").exists()
    code, _, err = command("resume", folder / "model")
    assert code == 2
    assert "not at its end" in err


def test_resume_notices_a_text_that_changed(command, folder):
    interrupt(command)
    (folder / "fox.txt").write_text(TEXT.replace("lazy", "yzal"))
    code, _, err = command("resume", "model")
    assert code == 2
    assert "the corpus of model/checkpoint.pt" in err


# Asked to stop


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGINT] * 2, [signal.SIGTERM]], ids=str)
def test_a_signal_stops_after_the_step_with_a_checkpoint(command, folder, signals):
    process = start(*TRAIN, "--steps", 10**6, "--checkpoint-every", 10**6, "--out", "model")
    for number in signals:
        process.send_signal(number)
        time.sleep(0.01)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signals[0]
    assert "Traceback" not in err
    assert err.count("Stopping after this step") == 1
    assert out.startswith("Interrupted; saved model")
    assert Checkpoints(folder / "model" / "checkpoint.pt").load()["step"] > 0
    assert not list((folder / "model").glob(f"{PARTIAL}*"))
    assert LanguageModel.from_pretrained("model").config["d_model"] == 8


def by_ctrl_c_twice(process):
    for _ in range(2):  # a terminal sends it to all processes that it started
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.02)


def by_slurm(process):
    process.terminate()  # torchrun passes it on


def by_one_worker(process):
    workers = psutil.Process(process.pid).children()
    (second,) = (worker for worker in workers if worker.environ()["RANK"] == "1")
    second.terminate()


@pytest.mark.parametrize("stop", [by_ctrl_c_twice, by_slurm, pytest.param(by_one_worker, marks=pytest.mark.long)])
def test_under_torchrun_a_signal_stops_both_processes_with_one_checkpoint(folder, stop):
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    line = [*TRAIN, "--steps", 10**6, "--checkpoint-every", 10**6, "--out", "model"]
    process = start(*line, launch=launch, start_new_session=True)
    stop(process)
    out, err = process.communicate(timeout=60)
    assert "Interrupted; saved model" in out, err
    assert err.count("Stopping after this step") == (stop is not by_one_worker)  # the first one says it
    assert "TypeError" not in err
    assert Checkpoints(folder / "model" / "checkpoint.pt").load()["step"] > 0
    assert len(Checkpoints(folder / "model" / "checkpoint.pt").load()["random"]) == 2
    assert not list((folder / "model").glob(f"{PARTIAL}*"))
    assert LanguageModel.from_pretrained("model").config["d_model"] == 8


def test_a_process_that_stops_for_the_signal_of_another_leaves_like_it(command, monkeypatch):
    monkeypatch.setattr(cli, "carry_out", lambda *_: [{"step": 4}])  # of 500
    code, out, err = command(*TRAIN, "--out", "model")
    assert (code, err) == (128 + signal.SIGTERM, "")
    assert out.startswith("Interrupted; saved model")


def test_a_signal_while_a_checkpoint_is_written_does_not_harm_it(folder, monkeypatch):
    original = torch.save

    def save(content, path):
        original(content, path)
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(torch, "save", save)
    model, corpus, config = new_run()
    with stop_on_signals() as stop:
        train(model, corpus, config, checkpoints=Checkpoints(folder / "c.pt"), stop=stop, show_progress=False)
    assert stop.signal == signal.SIGINT
    assert Checkpoints(folder / "c.pt").load()["step"] == 1  # the first step came after the first checkpoint


def test_ctrl_c_while_the_program_leaves_prints_no_traceback(folder):
    lines = (
        "import atexit, os, runpy, signal, sys",
        "signal.signal(signal.SIGINT, signal.default_int_handler)",  # a shell's background jobs ignore it
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))",
        "sys.argv[1:] = ['generate', 'primer-ez', '--max-new-tokens', '1']",
        "runpy.run_module('efficient_transformers', run_name='__main__')",
    )
    process = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with stop_on_signals():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


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


def test_a_full_disk_before_the_first_step_ends_the_run_there(command, folder, monkeypatch):
    monkeypatch.setattr(torch, "save", no_room)
    code, _, err = command(*TRAIN, "--out", "model")
    assert code == 2
    assert "the checkpoint of step 0 could not be written to model/checkpoint.pt (No space left on device)" in err
    assert not (folder / "model").exists()


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


def test_a_full_disk_costs_no_metrics(command, folder, monkeypatch):
    original, failed = Path.open, []

    def full_at_first(path, mode="r", *arguments, **options):
        if path.name == "metrics.jsonl" and mode == "a" and not failed:
            failed.append(path)
            with original(path, mode) as file:
                file.write('{"st')
            no_room()
        return original(path, mode, *arguments, **options)

    monkeypatch.setattr(Path, "open", full_at_first)
    code, _, err = command(*TRAIN, "--steps", 5, "--out", "model")
    assert code == 0
    assert (
        err == "warning: the metrics of step 0 could not be written to model/metrics.jsonl (No space left on device)\n"
    )
    lines = [json.loads(line) for line in (folder / "model" / "metrics.jsonl").read_text().splitlines()]
    assert lines == json.loads((folder / "model" / "training.json").read_text())["metrics"]
    assert [line["step"] for line in lines] == [0, 2, 4, 5]


def test_a_full_disk_ends_tensorboards_files_and_not_the_run(command, folder, monkeypatch):
    from torch.utils.tensorboard import SummaryWriter

    monkeypatch.setattr(SummaryWriter, "flush", no_room)
    code, _, err = command(*TRAIN, "--steps", 5, "--out", "model", "--tensorboard")
    assert code == 0
    assert err.count("nothing more is written for TensorBoard to model/tensorboard (No space left on device)") == 1


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


UNWRITABLE = ["fox.txt/sub", "fox.txt", "/proc/x", "link", "x" * 300, "/dev/null/x", "/sys/kernel/x"]


@pytest.mark.parametrize("out", UNWRITABLE)
def test_an_output_that_cannot_be_written_is_noticed_before_the_first_step(command, folder, monkeypatch, out):
    (folder / "link").symlink_to("nowhere/at/all")
    monkeypatch.setattr("efficient_transformers.training.runs.train", None)  # is not reached
    code, text, err = command(*TRAIN, "--out", out)
    assert (code, text) == (2, "")
    assert re.fullmatch(r"error: out is '.*'; expected .*\n", err), err
    assert {path.name for path in folder.iterdir()} == {"fox.txt", "link"}


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


@pytest.mark.parametrize("character", ["名", "😀", "x"])
def test_a_name_of_as_many_bytes_as_a_file_system_takes_can_be_written(command, folder, character):
    name = character * (255 // len(character.encode()))
    with replacing(folder / name) as temporary:
        temporary.write_text("whole")
    assert (folder / name).read_text() == "whole"
    (folder / name).unlink()
    assert command(*TRAIN, "--steps", 1, "--out", name)[0] == 0
    assert {path.name for path in folder.iterdir()} == {"fox.txt", name}


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


def test_a_model_that_is_broken_from_the_start_is_not_trained():
    model, corpus, config = new_run()
    model.embedding.weight.data.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="the validation loss of step 0 is nan"):
        train(model, corpus, config, show_progress=False)


def test_the_command_line_says_that_a_loss_is_not_finite(command, folder):
    rates = ["--learning-rate", "1e9", "--warmup-steps", "0", "--steps", "50", "--checkpoint-every", "1"]
    code, out, err = command(*TRAIN, *rates, "--out", "model")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: the \w+ loss of step \d+ is (nan|inf); the learning rate .* good checkpoint .*\n", err)
    assert not (folder / "model" / "model.safetensors").exists()


# Two processes


TOGETHER = """
import sys
import efficient_transformers.__main__ as cli

begin = cli.begin

def wait(*arguments, **options):
    print("ready", flush=True)
    sys.stdin.readline()
    return begin(*arguments, **options)

cli.begin = wait
cli.main()
"""


def test_a_folder_is_made_by_one_of_two_processes(folder):
    line = [sys.executable, "-c", TOGETHER, *TRAIN, "--steps", "2", "--out", "model"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    both = [subprocess.Popen(line, env={**os.environ, **SETTINGS}, text=True, **pipes) for _ in range(2)]
    for process in both:
        assert process.stdout.readline() == "ready\n"  # both have seen that there is no such folder
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    results = sorted((process.communicate(timeout=60)[::-1], process.returncode) for process in both)
    assert [code for _, code in results] == [0, 2]
    assert results[0][0][0] == ""
    assert results[1][0][0] == "error: out is 'model'; expected a folder that does not exist yet\n"
    assert LanguageModel.from_pretrained("model").config["d_model"] == 8
    assert {path.name for path in folder.iterdir()} == {"fox.txt", "model"}


def test_an_empty_folder_that_somebody_else_made_stays_so(command, folder, monkeypatch):
    original = cli.Plan.build
    monkeypatch.setattr(cli.Plan, "build", lambda plan: ((folder / "model").mkdir(), original(plan))[1])
    code, _, err = command(*TRAIN, "--out", "model")
    assert code == 2
    assert "out is 'model'; expected a folder that does not exist yet" in err
    assert list((folder / "model").iterdir()) == []


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
    assert command("resume", "model")[0] == 0


# What is written meanwhile


def test_metrics_are_lines_of_json_from_the_first_evaluation_on(command, folder):
    assert command(*TRAIN, "--steps", 5, "--out", "model")[0] == 0
    lines = [json.loads(line) for line in (folder / "model" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 2, 4, 5]
    assert ["train_loss" in line for line in lines] == [False, True, True, True]
    assert lines == json.loads((folder / "model" / "training.json").read_text())["metrics"]


def test_tensorboard_gets_the_losses_and_the_speed(command, folder):
    from tensorboard.backend.event_processing import event_accumulator as accumulator

    assert command(*TRAIN, "--steps", 4, "--out", "model", "--tensorboard")[0] == 0
    events = accumulator.EventAccumulator(str(folder / "model" / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"train_loss", "validation_loss", "tokens_per_second"}
    assert [event.step for event in events.Scalars("validation_loss")] == [0, 2, 4]
    measured = json.loads((folder / "model" / "training.json").read_text())["metrics"]
    found = [event.value for event in events.Scalars("validation_loss")]
    assert found == pytest.approx([m["validation_loss"] for m in measured], rel=1e-6)


def test_without_tensorboard_the_error_says_what_to_install(command, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, _, err = command(*TRAIN, "--out", "model", "--tensorboard")
    assert code == 2
    assert "pip install tensorboard" in err
    assert not (folder / "model").exists()


def test_a_callback_gets_each_record_and_sees_the_model_in_eval_mode():
    model, corpus, config = new_run()
    seen = []
    metrics = train(
        model, corpus, config, callback=lambda record: seen.append((record, model.training)), show_progress=False
    )
    assert [record for record, _ in seen] == list(metrics)
    assert [training for _, training in seen] == [False] * 4


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


def test_a_run_that_began_with_a_saved_model_goes_on_without_it(command, folder):
    assert command(*TRAIN, "--steps", 3, "--out", "first")[0] == 0
    tune = ["train", "--init", "first", "--corpus", "fox.txt", *SIZES[6:], "--steps", 10]
    assert command(*tune, "--out", "whole")[0] == 0
    interrupt(command, line=tune)
    shutil.rmtree("first")
    assert command("resume", "model")[0] == 0
    assert same_end(folder / "whole", folder / "model")


def test_a_run_without_a_checkpoint_still_needs_the_model_that_it_begins_with(command, folder):
    assert command(*TRAIN, "--steps", 3, "--out", "first")[0] == 0
    interrupt(command, line=["train", "--init", "first", "--corpus", "fox.txt", *SIZES[6:], "--steps", 10])
    (folder / "model" / "checkpoint.pt").unlink()
    shutil.rmtree("first")
    code, _, err = command("resume", "model")
    assert code == 2
    assert "first'; expected a folder" in err


def test_a_character_that_the_model_does_not_know_is_named_with_its_line(command, folder):
    assert command(*TRAIN, "--steps", 1, "--out", "model")[0] == 0
    (folder / "new.txt").write_text("the dog\njumps\nover ß, " * 20)
    for line in (["train", "--init", "model", "--corpus", "new.txt"], ["evaluate", "model", "--corpus", "new.txt"]):
        code, _, err = command(*line)
        assert code == 2
        assert err.startswith("error: new.txt: a character is 'ß', in line 3; expected one of the vocabulary's ")
    assert {path.name for path in folder.iterdir()} == {"fox.txt", "new.txt", "model"}


# Evaluation


def test_evaluate_prints_nats_and_bits_of_the_whole_text(command, folder):
    text = "Grüße, Jürgen ❤\n" * 60
    (folder / "fox.txt").write_text(text)
    assert command(*TRAIN, "--steps", 2, "--out", "model")[0] == 0
    code, out, err = command("evaluate", "model", "--corpus", "fox.txt")
    assert (code, err) == (0, "")
    found = re.fullmatch(
        r"(\S+) tokens, (\S+) characters, (\S+) bytes\n"
        r"(\S+) nats, (\S+) bits per character\n(\S+) nats, (\S+) bits per byte\n",
        out,
    )
    assert found, out
    tokens, characters, size = (int(n.replace(",", "")) for n in found.groups()[:3])
    assert tokens == characters == len(text) - 1
    assert size == len(text.encode()) - 1
    nats, bits, nats_per_byte, bits_per_byte = map(float, found.groups()[3:])
    assert bits == pytest.approx(nats / math.log(2), abs=1e-3)
    assert nats_per_byte == pytest.approx(nats * characters / size, abs=1e-3)
    assert bits_per_byte == pytest.approx(bits * characters / size, abs=1e-3)
    assert nats == pytest.approx(math.log(len(set(text))), abs=0.5)


def test_a_model_of_bytes_has_a_loss_per_character_too(command, folder):
    text = "Grüße, Jürgen ❤\n" * 60
    (folder / "fox.txt").write_text(text)
    assert command(*TRAIN, "--tokens", "bytes", "--steps", 2, "--out", "model")[0] == 0
    code, out, _ = command("evaluate", "model", "--corpus", "fox.txt")
    assert code == 0
    numbers = f"{len(text.encode()) - 1:,} tokens, {len(text) - 1:,} characters, {len(text.encode()) - 1:,} bytes\n"
    assert out.startswith(numbers)
    assert command("generate", "model", "--prompt", "日本", "--max-new-tokens", 3)[0] == 0


# How the machine carries it out


@pytest.mark.parametrize("pieces", [2, 4])
def test_pieces_of_a_batch_have_the_losses_of_the_whole(pieces):
    whole, corpus, config = new_run(dropout=0.0, steps=20)
    expected = train(whole, corpus, config, show_progress=False)
    model = new_run(dropout=0.0)[0]
    found = train(model, corpus, config, execution=Execution(accumulation=pieces), show_progress=False)
    for ours, theirs in zip(without_seconds(found), without_seconds(expected), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)


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


def a_plan(training=None, **sizes):
    model = {"name": "transformer", "vocab_size": 29, **sizes}
    rest = {"corpus": "fox.txt", "tokens": None, "directory": "", "init": None, "tensorboard": False}
    return runs.Plan(
        model=model, training=training or TrainingConfig(), execution=Execution(), checkpoint_every=1, **rest
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"weight": "toeplitz"}, {"weight": "toeplitz", "start": "shut"}),
        ({"weight": "toeplitz", "start": "open"}, {"weight": "toeplitz", "start": "open"}),
    ],
)
def test_a_run_of_before_keeps_the_gates_of_its_time(tmp_path, said, expected):
    (tmp_path / "run.json").write_text(json.dumps(asdict(a_plan(name="gmlp", **said))))
    model = runs.Plan.read(tmp_path).model
    assert {option: model[option] for option in expected} == expected


def test_a_run_of_before_whose_gates_are_of_another_kind_is_refused(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(asdict(a_plan(name="gmlp"))))
    with pytest.raises(ValueError, match=r"the model of .*run\.json is .*; expected its weight; version 0\.2\.0"):
        runs.Plan.read(tmp_path)


def test_as_many_layers_as_there_may_be_are_made_in_a_moment():
    model = a_plan(d_model=2, n_heads=1, n_layers=runs.LARGEST["n_layers"]).build()
    assert len(model.body) == 1000


@pytest.mark.parametrize("size", runs.LARGEST)
def test_a_size_that_cannot_be_is_refused_before_anything_is_made(monkeypatch, size):
    monkeypatch.setattr(runs, "build_model", None)  # is not reached
    largest = runs.LARGEST[size]
    with pytest.raises(ValueError, match=rf"{size} is {largest + 1}; expected at most {largest}"):
        a_plan(**{size: largest + 1}).build()


@pytest.mark.parametrize("name", model_names())
def test_the_largest_sizes_can_be_counted(name):
    sizes = {size: largest for size, largest in runs.LARGEST.items() if size != "n_layers"}
    with pytest.raises(ValueError, match=r"the memory for the weights is '[\d,]+ GB'; expected at most [\d,]+ GB"):
        a_plan(name=name, **sizes).build()


def test_weights_that_the_memory_holds_once_pass_and_larger_ones_do_not(monkeypatch):
    pages = {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": 4 * parameter_count(a_plan(n_layers=1).build())}
    monkeypatch.setattr(os, "sysconf", pages.get)
    small = TrainingConfig(batch_size=1)
    a_plan(small, n_layers=1).require_possible()
    pages["SC_PHYS_PAGES"] -= 1
    with pytest.raises(ValueError, match="the memory for the weights"):
        a_plan(small, n_layers=1).require_possible()


def test_one_process_cannot_shard():
    model, corpus, config = new_run()
    with pytest.raises(ValueError, match="shard is True; expected False, with one process"):
        train(model, corpus, config, execution=Execution(shard=True), show_progress=False)


def test_pieces_that_do_not_divide_the_batch_are_refused():
    model, corpus, config = new_run()
    with pytest.raises(ValueError, match="batch_size is 4; expected a multiple of 1 processes times 3 pieces"):
        train(model, corpus, config, execution=Execution(accumulation=3), show_progress=False)
