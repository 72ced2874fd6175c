"""Hourglass: exact at every length, with a cache in any pieces, and equal to the paper's pseudo-code."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from helpers import ForgetfulCache, assert_equal_up_to, cut_points, in_pieces, randomize
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from efficient_transformers import (
    AttentionBasedShortening,
    AttentionBasedUpSampling,
    AvgPoolShortening,
    Cache,
    FeedForward,
    Hourglass,
    LanguageModel,
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

QUICK = [[3], [4, 2]]  # for `make quick`: a level that is not a power of two, and a nested pair
FACTORS = [*QUICK, [2], [4], [8, 4], [2, 2, 2]]


def combination(i, j, k):
    """One of factors, shortening and up-sampling; `make test` has a third of all, in which any two meet."""
    marks = [pytest.mark.slow] * (FACTORS[i] not in QUICK) + [pytest.mark.long] * ((i + j + k) % 3 > 0)
    names = FACTORS[i], SHORTENINGS[j], UP_SAMPLINGS[k]
    return pytest.param(*names, marks=marks, id="{}-{}-{}".format(*names))


GRID = [combination(*places) for places in itertools.product(range(6), range(3), range(3))]
on_grid = pytest.mark.parametrize(("factors", "down", "up"), GRID)


def layer(causal=True):
    return TransformerLayer(MultiHeadAttention(8, 2, causal=causal), FeedForward(8, 16, nn.ReLU()), 8)


def hourglass(factors, shortening="average", up_sampling="naive", causal=True, n_layers=None, **options):
    n_layers = n_layers or [1] * (len(factors) + 1)
    make = lambda: layer(causal)  # noqa: E731
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 16, "n_layers": n_layers, "factors": factors}
    kinds = {"shortening": shortening, "up_sampling": up_sampling, "causal": causal, **options}
    return randomize(build_hourglass(**sizes, layer=make, **kinds))


def test_any_two_choices_meet_in_what_make_test_tries():
    tried = [case.values for case in GRID if pytest.mark.long not in case.marks]
    assert (len(GRID), len(tried)) == (54, 18)
    counts = [len(FACTORS), len(SHORTENINGS), len(UP_SAMPLINGS)]
    for i, j in itertools.combinations(range(3), 2):
        assert len({(str(case[i]), str(case[j])) for case in tried}) == counts[i] * counts[j]


# Causal at every length, whatever the length, in any pieces


@pytest.mark.slow
@on_grid
@torch.no_grad()
def test_every_length_from_1_to_70_gives_the_prefix_of_a_longer_one(factors, down, up):
    model, x = hourglass(factors, down, up), torch.randn(2, 70, 8)
    whole = model(x)
    for T in range(1, 71):
        assert_equal_up_to(1e-5, model(x[:, :T]), whole[:, :T])


@on_grid
@torch.no_grad()
def test_later_tokens_change_no_bit_of_earlier_outputs(factors, down, up):
    model, x = hourglass(factors, down, up), torch.randn(1, 70, 8)
    whole = model(x)
    others = x.repeat(70, 1, 1)  # in row t, everything after token t is different
    later = torch.arange(70)[None, :, None] > torch.arange(70)[:, None, None]
    changed = model(torch.where(later, 100 * torch.randn(70, 70, 8), others))
    same = model(others)
    for t in range(70):
        assert torch.equal(changed[t, : t + 1], same[t, : t + 1])
    assert_equal_up_to(1e-5, same[:1], whole)
    assert (changed[:-1].diagonal(1, 0, 1).T != same[:-1].diagonal(1, 0, 1).T).any(1).all()


@on_grid
def test_leak_map_is_lower_triangular_and_full_on_its_diagonal(factors, down, up):
    leak = leak_map(hourglass(factors, down, up), 20)
    assert not leak.triu(1).any()
    assert (leak.tril() > 0).sum() == 210  # each token sees every earlier one


@pytest.mark.slow
@on_grid
@settings(max_examples=6)
@given(data=st.data())
def test_pieces_with_a_cache_equal_the_whole(factors, down, up, data):
    torch.manual_seed(data.draw(st.integers(0, 2**16)))
    model = hourglass(factors, down, up)
    pieces = data.draw(cut_points(70))
    x = torch.randn(2, sum(pieces), 8)
    with torch.no_grad():
        assert_equal_up_to(1e-5, in_pieces(model, x, pieces), model(x))


@pytest.mark.slow
@on_grid
@torch.no_grad()
def test_token_by_token_equals_the_whole(factors, down, up):
    model, x = hourglass(factors, down, up), torch.randn(2, 70, 8)
    assert_equal_up_to(1e-5, in_pieces(model, x, [1] * 70), model(x))


@pytest.mark.parametrize(("pooling", "expansion"), list(itertools.product(SHORTENINGS[:2], UP_SAMPLINGS[:2])))
@torch.no_grad()
def test_attention_may_start_from_any_pooling_and_expansion(pooling, expansion):
    model = hourglass([3], "attention", "attention", pooling=pooling, expansion=expansion)
    x = torch.randn(2, 20, 8)
    assert isinstance(model.shorten.pool, LinearPoolingShortening) == (pooling == "linear")
    assert isinstance(model.up_sample.expand, LinearUpSampling) == (expansion == "linear")
    assert_equal_up_to(1e-5, in_pieces(model, x, [1, 5, 2, 12]), model(x))
    assert not leak_map(model, 12).triu(1).any()


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


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("T", [1, 2, 5, 8, 12, 13])
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


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("T", range(1, 12))
def test_window_j_ends_at_token_jk(k, T):
    tokens = torch.arange(1.0, T + 1)[None, :, None]  # token t holds t + 1, padding 0
    windows = AvgPoolShortening(1, k).windows(tokens)[0, :, :, 0].int().tolist()
    assert windows == [[max(0, t + 1) for t in range(j * k - k + 1, j * k + 1)] for j in range((T - 1) // k + 1)]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("T", range(1, 12))
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


def test_two_sided_queries_see_every_key():
    attention = CrossAttention(8, 2, query_step=1, key_step=3, causal=False)
    assert torch.equal(attention.visible(7, 3), torch.ones(7, 3, dtype=torch.bool))


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


# Negative controls: what the tests above must be able to see


@pytest.mark.parametrize("k", [2, 3, 4, 8])
def test_leak_map_catches_every_shift_that_is_too_small(k):
    for shift in range(k):
        model = hourglass([k])
        model.shorten.shift = ShiftRight(shift)
        assert leak_map(model, 3 * k).triu(1).any() == (shift < k - 1)


class Truncated(AvgPoolShortening):
    """Cuts what the factor does not divide after the shift, as others do."""

    def windows(self, x, cache=None):
        T, k = x.shape[1], self.factor
        x = F.pad(x, (0, 0, k - 1, 0))[:, :T]
        x = F.pad(x, (0, 0, 0, -T % k))
        return x.unflatten(1, (-1, k))


@torch.no_grad()
def test_the_length_test_catches_a_truncation():
    model, x = hourglass([4]), torch.randn(1, 9, 8)
    model.shorten = Truncated(8, 4)
    assert (model(x[:, :5])[:, 4] - model(x)[:, 4]).abs().max() > 1e-3


@torch.no_grad()
def test_the_cache_test_catches_windows_that_start_anew():
    model, x = hourglass([4]), torch.randn(1, 16, 8)

    assert (in_pieces(model, x, [3, 13], ForgetfulCache(1)) - model(x)).abs().max() > 1e-3


# Two-sided


@on_grid
@torch.no_grad()
def test_two_sided_runs_at_every_length_and_sees_everything(factors, down, up):
    model = hourglass(factors, down, up, causal=False)
    for T in (1, 2, 5, 16, 33):
        assert model(torch.randn(2, T, 8)).shape == (2, T, 8)
    assert (leak_map(model, 10) > 0).all()


def test_two_sided_attention_refuses_a_cache():
    with pytest.raises(ValueError, match=r"cache .*expected None"):
        MultiHeadAttention(8, 2, causal=False)(torch.randn(1, 3, 8), Cache(1))


# Hierarchies


@pytest.mark.parametrize(
    ("text", "layers", "factors"),
    [
        ("2@1 6@3 2@1", [2, 6], [3]),
        ("1@1 6@4 1@1", [1, 6], [4]),
        ("2@1 4@2 8@6 4@2 2@1", [2, 4, 8], [2, 3]),
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


def test_a_cache_of_another_hierarchy_is_refused():
    first, second = (
        build_model("hourglass", vocab_size=5, d_model=8, n_heads=2, hierarchy=h).eval()
        for h in ("1@1 1@2 1@1", "1@1 1@3 1@1")
    )
    cache, tokens = Cache(1), torch.randint(5, (1, 7))
    a = first(tokens, cache)
    with pytest.raises(ValueError, match="the cache is one that another model has used"):
        second(tokens, cache)
    assert torch.equal(torch.cat([a, first(tokens[:, :2], cache)], 1)[:, :7], a)  # and it still works


def test_a_saved_model_keeps_its_hierarchy(tmp_path):
    model = build_model(
        "hourglass", vocab_size=5, d_model=8, n_heads=2, hierarchy="1@1 2@4 1@1", shortening="attention"
    )
    randomize(model).save_pretrained(tmp_path / "m")
    tokens = torch.randint(5, (2, 11))
    assert torch.equal(LanguageModel.from_pretrained(tmp_path / "m")(tokens), model(tokens))


@pytest.mark.slow
def test_a_compiled_hourglass_is_one_graph_and_computes_the_same():
    model = hourglass([2, 2], "linear", "linear")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 9, 8)
    torch.testing.assert_close(compiled(x), model(x))


def test_a_two_sided_hourglass_refuses_a_cache():
    with pytest.raises(ValueError, match=r"cache .*expected None, for"):
        hourglass([2], causal=False)(torch.randn(1, 4, 8), Cache(1))
    pool = AvgPoolShortening(8, 2, causal=False)
    with pytest.raises(ValueError, match=r"cache .*expected None, for a shortening that is not causal"):
        pool(torch.randn(1, 4, 8), Cache(1))
    with pytest.raises(ValueError, match=r"cache .*expected None, for attention that is not causal"):
        CrossAttention(8, 2, query_step=1, key_step=2, causal=False)(
            torch.randn(1, 4, 8), torch.randn(1, 2, 8), Cache(1)
        )


def test_an_up_sampling_of_another_factor_is_refused():
    with pytest.raises(ValueError, match=r"up_sample\.factor is 3; expected 4, as the shortening has"):
        Hourglass(
            before=nn.Identity(),
            shorten=AvgPoolShortening(8, 4),
            inside=nn.Identity(),
            up_sample=NaiveUpSampling(8, 3),
            after=nn.Identity(),
            d_model=8,
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"pooling": "linear"},
            "pooling is 'linear'; expected 'average', which is not used, with shortening='average'",
        ),
        (
            {"expansion": "linear"},
            "expansion is 'linear'; expected 'naive', which is not used, with up_sampling='naive'",
        ),
    ],
)
def test_an_option_that_nothing_would_use_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        build_model("hourglass", vocab_size=5, d_model=8, n_heads=2, **options)
    with pytest.raises(ValueError, match=message):
        hourglass([2], **options)
