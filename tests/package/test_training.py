"""The training loop: it learns, it repeats, evaluation does not disturb it."""

import math
import random
import signal
from dataclasses import asdict

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers import without_seconds
from torch import nn

from efficient_transformers import (
    Checkpoints,
    Corpus,
    Metrics,
    TrainingConfig,
    Vocabulary,
    build_model,
    load_corpus,
    model_names,
    train,
)
from efficient_transformers.training.checkpoint import random_states, set_random_states
from efficient_transformers.training.execution import Stop
from efficient_transformers.training.loop import muon
from efficient_transformers.training.orthogonal import Muon

pytestmark = [pytest.mark.usefixtures("on_the_cpu"), pytest.mark.slow]

TEXT = "the quick brown fox jumps over the lazy dog. " * 60
SMALL = {"steps": 10, "batch_size": 4, "seq_len": 16, "eval_every": 4, "eval_batches": 2}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    file = tmp_path_factory.mktemp("text") / "fox.txt"
    file.write_text(TEXT)
    return load_corpus(file)


def new_model(corpus, name="transformer", seed=0, **changes):
    torch.manual_seed(seed)
    sizes = {"vocab_size": len(corpus.vocabulary), "d_model": 16, "n_layers": 1, "n_heads": 2, "max_seq_len": 40}
    return build_model(name, **sizes | changes)


def run(corpus, model=None, **changes):
    """A trained model and its metrics."""
    model = model or new_model(corpus)
    return model, train(model, corpus, TrainingConfig(**SMALL | changes), show_progress=False)


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


# What comes out


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [*((name, "adamw") for name in model_names()), ("primer-ez", "muon"), ("dense-gmlp", "muon")],
)
def test_the_loss_falls(corpus, name, optimizer):
    model = new_model(corpus, name, n_layers=2)  # an hourglass of one layer never sees single tokens together
    _, metrics = run(corpus, model, steps=120, eval_every=60, learning_rate=1e-2, optimizer=optimizer)
    assert abs(metrics[0]["validation_loss"] - math.log(len(corpus.vocabulary))) < 0.3
    assert metrics[-1]["validation_loss"] < 0.3 * metrics[0]["validation_loss"]
    assert metrics[-1]["train_loss"] < 0.3 * metrics[0]["validation_loss"]


def test_a_record_has_step_seconds_and_both_losses(corpus):
    _, metrics = run(corpus)
    assert isinstance(metrics, Metrics)
    assert [set(record) for record in metrics] == [{"step", "seconds", "train_loss", "validation_loss"}] * 4
    assert [record["step"] for record in metrics] == [0, 4, 8, 10]
    assert [record["step"] for record in run(corpus, steps=8)[1]] == [0, 4, 8]  # the last step once
    seconds = [record["seconds"] for record in metrics]
    assert seconds == sorted(seconds)
    assert seconds[-1] > seconds[0] >= 0
    assert [math.isnan(record["train_loss"]) for record in metrics] == [True, False, False, False]
    assert all(type(value) in (int, float) for record in metrics for value in record.values())


def test_losses_are_nats_per_token(corpus):
    model, metrics = run(corpus)
    batches = corpus.validation_batches(2, 4, 16)
    expected = [F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() for x, y in batches]
    assert abs(metrics[-1]["validation_loss"] - sum(expected) / 2) < 1e-5

    untrained, one_step = new_model(corpus), run(corpus, steps=1)[1]
    x, y = corpus.batch(4, 16, torch.Generator().manual_seed(0))
    first = F.cross_entropy(untrained(x).flatten(0, 1), y.flatten()).item()
    assert abs(one_step[1]["train_loss"] - first) < 1e-5


def test_the_seed_decides_everything(corpus):
    def trained(seed):
        return run(corpus, new_model(corpus, dropout=0.2), seed=seed)

    (model, metrics), (same, same_metrics), (_, other_metrics) = trained(3), trained(3), trained(4)
    assert without_seconds(metrics) == without_seconds(same_metrics)
    assert all(map(torch.equal, weights(model).values(), weights(same).values()))
    assert without_seconds(metrics)[1:] != without_seconds(other_metrics)[1:]


# What happens inside


def test_evaluation_does_not_change_the_training(corpus):
    expected, metrics = run(corpus, new_model(corpus, dropout=0.2), eval_every=3)
    model, other_metrics = run(corpus, new_model(corpus, dropout=0.2), eval_every=1, eval_batches=5)
    assert all(map(torch.equal, weights(model).values(), weights(expected).values()))
    assert metrics[-1]["train_loss"] == other_metrics[-1]["train_loss"]


@pytest.mark.parametrize("name", model_names())
def test_matrices_decay_and_nothing_else(corpus, name):
    before = weights(new_model(corpus, name))
    after, decayed = (
        weights(run(corpus, new_model(corpus, name), steps=1, warmup_steps=0, learning_rate=0.01, weight_decay=w)[0])
        for w in (0.0, 5.0)
    )
    assert {1, 2} <= {p.dim() for p in before.values()}
    for key, start in before.items():
        between_channels = start.dim() == 2 and not key.endswith("gate.weight")  # which lies between tokens
        shrunk = 0.01 * 5.0 * start if between_channels else torch.zeros_like(start)
        torch.testing.assert_close(after[key] - decayed[key], shrunk, rtol=0, atol=1e-6)
        if not between_channels:
            assert torch.equal(after[key], decayed[key])


# Muon


@pytest.mark.parametrize("name", model_names())
def test_muon_has_the_matrices_inside_the_layers_and_adamw_all_else(corpus, name):
    resampling = {"shortening": "linear", "up_sampling": "attention"} if name == "hourglass" else {}
    model = new_model(corpus, name, n_layers=2, **resampling)
    names = {id(p): name for name, p in model.named_parameters()}
    first, decayed, others = muon(model, 0.1).param_groups
    inside = {f"{m}.weight" for m, module in model.named_modules() if m and isinstance(module, nn.Linear)}
    assert {names[id(p)] for p in first["params"]} == inside
    assert all(p.dim() == 2 for p in first["params"])
    assert [names[id(p)] for p in decayed["params"]] == ["embedding.weight"]
    assert [group["weight_decay"] for group in (first, decayed, others)] == [0.1, 0.1, 0.0]
    assert sum(len(group["params"]) for group in (first, decayed, others)) == len(names)
    spatial = {n for n, p in model.named_parameters() if n.endswith("gate.weight") or "conv" in n or "norm" in n}
    assert spatial <= {names[id(p)] for p in others["params"]}
    if "gmlp" in name:
        assert any(n.endswith("gate.weight") for n in spatial)


class Strange(nn.Module):
    """A reader's model, with an output matrix of its own or that of its embedding."""

    def __init__(self, tied):
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 4), nn.Linear(4, 7)
        if tied:
            self.head.weight = self.embedding.weight
        self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, tokens):
        return self.head(self.blocks[1](self.blocks[0](self.embedding(tokens)).relu()))


@pytest.mark.parametrize("tied", [True, False])
def test_of_a_readers_model_muon_takes_what_is_in_lists_of_modules(tied):
    model = Strange(tied)
    first, decayed, others = muon(model, 0.1).param_groups
    assert list(map(id, first["params"])) == [id(block.weight) for block in model.blocks]
    assert len(decayed["params"]) == (1 if tied else 2)
    assert len(others["params"]) == 3


def test_muon_without_a_matrix_is_refused(corpus):
    model = nn.Sequential(nn.Embedding(len(corpus.vocabulary), 4), nn.Linear(4, len(corpus.vocabulary)))
    with pytest.raises(ValueError, match=r"^model is 'Sequential'; expected one with an nn\.Linear inside its body"):
        run(corpus, model, optimizer="muon")


@pytest.mark.parametrize("scale", ["match_rms_adamw", "original"])
@pytest.mark.parametrize("shape", [(24, 24), (64, 24), (24, 64)])
def test_three_steps_of_muon_are_pytorchs_to_the_rounding_of_bfloat16(shape, scale):
    start = torch.randn(2, *shape)
    ours, theirs = ([nn.Parameter(matrix.clone()) for matrix in start] for _ in range(2))
    options = {"lr": 0.1, "weight_decay": 0.3, "adjust_lr_fn": scale}
    optimizers = Muon(ours, **options), torch.optim.Muon(theirs, **options)
    for _ in range(3):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn(shape) @ torch.logspace(0, -2, shape[1]).diag()  # singular values of many sizes
            other.grad = one.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for one, other, first in zip(ours, theirs, start, strict=True):
        assert (one - other).norm() < 0.01 * (other - first).norm()
    states = [optimizer.state_dict() for optimizer in optimizers]
    assert states[0]["param_groups"] == states[1]["param_groups"]
    for i in range(2):
        assert torch.equal(*(state["state"][i]["momentum_buffer"] for state in states))


def test_learning_rate_rises_linearly_and_falls_along_a_cosine_to_a_tenth():
    rate = TrainingConfig(steps=110, warmup_steps=10, learning_rate=2.0).rate
    assert [rate(step) for step in range(10)] == pytest.approx([0.2 * (step + 1) for step in range(10)])
    assert rate(10) == pytest.approx(2.0)
    assert rate(35) == pytest.approx(2.0 * (0.1 + 0.9 * (1 + math.sqrt(0.5)) / 2))
    assert rate(60) == pytest.approx(1.1)
    assert rate(110) == pytest.approx(0.2)
    falling = [rate(step) for step in range(10, 111)]
    assert falling == sorted(falling, reverse=True)
    at_once = TrainingConfig(steps=10, warmup_steps=0, learning_rate=2.0)
    assert [at_once.rate(0), at_once.rate(5)] == pytest.approx([2.0, 1.1])


@pytest.mark.parametrize("steps", [1, 2, 3, 20, 99, 100, 101, 500])
def test_every_run_reaches_its_rate_and_a_run_of_100_steps_or_more_after_50(steps):
    config = TrainingConfig(steps=steps, learning_rate=2.0)
    assert config.warmup_steps == (50 if steps >= 100 else steps // 2)
    assert max(config.rate(step) for step in range(steps)) == 2.0
    assert TrainingConfig(**asdict(config)) == config


@pytest.mark.parametrize(("warmup_steps", "expected"), [(0, 0.01), (4, 0.0025)])
def test_the_first_step_has_the_learning_rate_of_the_schedule(corpus, warmup_steps, expected):
    model, before, stop = new_model(corpus), new_model(corpus).embedding.weight, Stop()
    stop.ask(signal.SIGTERM)  # after the first step
    config = TrainingConfig(**SMALL, warmup_steps=warmup_steps, learning_rate=0.01, weight_decay=0.0)
    train(model, corpus, config, stop=stop, show_progress=False)
    # the first step of Adam has the size of the learning rate, whatever the gradient
    assert (model.embedding.weight - before).abs().max().item() == pytest.approx(expected, rel=1e-3)


def test_the_gradient_is_clipped(corpus):
    def moved(clip_norm):
        model, _ = run(corpus, steps=1, warmup_steps=0, learning_rate=0.01, weight_decay=0.0, clip_norm=clip_norm)
        return (model.embedding.weight - new_model(corpus).embedding.weight).abs().max().item()

    assert moved(1.0) == pytest.approx(0.01, rel=1e-3)
    assert moved(1e-9) < 0.005  # where gradients are as small as Adam's epsilon, clipping shows


# What is left behind


def test_training_new_or_resumed_leaves_the_random_states_of_its_caller_alone(corpus, tmp_path):
    def draw():
        return torch.rand(1).item(), random.random(), np.random.rand()

    for _ in range(2):
        model, states = new_model(corpus, dropout=0.2), random_states()
        expected = draw()
        set_random_states(states)
        train(model, corpus, TrainingConfig(**SMALL), checkpoints=Checkpoints(tmp_path / "c.pt"), show_progress=False)
        assert draw() == expected


def test_a_model_whose_training_breaks_down_is_in_eval_mode_and_without_gradients(corpus):
    model = new_model(corpus)
    with pytest.raises(FloatingPointError, match="the training loss"):
        run(corpus, model, eval_every=10, learning_rate=1e9, warmup_steps=0)
    assert not any(m.training for m in model.modules())
    assert all(p.grad is None for p in model.parameters())


def test_a_callback_gets_each_record_in_eval_mode_and_cannot_change_it(corpus):
    model, seen = new_model(corpus), []

    def callback(record):
        seen.append((dict(record), model.training))
        record.clear()

    metrics = train(model, corpus, TrainingConfig(**SMALL), callback=callback, show_progress=False)
    assert seen[1:] == [(record, False) for record in metrics[1:]]  # the first has a NaN
    assert without_seconds(metrics) == without_seconds(run(corpus)[1])


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_caller_who_turned_gradients_off_can_train(corpus, mode):
    expected, _ = run(corpus)
    model = new_model(corpus)
    with mode():
        run(corpus, model)
        assert not torch.is_grad_enabled()
    assert all(map(torch.equal, weights(model).values(), weights(expected).values()))


# What is refused


@pytest.mark.parametrize("argument", ["model", "corpus", "config", "checkpoints", "execution", "stop"])
def test_an_argument_of_another_kind_is_refused(corpus, argument):
    arguments = {"model": new_model(corpus), "corpus": corpus} | {argument: "fox.txt"}
    with pytest.raises(TypeError, match=f"^{argument} is 'fox.txt'; expected "):
        train(**arguments, show_progress=False)


def test_a_model_of_which_nothing_can_be_trained_is_refused(corpus):
    with pytest.raises(ValueError, match=r"^model is 'LanguageModel'; expected one with a parameter that can be"):
        run(corpus, new_model(corpus).requires_grad_(False))


def test_a_corpus_of_a_larger_vocabulary_is_refused(corpus):
    larger = Vocabulary("".join(map(chr, range(32, 126))))
    other = Corpus("other", larger, *(larger.encode(c) for c in (TEXT[:900], TEXT[900:])))
    expected = f"the size of the corpus's vocabulary is 94; expected at most vocab_size={len(corpus.vocabulary)}"
    with pytest.raises(ValueError, match=expected):
        run(other, new_model(corpus))
