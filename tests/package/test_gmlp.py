"""gMLP: what it computes, how its forms agree, how it starts, and what it refuses."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers import assert_equal_up_to, randomize
from hypothesis import given
from hypothesis import strategies as st

from efficient_transformers import (
    Cache,
    GMLPBlock,
    SpatialGatingUnit,
    TinyAttention,
    build_model,
    leak_map,
    triangular_product,
)
from efficient_transformers.layers import fast
from efficient_transformers.layers.products import fft_product, toeplitz

GATES = ("split", "whole", "additive", "linear")


@st.composite
def options(draw, **fixed):
    """Options of a block; FFT only where it serves."""
    weight = draw(st.sampled_from(["dense", "toeplitz"]))
    drawn = {
        "causal": draw(st.booleans()),
        "gate": draw(st.sampled_from(GATES)),
        "weight": weight,
        "fft": draw(st.booleans()) if weight == "toeplitz" else False,
        "d_attention": draw(st.sampled_from([None, 3])),
    }
    return drawn | fixed


@st.composite
def blocks(draw, max_seq_len=24, **fixed):
    torch.manual_seed(draw(st.integers(0, 2**16)))
    return randomize(GMLPBlock(6, 8, max_seq_len, **draw(options(**fixed))), 0.3)


@pytest.fixture(params=[3, 128])
def tile(request, monkeypatch):
    """Sequences of a few tokens go through many tiles, or one."""
    monkeypatch.setattr(fast, "TILE", request.param)
    return request.param


# the paper, once more and otherwise: loops over positions, in numpy


def layer_norm(x, norm):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + norm.eps)
    return x * norm.weight.detach().numpy() + norm.bias.detach().numpy()


def reference(block, x, causal, kind, mask=None):
    """The pseudo-code of the paper for one sequence ``x`` [n, d], with the alternatives of its ablation."""
    p = {name: value.detach().numpy() for name, value in block.named_parameters()}
    n, shortcut = len(x), x
    normed = layer_norm(x, block.norm)
    z = normed @ p["up.weight"].T
    z = z * 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))
    u, v = np.split(z, 2, axis=1) if kind == "split" else (z, z)
    v = layer_norm(v, block.gate.norm)
    visible = np.ones(n, dtype=bool) if mask is None else mask
    weight, longest = p["gate.weight"], block.gate.max_seq_len
    f = np.zeros_like(v)
    for t in range(n):
        for s in range(t + 1 if causal else n):
            if visible[s]:
                where = (t, s) if weight.ndim == 2 else t - s if causal else longest - 1 + t - s
                f[t] += weight[where] * v[s]
        f[t] += p["gate.bias"][t]
    if block.attention is not None:
        q, k, values = (normed @ p[f"attention.{name}.weight"].T for name in ("query", "key", "value"))
        for t in range(n):
            seen = [s for s in range(t + 1 if causal else n) if visible[s]]
            if seen:
                scores = np.array([q[t] @ k[s] for s in seen]) / math.sqrt(q.shape[1])
                weights = np.exp(scores - scores.max())
                mixed = (weights / weights.sum()) @ values[seen]
                f[t] += mixed @ p["attention.output.weight"].T
    s = {"split": u * f, "whole": u * f, "additive": u + f, "linear": f}[kind]
    return shortcut + s @ p["down.weight"].T


@given(data=st.data())
def test_a_block_computes_what_the_paper_writes(data):
    chosen = data.draw(options())
    torch.manual_seed(data.draw(st.integers(0, 2**16)))
    block = randomize(GMLPBlock(6, 8, 12, **chosen), 0.3).double()
    x = torch.randn(2, data.draw(st.integers(1, 12)), 6, dtype=torch.float64)
    mask = None if chosen["causal"] else data.draw(st.sampled_from([None, torch.rand(x.shape[:2]) < 0.6]))
    y = block(x, mask=mask).detach().numpy()
    for i in range(2):
        row = None if mask is None else mask[i].numpy()
        expected = reference(block, x[i].numpy(), chosen["causal"], chosen["gate"], row)
        np.testing.assert_allclose(y[i], expected, rtol=0, atol=1e-10)


# the forms of the product


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
@pytest.mark.parametrize("T", [1, 9, 150])
def test_dense_blocked_toeplitz_and_fft_agree(T, dtype, tolerance, tile):
    torch.manual_seed(T)
    x = torch.randn(3, T, 5, dtype=dtype)
    causal = F.pad(torch.randn(T, dtype=dtype), (T - 1, 0))
    two_sided = torch.randn(2 * T - 1, dtype=dtype)
    for kernel in (causal, two_sided):
        dense = torch.stack([torch.stack([kernel[T - 1 + t - s] for s in range(T)]) for t in range(T)])
        assert torch.equal(toeplitz(kernel), dense)
        torch.testing.assert_close(fft_product(kernel, x), dense @ x, rtol=0, atol=tolerance * 10)
    weight = torch.randn(T, T, dtype=dtype)
    torch.testing.assert_close(triangular_product(weight, x), weight.tril() @ x, rtol=0, atol=tolerance)
    torch.testing.assert_close(triangular_product(toeplitz(causal), x), fft_product(causal, x), rtol=0, atol=tolerance)


@pytest.mark.parametrize("T", [1, 5, 13])
def test_the_triangular_products_gradients(T, tile):
    weight = torch.randn(T, T, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, T, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(triangular_product, (weight, x))
    (gradient,) = torch.autograd.grad(triangular_product(weight, x).square().sum(), weight)
    assert torch.equal(gradient.triu(1), torch.zeros(T, T, dtype=torch.float64))


def test_no_place_of_the_result_is_left_as_memory_was(tile):
    """PyTorch fills new memory with NaN while it is asked to be deterministic."""
    weight, x = torch.randn(40, 40, requires_grad=True), torch.randn(2, 40, 3, requires_grad=True)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(9).isnan().all()
        y = triangular_product(weight, x)
        y.square().sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    for tensor in (y, weight.grad, x.grad):
        assert tensor.isfinite().all()


# causality and cost: what tests/package/test_causality.py does not reach


@given(data=st.data())
def test_a_causal_block_never_reads_the_future(data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast, "TILE", data.draw(st.sampled_from([1, 3, 128])))
        block = data.draw(blocks(causal=True, fft=False))
        length = data.draw(st.integers(2, 24))
        t = data.draw(st.integers(0, length - 2))
        x = torch.randn(2, length, 6)
        changed = x.clone()
        changed[:, t + 1 :] += torch.randn(2, length - t - 1, 6)
        before, after = block(x), block(changed)
        assert torch.equal(before[:, : t + 1], after[:, : t + 1])
        assert not torch.equal(before[:, t + 1], after[:, t + 1])
        leak = leak_map(block, 9)
        assert torch.equal(leak.triu(1), torch.zeros_like(leak))
        assert (leak.tril() > 0).sum() == 45


@given(data=st.data())
def test_the_transforms_future_is_rounding(data):
    block = data.draw(blocks(causal=True, weight="toeplitz", fft=True))
    leak = leak_map(block, 12)
    assert leak.triu(1).max() < 1e-13 * leak.max()


@given(data=st.data())
def test_a_two_sided_block_reads_everything(data):
    leak = leak_map(data.draw(blocks(causal=False)), 7)
    assert (leak > 0).all()


@pytest.mark.parametrize("weight", ["dense", "toeplitz"])
def test_a_token_costs_one_row(weight, monkeypatch):
    """Whatever was read before, the matrix that is multiplied has as many rows as there are new tokens."""
    gate = randomize(SpatialGatingUnit(4, 40, causal=True, weight=weight), 0.3)
    shapes, original = [], gate.rows
    monkeypatch.setattr(gate, "rows", lambda *args: (shapes.append(original(*args).shape), original(*args))[1])
    cache, x = Cache(1), torch.randn(1, 40, 4)
    for piece in x.split([30, 1, 1, 8], dim=1):
        gate(piece, cache)
    assert shapes == [(30, 30), (1, 31), (1, 32), (8, 40)]


# masks


@given(data=st.data())
def test_hidden_tokens_change_nothing_that_is_visible(data):
    block = data.draw(blocks(causal=False))
    x = torch.randn(2, data.draw(st.integers(1, 24)), 6)
    mask = torch.rand(x.shape[:2]) < 0.7
    other = torch.where(mask.unsqueeze(2), x, 50 * torch.randn_like(x))
    y, z = block(x, mask=mask), block(other, mask=mask)
    torch.testing.assert_close(y[mask], z[mask], rtol=0, atol=1e-5)
    torch.testing.assert_close(block(x, mask=torch.ones_like(mask)), block(x), rtol=0, atol=1e-5)


@pytest.mark.parametrize("d_attention", [None, 3])
def test_a_hidden_token_may_hold_anything(d_attention):
    block = randomize(GMLPBlock(6, 8, 9, causal=False, d_attention=d_attention), 0.3)
    x, mask = torch.randn(1, 9, 6), torch.arange(9)[None] < 6
    x[:, 6:] = torch.nan
    assert_equal_up_to(1e-5, block(x, mask=mask)[:, :6], block(x[:, :6]))


@given(data=st.data())
def test_where_everything_is_hidden_the_gate_is_its_bias(data):
    block = data.draw(blocks(causal=False)).double()
    x = torch.randn(1, 7, 6, dtype=torch.float64, requires_grad=True)
    mask = torch.zeros(1, 7, dtype=torch.bool)
    y = block(x, mask=mask)
    expected = reference(block, x[0].detach().numpy(), False, block.gate.kind, mask[0].numpy())
    np.testing.assert_allclose(y[0].detach().numpy(), expected, rtol=0, atol=1e-10)
    y.sum().backward()
    assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in block.parameters() if p.grad is not None)


# the start


@pytest.mark.slow
@pytest.mark.parametrize("n", [64, 1024])
@pytest.mark.parametrize("weight", ["dense", "toeplitz"])
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("alike", [False, True], ids=["random tokens", "equal tokens"])
def test_a_block_starts_within_five_percent_of_its_gate_free_form(n, weight, gate, alike):
    """What the block adds, against the same without the gate: the half that is passed on, or, for a linear gate, what
    its identity passes on; at every position, not only on average."""
    torch.manual_seed(n)
    block = GMLPBlock(16, 64, n, causal=True, weight=weight, gate=gate, d_attention=16)
    x = torch.randn(1, 1, 16).expand(1, n, 16) if alike else torch.randn(1, n, 16)
    with torch.no_grad():
        z = F.gelu(block.up(block.norm(x)))
        passed = z.chunk(2, dim=-1)[0] if gate == "split" else z
        free = block.down(block.gate.norm(passed) if gate == "linear" else passed)
        added = block(x) - x
    relative = (added - free).norm(dim=2) / free.norm(dim=2)
    assert 1e-6 < relative.max() < 0.05


@pytest.mark.parametrize("weight", ["dense", "toeplitz"])
@pytest.mark.parametrize("gate", ["split", "whole"])
def test_a_product_that_starts_shut_passes_nothing_and_differs_in_its_bias_alone(weight, gate):
    made = {}
    for start in ("open", "shut"):
        torch.manual_seed(0)
        made[start] = SpatialGatingUnit(16, 64, causal=True, gate=gate, weight=weight, start=start)
    z = torch.randn(1, 64, 16)
    assert made["shut"](z).abs().max() < 0.05
    made["shut"].bias.data += 1
    assert torch.equal(made["shut"](z), made["open"](z))


@pytest.mark.parametrize("n", [64, 1024])
@pytest.mark.parametrize("weight", ["dense", "toeplitz"])
def test_the_spread_of_the_gate_is_the_same_at_any_length(n, weight):
    torch.manual_seed(0)
    gate = SpatialGatingUnit(128, n, causal=False, weight=weight)
    z = gate.norm(torch.randn(1, n, 64))
    with torch.no_grad():
        assert (gate.mix(z).std() / 0.001).item() == pytest.approx(1, abs=0.1)


def test_amlp_starts_as_gmlp():
    """Tiny attention adds nothing before it has learned something."""
    block = GMLPBlock(8, 16, 10, causal=True, d_attention=4)
    without = copy.deepcopy(block)
    without.attention = None
    x = torch.randn(2, 10, 8)
    assert torch.equal(block(x), without(x))
    for name in ("gmlp", "amlp"):
        model = build_model(name, vocab_size=5, d_model=8, n_layers=2)
        x = torch.randn(2, 10, 8)
        assert torch.equal(model.body(x), x)


# sizes


def test_the_name_amlp_is_gmlp_with_attention():
    sizes = {"vocab_size": 5, "d_model": 8}
    assert build_model("amlp", **sizes).config["d_attention"] == 64
    assert build_model("amlp", **sizes).config["name"] == "gmlp"
    assert all(block.attention is None for block in build_model("gmlp", **sizes).body)
    assert len(build_model("gmlp", **sizes).body) == 8
    assert len(build_model("gmlp", **sizes, n_layers=3).body) == 3


def test_nothing_but_the_matrices_knows_positions():
    model = build_model("gmlp", vocab_size=5, d_model=8, max_seq_len=16).eval()
    with torch.no_grad():
        for block in model.body:
            block.gate.weight.zero_()
    tokens = torch.randint(5, (1, 16))
    order = torch.randperm(16)
    torch.testing.assert_close(model(tokens[:, order]), model(tokens)[:, order])


# refusals; tests/package/test_bad_input.py has more


def test_causal_or_not_must_be_said():
    for make in (lambda: SpatialGatingUnit(6, 4), lambda: GMLPBlock(6, 8, 4), lambda: TinyAttention(6, 4)):
        with pytest.raises(TypeError, match="causal"):
            make()


def test_a_weight_smaller_than_the_sequence_is_refused():
    with pytest.raises(ValueError, match=r"weight.shape is \(3, 3\); expected"):
        triangular_product(torch.randn(3, 3), torch.randn(1, 4, 2))
