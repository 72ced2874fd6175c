"""Bad input is refused by an error that names the argument and its value: one case for each check of a function."""

import re
from functools import partial

import pytest
import torch
from torch import nn

from efficient_transformers import (
    AttentionBasedUpSampling,
    AvgPoolShortening,
    Cache,
    CausalDepthwiseConv,
    Corpus,
    FeedForward,
    GatedFeedForward,
    GMLPBlock,
    Hourglass,
    LanguageModel,
    LearnedPositions,
    LinearPoolingShortening,
    LinearUpSampling,
    MultiDConvHeadAttention,
    MultiHeadAttention,
    NaiveUpSampling,
    PrimerLayer,
    PrimerNorm,
    SharedQueryKeyAttention,
    SpatialGatingUnit,
    SquaredReLU,
    Stack,
    TinyAttention,
    TrainingConfig,
    TransformerLayer,
    Vocabulary,
    build_hourglass,
    build_model,
    expand_sharing,
    generate,
    initialize,
    leak_map,
    load_corpus,
    receptive_field,
    rotate,
    shape_trace,
)
from efficient_transformers.layers.products import toeplitz
from efficient_transformers.layers.resampling import CrossAttention
from efficient_transformers.models.cost import cache_bytes, cost_model

SIZES = {"vocab_size": 7, "d_model": 8, "n_layers": 1, "n_heads": 2, "max_seq_len": 6}
X, SEEN, NARROW = torch.zeros(2, 4, 6), torch.ones(2, 4, dtype=torch.bool), torch.zeros(1, 4, 4)


def make(model="primer-ez", **changes):
    return build_model(model, **SIZES | changes)


def read(tokens, **cache):
    return make()(tokens, **cache)


def go_on(tokens=None, max_new_tokens=2, **options):
    return generate(make(), ids(1, 2) if tokens is None else tokens, max_new_tokens, **options)


def ids(*shape):
    return torch.zeros(shape, dtype=torch.int64)


def hourglass(**options):
    return build_model("hourglass", vocab_size=7, d_model=8, n_heads=2, **options)


def levels(factors, n_layers):
    return build_hourglass(d_model=8, n_heads=2, d_ff=16, n_layers=n_layers, factors=factors, layer=nn.Identity)


def resampled(shorten=None, up_sample=None):
    parts = {name: nn.Identity() for name in ("before", "inside", "after")}
    shorten, up_sample = shorten or AvgPoolShortening(8, 2), up_sample or NaiveUpSampling(8, 2)
    return Hourglass(**parts, shorten=shorten, up_sample=up_sample, d_model=8)


def by_attention(d_ff_in=8, causal=True):
    return AttentionBasedUpSampling(NaiveUpSampling(8, 2), 2, FeedForward(d_ff_in, 16, nn.ReLU()), causal=causal)


def layer(attention=None, feed_forward=None, d_model=8, **options):
    attention = MultiHeadAttention(8, 2) if attention is None else attention
    return TransformerLayer(attention, feed_forward or FeedForward(8, 16, nn.ReLU()), d_model, **options)


def language_model(body=None, **changes):
    body = nn.Identity() if body is None else body
    return LanguageModel(body, **{"vocab_size": 7, "d_model": 8, "max_seq_len": 6} | changes)


def gated(causal=False, **options):
    return GMLPBlock(6, 8, 4, causal=causal, **options)


def conv(**options):
    return CausalDepthwiseConv(8, 2, **options)


# What is called, the error, and the beginning of its message: the argument and its value.
BAD = [
    # attention
    (lambda: MultiHeadAttention(10, 4), ValueError, "d_model is 10"),
    (lambda: MultiDConvHeadAttention(6, 2), ValueError, "d_model / n_heads is 3"),
    (lambda: make("transformer", rotary="False"), TypeError, "rotary is 'False'"),
    (lambda: rotate(torch.zeros(1, 2, 5)), ValueError, "the number of channels is 5"),
    (lambda: rotate(ids(1, 2, 4)), TypeError, "x.dtype is torch.int64"),
    (lambda: MultiHeadAttention(8, 2)(torch.zeros(3, 1, 8), Cache(2)), ValueError, "the batch size is 3"),
    (lambda: TinyAttention(8, -1, causal=True), ValueError, "d_out is -1"),
    (lambda: TinyAttention(6, 4, causal=True)(X, Cache(3)), ValueError, "the batch size is 2"),
    (lambda: TinyAttention(6, 4, causal=False)(X, mask=SEEN[:, 1:]), ValueError, "mask.shape is (2, 3)"),
    # layers
    (lambda: layer(d_model=16), ValueError, "attention.d_model is 8"),
    (lambda: layer(feed_forward=FeedForward(16, 8, nn.ReLU())), ValueError, "feed_forward.d_model is 16"),
    (lambda: layer(attention=len), TypeError, f"attention is {len}"),
    (lambda: FeedForward(8, 16, "relu"), TypeError, "activation is 'relu'"),
    (lambda: initialize(layer(attention=nn.Identity())), ValueError, "attention is 'Identity'"),
    (lambda: PrimerNorm(8, 0), ValueError, "eps is 0"),
    (lambda: PrimerNorm(8, "1e-6"), TypeError, "eps is '1e-6'"),
    (lambda: PrimerNorm(4)(ids(1, 4)), TypeError, "x.dtype is torch.int64"),
    # convolutions
    (lambda: CausalDepthwiseConv(10, 4), ValueError, "d_model is 10"),
    (lambda: MultiDConvHeadAttention(8, 2, "x"), ValueError, "convolve is 'x'"),
    (lambda: conv()(torch.zeros(4, 8)), ValueError, "x.shape is (4, 8)"),
    (lambda: conv()(X), ValueError, "x.shape is (2, 4, 6)"),
    (lambda: conv()(torch.zeros(2, 0, 8), Cache(2)), ValueError, "the sequence length is 0"),
    (lambda: conv()(torch.zeros(3, 1, 8), Cache(2)), ValueError, "the batch size is 3"),
    (lambda: expand_sharing(conv(sharing="none"), "heads"), ValueError, "sharing is 'heads'"),
    (lambda: expand_sharing(conv(), "all"), ValueError, "sharing is 'all'"),
    (lambda: expand_sharing(conv(), "each"), ValueError, "sharing is 'each'"),
    # gates
    (lambda: GMLPBlock(6, 7, 4, causal=True), ValueError, "d_ffn is 7"),
    (lambda: gated(gate="additive", start="shut"), ValueError, "start is 'shut'"),
    (lambda: gated(fft=True), ValueError, "fft is True"),
    (lambda: gated(causal=None), TypeError, "causal is None"),
    (lambda: gated()(torch.zeros(2, 5, 6)), ValueError, "the sequence length is 5"),
    (lambda: gated()(X, mask=SEEN[0]), ValueError, "mask.shape is (4,)"),
    (lambda: gated()(X, mask=SEEN.float()), TypeError, "mask is torch.float32"),
    (lambda: gated()(X, mask=[[True] * 4] * 2), TypeError, "mask is 'list'"),
    (lambda: gated(causal=True)(X, mask=SEEN), ValueError, f"mask is {SEEN!r}"),
    (lambda: gated(causal=True)(X, Cache(3)), ValueError, "the batch size is 2"),
    (lambda: toeplitz(torch.zeros(4)), ValueError, "kernel.shape is (4,)"),
    # hourglasses
    (lambda: resampled(AvgPoolShortening(16, 2)), ValueError, "shorten.d_model is 16"),
    (lambda: resampled(nn.Linear(8, 8)), TypeError, "shorten is 'Linear'"),
    (lambda: resampled(AvgPoolShortening(8, 4)), ValueError, "up_sample.factor is 2"),
    (lambda: resampled(up_sample=by_attention(6)), ValueError, "up_sample.feed_forward.d_model is 6"),
    (lambda: resampled(up_sample=by_attention(causal=False)), ValueError, "up_sample.attention.causal is False"),
    (lambda: AvgPoolShortening(4, 2)(X), ValueError, "x.shape is (2, 4, 6)"),
    (lambda: AvgPoolShortening(4, 2)(X[None]), ValueError, "x.shape is (1, 2, 4, 6)"),
    (lambda: NaiveUpSampling(4, 2)(X, X[:, :2, :4]), ValueError, "x.shape is (2, 4, 6)"),
    (lambda: NaiveUpSampling(4, 2)(NARROW, NARROW), ValueError, "short.shape is (1, 4, 4)"),
    (lambda: NaiveUpSampling(4, 2)(NARROW.expand(2, 4, 4), NARROW[:, :2]), ValueError, "short.shape is (1, 2, 4)"),
    (lambda: hourglass(hierarchy=3), TypeError, "hierarchy is 3"),
    (lambda: hourglass(hierarchy="2@1 6 2@1"), ValueError, "stack 2 of the hierarchy is '6'"),
    (lambda: hourglass(hierarchy="2@1 x@3 2@1"), ValueError, "stack 2 of the hierarchy is 'x@3'"),
    (lambda: hourglass(hierarchy="2@1 6@0 2@1"), ValueError, "stack 2 of the hierarchy is '6@0'"),
    (lambda: hourglass(hierarchy="2@1 6@3 1@1"), ValueError, "hierarchy is '2@1 6@3 1@1'"),
    (lambda: hourglass(hierarchy="6@1"), ValueError, "hierarchy is '6@1'"),
    (lambda: hourglass(hierarchy="1@2 1@4 1@2"), ValueError, "hierarchy is '1@2 1@4 1@2'"),
    (
        lambda: hourglass(hierarchy="1@1 1@4 1@6 1@4 1@1"),
        ValueError,
        "factor 6 of the hierarchy is '1@1 1@4 1@6 1@4 1@1'",
    ),
    (lambda: hourglass(hierarchy="1@1 6@4 1@1", n_layers=4), ValueError, "n_layers is 4"),
    (lambda: hourglass(pooling="attention"), ValueError, "pooling is 'attention'"),
    (lambda: hourglass(expansion="attention"), ValueError, "expansion is 'attention'"),
    (lambda: levels([], [1]), ValueError, "factors is []"),
    (lambda: levels([2, 2], [1, 1]), ValueError, "n_layers is [1, 1]"),
    (lambda: levels([2], [1, 1])(torch.zeros(1, 0, 8)), ValueError, "the sequence length is 0"),
    # models
    (lambda: make("perceiver"), ValueError, "name is 'perceiver'"),
    (lambda: make(width=3), TypeError, "option is 'width'"),
    (lambda: make("transformer", kernel_size=3), TypeError, "option is 'kernel_size'"),
    (lambda: make("primer-ez-shared", sharing="none"), ValueError, "sharing is 'none'"),
    (lambda: make(dropout=False), TypeError, "dropout is False"),
    (lambda: make(n_heads=None), TypeError, "n_heads is None"),
    (lambda: language_model([]), TypeError, "body is []"),
    # tokens
    (lambda: read([[1, 2]]), TypeError, "tokens is [[1, 2]]"),
    (lambda: read(ids(1, 3).int()), TypeError, "tokens.dtype is torch.int32"),
    (lambda: read(ids(1, 3) - 2), ValueError, "a token is -2"),
    (lambda: read(ids(1, 3) + 7), ValueError, "a token is 7"),
    (lambda: read(ids(2, 0)), ValueError, "tokens.shape is (2, 0)"),
    (lambda: read(ids(0, 2)), ValueError, "tokens.shape is (0, 2)"),
    (lambda: read(ids(3)), ValueError, "tokens.shape is (3,)"),
    (lambda: read(ids(1, 7)), ValueError, "the sequence length is 7"),
    (lambda: read(ids(3, 1), cache=Cache(2)), ValueError, "the batch size is 3"),
    # generation
    (lambda: go_on(temperature=-0.5), ValueError, "temperature is -0.5"),
    (lambda: go_on(temperature=float("inf")), ValueError, "temperature is inf"),
    (lambda: go_on(temperature="1"), TypeError, "temperature is '1'"),
    (lambda: go_on(top_k=0), ValueError, "top_k is 0"),
    (lambda: go_on(top_k=2.0), TypeError, "top_k is 2.0"),
    (lambda: go_on(max_new_tokens=-1), ValueError, "max_new_tokens is -1"),
    (lambda: go_on(max_new_tokens=5), ValueError, "prompt and new tokens is 7"),
    # text
    (lambda: Corpus("x", None, ids(3), ids(3)), TypeError, "vocabulary is None"),
    (lambda: Corpus("x", Vocabulary("ab"), ids(2), ids(2) + 5), ValueError, "a token of validation is 5"),
    (lambda: Vocabulary("ab").encode(None), TypeError, "text is None"),
    (lambda: Vocabulary("abc").encode("abx"), ValueError, "a character is 'x', in line 1"),
    (lambda: load_corpus("milton"), ValueError, "the corpus is 'milton'"),
    # training
    (lambda: TrainingConfig(seed="2"), TypeError, "seed is '2'"),
    (lambda: TrainingConfig(seed=2**63), ValueError, "seed is 9223372036854775808"),
    (lambda: TrainingConfig(warmup_steps=-1), ValueError, "warmup_steps is -1"),
    (lambda: TrainingConfig(steps=20, warmup_steps=20), ValueError, "warmup_steps is 20"),
    (lambda: TrainingConfig(learning_rate=0), ValueError, "learning_rate is 0"),
    (lambda: TrainingConfig(weight_decay=-0.1), ValueError, "weight_decay is -0.1"),
    (lambda: TrainingConfig(clip_norm=-1.0), ValueError, "clip_norm is -1.0"),
    (lambda: TrainingConfig(optimizer="moun"), ValueError, "optimizer is 'moun'"),
    # looking inside
    (lambda: cost_model(nn.Linear(2, 2), 5), TypeError, "body is 'Linear'"),
    (lambda: cost_model(Stack([nn.Linear(2, 2)]), 5), TypeError, "a layer is 'Linear'"),
    (lambda: cache_bytes(nn.Linear(2, 2), 5), TypeError, "body is 'Linear'"),
    (lambda: leak_map(nn.Identity(), 4), ValueError, "module is 'Identity'"),
    (lambda: leak_map(len, 4), TypeError, "module is <built-in function len>"),
    (lambda: shape_trace(make()), ValueError, "inputs is ()"),
    (lambda: shape_trace(len, X), TypeError, "module is <built-in function len>"),
]


@pytest.mark.parametrize(("call", "error", "said"), BAD, ids=[said for *_, said in BAD])
def test_bad_input_is_refused_by_name_and_value(call, error, said):
    with pytest.raises((TypeError, ValueError)) as refused:
        call()
    assert type(refused.value) is error
    assert str(refused.value).startswith(f"{said}; expected ")
    assert len(str(refused.value)) < 1000


# Every layer, and what it is called with.
LONG, SHORT = torch.zeros(2, 4, 8), torch.zeros(2, 2, 8)
LAYERS = [
    (MultiHeadAttention(8, 2), {"x": LONG}),
    (MultiDConvHeadAttention(8, 2), {"x": LONG}),
    (SharedQueryKeyAttention(8, 2), {"x": LONG}),
    (TinyAttention(8, 4, causal=True), {"x": LONG}),
    (CrossAttention(8, 2, query_step=1, key_step=2), {"x": LONG, "memory": SHORT}),
    (FeedForward(8, 16, nn.ReLU()), {"x": LONG}),
    (GatedFeedForward(8, 16, nn.SiLU()), {"x": LONG}),
    (layer(), {"x": LONG}),
    (PrimerLayer(MultiHeadAttention(8, 2), FeedForward(8, 16, nn.ReLU()), 8), {"x": LONG}),
    (PrimerNorm(8), {"x": LONG}),
    (LearnedPositions(8, 4), {"x": LONG}),
    (conv(), {"x": LONG}),
    (SpatialGatingUnit(8, 4, causal=True), {"z": LONG}),
    (GMLPBlock(8, 8, 4, causal=True), {"x": LONG}),
    *((part(8, 2), {"x": LONG}) for part in (AvgPoolShortening, LinearPoolingShortening)),
    *((part, {"x": LONG, "short": SHORT}) for part in (NaiveUpSampling(8, 2), LinearUpSampling(8, 2), by_attention())),
    (hourglass(hierarchy="1@1 1@2 1@1").body, {"x": LONG}),
]


@pytest.mark.parametrize(("called", "good"), LAYERS, ids=[type(layer).__name__ for layer, _ in LAYERS])
def test_a_layer_is_called_with_sequences_of_its_channels(called, good):
    called(**good)
    for name, x in good.items():
        with pytest.raises(TypeError, match=rf"^{name}\.dtype is torch\.int64; expected a floating-point type$"):
            called(**good | {name: x.long()})
        of_any = isinstance(called, FeedForward | PrimerNorm)
        for bad in (x[..., :7],) if of_any else (x[0], x[None], x[..., :7]):
            with pytest.raises(ValueError, match=rf"^{name}\.shape is {re.escape(str(tuple(bad.shape)))}; expected "):
                called(**good | {name: bad})


@pytest.mark.parametrize("what", ["learning_rate", "weight_decay", "clip_norm", "seed"])
def test_a_number_of_400_digits_is_refused_in_few(what):
    with pytest.raises(ValueError, match=rf"^{what} is 1000.{{1,400}}; expected ") as refused:
        TrainingConfig(**{what: 10**400})
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize(
    ("call", "options"),
    [
        (gated, "gate weight start"),
        (conv, "sharing init"),
        (make, "activation convolve"),
        (hourglass, "shortening up_sampling pooling expansion layer"),
    ],
)
def test_an_option_is_one_of_the_known(call, options):
    for option in options.split():
        with pytest.raises(ValueError, match=f"^{option} is 'odd'; expected one of '"):
            call(**{option: "odd"})


# Every size of every function, and every way in which it can be wrong.

SIZED = [
    (partial(make, "transformer"), SIZES | {"d_ff": 8}),
    (partial(make, "gmlp"), {"d_attention": 4}),
    (language_model, {"vocab_size": 7, "d_model": 8, "max_seq_len": 6}),
    (layer, {"d_model": 8}),
    (MultiHeadAttention, {"d_model": 8, "n_heads": 2}),
    (CausalDepthwiseConv, {"d_model": 8, "n_heads": 2, "kernel_size": 3, "dilation": 1}),
    (partial(FeedForward, activation=SquaredReLU()), {"d_model": 8, "d_ff": 16}),
    (PrimerNorm, {"d_model": 8}),
    (LearnedPositions, {"d_model": 8, "max_seq_len": 4}),
    (partial(SpatialGatingUnit, causal=True, gate="whole"), {"d_ffn": 6, "max_seq_len": 4}),
    (partial(GMLPBlock, d_ffn=8, max_seq_len=4, causal=True), {"d_model": 6}),
    (partial(TinyAttention, 6, 4, causal=True), {"d_attention": 4}),
    (lambda factor: levels([factor], [1, 1]), {"factor": 2}),
    *((part, {"d_model": 8, "factor": 2}) for part in (AvgPoolShortening, LinearPoolingShortening)),
    *((part, {"d_model": 8, "factor": 2}) for part in (NaiveUpSampling, LinearUpSampling)),
    (Cache, {"batch_size": 2}),
    (TrainingConfig, dict.fromkeys(("steps", "batch_size", "seq_len", "eval_every", "eval_batches"), 1)),
    *((partial(asked, make().body), {"seq_len": 4}) for asked in (cache_bytes, cost_model)),
    *((partial(asked, conv()), {"seq_len": 4}) for asked in (leak_map, receptive_field)),
]
NO_SIZES = [(0, ValueError), (-1, ValueError), (2.5, TypeError), (True, TypeError), ("2", TypeError)]


@pytest.mark.parametrize(("call", "sizes", "name"), [(call, sizes, name) for call, sizes in SIZED for name in sizes])
@pytest.mark.parametrize(("value", "error"), NO_SIZES)
def test_a_size_is_an_int_of_at_least_one(call, sizes, name, value, error):
    with pytest.raises(error, match=rf"^{name} is {re.escape(repr(value))}; expected an int of at least 1$"):
        call(**sizes | {name: value})


@pytest.mark.parametrize(
    "dropped", [lambda p: make(dropout=p), lambda p: language_model(dropout=p), lambda p: layer(dropout=p)]
)
@pytest.mark.parametrize("dropout", [-0.1, 1, float("nan")])
def test_dropout_is_a_probability_below_one(dropped, dropout):
    with pytest.raises(ValueError, match=f"^dropout is {dropout}; expected a probability"):
        dropped(dropout)
