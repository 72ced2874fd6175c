"""Every fast form is its plain form: values, derivatives of both kinds and orders, types and odd shapes."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from efficient_transformers import GMLPBlock, build_model, rotate
from efficient_transformers.layers import attention, convolution, fast, primer, products


def conv_case(channels, length, width, dilation, bias=False, batch=2):
    x, kernel = torch.randn(batch, length, channels), torch.randn(channels, 1, width)
    return x, kernel, torch.randn(channels) if bias else None, dilation


# Arguments of each pair: usual ones, odd ones, empty ones.
CASES = {
    "rotate_pairs": [
        lambda: (torch.randn(2, 4, 7, 8), 0, 1),
        lambda: (torch.randn(3, 1, 16), 5, 3),
        lambda: (torch.randn(2, 9, 2, 8).transpose(1, 2), 2, 1),
        lambda: (torch.randn(0, 4, 7, 8), 0, 1),
    ],
    "squared_relu": [
        lambda: (torch.randn(2, 3, 5),),
        lambda: (torch.tensor([-1.0, -0.0, 0.0, 1e-20, 1e30]),),
        lambda: (torch.randn(6, 4).mT,),
        lambda: (torch.randn(0, 4),),
    ],
    "depthwise_conv": [
        lambda: conv_case(8, 12, 3, 1),
        lambda: conv_case(5, 9, 2, 4, bias=True),
        lambda: conv_case(1, 1, 1, 1, bias=True, batch=1),
    ],
    "lower_product": [
        lambda: (torch.randn(9, 9), torch.randn(2, 9, 5)),
        lambda: (torch.randn(150, 150), torch.randn(3, 150, 2)),
        lambda: (torch.randn(1, 1), torch.randn(1, 1, 1)),
        lambda: (torch.randn(70, 70), torch.randn(0, 70, 2)),
        lambda: (torch.randn(200, 200)[:129, :129], torch.randn(2, 2, 129).mT),
    ],
    "diagonals": [lambda: (torch.randn(13), 7), lambda: (torch.randn(1), 1)],
}
ALL = [pytest.param(name, case, id=f"{name}-{i}") for name, cases in CASES.items() for i, case in enumerate(cases)]
every_pair = pytest.mark.parametrize(("name", "case"), ALL)
close = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)


def in_float64(arguments):
    return [x.double() if isinstance(x, torch.Tensor) else x for x in arguments]


def floats(arguments):
    return [x for x in arguments if isinstance(x, torch.Tensor)]


def test_every_pair_is_tested():
    assert set(CASES) == set(fast.PAIRS)


@every_pair
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_are_the_same(name, case, dtype):
    plain, quick = fast.PAIRS[name]
    arguments = [x.to(dtype) if isinstance(x, torch.Tensor) else x for x in case()]
    expected, found = plain(*arguments), quick(*arguments)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    tolerance = {torch.float32: 2e-6, torch.float64: 1e-13}[dtype] * max([1.0, *expected.abs().flatten().tolist()])
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=tolerance)


def derivatives(function, arguments, order):
    """Those of the sum of the outputs' cubes, then of the squares of what comes out, with respect to all tensors."""
    inputs = floats(arguments)
    for x in inputs:
        x.requires_grad_()
    found = torch.autograd.grad(function(*arguments).pow(3).sum(), inputs, create_graph=True)
    for _ in range(order - 1):
        found = torch.autograd.grad(sum(g.square().sum() for g in found), inputs, create_graph=True)
    return [g.detach() for g in found]


@every_pair
@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_of_any_order_are_the_same(name, case, order):
    plain, quick = fast.PAIRS[name]
    arguments = [0.1 * x if isinstance(x, torch.Tensor) else x for x in in_float64(case())]
    if name == "squared_relu":
        arguments = [x.clamp(max=3.0) for x in arguments]  # what follows has high powers of it
    for ours, theirs in zip(derivatives(quick, arguments, order), derivatives(plain, arguments, order), strict=True):
        largest = max([1e-300, *theirs.abs().flatten().tolist()])
        torch.testing.assert_close(ours / largest, theirs / largest, rtol=0, atol=1e-13)


@every_pair
def test_forward_mode_takes_the_plain_form_and_is_right(name, case):
    arguments = in_float64(case())
    plain, _ = fast.PAIRS[name]
    chosen = {"rotate_pairs": attention, "squared_relu": primer, "depthwise_conv": convolution}.get(name, products)
    tangents = [torch.randn_like(x) for x in floats(arguments)]
    found = []
    for function in (getattr(chosen, name), plain):
        with forward_ad.dual_level():
            duals = iter([forward_ad.make_dual(x, t) for x, t in zip(floats(arguments), tangents, strict=True)])
            given = [next(duals) if isinstance(x, torch.Tensor) else x for x in arguments]
            found.append(forward_ad.unpack_dual(function(*given)).tangent)
    assert found[0] is not None
    close(*found)


def test_a_batch_of_derivatives_takes_the_plain_form_and_is_right():
    block = GMLPBlock(8, 12, 5, causal=True, weight="dense").double()
    for p in block.parameters():
        nn.init.normal_(p, std=0.3)
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    both = [torch.autograd.functional.jacobian(block, x, vectorize=batched) for batched in (True, False)]
    assert both[0].abs().max() > 0.1
    close(*both)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_triangular_product_has_the_type_of_what_it_multiplies(dtype):
    w, x = torch.randn(70, 70), torch.randn(2, 70, 3).to(dtype)
    plain, quick = fast.PAIRS["lower_product"]
    for context in (torch.autocast("cpu", enabled=False), torch.autocast("cpu", dtype=torch.bfloat16)):
        with context:
            found, expected = quick(w, x), plain(w, x)
        assert found.dtype == expected.dtype == dtype
        torch.testing.assert_close(found, expected, rtol=0.05, atol=0.3 if dtype == torch.bfloat16 else 1e-12)


def test_a_default_device_is_not_remembered():
    fast.turns.cache_clear()
    x = torch.randn(1, 9, 8)
    with torch.device("meta"):
        within = rotate(x)
    close(rotate(x), within)


def test_without_pytorchs_private_name_models_compute_the_same_by_plain_forms(monkeypatch):
    model, tokens = build_model("primer-ez", vocab_size=11, d_model=16, n_layers=1), torch.randint(11, (2, 9))
    for p in model.parameters():
        nn.init.normal_(p, std=0.2)
    expected = model(tokens)
    monkeypatch.delattr(torch._C, "_functorch")
    assert not fast.is_plain(tokens)
    torch.testing.assert_close(model(tokens), expected, rtol=1e-4, atol=1e-5)


def test_a_tensor_of_another_kind_takes_the_plain_form():
    x = torch.randn(2, 4, 8)
    plain, _ = fast.PAIRS["rotate_pairs"]
    for start in (torch.tensor(3), 3):
        close(rotate(x.double(), start), plain(x.double(), start, 1))
    half = x.to(torch.bfloat16)
    assert torch.equal(rotate(half), plain(half, 0, 1))


def test_what_begins_at_an_odd_place_is_rotated_by_the_plain_form():
    x = torch.randn(65)[1:].view(2, 4, 8)  # whose pairs are no complex numbers in memory
    torch.testing.assert_close(rotate(x), rotate(x.clone()))
