"""Primer EZ: the causal depthwise convolution, its kernel sharings, the squared ReLU, and where they sit."""

import pytest
import torch
from helpers import assert_equal_up_to, randomize
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from efficient_transformers import (
    CausalDepthwiseConv,
    FeedForward,
    GatedFeedForward,
    MultiDConvHeadAttention,
    MultiHeadAttention,
    PrimerLayer,
    PrimerNorm,
    SharedQueryKeyAttention,
    SquaredReLU,
    Stack,
    build_model,
    expand_sharing,
)
from efficient_transformers.layers.primer import SUBSETS

SHARINGS = ["heads", "none", "all"]


def kernels(conv):
    """One kernel for each channel, ``[d_model, kernel_size]``; column ``j`` weighs the token ``j`` steps back."""
    D, H, K = conv.d_model, conv.n_heads, conv.kernel_size
    return conv.weight.detach().expand(H, D // H, K).reshape(D, K)


# The convolution


def convolutions():
    """Any convolution of 12 channels, with random weights."""
    return st.builds(
        lambda **options: randomize(CausalDepthwiseConv(12, 3, **options), 1.0),
        kernel_size=st.integers(1, 9),
        sharing=st.sampled_from(SHARINGS),
        dilation=st.integers(1, 3),
        bias=st.booleans(),
    )


@given(conv=convolutions(), seq_len=st.integers(1, 40))  # also shorter than the kernel
def test_convolution_is_a_sum_of_shifted_copies(conv, seq_len):
    x, w = torch.randn(2, seq_len, 12, dtype=torch.float64), kernels(conv.double())
    expected = torch.zeros_like(x) + (0 if conv.bias is None else conv.bias.expand(3, 4, 1).reshape(12))
    for j in range(conv.kernel_size):
        for t in range(j * conv.dilation, seq_len):
            expected[:, t] += w[:, j] * x[:, t - j * conv.dilation]
    torch.testing.assert_close(conv(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("kernel_size", [1, 3, 4])
def test_initial_kernel_is_the_official_one(kernel_size, sharing):
    w = kernels(CausalDepthwiseConv(12, 3, kernel_size=kernel_size, sharing=sharing))
    expected = torch.tensor([0.5] + [0.5 / kernel_size] * (kernel_size - 1)).expand(12, -1)
    assert torch.equal(w, expected)


@pytest.mark.parametrize(("sharing", "shape"), [("heads", (1, 4, 5)), ("none", (3, 4, 5)), ("all", (1, 1, 5))])
def test_sharing_is_the_shape_of_the_only_parameter(sharing, shape):
    conv = CausalDepthwiseConv(12, 3, kernel_size=5, sharing=sharing)
    assert {name: tuple(p.shape) for name, p in conv.named_parameters()} == {"weight": shape}


@pytest.mark.parametrize(("sharing", "count"), [("all", 12), ("heads", 768), ("none", 6144)])
def test_extra_parameters_with_biases_are_those_of_the_annotated_original(sharing, count):
    convs = [CausalDepthwiseConv(512, 8, sharing=sharing, bias=True) for _ in range(3)]
    assert sum(p.numel() for conv in convs for p in conv.parameters()) == count


def test_convolution_has_no_bias_by_default():
    assert not randomize(CausalDepthwiseConv(8, 2), 1.0)(torch.zeros(2, 5, 8)).any()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("sharing", SHARINGS)
def test_a_random_start_is_that_of_pytorchs_depthwise_convolution(sharing, bias):
    torch.manual_seed(0)
    ours = CausalDepthwiseConv(3000, 2, sharing=sharing, bias=bias, init="random")
    theirs = nn.Conv1d(3000, 3000, 3, groups=3000)
    bound = 3**-0.5
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=False):
        assert p.abs().max() <= bound
        assert q.abs().max() <= bound
        if sharing != "all":  # enough numbers to compare
            torch.testing.assert_close(p.std(), q.std(), rtol=0.05, atol=0)


@pytest.mark.parametrize("sharing", ["heads", "all"])
def test_a_shared_kernel_is_the_unshared_one_with_equal_weights(sharing):
    shared, own = (
        randomize(CausalDepthwiseConv(12, 3, sharing=sharing), 1.0),
        CausalDepthwiseConv(12, 3, sharing="none"),
    )
    with torch.no_grad():
        own.weight.copy_(shared.weight.expand_as(own.weight))
    x = torch.randn(2, 7, 12)
    assert torch.equal(shared(x), own(x))
    # and the gradient of a shared weight is the sum over those that share it
    shared(x).square().sum().backward()
    own(x).square().sum().backward()
    axes = (0,) if sharing == "heads" else (0, 1)
    torch.testing.assert_close(shared.weight.grad, own.weight.grad.sum(axes, keepdim=True))


# From shared kernels to kernels of one's own


@pytest.mark.parametrize(("has", "wanted"), [("all", "heads"), ("all", "none"), ("heads", "none")])
def test_expanded_kernels_compute_the_same_bit_for_bit(has, wanted):
    options = {"vocab_size": 9, "d_model": 12, "n_heads": 3, "n_layers": 2, "bias": True, "sharing": has}
    model = randomize(build_model("primer-ez", **options), 1.0)
    before = [p.clone() for p in model.parameters()]
    expanded = expand_sharing(model, wanted)
    tokens = torch.randint(9, (2, 10))
    assert torch.equal(expanded(tokens), model(tokens))
    assert expanded.config == {**model.config, "sharing": wanted}
    assert model.config["sharing"] == has
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
    fresh = build_model(**expanded.config)
    assert {n: p.shape for n, p in expanded.named_parameters()} == {n: p.shape for n, p in fresh.named_parameters()}


def test_expanded_kernels_are_free_to_part():
    expanded = expand_sharing(CausalDepthwiseConv(4, 2, sharing="all"))
    expanded(torch.randn(1, 5, 4)).square().sum().backward()
    with torch.no_grad():
        expanded.weight -= 0.1 * expanded.weight.grad
    assert len({tuple(kernel.tolist()) for kernel in expanded.weight.flatten(0, 1)}) == 4


def test_an_expanded_model_that_nothing_could_build_again_is_not_saved(tmp_path):
    model = build_model("hourglass", vocab_size=9, d_model=8, n_heads=2, layer="primer-ez")
    with pytest.raises(ValueError, match="a model made by build_model"):
        expand_sharing(model).save_pretrained(tmp_path / "model")


# The activation


def test_squared_relu_values():
    assert SquaredReLU()(torch.tensor([-2.0, 0.0, 0.5, 3.0])).tolist() == [0, 0, 0.25, 9]


def test_squared_relu_derivative():
    x = torch.tensor([-2.0, 0.0, 0.5, 3.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(SquaredReLU()(x).sum(), x)
    assert slope.tolist() == [0, 0, 1, 6]
    assert torch.autograd.gradcheck(SquaredReLU(), x)


# Where they sit


def test_convolutions_come_after_the_projections():
    attention = randomize(MultiDConvHeadAttention(8, 2), 1.0).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    names = [("conv_q", "query"), ("conv_k", "key"), ("conv_v", "value")]
    for (conv, linear), projected in zip(names, attention.project(x), strict=True):
        conv, linear = getattr(attention, conv), getattr(attention, linear)
        torch.testing.assert_close(projected, conv(linear(x)), rtol=0, atol=1e-12)
        assert (projected - linear(conv(x))).abs().max() > 0.01


def test_convolutions_come_before_the_rotation():
    attention = randomize(MultiDConvHeadAttention(8, 2), 1.0).double()
    plain = MultiHeadAttention(8, 2).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    queries, keys, values = attention.project(x)
    # a plain attention whose projections are the identity rotates what it is given
    with torch.no_grad():
        plain.query.weight.copy_(torch.eye(8))
    expected = [plain.heads(queries)[0], plain.heads(keys)[0], values.view(2, 5, 2, 4).transpose(1, 2)]
    torch.testing.assert_close(attention.heads(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("convolve", SUBSETS)
def test_only_what_is_asked_for_is_convolved(convolve):
    attention = randomize(MultiDConvHeadAttention(8, 2, convolve), 1.0)
    x = torch.randn(2, 5, 8)
    plain = MultiHeadAttention.project(attention, x)
    for name, z, unconvolved in zip("qkv", attention.project(x), plain, strict=True):
        assert torch.equal(z, unconvolved) == (name not in convolve)
    assert {name for name, _ in attention.named_parameters() if "conv" in name} == {
        f"conv_{name}.weight" for name in convolve
    }


def test_primer_ez_differs_from_the_baseline_in_activation_and_convolutions_only():
    sizes = {"vocab_size": 5, "d_model": 8, "n_heads": 2, "n_layers": 2}
    primer, baseline = build_model("primer-ez", **sizes), build_model("transformer", **sizes)
    extra = set(primer.state_dict()) - set(baseline.state_dict())
    assert set(baseline.state_dict()) < set(primer.state_dict())
    assert extra == {f"body.{i}.attention.conv_{z}.weight" for i in range(2) for z in "qkv"}
    classes = {type(m) for m in primer.modules()} ^ {type(m) for m in baseline.modules()}
    assert classes == {SquaredReLU, nn.ReLU, CausalDepthwiseConv, MultiDConvHeadAttention, MultiHeadAttention}


def test_names_of_variations_are_primer_ez_with_a_sharing():
    sizes = {"vocab_size": 5, "d_model": 8, "n_heads": 2, "n_layers": 1}
    for name, sharing in (("primer-ez-shared", "all"), ("primer-ez-per-head", "none")):
        assert build_model(name, **sizes).config == build_model("primer-ez", sharing=sharing, **sizes).config
        assert build_model(name, kernel_size=5, **sizes).config["kernel_size"] == 5


def test_swiglu_has_as_many_parameters_as_the_others():
    counts = {
        activation: sum(
            p.numel() for p in build_model("primer-ez", vocab_size=5, d_ff=48, activation=activation).parameters()
        )
        for activation in ("relu", "gelu", "squared-relu", "swiglu")
    }
    assert len(set(counts.values())) == 1


def test_gated_feed_forward_is_its_equation():
    layer = randomize(GatedFeedForward(6, 10, nn.SiLU()), 1.0).double()
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    gate, up = x @ layer.gate.weight.T, x @ layer.up.weight.T
    expected = (gate * torch.sigmoid(gate) * up) @ layer.down.weight.T
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)


# The full Primer


def test_queries_are_made_from_keys():
    attention = randomize(SharedQueryKeyAttention(8, 2), 1.0).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    q, k, v = attention.project(x)
    torch.testing.assert_close(k, attention.conv_k(x @ attention.key.weight.T), rtol=0, atol=1e-12)
    torch.testing.assert_close(q, k @ attention.query.weight.T, rtol=0, atol=1e-12)
    torch.testing.assert_close(v, attention.conv_v(x @ attention.value.weight.T), rtol=0, atol=1e-12)


@given(shape=st.tuples(st.integers(1, 3), st.integers(1, 5)), scale=st.floats(0.1, 10), shift=st.floats(-10, 10))
def test_primers_norm_is_layer_norm(shape, scale, shift):
    ours = randomize(PrimerNorm(8), 1.0).double()
    theirs = nn.LayerNorm(8, eps=1e-6).double()
    theirs.load_state_dict(ours.state_dict())
    x = scale * torch.randn(*shape, 8, dtype=torch.float64) + shift
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-8)


def test_primers_layer_normalizes_what_attention_reads_and_what_the_network_returns():
    layer = randomize(build_model("primer", vocab_size=5, d_model=8, n_heads=2, n_layers=1).body[0], 1.0).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    h = x + layer.attention(layer.norm1(x))
    network = layer.feed_forward.up(h).relu().square() @ layer.feed_forward.down.weight.T
    torch.testing.assert_close(layer(x), h + layer.norm2(network), rtol=0, atol=1e-12)


def test_full_primer_has_kernels_per_head_and_its_norms():
    model = build_model("primer", vocab_size=5, d_model=8, n_heads=2, n_layers=2)
    layers = {Stack, PrimerLayer, PrimerNorm, SharedQueryKeyAttention, CausalDepthwiseConv, FeedForward, SquaredReLU}
    assert {type(m) for m in model.body.modules()} == layers | {nn.Linear, nn.Dropout}
    assert {m.weight.shape for m in model.modules() if isinstance(m, CausalDepthwiseConv)} == {(2, 4, 3)}


def test_options_reach_every_layer():
    model = build_model("primer-ez", vocab_size=5, d_model=8, n_heads=2, n_layers=2, kernel_size=5, sharing="none")
    shapes = [tuple(m.weight.shape) for m in model.modules() if isinstance(m, CausalDepthwiseConv)]
    assert shapes == [(2, 4, 5)] * 6


@pytest.mark.parametrize("mean", [0.0, 1000.1])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_primer_norm_is_exact_far_from_zero(mean, spread):
    x = mean + spread * torch.randn(64, 128)
    y, exact = PrimerNorm(128)(x), PrimerNorm(128).double()(x.double())
    last_digit = mean * 2**-23  # of the mean in float32, which the division magnifies
    assert_equal_up_to(1e-4 + last_digit / (spread**2 + 1e-6) ** 0.5, y.double(), exact)
