"""What compilers, exporters and function transforms make of the models is what the models compute."""

import copy
import math

import pytest
import torch
from helpers import loss_of
from small_models import (
    CASES,
    MAX_LEN,
    every_device,
    every_family,
    every_model,
    factors,
    small_model,
    some_tokens,
)

from efficient_transformers import Cache
from efficient_transformers.layers.decoding import StaticCache
from efficient_transformers.models.language_model import find_family

pytestmark = pytest.mark.slow

TOLERANCE = {"cpu": 1e-5, "cuda": 1e-4}  # a GPU adds in another order


@pytest.fixture(autouse=True)
def a_fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def assert_trains_like_eager(case, device, backend):
    """Losses and gradients of some steps, each model going its own way."""
    eager = small_model(case, device).train()
    other = copy.deepcopy(eager)
    compiled = torch.compile(other, fullgraph=True, backend=backend)
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in (eager, other)]
    tokens, losses = some_tokens(3, 18, device), []
    for _ in range(4):
        both = [loss_of(model, tokens) for model in (eager, compiled)]
        losses.append([loss.item() for loss in both])
        for loss, optimizer in zip(both, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
        for (name, p), q in zip(eager.named_parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(
                p.grad, q.grad, rtol=0, atol=TOLERANCE[device], msg=lambda m, n=name: f"{n}: {m}"
            )
        for optimizer in optimizers:
            optimizer.step()
    ours, theirs = torch.tensor(losses).T
    torch.testing.assert_close(ours, theirs, rtol=0, atol=TOLERANCE[device])
    assert ours[-1] < ours[0] - 0.01


@every_device
@every_family
def test_a_compiled_model_trains_like_the_model(case, device):
    assert_trains_like_eager(case, device, "aot_eager")


@pytest.mark.long
@every_device
@every_model
def test_a_model_trains_in_generated_code_like_in_eager_mode(case, device):
    assert_trains_like_eager(case, device, "inductor")


@torch.no_grad()
def assert_decoding_is_compiled_once(case, device, backend):
    """Once for each kind of step; and the logits are those of the model without a cache."""
    from torch._dynamo.testing import CompileCounterWithBackend  # which takes seconds, in each process of tests

    model, prompt, n = small_model(case, device), 5, 60
    tokens, cache = some_tokens(2, prompt + n, device), StaticCache(2, MAX_LEN)
    counter, compiled = CompileCounterWithBackend(backend), []
    step = torch.compile(model, fullgraph=True, dynamic=False, backend=counter)
    logits = [model(tokens[:, :prompt], cache)]
    for token in tokens[:, prompt:].split(1, dim=1):
        logits.append(step(token, cache))
        compiled.append(counter.frame_count)
    torch.testing.assert_close(torch.cat(logits, dim=1), model(tokens), rtol=0, atol=TOLERANCE[device])
    assert cache.tokens_read == prompt + n
    period = math.prod(factors(case))
    kinds = 1 + sum(k - 1 for k in factors(case))  # each level's steps without a new window, and the one with all
    assert compiled[period - 1 :] == [kinds] * (n - period + 1)


@every_device
@every_family
def test_decoding_with_a_static_cache_is_compiled_once_for_each_kind_of_step(case, device):
    assert_decoding_is_compiled_once(case, device, "aot_eager")


@pytest.mark.long
@every_device
@pytest.mark.parametrize("case", ["transformer", "hourglass", "gmlp"])
def test_decoding_in_generated_code_is_compiled_as_often(case, device):
    assert_decoding_is_compiled_once(case, device, "inductor")


def test_with_a_growing_cache_the_same_count_sees_every_step():
    from torch._dynamo.testing import CompileCounterWithBackend

    model, counter, cache = small_model("transformer"), CompileCounterWithBackend("eager"), Cache(2)
    step = torch.compile(model, fullgraph=True, dynamic=False, backend=counter)
    with torch.no_grad():
        for token in some_tokens(2, 5).split(1, dim=1):
            step(token, cache)
    assert counter.frame_count == 5


@every_device
@every_family
def test_an_exported_program_computes_the_models_logits_at_other_lengths(case, device):
    from torch.export import Dim, export

    model, k = small_model(case, device), math.prod(factors(case))
    shortest = k + 1 if k > 1 else 1  # an hourglass needs two windows
    longest = MAX_LEN if find_family(CASES[case][0])[1].reads_beyond_training else MAX_LEN - 1  # never a whole matrix
    batch, length = Dim("batch", min=1, max=64), Dim("length", min=shortest, max=longest)
    program = export(model, (some_tokens(3, 17, device),), dynamic_shapes={"tokens": {0: batch, 1: length}}).module()
    with torch.no_grad():
        for B, T in ((1, shortest), (2, 2 * k + 3), (64, 6), (1, longest)):
            tokens = some_tokens(B, T, device)
            torch.testing.assert_close(program(tokens), model(tokens), rtol=0, atol=1e-4)
