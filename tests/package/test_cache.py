"""A cache that is copied between steps, and what an interrupted step leaves behind."""

import contextlib
import copy
import itertools
from functools import partial

import pytest
import torch
from helpers import assert_equal_up_to, randomize
from small_models import MAX_LEN, every_case, small_model, some_tokens
from torch import nn
from torch.overrides import TorchFunctionMode

from efficient_transformers import (
    Cache,
    FeedForward,
    LanguageModel,
    MultiHeadAttention,
    Stack,
    TransformerLayer,
    build_model,
)
from efficient_transformers.layers.decoding import StaticCache

every_family = pytest.mark.parametrize("case", ["transformer", "primer-ez", "hourglass", "amlp"])
CACHES = {"growing": Cache, "static": partial(StaticCache, max_seq_len=MAX_LEN)}
growing_and_static = pytest.mark.parametrize("kind", CACHES.values(), ids=CACHES)
TOLERANCE = 1e-5
assert_close = partial(assert_equal_up_to, TOLERANCE)


def after_a_prompt(case, kind=Cache, batch=2, length=9):
    model, tokens, cache = small_model(case), some_tokens(batch, 24), kind(batch)
    model(tokens[:, :length], cache)
    return model, tokens, cache


@pytest.mark.slow
@growing_and_static
@every_family
@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, Cache.clone])
@torch.no_grad()
def test_a_copy_and_the_original_go_different_ways(case, kind, duplicate):
    model, tokens, cache = after_a_prompt(case, kind)
    others_tokens = torch.cat([tokens[:, :9], (tokens[:, 9:] + 1) % 11], dim=1)
    ways = [(cache, tokens, []), (duplicate(cache), others_tokens, [])]
    for t in range(9, 24, 5):
        for memory, text, logits in ways:  # in turn, so that each could disturb the other
            logits.append(model(text[:, t : t + 5], memory))
    for _, text, logits in ways:
        assert_close(torch.cat(logits, dim=1), model(text)[:, 9:])


class Interrupted(TorchFunctionMode):
    """Ctrl-C before the operation with a number; to look at an attribute is not one."""

    def __init__(self, number):
        super().__init__()
        self.left = number

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function.__name__ != "__get__":
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
        return function(*args, **(kwargs or {}))


@pytest.mark.slow
@every_family
@torch.no_grad()
def test_wherever_a_step_was_interrupted_its_cache_is_right_or_says_so(case):
    model, tokens, before = after_a_prompt(case)
    expected, refused = model(tokens[:, :13])[:, 9:], {}
    for number in itertools.count():
        cache = before.clone()
        with contextlib.suppress(KeyboardInterrupt), Interrupted(number):
            model(tokens[:, 9:13], cache)
            break  # the step has no more operations
        try:
            logits = model(tokens[:, 9:13], cache)
        except ValueError as error:
            refused[cache] = str(error).split(",")[0]
        else:
            assert_close(logits, expected)
    assert len(refused) > 40
    assert set(refused.values()) == {"the cache is one whose last step was interrupted"}
    damaged = next(iter(refused))
    with pytest.raises(ValueError, match="the cache is one whose last step was interrupted"):
        model(tokens[:, 9:13], damaged.clone())


@every_case
@torch.no_grad()
def test_a_step_that_is_refused_leaves_the_cache_as_it_was(case):
    model, tokens, cache = after_a_prompt(case)
    refused = [tokens[:1], tokens + 100, some_tokens(2, MAX_LEN), tokens[:, :0], tokens.float()]
    for wrong in refused:
        with pytest.raises(TypeError if wrong.is_floating_point() else ValueError, match="expected"):
            model(wrong, cache)
        assert cache.tokens_read == 9
    assert_close(model(tokens[:, 9:], cache), model(tokens)[:, 9:])


@pytest.mark.parametrize("case", ["transformer", "primer-ez", "hourglass", "amlp", "dense-gmlp"])
@pytest.mark.parametrize(
    "kind", [Cache, *(partial(StaticCache, max_seq_len=n) for n in (6, 9))], ids=[*CACHES, "larger"]
)
@torch.no_grad()
def test_a_cache_is_read_to_the_last_position_and_not_beyond_it(case, kind):
    model = randomize(build_model(case, vocab_size=7, d_model=8, n_layers=2, n_heads=2, max_seq_len=6))
    tokens, cache = torch.randint(7, (2, 6)), kind(2)
    first = model(tokens[:, :4], cache)
    with pytest.raises(ValueError, match="the sequence length is 7; expected at most"):
        model(tokens[:, :3], cache)
    assert_close(torch.cat([first, model(tokens[:, 4:], cache)], dim=1), model(tokens))


def test_a_layer_at_two_places_is_refused():
    layer = TransformerLayer(MultiHeadAttention(8, 2), FeedForward(8, 16, nn.ReLU()), 8)
    model = LanguageModel(Stack([layer, layer]), vocab_size=7, d_model=8, max_seq_len=6)
    tokens = torch.zeros(1, 3, dtype=torch.int64)
    model(tokens)
    with pytest.raises(ValueError, match="a layer is 'MultiHeadAttention'; expected one that reads once in a step"):
        model(tokens, Cache(1))


def test_what_a_cache_keeps_of_a_window_is_a_copy():
    cache, layer, x = Cache(1), nn.Identity(), torch.arange(6.0).view(1, 6, 1)
    cache.with_past(layer, x, 2).zero_()  # whoever got it may compute in place
    assert cache.with_past(layer, x[:, :1], 2).flatten().tolist() == [4, 5, 0]
