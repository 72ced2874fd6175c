"""The inspection tools on modules whose answers are known."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from efficient_transformers import (
    Cache,
    CausalDepthwiseConv,
    FeedForward,
    MultiHeadAttention,
    SpatialGatingUnit,
    Stack,
    build_model,
    leak_map,
    model_names,
    receptive_field,
    shape_trace,
)
from efficient_transformers.layers import fast
from efficient_transformers.layers.gmlp import GATES
from efficient_transformers.layers.hourglass import SHORTENINGS, UP_SAMPLINGS
from efficient_transformers.layers.inspection import peak_memory
from efficient_transformers.models.cost import cache_bytes, cost_model, effective_parameters, parameter_count


class Apply(nn.Module):
    """A function of ``[batch, seq, 4]`` as a module."""

    d_model = 4

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def stacked(*layers):
    stack = Stack(layers)
    stack.d_model = 4
    return stack


KNOWN = {
    "identity": (lambda x: x, torch.eye(5, dtype=torch.bool)),
    "cumulative sum": (lambda x: x.cumsum(1), torch.ones(5, 5, dtype=torch.bool).tril()),
    "reversed cumulative sum": (lambda x: x.flip(1).cumsum(1).flip(1), torch.ones(5, 5, dtype=torch.bool).triu()),
    "mean over the sequence": (lambda x: x + x.mean(1, keepdim=True), torch.ones(5, 5, dtype=torch.bool)),
    "shift to the right": (lambda x: nn.functional.pad(x, (0, 0, 1, -1)), torch.eye(5, dtype=torch.bool).roll(1, 0)),
    "nothing": (lambda x: 0 * x, torch.zeros(5, 5, dtype=torch.bool)),
    "one channel of four": (lambda x: x[..., :1], torch.eye(5, dtype=torch.bool)),
    "output by head": (lambda x: x.unflatten(2, (2, 2)).cumsum(1), torch.ones(5, 5, dtype=torch.bool).tril()),
}
KNOWN["shift to the right"][1][0] = False


@pytest.mark.parametrize("what", KNOWN)
def test_leak_map_of_a_known_module(what):
    function, expected = KNOWN[what]
    leak = leak_map(Apply(function), 5)
    assert leak.shape == (5, 5)
    assert leak.dtype == torch.float64
    assert torch.equal(leak > 0, expected)
    torch.testing.assert_close(leak_map(Apply(lambda x: 3 * function(x)), 5), 3 * leak)


def test_leak_map_sees_a_tiny_leak():
    leak = leak_map(Apply(lambda x: x + 1e-12 * x.flip(1)), 4)
    assert torch.equal(leak > 0, torch.eye(4, dtype=torch.bool) | torch.eye(4, dtype=torch.bool).flip(1))


def test_leak_map_leaves_module_and_random_numbers_alone():
    model = build_model("primer-ez", vocab_size=5, d_model=8, n_heads=2, n_layers=1, dropout=0.5).train()
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    leak_map(model, 5)
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    for name, p in model.named_parameters():
        assert p.grad is None
        assert p.dtype == torch.float32
        assert torch.equal(p, before[name])


def test_leak_map_ignores_dropout():
    model = build_model("transformer", vocab_size=5, d_model=8, n_heads=2, n_layers=1, dropout=0.9).train()
    assert (leak_map(model, 8).tril() > 0).sum() == 36


@pytest.mark.parametrize(("widths", "expected"), [((3, 3), 5), ((1, 3, 5), 7)])
def test_receptive_fields_of_stacked_convolutions_add_up(widths, expected):
    assert receptive_field(stacked(*[CausalDepthwiseConv(4, 2, kernel_size=w) for w in widths]), 9) == expected


def test_receptive_field_counts_from_the_earliest_token_seen():
    def first_and_last(x):
        return x + x[:, :1]

    assert receptive_field(Apply(first_and_last), 6) == 6
    assert receptive_field(Apply(lambda x: 0 * x), 6) == 0


# Shapes


def test_shape_trace_has_one_row_per_call_in_the_order_of_the_results():
    trace = shape_trace(FeedForward(4, 10, nn.ReLU()), torch.zeros(2, 3, 4))
    assert trace.rows == [
        ("up", "Linear", "[2, 3, 4]", "[2, 3, 10]", 40),
        ("activation", "ReLU", "[2, 3, 10]", "[2, 3, 10]", 0),
        ("down", "Linear", "[2, 3, 10]", "[2, 3, 4]", 40),
        ("(all)", "FeedForward", "[2, 3, 4]", "[2, 3, 4]", 0),
    ]


@pytest.mark.parametrize("name", model_names())
def test_shape_trace_of_a_model_accounts_for_every_parameter(name):
    model = build_model(name, vocab_size=5, d_model=8, n_heads=2, n_layers=2)
    trace = shape_trace(model, torch.zeros(2, 6, dtype=torch.int64))
    assert sum(row[-1] for row in trace.rows) == sum(p.numel() for p in model.parameters())
    assert trace.rows[0][2] == "[2, 6]"
    assert trace.rows[-1][3] == "[2, 6, 5]"


def test_peak_memory_counts_what_lives_at_once():
    def two_of_three():
        a = torch.ones(1000)
        b = a + 1
        del a
        return b * 2  # a is gone, so this is the second

    assert peak_memory(two_of_three) == 8000
    assert peak_memory(lambda: None) == 0


def test_peak_memory_leaves_out_what_was_there_and_views():
    x = torch.ones(1000)
    assert peak_memory(lambda: x.view(10, 100).mT) == 0
    assert peak_memory(lambda: x.add_(1)) == 0


def test_peak_memory_counts_what_comes_to_lie_where_something_was():
    before = [torch.ones(1000) for _ in range(50)]

    def others():
        for _ in range(len(before)):
            before.pop().add_(1)
        return [torch.ones(1000) for _ in range(50)]

    assert peak_memory(others) == 200_000


def test_peak_memory_holds_what_the_backward_pass_needs():
    x = torch.ones(1000, requires_grad=True)
    # the two results of exp are kept until their gradient is made
    assert 12000 <= peak_memory(lambda: x.exp().exp().sum().backward()) <= 12100
    with torch.no_grad():
        assert peak_memory(lambda: x.exp().exp().exp().sum()) == 8000


OTHERS = [
    ("transformer", {"n_layers": 3, "rotary": False}),
    *(("primer-ez", {"activation": a}) for a in ("squared-relu", "relu", "gelu", "swiglu")),
    *(("primer-ez", {"convolve": c, "kernel_size": 5, "dilation": 2}) for c in ("", "qv")),
    ("primer-ez", {"bias": True, "sharing": "all"}),
    ("primer", {}),
    *(("gmlp", {"gate": gate, "n_layers": 3}) for gate in GATES),
    ("gmlp", {"weight": "toeplitz", "positions": True}),
    ("amlp", {}),
    ("hourglass", {"layer": "primer-ez"}),
]
BODIES = [("transformer", {"n_layers": 3}), ("hourglass", {"hierarchy": "0@1 1@3 0@1"})] + [
    ("hourglass", {"hierarchy": "1@1 1@2 2@8 1@2 1@1", "shortening": down, "up_sampling": up})
    for down in SHORTENINGS
    for up in UP_SAMPLINGS
]


@pytest.mark.slow
@pytest.mark.parametrize("seq_len", [15, 128])
@pytest.mark.parametrize(("name", "options"), BODIES + OTHERS, ids=str)
def test_the_cost_model_agrees_with_what_torch_counts_and_keeps(name, options, seq_len, monkeypatch):
    model, batch = build_model(name, vocab_size=5, d_model=64, **options), 8
    cost = cost_model(model.body, seq_len)
    weights = {p.untyped_storage()._cdata for p in model.parameters()}

    def kept_of(rows):
        """Bytes that autograd keeps beside the weights for a batch of so many rows."""
        kept = {}

        def keep(tensor):
            kept[tensor.untyped_storage()._cdata] = (tensor, tensor.untyped_storage().nbytes())
            return tensor

        x = torch.randn(rows, seq_len, 64, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            assert model.body(x).shape == x.shape
        return sum(size for address, (_, size) in kept.items() if address not in weights)

    with monkeypatch.context() as plain, FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        plain.setattr(fast, "is_plain", lambda _: False)  # one product with a masked matrix, which torch can count
        model.body(torch.randn(batch, seq_len, 64))
    assert cost.multiply_adds == pytest.approx(counter.get_total_flops() / 2 / batch / seq_len, rel=0.01)
    measured = (kept_of(batch) - kept_of(2)) / (batch - 2) / seq_len  # copies of weights are those of both
    assert cost.activation_bytes == pytest.approx(measured, rel=0.05)  # statistics of norms and softmax are left out


@pytest.mark.parametrize(("name", "options"), BODIES, ids=str)
def test_the_cost_model_counts_each_parameter_once_per_use(name, options):
    model = build_model(name, vocab_size=5, d_model=8, n_heads=2, **options)
    all_of_them = sum(p.numel() for p in model.body.parameters())
    assert cost_model(model.body, 1).parameters == all_of_them  # one token, one window
    long = cost_model(model.body, 960).parameters
    assert long == all_of_them if name == "transformer" else long < all_of_them


@pytest.mark.parametrize("pieces", [[2, 1, 1], [61]], ids=str)
@pytest.mark.parametrize(("name", "options"), BODIES + OTHERS + [("dense-gmlp", {})], ids=str)
def test_a_cache_keeps_as_many_bytes_as_the_cost_model_says(name, options, pieces):
    model, cache = build_model(name, vocab_size=5, d_model=8, n_heads=2, **options), Cache(1)
    for n in pieces:
        model(torch.randint(5, (1, n)), cache)
    windows = [x.nbytes for x in cache._window.values()]
    filled = [x[:, :, : cache.length(layer)].nbytes for layer, of in cache._buffers.items() for x in of]
    assert cache_bytes(model.body, sum(pieces)) == sum(windows) + sum(filled)


def test_a_causal_matrix_counts_as_its_lower_triangle_and_is_read_row_by_row():
    options = {"vocab_size": 5, "d_model": 8, "n_heads": 2, "n_layers": 3, "max_seq_len": 10}
    dense, toeplitz = build_model("dense-gmlp", **options), build_model("gmlp", **options)
    assert effective_parameters(dense) == parameter_count(dense) - 3 * 45
    assert effective_parameters(toeplitz) == parameter_count(toeplitz)
    two_sided = SpatialGatingUnit(4, 10, causal=False)
    assert effective_parameters(two_sided) == parameter_count(two_sided)
    for model in (dense, toeplitz):
        spatial = sum(p.numel() for block in model.body for p in (block.gate.weight, block.gate.bias))
        used = [cost_model(model.body, T).parameters - parameter_count(model.body) + spatial for T in (1, 2, 10)]
        assert used == [3 * 2, 3 * 2.5, 3 * 6.5]  # mean length of the rows, and a bias


def test_leak_map_answers_where_gradients_are_off():
    module = MultiHeadAttention(8, 2)
    expected = leak_map(module, 5)
    with torch.inference_mode():
        assert torch.equal(leak_map(module, 5), expected)
