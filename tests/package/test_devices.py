"""The models away from an ordinary CPU tensor: nothing waits for a device, the numbers are the same, and low precision
stays low. Where there is a GPU with CUDA, the tests that can run on it do."""

import copy

import pytest
import torch
import torch.nn.functional as F
from helpers import in_pieces, loss_of
from small_models import CASES, every_case, every_device, every_model, small_model, some_tokens
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from efficient_transformers import Cache, triangular_product
from efficient_transformers.layers.decoding import StaticCache
from efficient_transformers.layers.fast import is_plain

pytestmark = pytest.mark.slow
TOLERANCE = {"cpu": 1e-5, "cuda": 1e-4}  # a GPU adds in another order
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU with CUDA")


def use(model, tokens):
    """Train on the tokens, and read them with caches of both kinds, the last of them one by one."""
    model.train()
    loss_of(model, tokens).backward()
    model.eval()
    logits = model(tokens)
    pieces = [tokens.shape[1] - 6, *[1] * 6]
    for cache in (Cache(len(tokens)), StaticCache(len(tokens), model.max_seq_len)):
        assert in_pieces(model, tokens, pieces, cache).shape == logits.shape
    return logits


# Nothing waits for a device

WAITS = {torch.ops.aten._local_scalar_dense, torch.ops.aten.nonzero, torch.ops.aten.is_nonzero, torch.ops.aten.equal}


class FarTensor(torch.Tensor):
    """A tensor on the CPU that does not look like one."""


class NoWaiting(TorchDispatchMode):
    """Refuses the operators whose result is a number for the program, or has a shape that depends on values."""

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if operator.overloadpacket in WAITS:
            raise AssertionError(f"{operator} would wait for the device")
        return operator(*args, **(kwargs or {}))


def far(tokens):
    return tokens.as_subclass(FarTensor)


@every_case
def test_nothing_looks_at_a_value_on_a_device(case):
    with NoWaiting():
        logits = use(small_model(case), far(some_tokens(2, 23)))
    assert isinstance(logits, FarTensor)


@on_cuda
@every_case
def test_nothing_waits_for_cuda(case):
    model, tokens = small_model(case, "cuda"), some_tokens(2, 23, "cuda")
    use(model, tokens)  # the first use prepares libraries
    torch.cuda.set_sync_debug_mode("error")
    try:
        use(model, tokens)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_values_are_looked_at_where_that_costs_nothing():
    tokens = some_tokens(2, 9)
    assert is_plain(tokens)
    assert not any(is_plain(x) for x in (far(tokens), tokens.to("meta")))
    with pytest.raises(AssertionError, match="would wait for the device"), NoWaiting():
        small_model("transformer")(tokens)


class Attentions(TorchFunctionMode):
    """Keeps what attention is called with."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is F.scaled_dot_product_attention:
            self.calls.append(args[:3])
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("case", [case for case in CASES if "gmlp" not in case])
def test_heads_lie_in_memory_as_fused_attention_on_a_gpu_needs_them(case):
    with Attentions() as attentions:
        small_model(case).to("meta")(some_tokens(2, 23, "meta"))
    assert attentions.calls
    assert {x.stride(-1) for call in attentions.calls for x in call} == {1}


# The numbers are the same


@every_device
@every_case
def test_logits_and_gradients_are_those_of_double_precision(case, device):
    model, tokens = small_model(case, device), some_tokens(3, 40, device)
    exact = copy.deepcopy(model).to("cpu", torch.float64)
    torch.testing.assert_close(model(tokens).double().cpu(), exact(tokens.cpu()), rtol=0, atol=TOLERANCE[device])
    loss_of(model, tokens).backward()
    loss_of(exact, tokens.cpu()).backward()
    for p, q in zip(model.parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(p.grad.double().cpu(), q.grad, rtol=0, atol=TOLERANCE[device])


@every_device
@every_case
@torch.no_grad()
def test_pieces_equal_the_whole_on_any_device(case, device):
    model, tokens = small_model(case, device), some_tokens(2, 40, device)
    for cache in (Cache(2), StaticCache(2, 64)):
        parts = in_pieces(model, tokens, [1, 4, 1, 1, 12, 7, 14], cache)
        torch.testing.assert_close(parts, model(tokens), rtol=0, atol=TOLERANCE[device])
        assert cache.tokens_read == 40


# Low precision


@every_device
def test_the_causal_product_has_the_low_precision_under_autocast(device):
    weight, x = torch.randn(150, 150, device=device, requires_grad=True), torch.randn(2, 150, 8, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        y = triangular_product(weight, x)
    assert y.dtype == torch.bfloat16
    exact = weight.detach().tril() @ x
    error = (y.float() - exact).abs().max() / exact.abs().max()
    assert 1e-4 < error < 1e-2  # rounded, but not otherwise wrong
    y.float().sum().backward()
    assert weight.grad.dtype == torch.float32
    torch.testing.assert_close(weight.grad, x.sum((0, 2)).expand(150, -1).tril(), rtol=0.02, atol=0.1)


@every_device
@every_case
def test_models_train_under_autocast(case, device):
    model, tokens = small_model(case, device), some_tokens(4, 40, device)
    losses, gradients = [], []
    for enabled in (False, True):
        model.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=enabled):
            loss = loss_of(model, tokens)
        loss.backward()
        losses.append(loss.item())
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert 0 < abs(losses[1] - losses[0]) < 0.01 * losses[0]
    assert F.cosine_similarity(*gradients, dim=0) > 0.99


@every_device
@every_model
@torch.no_grad()
def test_decoding_under_autocast_is_as_exact_as_the_whole(case, device):
    model, tokens = small_model(case, device), some_tokens(2, 30, device)
    exact = model(tokens)
    with torch.autocast(device, dtype=torch.bfloat16):
        rounding = (model(tokens) - exact).abs().max()
        for cache in (Cache(2), StaticCache(2, 64)):
            assert (in_pieces(model, tokens, [5, *[1] * 25], cache) - exact).abs().max() <= 2 * rounding
