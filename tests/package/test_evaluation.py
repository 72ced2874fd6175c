"""The loss on a text of any length: what is scored, with how much before it, and that a sample is the same for all."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from efficient_transformers import build_model, evaluate
from efficient_transformers.training.evaluation import overlapping_windows, score


class Recorder(nn.Module):
    """Predicts all tokens alike, and keeps what it was asked to read."""

    def __init__(self, vocab_size=500):
        super().__init__()
        self.weight, self.seen = nn.Parameter(torch.zeros(vocab_size)), []

    def forward(self, tokens):
        self.seen += tokens.tolist()
        return self.weight.expand(*tokens.shape, -1)


def new_model(**changes):
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "d_model": 16, "n_layers": 1, "n_heads": 2, "max_seq_len": 64} | changes
    return build_model("primer-ez", **sizes)


SCORERS = {
    "evaluate": lambda tokens, model: evaluate(model, tokens, seq_len=8),
    "score": lambda tokens, model: score(model, tokens, seq_len=8, at_least=1),
}


@pytest.mark.parametrize("scorer", SCORERS)
def test_a_text_that_is_not_integers_in_a_row_is_refused(scorer):
    with pytest.raises(TypeError, match=r"^tokens\.dtype is torch\.float32; expected "):
        SCORERS[scorer](9 * torch.rand(5000), new_model())
    with pytest.raises(ValueError, match=r"^tokens\.shape is \(2, 3000\); expected "):
        SCORERS[scorer](torch.zeros(2, 3000, dtype=torch.int64), new_model())


@given(st.integers(2, 300), st.integers(1, 40))
def test_every_target_is_scored_once_with_at_least_half_a_context_before_it(length, seq_len):
    starts, fresh = overlapping_windows(length, seq_len)
    T = min(seq_len, length - 1)
    scored = []
    for start, new in zip(starts.tolist(), fresh.tolist(), strict=True):
        first = start + T - new + 1
        scored += range(first, start + T + 1)
        assert start == 0 or first - start >= seq_len // 2
        assert first - start >= 1
    assert scored == list(range(1, length))


@given(st.integers(2, 5000), st.integers(1, 40), st.integers(1, 5000))
def test_a_sample_is_large_enough_and_spread_over_the_text(length, seq_len, at_least):
    starts, fresh = overlapping_windows(length, seq_len, at_least)
    everything, _ = overlapping_windows(length, seq_len)
    assert int(fresh.sum()) >= min(at_least, length - 1)
    assert len(starts.unique()) == len(starts)
    assert set(starts.tolist()) <= set(everything.tolist())
    assert (starts[0], starts[-1]) == (everything[0], everything[-1])
    assert int(fresh.sum()) <= at_least + 4 * seq_len
    if len(starts) > 2:
        gaps = starts.diff()
        assert gaps.max() - gaps.min() <= 2 * seq_len


def test_the_loss_is_the_mean_over_the_targets_that_are_scored():
    model, tokens = new_model().eval(), torch.randint(11, (25,))
    losses = []
    for first, last, start in ((1, 8, 0), (9, 12, 4), (13, 16, 8), (17, 20, 12), (21, 24, 16)):
        logits = model(tokens[None, start : start + 8])[0]
        wanted = range(first, last + 1)
        losses += [F.cross_entropy(logits[t - start - 1], tokens[t]).item() for t in wanted]
    assert len(losses) == 24
    for batch_size in (1, 2, 16):
        found = evaluate(model, tokens, seq_len=8, batch_size=batch_size)
        assert found == pytest.approx(sum(losses) / 24, abs=1e-6)


def test_a_model_that_predicts_all_alike_loses_the_logarithm_of_the_vocabulary():
    model = Recorder()
    assert evaluate(model, torch.arange(400), seq_len=16) == pytest.approx(math.log(500), abs=1e-6)
    assert evaluate(model, torch.arange(400).to(torch.int16), seq_len=16) == pytest.approx(math.log(500), abs=1e-6)


def test_every_model_reads_the_same_sample():
    first, second = Recorder(), Recorder()
    for model, seed in ((first, 1), (second, 2)):
        torch.manual_seed(seed)
        evaluate(model, torch.arange(400), seq_len=16, at_least=60)
    assert first.seen == second.seen
    assert len(first.seen) == 7
    assert first.seen[0] == list(range(16))
    assert first.seen[-1] == list(range(383, 399))


@pytest.mark.parametrize("scorer", SCORERS)
def test_dropout_does_not_act_and_each_module_has_its_own_mode_afterwards(scorer):
    model, tokens = new_model(dropout=0.5), torch.randint(11, (3 * 1024,))
    model.train().norm.eval()
    before = [module.training for module in model.modules()]
    assert SCORERS[scorer](tokens, model) == SCORERS[scorer](tokens, model)
    assert [module.training for module in model.modules()] == before
    assert {*before} == {True, False}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"seq_len": 0}, ValueError, "seq_len is 0; expected an int of at least 1"),
        ({"batch_size": 0}, ValueError, "batch_size is 0"),
        ({"at_least": 0}, ValueError, "at_least is 0"),
        ({"tokens": torch.tensor([1])}, ValueError, r"tokens\.shape is \(1,\); expected at least two tokens"),
        ({"seq_len": 65}, ValueError, "the sequence length is 65; expected at most max_seq_len=64"),
    ],
    ids=str,
)
def test_bad_input_is_refused(changes, error, message):
    arguments = {"tokens": torch.zeros(100, dtype=torch.int64), "seq_len": 8} | changes
    with pytest.raises(error, match=message):
        evaluate(new_model(), arguments.pop("tokens"), **arguments)
