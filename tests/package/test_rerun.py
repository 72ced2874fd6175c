"""A recorded run can be made again, from its record alone."""

import json
import sys
from importlib import import_module

import pytest
import rerun
import torch

from efficient_transformers import TrainingConfig, build_model, load_corpus, train
from efficient_transformers.judging.trials import scored
from efficient_transformers.models.cost import effective_parameters

pytestmark = pytest.mark.slow
SIZES = {"d_model": 8, "n_layers": 1, "n_heads": 2, "max_seq_len": 16}
TRAINING = {"steps": 3, "batch_size": 2, "seq_len": 16, "eval_every": 3, "eval_batches": 1, "warmup_steps": 1}


@pytest.fixture
def results(tmp_path, monkeypatch, on_the_cpu):
    """A file with two runs, one scored on the test and one measured on the way."""
    corpus, lines = load_corpus("shakespeare-with-test"), []
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = build_model("transformer", vocab_size=len(corpus.vocabulary), **SIZES)
        metrics = train(model, corpus, TrainingConfig(**TRAINING, seed=seed), show_progress=False)
        run = {"label": f"tiny {seed}", "model": "transformer", "options": SIZES, "corpus": corpus.name}
        record = {"run": run | {"training": TRAINING | {"seed": seed}}, "metrics": metrics}
        lines.append(record if seed else record | {"test": scored(model, corpus, "test", 16, 2048)})
    (tmp_path / "few.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    monkeypatch.setattr(rerun, "RESULTS", tmp_path)


def printed(monkeypatch, capsys, *line):
    monkeypatch.setattr(sys, "argv", ["rerun.py", *line])
    rerun.main()
    return capsys.readouterr().out


@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_made_again_on_the_same_machine_has_its_loss(results, monkeypatch, capsys, seed):
    loss = f"{rerun.stored_loss(rerun.reported('few')[f'tiny {seed}'][seed]):.4f}"
    out = printed(monkeypatch, capsys, "few", f"tiny {seed}")
    assert out == f"few: tiny {seed}, seed {seed}: {loss} stored, {loss} now\n"


def test_without_a_label_the_runs_are_listed(results, monkeypatch, capsys):
    assert printed(monkeypatch, capsys, "few") == "tiny 0: seeds 0\ntiny 1: seeds 1\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["fewer"], "file is 'fewer'; expected one of 'few'"),
        (["few", "huge"], "label is 'huge'; expected one of 'tiny 0', 'tiny 1'"),
        (["few", "tiny 0", "--seed", "7"], "seed is 7; expected one of [0]"),
    ],
)
def test_what_was_not_recorded_is_refused(results, monkeypatch, capsys, line, message):
    with pytest.raises(SystemExit):
        printed(monkeypatch, capsys, *line)
    assert message in capsys.readouterr().err


def test_records_are_drawn_alike_from_all_files():
    chosen = rerun.drawn(12)
    assert chosen == rerun.drawn(12)
    assert len({name for name, _, _ in chosen}) > 6


def test_the_package_builds_the_models_of_records_with_their_parameters():
    checked = 0
    for name, label, seed in rerun.drawn(80):
        record = rerun.reported(name)[label][seed]
        run = record["run"]
        characters = run["corpus"] == "shakespeare-with-test"
        if rerun.made_by_the_package(run) and characters and "parameters" in record:
            with torch.device("meta"):
                model = build_model(run["model"], vocab_size=79, **run["options"])
            assert effective_parameters(model) == record["parameters"]
            checked += 1
    assert checked > 20


def test_a_model_that_the_package_does_not_build_is_made_by_the_commit_that_does(monkeypatch):
    record = rerun.reported("modern")["Modern baseline, 0.8M, 500 steps of 4 × 256"][0]
    assert not rerun.made_by_the_package(record["run"])
    run = {"corpus": "shakespeare", "model": "primer-ez", "training": {}}
    assert rerun.made_by_the_package(run)
    for other in ({"training": {"optimizer": "muon, original"}}, {"task": "masked"}, {"corpus": "source-code"}):
        assert not rerun.made_by_the_package(run | other)
    import_module("accelerate")  # without which that commit trains nothing
    called, root = [], rerun.RESULTS.parents[1]
    run = rerun.subprocess.run

    def short(command, **options):
        if command[0] == "git":
            return run(command, **options)
        called.append(command)
        listed = [*command[:2], "modern"]  # its runs, and not one of minutes
        return run(listed, **options)

    if run(["git", "-C", str(root), "cat-file", "-e", rerun.BEFORE], check=False, capture_output=True).returncode:
        pytest.skip("the history is not there")
    monkeypatch.setattr(rerun.subprocess, "run", short)
    out = rerun.compared("modern", "Modern baseline, 0.8M, 500 steps of 4 × 256", 0)
    assert out.splitlines()[0].startswith("Modern baseline, 0.8M, 500 steps of 4 × 256: seeds 0, 1, 2, 3, 4")
    assert called[0][2:] == ["modern", "Modern baseline, 0.8M, 500 steps of 4 × 256", "--seed", "0"]
    assert (
        "experiments/rerun"
        not in run(["git", "-C", str(root), "worktree", "list"], capture_output=True).stdout.decode()
    )
    listed = run(["git", "-C", str(root), "worktree", "list"], capture_output=True, text=True, check=True).stdout
    assert called[0][1].removesuffix("/experiments/rerun.py") not in listed
