"""The baseline against independent references: complex numbers, einsum, and PyTorch's own attention."""

import math

import pytest
import torch
import torch.nn.functional as F
from helpers import assert_equal_up_to, in_pieces, randomize
from torch import nn

from efficient_transformers import (
    Cache,
    FeedForward,
    LearnedPositions,
    MultiHeadAttention,
    TransformerLayer,
    build_model,
    causal_mask,
    rotate,
)
from efficient_transformers.layers.decoding import StaticCache


def rotate_as_complex_numbers(x, start=0):
    """The definition, channel by channel, without a line in common with the package."""
    T, K = x.shape[-2:]
    y = torch.empty_like(x)
    for i in range(K // 2):
        for t in range(T):
            angle = (start + t) * 10000.0 ** (-2 * i / K)
            z = torch.complex(x[..., t, 2 * i], x[..., t, 2 * i + 1]) * complex(math.cos(angle), math.sin(angle))
            y[..., t, 2 * i], y[..., t, 2 * i + 1] = z.real, z.imag
    return y


# Rotary positions


@pytest.mark.parametrize("start", [0, 1, 700])
@pytest.mark.parametrize("d_head", [6, 16])  # of 16 channels, the fast form is taken
def test_rotate_multiplies_by_complex_numbers(d_head, start):
    x = torch.randn(2, 3, 9, d_head, dtype=torch.float64)
    torch.testing.assert_close(rotate(x, start), rotate_as_complex_numbers(x, start), rtol=0, atol=1e-12)


def test_rotated_products_depend_on_the_distance_only():
    q, k = torch.randn(2, 1, 10, dtype=torch.float64)

    def product(t, s):
        return float((rotate(q, t) * rotate(k, s)).sum())

    for distance in (0, 1, 5):
        products = [product(s + distance, s) for s in (0, 1, 17, 300)]
        assert max(products) - min(products) < 1e-12
    assert abs(product(5, 0) - product(0, 0)) > 1e-3
    assert abs(product(5, 0) - product(0, 5)) > 1e-3


def test_rotate_in_half_precision_uses_precise_angles():
    x = torch.randn(1, 4, 8, dtype=torch.float64)
    y = rotate(x.bfloat16(), 200)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), rotate_as_complex_numbers(x, 200), rtol=0, atol=0.05)


# Attention


def test_causal_mask_lets_the_last_positions_see_all_before_them():
    assert causal_mask(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]


@pytest.mark.parametrize("n_heads", [1, 2, 5])
def test_attention_without_rotation_is_torch_multihead_attention(n_heads):
    D, T = 20, 7
    ours = MultiHeadAttention(D, n_heads, rotary=False).double()
    theirs = nn.MultiheadAttention(D, n_heads, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.out_proj.weight.copy_(ours.output.weight)
    x = torch.randn(3, T, D, dtype=torch.float64)
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    expected, expected_map = theirs(x, x, x, attn_mask=hidden, average_attn_weights=False)
    torch.testing.assert_close(ours(x), expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(ours.attention_map(x), expected_map, rtol=0, atol=1e-10)


@pytest.mark.parametrize("rotary", [True, False])
@pytest.mark.parametrize("seq_len", [1, 2, 11])
def test_attention_equals_einsum(seq_len, rotary):
    B, D, H = 2, 12, 3
    attention = MultiHeadAttention(D, H, rotary=rotary).double()
    x = torch.randn(B, seq_len, D, dtype=torch.float64)

    def by_head(linear):
        return torch.einsum("btd,hkd->bhtk", x, linear.weight.view(H, D // H, D))

    q, k, v = by_head(attention.query), by_head(attention.key), by_head(attention.value)
    if rotary:
        q, k = rotate_as_complex_numbers(q), rotate_as_complex_numbers(k)
    weights = torch.exp(torch.einsum("bhtk,bhsk->bhts", q, k) / math.sqrt(D // H)).tril()
    weights = weights / weights.sum(-1, keepdim=True)
    mixed = torch.einsum("bhts,bhsk->bthk", weights, v).reshape(B, seq_len, D)
    expected = torch.einsum("btd,ed->bte", mixed, attention.output.weight)
    torch.testing.assert_close(attention(x), expected, rtol=0, atol=1e-10)


# Layers


def test_feed_forward_is_two_matrices_around_the_activation():
    feed_forward = FeedForward(4, 10, nn.Tanh())
    assert sorted(tuple(p.shape) for p in feed_forward.parameters()) == [(4, 10), (10, 4)]
    x = torch.randn(2, 3, 4)
    expected = torch.tanh(x @ feed_forward.up.weight.T) @ feed_forward.down.weight.T
    torch.testing.assert_close(feed_forward(x), expected)


def layer_norm(x, norm):
    centered = x - x.mean(-1, keepdim=True)
    return centered / (centered.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def test_layer_is_the_pre_norm_equation():
    attention, feed_forward = MultiHeadAttention(8, 2), FeedForward(8, 16, nn.ReLU())
    layer = randomize(TransformerLayer(attention, feed_forward, 8), 0.3).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    h = x + attention(layer_norm(x, layer.norm1))
    expected = h + feed_forward(layer_norm(h, layer.norm2))
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-10)


def test_dropout_acts_on_what_the_blocks_add_and_in_training_only():
    layer = TransformerLayer(MultiHeadAttention(8, 2), FeedForward(8, 16, nn.ReLU()), 8, dropout=0.5)
    x = torch.randn(2, 5, 8)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    layer.train().dropout.p = 1.0
    assert torch.equal(layer(x), x)


# Dropout of attention's weights


def test_a_weight_is_dropped_or_grows_by_what_the_dropped_ones_leave():
    attention, p, B, T = MultiHeadAttention(4, 1, dropout=0.25), 0.25, 500, 6
    attention.output = nn.Identity()
    q, k = torch.randn(2, 1, 1, T, 4)
    weights = attention.weights(q, k)
    found = attention.attend(q.expand(B, -1, -1, -1), k.expand(B, -1, -1, -1), torch.eye(T).expand(B, 1, T, T))
    kept = found != 0
    torch.testing.assert_close(found, kept * weights[0] / (1 - p))
    assert kept[:, torch.ones(T, T).tril() > 0].double().mean().item() == pytest.approx(1 - p, abs=0.02)


def test_dropout_of_weights_is_active_in_training_alone_and_pieces_do_not_see_it():
    plain, attention = MultiHeadAttention(8, 2).double(), MultiHeadAttention(8, 2, dropout=0.5).double()
    attention.load_state_dict(plain.state_dict())
    x = torch.randn(2, 7, 8, dtype=torch.float64)
    assert not torch.equal(attention(x), attention(x))
    attention.eval()
    assert torch.equal(attention(x), plain(x))
    assert_equal_up_to(1e-12, in_pieces(attention, x, [1, 4, 2]), plain(x))


@pytest.mark.parametrize(("dropout", "error"), [(1, ValueError), ("0.1", TypeError)])
def test_dropout_of_weights_is_a_probability(dropout, error):
    with pytest.raises(error, match=f"^dropout is {dropout!r}; expected"):
        MultiHeadAttention(8, 2, dropout=dropout)


# The language model


def test_logits_are_those_of_norm_body_and_the_tied_embedding():
    model = randomize(build_model("transformer", vocab_size=7, d_model=8, n_layers=2, n_heads=2), 0.3).double()
    tokens = torch.randint(7, (3, 5))
    E = model.embedding.weight
    h = F.one_hot(tokens, 7).double() @ E
    for layer in model.body:
        h = layer(h)
    logits = model(tokens)
    assert logits.shape == (3, 5, 7)
    torch.testing.assert_close(logits, layer_norm(h, model.norm) @ E.T, rtol=0, atol=1e-10)


def test_input_and_output_share_one_embedding_matrix():
    V, D, L, ff = 7, 8, 2, 20
    model = build_model("transformer", vocab_size=V, d_model=D, n_layers=L, n_heads=2, d_ff=ff)
    assert [name for name, p in model.named_parameters() if V in p.shape] == ["embedding.weight"]
    layers = L * (4 * D * D + 2 * D * ff + 4 * D)
    assert sum(p.numel() for p in model.parameters()) == V * D + layers + 2 * D
    tokens = torch.tensor([[1, 2]])
    before = model(tokens)
    with torch.no_grad():
        model.embedding.weight[5] += 1  # a token that is not in the input
    changed = (model(tokens) != before)[0].any(0).nonzero().flatten().tolist()
    assert changed == [5]


@pytest.mark.parametrize("name", ["transformer", "primer-ez"])
def test_the_layers_of_a_new_model_are_the_identity(name):
    model = build_model(name, vocab_size=5, d_model=8, n_heads=2, n_layers=3)
    x = torch.randn(2, 6, 8)
    assert torch.equal(model.body(x), x)
    assert all(p.requires_grad for p in model.parameters())


# Learned positions


@pytest.mark.parametrize("cache", [Cache(2), StaticCache(2, 9)], ids=["growing", "static"])
def test_learned_positions_end(cache):
    positions = LearnedPositions(4, 6)
    positions(torch.zeros(2, 4, 4), cache)
    with pytest.raises(ValueError, match="the sequence length is 7; expected at most max_seq_len=6"):
        positions(torch.zeros(2, 3, 4), cache)
    assert torch.equal(positions(torch.zeros(2, 1, 4), cache), positions.weight[4].expand(2, 1, -1))  # not counted
    with pytest.raises(ValueError, match="the sequence length is 7; expected at most max_seq_len=6"):
        positions(torch.zeros(2, 7, 4))
