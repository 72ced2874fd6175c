"""Hourglass: exact at every length, with a cache in any pieces, and equal to the paper's pseudo-code."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from helpers import assert_equal_up_to, in_pieces, randomize
from torch import nn

from efficient_transformers import (
    AttentionBasedShortening,
    AttentionBasedUpSampling,
    AvgPoolShortening,
    Cache,
    FeedForward,
    LinearPoolingShortening,
    LinearUpSampling,
    MultiHeadAttention,
    NaiveUpSampling,
    ShiftRight,
    TransformerLayer,
    build_hourglass,
    build_model,
    leak_map,
    parse_hierarchy,
)
from efficient_transformers.layers.hourglass import SHORTENINGS, UP_SAMPLINGS
from efficient_transformers.layers.resampling import CrossAttention

FACTORS = [3, 2]  # two levels, one of them not a power of two
on_grid = pytest.mark.parametrize(("down", "up"), [*itertools.product(SHORTENINGS, UP_SAMPLINGS)])


def layer(causal=True):
    return TransformerLayer(MultiHeadAttention(8, 2, causal=causal), FeedForward(8, 16, nn.ReLU()), 8)


def hourglass(factors, shortening="average", up_sampling="naive", causal=True):
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 16, "n_layers": [1] * (len(factors) + 1), "factors": factors}
    kinds = {"shortening": shortening, "up_sampling": up_sampling, "causal": causal}
    return randomize(build_hourglass(**sizes, layer=lambda: layer(causal), **kinds))


# What tests/package/test_causality.py does not ask of whole models


@pytest.mark.slow
@on_grid
@torch.no_grad()
def test_every_length_from_1_to_70_gives_the_prefix_of_a_longer_one(down, up):
    model, x = hourglass(FACTORS, down, up), torch.randn(2, 70, 8)
    whole = model(x)
    for T in range(1, 71):
        assert_equal_up_to(1e-5, model(x[:, :T]), whole[:, :T])


def test_shortened_layers_run_once_every_factor_tokens():
    model, calls = hourglass([4, 2]), []
    model.inside.before[0].register_forward_hook(lambda m, args, y: calls.append("outer"))
    model.inside.inside[0].register_forward_hook(lambda m, args, y: calls.append("inner"))
    with torch.no_grad():
        in_pieces(model, torch.randn(1, 16, 8), [1] * 16)
    assert calls == ["outer", "inner", "outer", "outer", "inner", "outer"]


# Against the paper's pseudo-code, written independently


def reference(model, x, k):
    """Hourglass(x, [k]) of the paper with average pooling and naive up-sampling, one token at a time, in float64.

    x = PreVanillaLayers(x); x' = Shortening(ShiftRight(x, k - 1), k); x' = ShortenedLayers(x');
    x = x + UpSampling(x', k); x = PostVanillaLayers(x)
    """

    def transformer_layer(block, rows):
        outputs = []
        for t, row in enumerate(rows):
            normed = [F.layer_norm(r, (8,), block.norm1.weight, block.norm1.bias) for r in rows[: t + 1]]
            mixed = []
            for head in range(2):
                part = slice(4 * head, 4 * head + 4)

                def turned(weight, s, part=part, normed=normed):
                    z = (weight @ normed[s])[part]
                    turn = torch.exp(1j * s * 10000.0 ** (-torch.arange(2, dtype=torch.float64) / 2))
                    z = torch.complex(z[::2], z[1::2]) * turn
                    return torch.stack([z.real, z.imag], -1).flatten()

                q = turned(block.attention.query.weight, t)
                scores = torch.stack([q @ turned(block.attention.key.weight, s) / 2 for s in range(t + 1)])
                values = torch.stack([(block.attention.value.weight @ n)[part] for n in normed])
                mixed.append(scores.softmax(0) @ values)
            h = row + block.attention.output.weight @ torch.cat(mixed)
            n = F.layer_norm(h, (8,), block.norm2.weight, block.norm2.bias)
            network = block.feed_forward
            outputs.append(h + network.down.weight @ (network.up.weight @ n).clamp(min=0))
        return outputs

    def norm(module, rows):
        return [F.layer_norm(r, (8,), module.weight, module.bias) for r in rows]

    rows = norm(model.norm_before, transformer_layer(model.before[0], list(x)))
    shifted = [torch.zeros(8, dtype=torch.float64)] * (k - 1) + rows
    short = [sum(shifted[i : i + k]) / k for i in range(0, len(shifted) - k + 1, k)]
    short = norm(model.norm_inside, transformer_layer(model.inside[0], short))
    rows = [row + short[t // k] for t, row in enumerate(rows)]
    return torch.stack(transformer_layer(model.after[0], rows))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("T", [1, 2, 12, 13])
@torch.no_grad()
def test_it_is_the_papers_pseudo_code(k, T):
    model = hourglass([k]).double()
    x = torch.randn(T, 8, dtype=torch.float64)
    assert_equal_up_to(1e-10, model(x[None])[0], reference(model, x, k))


# The parts


def test_shift_right_drops_nothing():
    x = torch.randn(2, 5, 3)
    assert torch.equal(ShiftRight(2)(x), F.pad(x, (0, 0, 2, 0)))
    assert torch.equal(ShiftRight(0)(x), x)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("T", range(1, 8))
def test_window_j_ends_at_token_jk(k, T):
    tokens = torch.arange(1.0, T + 1)[None, :, None]  # token t holds t + 1, padding 0
    windows = AvgPoolShortening(1, k).windows(tokens)[0, :, :, 0].int().tolist()
    assert windows == [[max(0, t + 1) for t in range(j * k - k + 1, j * k + 1)] for j in range((T - 1) // k + 1)]


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("T", range(1, 8))
def test_two_sided_windows_begin_at_token_jk_and_the_mean_counts_tokens_only(k, T):
    tokens = torch.arange(1.0, T + 1)[None, :, None]
    windows = [list(range(j * k + 1, min(j * k + k, T) + 1)) for j in range(-(-T // k))]
    means = AvgPoolShortening(1, k, causal=False)(tokens).flatten()
    assert_equal_up_to(1e-6, means, torch.tensor([sum(w) / len(w) for w in windows]))


def test_linear_pooling_reads_a_window_from_its_first_to_its_last_token():
    pool = randomize(LinearPoolingShortening(2, 3))
    x = torch.randn(1, 4, 2)
    expected = pool.project.weight @ torch.cat([x[0, 1], x[0, 2], x[0, 3]])
    assert_equal_up_to(1e-6, pool(x)[0, 1], expected)


def test_up_sampling_gives_token_t_the_window_at_t_over_k():
    x, short = torch.zeros(1, 7, 2), torch.randn(1, 3, 2)
    assert torch.equal(NaiveUpSampling(2, 3)(x, short)[0], short[0, [0, 0, 0, 1, 1, 1, 2]])
    up = randomize(LinearUpSampling(2, 3))
    for t, row in enumerate(up(x, short)[0]):
        part = up.project.weight[2 * (t % 3) : 2 * (t % 3) + 2]
        assert_equal_up_to(1e-6, row, part @ short[0, t // 3])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", [AvgPoolShortening, LinearPoolingShortening])
def test_no_tokens_have_no_windows(kind, causal):
    assert kind(8, 3, causal)(torch.zeros(2, 0, 8)).shape == (2, 0, 8)


def test_masks_of_resampling_follow_the_formula_of_the_released_code():
    k = 3
    down, up = (CrossAttention(8, 2, query_step=q, key_step=s) for q, s in ((k, 1), (1, k)))
    for i, row in enumerate(down.visible(4, 11)):  # original tokens up to i k
        assert row.nonzero().flatten().tolist() == [s for s in range(11) if s <= i * k]
    for t, row in enumerate(up.visible(11, 4)):  # shortened positions up to t // k
        assert row.nonzero().flatten().tolist() == [j for j in range(4) if j <= t // k]


@pytest.mark.parametrize("causal", [True, False])
def test_attention_based_resampling_is_its_equation(causal):
    pool, up = AvgPoolShortening(8, 3, causal), NaiveUpSampling(8, 3)
    shorten = randomize(AttentionBasedShortening(pool, 2, FeedForward(8, 16, nn.ReLU()))).double()
    expand = randomize(AttentionBasedUpSampling(up, 2, FeedForward(8, 16, nn.ReLU()), causal=causal)).double()
    x, short = torch.randn(1, 8, 8).double(), torch.randn(1, 3, 8).double()

    def turn(z, position):
        angle = position * 10000.0 ** (-torch.arange(2, dtype=torch.float64) / 2)
        z = torch.complex(z[..., ::2], z[..., 1::2]) * torch.exp(1j * angle)
        return torch.stack([z.real, z.imag], -1).flatten(-2)

    def expected(module, u, memory, query_step, key_step):
        rows = []
        for i, row in enumerate(u):
            n = module.norm1(row)
            keys = [s for s in range(len(memory)) if not causal or s * key_step <= i * query_step]
            heads = []
            for h in range(2):
                part, attention = slice(4 * h, 4 * h + 4), module.attention
                q = turn(attention.query(n)[part], i * query_step)
                k = torch.stack([turn(attention.key(memory[s])[part], s * key_step) for s in keys])
                v = torch.stack([attention.value(memory[s])[part] for s in keys])
                heads.append((k @ q / 2).softmax(0) @ v)
            h = row + attention.output(torch.cat(heads))
            rows.append(h + module.feed_forward(module.norm2(h)))
        return torch.stack(rows)

    with torch.no_grad():
        assert_equal_up_to(1e-10, shorten(x)[0], expected(shorten, pool(x)[0], x[0], 3, 1))
        assert_equal_up_to(1e-10, expand(x, short)[0], expected(expand, up(x, short)[0], short[0], 1, 3))


@pytest.mark.parametrize("causal", [True, False])
@torch.no_grad()
def test_the_attention_map_is_what_the_fused_kernel_uses(causal):
    attention = randomize(CrossAttention(8, 2, query_step=1, key_step=3, causal=causal)).double()
    x, memory = torch.randn(2, 7, 8).double(), torch.randn(2, 3, 8).double()
    values = attention.value(memory).view(2, 3, 2, 4).transpose(1, 2)
    mixed = attention.attention_map(x, memory) @ values
    expected = attention.output(mixed.transpose(1, 2).flatten(2))
    assert_equal_up_to(1e-10, attention(x, memory), expected)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_leak_map_catches_every_shift_that_is_too_small(k):
    for shift in range(k):
        model = hourglass([k])
        model.shorten.shift = ShiftRight(shift)
        assert leak_map(model, 3 * k).triu(1).any() == (shift < k - 1)


# Two-sided


@on_grid
@torch.no_grad()
def test_two_sided_runs_at_every_length_and_sees_everything(down, up):
    model = hourglass(FACTORS, down, up, causal=False)
    for T in (1, 5, 16):
        assert model(torch.randn(2, T, 8)).shape == (2, T, 8)
    assert (leak_map(model, 10) > 0).all()


# Hierarchies


@pytest.mark.parametrize(
    ("text", "layers", "factors"),
    [
        ("2@1 6@3 2@1", [2, 6], [3]),
        ("1@1 1@8 1@32 1@8 1@1", [1, 1, 1], [8, 4]),
        ("0@1  1@8 0@1", [0, 1], [8]),
    ],
)
def test_the_papers_notation(text, layers, factors):
    assert parse_hierarchy(text) == (layers, factors)


def test_a_model_has_the_layers_of_its_hierarchy():
    model = build_model("hourglass", vocab_size=5, d_model=8, n_heads=2, hierarchy="2@1 1@2 3@8 1@2 2@1")
    outer, inner = model.body, model.body.inside
    assert [len(s) for s in (outer.before, inner.before, inner.inside, inner.after, outer.after)] == [2, 1, 3, 1, 2]
    assert (outer.shorten.factor, inner.shorten.factor) == (2, 4)
    assert model.config["n_layers"] == 9


@pytest.mark.parametrize(("n_layers", "hierarchy"), [(1, "0@1 1@4 0@1"), (2, "1@1 0@4 1@1"), (6, "1@1 4@4 1@1")])
def test_the_default_hierarchy_keeps_two_layers_outside(n_layers, hierarchy):
    model = build_model("hourglass", vocab_size=5, d_model=8, n_heads=2, n_layers=n_layers)
    assert model.config["hierarchy"] == hierarchy


@pytest.mark.parametrize("inside", ["transformer", "primer-ez"])
def test_layers_are_the_baselines_or_primers(inside):
    model = build_model("hourglass", vocab_size=5, d_model=8, n_heads=2, layer=inside)
    plain = build_model(inside, vocab_size=5, d_model=8, n_heads=2, n_layers=1).body[0]
    assert str(model.body.inside[0]) == str(plain)


@pytest.mark.parametrize(
    "two_sided",
    [
        lambda x, cache: MultiHeadAttention(8, 2, causal=False)(x, cache),
        lambda x, cache: hourglass([2], causal=False)(x, cache),
        lambda x, cache: AvgPoolShortening(8, 2, causal=False)(x, cache),
        lambda x, cache: CrossAttention(8, 2, query_step=1, key_step=2, causal=False)(x, x[:, :2], cache),
    ],
)
def test_what_is_two_sided_refuses_a_cache(two_sided):
    with pytest.raises(ValueError, match=r"cache .*expected None"):
        two_sided(torch.randn(1, 4, 8), Cache(1))


@pytest.mark.parametrize("option", ["pooling", "expansion"])
def test_an_option_that_nothing_would_use_is_refused(option):
    with pytest.raises(ValueError, match=f"{option} is 'linear'; expected"):
        build_model("hourglass", vocab_size=5, d_model=8, n_heads=2, **{option: "linear"})
