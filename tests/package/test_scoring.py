"""Scores: the same targets for every context, each with half a context before it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from efficient_transformers import build_model
from efficient_transformers.training.evaluation import BLOCK, block_starts, score

TEXT = torch.randint(7, (20_000,), generator=torch.Generator().manual_seed(1))


class Watcher(nn.Module):
    """Gives each token the same probability, but for the one that it has just read; notes what it is asked."""

    def __init__(self):
        super().__init__()
        self.weight, self.seen = nn.Parameter(torch.zeros(7)), []

    def forward(self, tokens):
        self.seen.append(tokens)
        return F.one_hot(tokens, 7).float() * 2.0


def naive(model, tokens, starts, half):
    """The losses of every target by a window of its own kind, one piece after the other."""
    losses = []
    for start in starts.tolist():
        for first in range(start, start + BLOCK, half):
            window = tokens[first - half - 1 : first + half]
            logits = model(window[None, :-1])[0, half:]
            losses += F.cross_entropy(logits, window[half + 1 :], reduction="none").tolist()
    return losses


@pytest.mark.parametrize("seq_len", [16, 2048])
def test_a_score_is_the_mean_over_the_targets_of_its_blocks(seq_len):
    model = Watcher()
    found = score(model, TEXT, seq_len=seq_len, at_least=3000)
    expected = naive(model, TEXT, block_starts(len(TEXT), 3000, seq_len), seq_len // 2)
    assert found.targets == len(expected) == 3 * BLOCK
    assert found.loss == pytest.approx(sum(expected) / len(expected), abs=1e-6)
    means = [sum(expected[i : i + BLOCK]) / BLOCK for i in range(0, len(expected), BLOCK)]
    assert found.blocks == pytest.approx(means, abs=1e-6)


def test_a_score_is_that_of_a_real_model_and_leaves_no_gradient():
    model = build_model("primer-ez", vocab_size=7, d_model=8, n_layers=1, n_heads=2, max_seq_len=32)
    model.train()
    found = score(model, TEXT, seq_len=32, at_least=1)
    assert found.targets == BLOCK
    expected = naive(model, TEXT, block_starts(len(TEXT), 1, 32), 16)
    assert found.loss == pytest.approx(sum(expected) / BLOCK, abs=1e-5)
    assert all(p.grad is None for p in model.parameters())
    assert model.training  # as it was before


def test_models_of_any_context_are_asked_for_the_same_targets():
    sets = [block_starts(400_000, 200_000, seq_len).tolist() for seq_len in (2, 64, 256, 1024, 2048)]
    assert all(starts == sets[0] for starts in sets)
    assert len(sets[0]) == 196
    assert (sets[0][0], sets[0][-1]) == (BLOCK + 1, 400_000 - BLOCK)
    gaps = torch.tensor(sets[0]).diff()
    assert gaps.min() >= BLOCK  # no target twice
    assert gaps.max() - gaps.min() <= 1


class Single(TorchDispatchMode):
    """Refuses what a device without float64, as that of a Mac, cannot compute; the meta device stands for it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and (result.device.type, result.dtype) == ("meta", torch.float64):
            raise TypeError(f"{func}: no float64 on this device")
        return result


def test_a_device_without_float64_can_score(monkeypatch):
    model = Watcher().to("meta")
    monkeypatch.setattr(Watcher, "forward", lambda self, tokens: self.weight.expand(*tokens.shape, 7))
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: torch.zeros(x.shape, dtype=x.dtype))
    with Single(), pytest.raises(TypeError, match="no float64"):
        torch.zeros(2, device="meta").double()
    with Single():
        assert score(model, TEXT, seq_len=64, at_least=1).loss == 0


@pytest.mark.parametrize(
    ("length", "at_least", "seq_len", "message"),
    [
        (20_000, 1000, 48, "seq_len is 48; expected an even number whose half divides 1024"),
        (20_000, 19_000, 64, "at_least is 19000; expected at most 18,432 targets"),
        (1500, 1, 64, "at most 0 targets"),
        (20_000, 0, 64, "at_least is 0; expected an int of at least 1"),
    ],
)
def test_a_sample_that_cannot_be_is_refused(length, at_least, seq_len, message):
    with pytest.raises(ValueError, match=message):
        block_starts(length, at_least, seq_len)
