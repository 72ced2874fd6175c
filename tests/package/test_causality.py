"""The three promises of every sequence-mixing module: it never reads the future, the total length does not matter,
and piece by piece with a cache it computes what it computes on the whole sequence. Every family of the book is covered:
one that is added to ``build_model`` is tested here by its name."""

import copy

import pytest
import torch
import torch.nn.functional as F
from helpers import ForgetfulCache, assert_equal_up_to, cut_points, in_pieces, randomize
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from efficient_transformers import (
    Cache,
    CausalDepthwiseConv,
    build_model,
    leak_map,
)
from efficient_transformers.models.language_model import FAMILIES

MAX_LEN = 48
SHARING = {"kernel_size": st.integers(1, 9), "sharing": st.sampled_from(["heads", "none", "all"])}
CONVOLUTION = {
    **SHARING,
    "dilation": st.integers(1, 3),
    "bias": st.booleans(),
    "init": st.sampled_from(["official", "random"]),
}
ATTENTION = {**CONVOLUTION, "convolve": st.sampled_from(["", "q", "k", "v", "qk", "qv", "kv", "qkv"])}
ACTIVATION = {"activation": st.sampled_from(["squared-relu", "relu", "gelu", "swiglu"])}
HIERARCHY = {
    "hierarchy": st.sampled_from([None, "1@1 1@2 1@1", "0@1 1@3 0@1", "1@1 1@4 1@8 1@4 1@1"]),
    "shortening": st.sampled_from(["average", "linear", "attention"]),
    "up_sampling": st.sampled_from(["naive", "linear", "attention"]),
    "pooling": st.sampled_from(["average", "linear"]),
    "expansion": st.sampled_from(["naive", "linear"]),
    "layer": st.sampled_from(["transformer", "primer-ez"]),
}
OPTIONS = {
    "transformer": {"rotary": st.booleans()},
    "primer-ez": ATTENTION | ACTIVATION,
    "primer": SHARING,
    "hourglass": HIERARCHY,
    "gmlp": {
        "gate": st.sampled_from(["split", "whole", "additive", "linear"]),
        "weight": st.sampled_from(["dense", "toeplitz"]),
        "d_attention": st.sampled_from([None, 5]),
        "positions": st.booleans(),
    },
}

every_model = pytest.mark.parametrize("name", FAMILIES)


@st.composite
def models(draw, name, d_heads=(2, 4, 8)):
    torch.manual_seed(draw(st.integers(0, 2**16)))
    heads, d_head = draw(st.integers(1, 3)), draw(st.sampled_from(d_heads))
    options = {option: draw(values) for option, values in OPTIONS.get(name, {}).items()}
    if options.get("shortening", "attention") != "attention":
        options.pop("pooling", None)  # which nothing would use
    if options.get("up_sampling", "attention") != "attention":
        options.pop("expansion", None)
    model = build_model(
        name,
        vocab_size=11,
        d_model=heads * d_head,
        n_heads=heads,
        n_layers=draw(st.integers(1, 3)) if options.get("hierarchy") is None else None,
        max_seq_len=MAX_LEN,
        **options,
    )
    return randomize(model)


# Whole models


@every_model
@given(data=st.data())
def test_later_tokens_change_no_bit_of_earlier_logits(name, data):
    model = data.draw(models(name))
    batch, length = data.draw(st.integers(1, 3)), data.draw(st.integers(2, MAX_LEN))
    t = data.draw(st.integers(0, length - 2))
    tokens = torch.randint(11, (batch, length))
    changed = tokens.clone()
    changed[:, t + 1 :] = (tokens[:, t + 1 :] + torch.randint(1, 11, (batch, length - t - 1))) % 11
    with torch.no_grad():
        before, after = model(tokens), model(changed)
    assert torch.equal(before[:, : t + 1], after[:, : t + 1])
    assert not torch.equal(before[:, t + 1], after[:, t + 1])


@pytest.mark.slow
@every_model
@given(data=st.data())
def test_logits_do_not_depend_on_the_total_length(name, data):
    model = data.draw(models(name))
    length = data.draw(st.integers(1, MAX_LEN))
    n = data.draw(st.integers(1, length))
    tokens = torch.randint(11, (data.draw(st.integers(1, 3)), length))
    with torch.no_grad():
        assert_equal_up_to(1e-5, model(tokens[:, :n]), model(tokens)[:, :n])


@every_model
@given(data=st.data())
def test_pieces_with_a_cache_equal_the_whole(name, data):
    model = data.draw(models(name))
    pieces = data.draw(cut_points(MAX_LEN))
    tokens = torch.randint(11, (data.draw(st.integers(1, 3)), sum(pieces)))
    cache = Cache(tokens.shape[0])
    with torch.no_grad():
        assert_equal_up_to(1e-5, in_pieces(model, tokens, pieces, cache), model(tokens))
    assert cache.tokens_read == sum(pieces)


@pytest.mark.slow
@every_model
@given(data=st.data())
def test_pieces_with_a_cache_are_as_exact_as_the_whole_in_bfloat16(name, data):
    # LayerNorm of two channels is nearly the sign of their difference, which rounding can turn
    model = data.draw(models(name, d_heads=(4, 8))).to(torch.bfloat16)
    pieces = data.draw(cut_points(MAX_LEN))
    tokens = torch.randint(11, (16, sum(pieces)))  # enough for the mean of many roundings
    with torch.no_grad():
        whole, parts = model(tokens), in_pieces(model, tokens, pieces)
        exact = copy.deepcopy(model).double()(tokens)
    assert whole.dtype == parts.dtype == torch.bfloat16
    rounding = (whole - exact).square().mean().sqrt()
    assert 0 < rounding < 0.15 * exact.square().mean().sqrt()
    assert (parts - exact).square().mean().sqrt() <= 2 * rounding


@every_model
def test_token_by_token_equals_the_whole(name):
    model = randomize(build_model(name, vocab_size=11, d_model=8, n_layers=2, n_heads=2, max_seq_len=70))
    tokens = torch.randint(11, (2, 70))  # long enough for the cache's buffers to grow more than once
    with torch.no_grad():
        assert_equal_up_to(1e-5, in_pieces(model, tokens, [1] * 70), model(tokens))


@every_model
def test_a_cache_keeps_no_gradient(name):
    model = build_model(name, vocab_size=11, d_model=8, n_layers=1, n_heads=2)
    cache, tokens = Cache(1), torch.randint(11, (1, 6))
    model(tokens[:, :3], cache).sum().backward()
    model.zero_grad()
    model(tokens[:, 3:], cache).sum().backward()  # would fail if it reached into the graph of the first piece
    assert model.embedding.weight.grad is not None


@every_model
@given(data=st.data())
def test_leak_map_is_exactly_lower_triangular(name, data):
    leak = leak_map(data.draw(models(name)), data.draw(st.integers(1, 12)))
    assert torch.equal(leak.triu(1), torch.zeros_like(leak))
    assert (leak.diagonal() > 0).all()


# Negative controls: what the tests above must be able to see


class LateConv(CausalDepthwiseConv):
    """One zero of the padding is on the wrong side, so that each output sees one token of the future."""

    def forward(self, x, cache=None):
        D, K = self.d_model, self.kernel_size
        kernel = self.weight.flip(2).expand(self.n_heads, D // self.n_heads, K).reshape(D, 1, K)
        return F.conv1d(F.pad(x.mT, (K - 2, 1)), kernel, groups=D).mT


def test_leak_map_catches_a_shifted_padding():
    leak = leak_map(LateConv(8, 2), 6)
    assert (leak.diagonal(1) > 0).all()
    assert not leak.triu(2).any()


def test_a_cache_without_the_convolutions_window_gives_other_logits():
    model = randomize(build_model("primer-ez", vocab_size=11, d_model=8, n_layers=1, n_heads=2))
    tokens = torch.randint(11, (2, 12))
    with torch.no_grad():
        error = in_pieces(model, tokens, [5, 1, 6], ForgetfulCache(2)) - model(tokens)
    assert error[:, :5].abs().max() < 1e-5
    assert error.abs().max() > 1e-3


def test_a_deep_copy_of_a_layer_has_its_own_place_in_a_cache():
    first = randomize(CausalDepthwiseConv(4, 2))
    both = nn.ModuleList([first, copy.deepcopy(first)])
    cache, x = Cache(1), torch.randn(1, 8, 4)
    pieces = [both[1](both[0](piece, cache), cache) for piece in x.split(2, dim=1)]
    assert_equal_up_to(1e-6, torch.cat(pieces, dim=1), first(first(x)))


def test_a_cache_belongs_to_the_first_model_that_uses_it():
    first, second = (build_model("transformer", vocab_size=5, d_model=8, n_heads=2, n_layers=1) for _ in range(2))
    cache, tokens = Cache(1), torch.zeros(1, 3, dtype=torch.int64)
    assert cache.tokens_read == 0
    first(tokens, cache)
    with pytest.raises(ValueError, match="the cache is one that another model has used"):
        second(tokens, cache)
    assert cache.tokens_read == 3
