"""Primer EZ: the causal depthwise convolution, its kernel sharings, the squared ReLU, and where they sit."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from efficient_transformers import (
    CausalDepthwiseConv,
    FeedForward,
    MultiDConvHeadAttention,
    MultiHeadAttention,
    SquaredReLU,
    build_model,
    leak_map,
    receptive_field,
)

SHARINGS = ["heads", "none", "all"]


def randomize(module):
    with torch.no_grad():
        for p in module.parameters():
            p.normal_()
    return module


def kernels(conv):
    """One kernel for each channel, ``[d_model, kernel_size]``; column ``j`` weighs the token ``j`` steps back."""
    D, H, K = conv.d_model, conv.n_heads, conv.kernel_size
    return conv.weight.detach().expand(H, D // H, K).reshape(D, K)


# The convolution


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("kernel_size", range(1, 8))
def test_convolution_is_a_padded_conv1d_with_groups(kernel_size, sharing):
    conv = randomize(CausalDepthwiseConv(12, 3, kernel_size, sharing)).double()
    x = torch.randn(2, 9, 12, dtype=torch.float64)
    padded = F.pad(x.transpose(1, 2), (kernel_size - 1, 0))
    expected = F.conv1d(padded, kernels(conv).flip(1).unsqueeze(1), groups=12).transpose(1, 2)
    torch.testing.assert_close(conv(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("kernel_size", range(1, 8))
@pytest.mark.parametrize("seq_len", [1, 4, 10])  # also shorter than the kernel
def test_convolution_is_a_sum_of_shifted_copies(seq_len, kernel_size, sharing):
    conv = randomize(CausalDepthwiseConv(8, 2, kernel_size, sharing)).double()
    x = torch.randn(2, seq_len, 8, dtype=torch.float64)
    w = kernels(conv)
    expected = torch.zeros_like(x)
    for t in range(seq_len):
        for j in range(min(kernel_size, t + 1)):
            expected[:, t] += w[:, j] * x[:, t - j]
    torch.testing.assert_close(conv(x), expected, rtol=0, atol=1e-12)


def test_channels_are_laid_out_head_after_head():
    conv = CausalDepthwiseConv(4, 2, 1, "none")
    with torch.no_grad():
        conv.weight.copy_(torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]]))
    assert conv(torch.ones(1, 1, 4)).flatten().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("kernel_size", range(1, 8))
def test_initial_kernel_is_the_official_one(kernel_size, sharing):
    w = kernels(CausalDepthwiseConv(12, 3, kernel_size, sharing))
    expected = torch.tensor([0.5] + [0.5 / kernel_size] * (kernel_size - 1)).expand(12, -1)
    assert torch.equal(w, expected)


@pytest.mark.parametrize(("sharing", "shape"), [("heads", (1, 4, 5)), ("none", (3, 4, 5)), ("all", (1, 1, 5))])
def test_sharing_is_the_shape_of_the_only_parameter(sharing, shape):
    conv = CausalDepthwiseConv(12, 3, 5, sharing)
    assert {name: tuple(p.shape) for name, p in conv.named_parameters()} == {"weight": shape}


def test_three_heads_shared_kernels_by_default():
    assert CausalDepthwiseConv(12, 3).weight.shape == (1, 4, 3)
    assert MultiDConvHeadAttention(12, 3).conv_q.weight.shape == (1, 4, 3)


@pytest.mark.parametrize(("sharing", "count"), [("all", 9), ("heads", 576), ("none", 4608)])
def test_extra_parameters_of_eight_heads_of_64_channels(sharing, count):
    with_conv, without = MultiDConvHeadAttention(512, 8, 3, sharing), MultiHeadAttention(512, 8)
    extra = sum(p.numel() for p in with_conv.parameters()) - sum(p.numel() for p in without.parameters())
    assert extra == count


@pytest.mark.parametrize("sharing", SHARINGS)
def test_convolution_has_no_bias(sharing):
    conv = randomize(CausalDepthwiseConv(8, 2, 3, sharing))
    assert not conv(torch.zeros(2, 5, 8)).any()


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("kernel_size", [1, 2, 4])
def test_convolution_gradients_are_exact(kernel_size, sharing):
    conv = CausalDepthwiseConv(4, 2, kernel_size, sharing).double()
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn_like(conv.weight).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: torch.func.functional_call(conv, {"weight": w}, (x,)), (x, weight))


@pytest.mark.parametrize("sharing", ["heads", "all"])
def test_a_shared_kernel_is_the_unshared_one_with_equal_weights(sharing):
    shared, own = randomize(CausalDepthwiseConv(12, 3, 3, sharing)), CausalDepthwiseConv(12, 3, 3, "none")
    with torch.no_grad():
        own.weight.copy_(shared.weight.expand_as(own.weight))
    x = torch.randn(2, 7, 12)
    assert torch.equal(shared(x), own(x))
    # and the gradient of a shared weight is the sum over those that share it
    shared(x).square().sum().backward()
    own(x).square().sum().backward()
    axes = (0,) if sharing == "heads" else (0, 1)
    torch.testing.assert_close(shared.weight.grad, own.weight.grad.sum(axes, keepdim=True))


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
    attention = randomize(MultiDConvHeadAttention(8, 2)).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    names = [("conv_q", "query"), ("conv_k", "key"), ("conv_v", "value")]
    for (conv, linear), projected in zip(names, attention.project(x), strict=True):
        conv, linear = getattr(attention, conv), getattr(attention, linear)
        torch.testing.assert_close(projected, conv(linear(x)), rtol=0, atol=1e-12)
        assert (projected - linear(conv(x))).abs().max() > 0.01


def test_convolutions_come_before_the_rotation():
    attention = randomize(MultiDConvHeadAttention(8, 2)).double()
    plain = MultiHeadAttention(8, 2).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    queries, keys, values = attention.project(x)
    # a plain attention whose projections are the identity rotates what it is given
    with torch.no_grad():
        plain.query.weight.copy_(torch.eye(8))
    expected = [plain.heads(queries)[0], plain.heads(keys)[0], values.view(2, 5, 2, 4).transpose(1, 2)]
    torch.testing.assert_close(attention.heads(x), expected, rtol=0, atol=1e-12)


def test_attention_map_times_convolved_values_is_the_forward_pass():
    attention = randomize(MultiDConvHeadAttention(12, 3)).double()
    x = torch.randn(2, 9, 12, dtype=torch.float64)
    mixed = attention.attention_map(x) @ attention.heads(x)[2]
    expected = attention.output(mixed.transpose(1, 2).flatten(2))
    torch.testing.assert_close(attention(x), expected, rtol=0, atol=1e-10)


def test_with_kernels_of_one_and_weight_one_it_is_plain_attention():
    primer, plain = MultiDConvHeadAttention(8, 2, kernel_size=1), MultiHeadAttention(8, 2)
    with torch.no_grad():
        for conv in (primer.conv_q, primer.conv_k, primer.conv_v):
            conv.weight.fill_(1)
    plain.load_state_dict({k: v for k, v in primer.state_dict().items() if "conv" not in k})
    x = torch.randn(2, 6, 8)
    torch.testing.assert_close(primer(x), plain(x), rtol=0, atol=1e-6)


class Projected(nn.Module):
    """Only the queries, keys or values of an attention."""

    def __init__(self, attention, which):
        super().__init__()
        self.attention, self.which, self.d_model = attention, which, attention.d_model

    def forward(self, x):
        return self.attention.project(x)[self.which]


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_each_projection_sees_exactly_kernel_size_tokens(kernel_size, which):
    seen = leak_map(Projected(MultiDConvHeadAttention(8, 2, kernel_size), which), seq_len=8) > 0
    distance = torch.arange(8)[:, None] - torch.arange(8)
    assert torch.equal(seen, (distance >= 0) & (distance < kernel_size))
    assert not (leak_map(Projected(MultiHeadAttention(8, 2), which), seq_len=8) > 0).fill_diagonal_(False).any()


def test_one_layer_of_attention_sees_all_earlier_tokens_and_the_feed_forward_only_its_own():
    assert receptive_field(MultiDConvHeadAttention(8, 2), seq_len=9) == 9
    feed_forward = FeedForward(8, 16, SquaredReLU())
    feed_forward.d_model = 8
    assert receptive_field(feed_forward, seq_len=9) == 1


def test_primer_ez_differs_from_the_baseline_in_activation_and_convolutions_only():
    sizes = {"vocab_size": 5, "d_model": 8, "n_heads": 2, "n_layers": 2}
    primer, baseline = build_model("primer-ez", **sizes), build_model("transformer", **sizes)
    extra = set(primer.state_dict()) - set(baseline.state_dict())
    assert set(baseline.state_dict()) < set(primer.state_dict())
    assert extra == {f"body.{i}.attention.conv_{z}.weight" for i in range(2) for z in "qkv"}
    classes = {type(m) for m in primer.modules()} ^ {type(m) for m in baseline.modules()}
    assert classes == {SquaredReLU, nn.ReLU, CausalDepthwiseConv, MultiDConvHeadAttention, MultiHeadAttention}


def test_options_reach_every_layer():
    model = build_model("primer-ez", vocab_size=5, d_model=8, n_heads=2, n_layers=2, kernel_size=5, sharing="none")
    shapes = [tuple(m.weight.shape) for m in model.modules() if isinstance(m, CausalDepthwiseConv)]
    assert shapes == [(2, 4, 5)] * 6
