"""gMLP: what it computes, how its forms agree, how it starts, and what it refuses."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers import randomize
from hypothesis import given
from hypothesis import strategies as st

from efficient_transformers import (
    Cache,
    GMLPBlock,
    LearnedPositions,
    SpatialGatingUnit,
    Stack,
    TinyAttention,
    build_model,
    leak_map,
    triangular_product,
)
from efficient_transformers.layers import fast
from efficient_transformers.layers.fast import tiles
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


@pytest.fixture(params=[3, 8, 128])
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


@pytest.mark.parametrize("T", [1, 2, 7, 128, 129, 300])
def test_tiles_cover_the_lower_triangle_once(T, tile):
    covered = torch.zeros(T, T)
    for rows, columns in tiles(0, T):
        covered[rows, columns] += 1
        assert rows.stop - rows.start <= tile or rows != columns
    assert torch.equal(covered.tril(), torch.ones(T, T).tril())
    assert covered.max() == 1
    assert covered.sum() <= T * (T + 1) / 2 + tile * T / 2


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
@pytest.mark.parametrize("T", [1, 2, 9, 64, 150, 300])
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


@given(data=st.data())
def test_a_blocks_gradients(data):
    block = data.draw(blocks(max_seq_len=5)).double()
    x = torch.randn(2, data.draw(st.integers(1, 5)), 6, dtype=torch.float64, requires_grad=True)
    names, values = zip(*block.named_parameters(), strict=True)

    def call(x, *parameters):
        return torch.func.functional_call(block, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(call, (x, *values), fast_mode=True)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weight", "causal"),
    [
        ("dense", True),
        ("toeplitz", False),
        pytest.param("dense", False, marks=pytest.mark.long),
        pytest.param("toeplitz", True, marks=pytest.mark.long),
    ],
)
def test_a_compiled_block_is_one_graph_and_computes_the_same(weight, causal):
    block = randomize(GMLPBlock(6, 8, 300, causal=causal, weight=weight, d_attention=4), 0.3)
    compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
    x = torch.randn(2, 290, 6)
    torch.testing.assert_close(compiled(x), block(x), rtol=0, atol=1e-5)


# causality, length, cache: what tests/package/test_causality.py does not reach


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


@given(data=st.data())
def test_a_causal_block_does_not_depend_on_the_total_length(data):
    block = data.draw(blocks(causal=True))
    length = data.draw(st.integers(1, 24))
    n = data.draw(st.integers(1, length))
    x = torch.randn(2, length, 6)
    torch.testing.assert_close(block(x[:, :n]), block(x)[:, :n], rtol=0, atol=1e-5)


@given(data=st.data())
def test_a_block_equals_the_whole_in_pieces(data):
    block = data.draw(blocks(causal=True))
    length = data.draw(st.integers(1, 24))
    cuts = sorted(data.draw(st.sets(st.integers(1, length))) | {length})
    sizes = [b - a for a, b in zip([0, *cuts], cuts, strict=False)]
    x, cache = torch.randn(2, length, 6), Cache(2)
    pieces = torch.cat([block(piece, cache) for piece in x.split(sizes, dim=1)], dim=1)
    torch.testing.assert_close(pieces, block(x), rtol=0, atol=1e-5)


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


def test_learned_positions_go_on_where_the_cache_stopped():
    model = randomize(build_model("gmlp", vocab_size=7, d_model=4, n_layers=1, max_seq_len=9, positions=True), 0.3)
    assert isinstance(model.body[0], LearnedPositions)
    tokens, cache = torch.randint(7, (2, 9)), Cache(2)
    pieces = torch.cat([model(piece, cache) for piece in tokens.split([4, 1, 4], dim=1)], dim=1)
    torch.testing.assert_close(pieces, model(tokens), rtol=0, atol=1e-5)


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


def test_a_hidden_token_may_hold_anything():
    block = randomize(GMLPBlock(6, 8, 9, causal=False), 0.3)
    x, mask = torch.randn(1, 9, 6), torch.arange(9)[None] < 6
    x[:, 6:] = torch.nan
    assert block(x, mask=mask)[:, :6].isfinite().all()


@given(data=st.data())
def test_hidden_tokens_at_the_end_are_as_if_they_were_not_there(data):
    block = data.draw(blocks(causal=False))
    n, padding = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 12))
    x = torch.randn(2, n + padding, 6)
    mask = (torch.arange(n + padding) < n).expand(2, -1)
    torch.testing.assert_close(block(x, mask=mask)[:, :n], block(x[:, :n]), rtol=0, atol=1e-5)


@given(data=st.data())
def test_where_everything_is_hidden_the_gate_is_its_bias(data):
    block = data.draw(blocks(causal=False))
    x = torch.randn(2, 7, 6, requires_grad=True)
    mask = torch.tensor([[False] * 7, [True] * 7])
    y = block(x, mask=mask)
    z = F.gelu(block.up(block.norm(x)))
    passed = z.chunk(2, dim=-1)[0] if block.gate.kind == "split" else z
    b = block.gate.bias[:7, None]
    gated = {"linear": b.expand_as(passed), "additive": passed + b}.get(block.gate.kind, passed * b)
    torch.testing.assert_close(y[0], (x + block.down(gated))[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(y[1:], block(x[1:]), rtol=0, atol=1e-5)
    y.sum().backward()
    assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in block.parameters() if p.grad is not None)


# the start


@pytest.mark.slow
@pytest.mark.parametrize("n", [64, 256, 1024, 4096])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("weight", ["dense", "toeplitz"])
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("alike", [False, True], ids=["random tokens", "equal tokens"])
def test_a_block_starts_within_five_percent_of_its_gate_free_form(n, causal, weight, gate, alike):
    """What the block adds, against the same without the gate: the half that is passed on, or, for a linear gate, what
    its identity passes on; at every position, not only on average."""
    torch.manual_seed(n)
    block = GMLPBlock(16, 64, n, causal=causal, weight=weight, gate=gate, d_attention=16)
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


@pytest.mark.parametrize("n", [64, 4096])
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


@pytest.mark.parametrize(
    ("causal", "weight", "shape"),
    [
        (True, "dense", (9, 9)),
        (False, "dense", (9, 9)),
        (True, "toeplitz", (9,)),
        (False, "toeplitz", (17,)),
    ],
)
def test_the_matrix_has_as_many_numbers_as_the_docstring_says(causal, weight, shape):
    gate = SpatialGatingUnit(6, 9, causal=causal, weight=weight)
    assert gate.weight.shape == shape
    assert gate.bias.shape == (9,)
    assert gate.matrix(9).shape == (9, 9)


def test_the_models_of_the_study_have_about_the_same_number_of_parameters():
    def count(name, **options):
        return sum(p.numel() for p in build_model(name, vocab_size=80, max_seq_len=64, **options).body.parameters())

    baseline, spatial = count("transformer"), 8 * 64 * 64
    for options in ({}, {"gate": "whole", "d_ff": 384}, {"gate": "additive", "d_ff": 384}):
        assert abs(count("dense-gmlp", **options) - spatial - baseline) < 0.012 * baseline
    assert abs(count("gmlp") - baseline) < 0.012 * baseline


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


@pytest.mark.parametrize("d_attention", [None, 3])
def test_a_piece_that_is_too_long_leaves_the_cache_as_it_was(d_attention):
    block = randomize(GMLPBlock(6, 8, 9, causal=True, d_attention=d_attention), 0.3)
    x, cache = torch.randn(2, 9, 6), Cache(2)
    first = block(x[:, :5], cache)
    with pytest.raises(ValueError, match="the sequence length is 10; expected at most max_seq_len=9 tokens, those in"):
        block(x[:, :5], cache)
    rest = block(x[:, 5:], cache)
    torch.testing.assert_close(torch.cat([first, rest], 1), block(x), rtol=0, atol=1e-5)


def test_a_stack_of_blocks_is_an_encoder():
    encoder = Stack(GMLPBlock(6, 8, 9, causal=False) for _ in range(2))
    assert encoder(torch.randn(2, 9, 6)).shape == (2, 9, 6)


@pytest.mark.parametrize("T", [1, 4, 6])
def test_a_weight_larger_than_the_sequence_has_a_gradient_of_zero_beyond_it(T, tile):
    weight, x = torch.randn(6, 6, requires_grad=True), torch.randn(2, T, 8)
    triangular_product(weight, x).sum().backward()
    assert torch.equal(weight.grad[T:], torch.zeros(6 - T, 6))
    expected = (x @ torch.ones(8)).sum(0).expand(T, T).tril()  # d/dW_ts of the sum: x_s, summed
    torch.testing.assert_close(weight.grad[:T, :T], expected)


def test_a_weight_smaller_than_the_sequence_is_refused():
    with pytest.raises(ValueError, match=r"weight.shape is \(3, 3\); expected at least as many rows and columns"):
        triangular_product(torch.randn(3, 3), torch.randn(1, 4, 2))


def test_what_a_hidden_token_holds_does_not_pass_through_the_attention():
    block = randomize(GMLPBlock(6, 8, 9, causal=False, d_attention=3), 0.3)
    x, mask = torch.randn(1, 9, 6), torch.arange(9)[None] < 6
    x[:, 6:] = torch.nan
    assert block(x, mask=mask)[:, :6].isfinite().all()
    torch.testing.assert_close(block(x, mask=mask)[:, :6], block(x[:, :6]), rtol=0, atol=1e-5)


def test_a_hidden_token_reads_what_is_visible_with_its_own_query():
    attention = randomize(TinyAttention(6, 4, 3, causal=False)).double()
    x, mask = torch.randn(1, 4, 6, dtype=torch.float64), torch.tensor([[True, False, True, True]])
    q, k, v = attention.query(x[0, 1]), attention.key(x[0, mask[0]]), attention.value(x[0, mask[0]])
    expected = attention.output((k @ q / 3**0.5).softmax(0) @ v)
    torch.testing.assert_close(attention(x, mask=mask)[0, 1], expected, rtol=0, atol=1e-10)
