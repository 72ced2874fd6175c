"""Bad input is refused with an error that names the argument, its value and what was expected."""

import re

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
    GMLPBlock,
    Hourglass,
    LanguageModel,
    LearnedPositions,
    LinearPoolingShortening,
    LinearUpSampling,
    MultiDConvHeadAttention,
    MultiHeadAttention,
    NaiveUpSampling,
    PrimerNorm,
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
    hf,
    initialize,
    leak_map,
    load_corpus,
    model_names,
    receptive_field,
    rotate,
    shape_trace,
    swap_rotary_pairing,
)
from efficient_transformers.layers import gmlp
from efficient_transformers.layers.products import toeplitz
from efficient_transformers.studies.cost import cache_bytes, cost_model
from efficient_transformers.studies.digits import DigitClassifier, DigitTraining

SIZES = {"vocab_size": 7, "d_model": 8, "n_layers": 1, "n_heads": 2, "max_seq_len": 6}


def small_model():
    torch.manual_seed(0)
    return build_model("primer-ez", **SIZES)


def with_embedding():
    module = nn.Linear(4, 4)
    module.d_model, module.embedding = 4, nn.Embedding(3, 4)
    return module


def make(name="primer-ez", **changes):
    return lambda: build_model(name, **SIZES | changes)


def read(tokens, **cache):
    return lambda: small_model()(tokens, **cache)


def continue_prompt(tokens=None, max_new_tokens=2, **options):
    return lambda: generate(small_model(), ids(1, 2) if tokens is None else tokens, max_new_tokens, **options)


def ids(*shape):
    return torch.zeros(shape, dtype=torch.int64)


def hourglass(**options):
    return lambda: build_model("hourglass", vocab_size=7, d_model=8, n_heads=2, **options)


def levels(factors, n_layers):
    return build_hourglass(d_model=8, n_heads=2, d_ff=16, n_layers=n_layers, factors=factors, layer=nn.Identity)


def resampled(shorten, up_sample):
    parts = {name: nn.Identity() for name in ("before", "inside", "after")}
    return lambda: Hourglass(**parts, shorten=shorten, up_sample=up_sample, d_model=8)


def layer(attention=None, feed_forward=None, d_model=8):
    attention = MultiHeadAttention(8, 2) if attention is None else attention
    return TransformerLayer(attention, feed_forward or FeedForward(8, 16, nn.ReLU()), d_model)


def language_model(**changes):
    return LanguageModel(nn.Identity(), **{"vocab_size": 7, "d_model": 8, "max_seq_len": 6} | changes)


X, SEEN = torch.zeros(2, 4, 6), torch.ones(2, 4, dtype=torch.bool)


def swap(state=None, d_head=4, to="halves"):
    state = MultiHeadAttention(8, 2).state_dict() if state is None else state
    return lambda: swap_rotary_pairing(state, d_head, to=to)


def gated(causal=False, **options):
    return GMLPBlock(6, 8, 4, causal=causal, **options)


# what is done, the error, and what its message holds: the argument, the value, what was expected
BAD = {
    # sizes that do not fit together
    "attention: heads do not divide channels": (
        lambda: MultiHeadAttention(10, 4), ValueError, ["d_model is 10", "a multiple of n_heads=4"]),
    "model: heads do not divide channels": (
        make(d_model=10, n_heads=4), ValueError, ["d_model is 10", "a multiple of n_heads=4"]),
    "convolution: heads do not divide channels": (
        lambda: CausalDepthwiseConv(10, 4), ValueError, ["d_model is 10", "a multiple of n_heads=4"]),
    "attention: odd heads cannot be rotated": (
        lambda: MultiHeadAttention(6, 2), ValueError, ["d_model / n_heads is 3", "even"]),
    "attention with convolutions: odd heads": (
        lambda: MultiDConvHeadAttention(6, 2), ValueError, ["d_model / n_heads is 3", "even"]),
    "rotation of an odd number of channels": (
        lambda: rotate(torch.zeros(1, 2, 5)), ValueError, ["the number of channels is 5", "even"]),
    "pairing of odd heads": (swap(d_head=3), ValueError, ["d_head is 3", "an even number"]),
    "pairing without a name": (swap(to="half"), ValueError, ["to is 'half'", "'neighbors', 'halves'"]),
    "pairing of heads that do not fit": (swap(d_head=6), ValueError, ["the rows of query.weight is 8", "d_head=6"]),
    "pairing of no projection": (
        swap({"weight": torch.zeros(8, 8)}), ValueError, ["state is ['weight']", "tensors of query and key"]),
    "pairing of convolved queries and keys": (
        swap(MultiDConvHeadAttention(8, 2).state_dict()), ValueError,
        ["state is ['conv_q.weight', 'conv_k.weight']", "no convolutions of queries or keys"]),
    "layer: attention of other channels": (
        lambda: layer(d_model=16), ValueError, ["attention.d_model is 8", "16, as the layer has"]),
    "layer: network of other channels": (
        lambda: layer(feed_forward=FeedForward(16, 8, nn.ReLU())), ValueError, ["feed_forward.d_model is 16", "8, as"]),
    "model: odd heads": (make(d_model=6), ValueError, ["d_model / n_heads is 3", "even"]),
    "hourglass: shortening of other channels": (
        resampled(AvgPoolShortening(16, 2), NaiveUpSampling(8, 2)), ValueError, ["shorten.d_model is 16", "8, as the"]),
    "hourglass: up-sampling that sees later windows": (
        resampled(AvgPoolShortening(8, 2), AttentionBasedUpSampling(
            NaiveUpSampling(8, 2), 2, FeedForward(8, 16, nn.ReLU()), causal=False)),
        ValueError, ["up_sample.attention.causal is False", "True, as the shortening has"]),
    "hourglass: up-sampling with a network of other channels": (
        resampled(AvgPoolShortening(8, 2), AttentionBasedUpSampling(
            NaiveUpSampling(8, 2), 2, FeedForward(6, 16, nn.ReLU()))),
        ValueError, ["up_sample.feed_forward.d_model is 6", "8, as the hourglass has"]),
    "rotation of whole numbers": (
        lambda: rotate(torch.zeros(1, 2, 4, dtype=torch.int64)), TypeError, ["x.dtype is torch.int64", "floating"]),
    "tiny attention without channels": (
        lambda: TinyAttention(0, 8, causal=True), ValueError, ["d_model is 0", "at least 1"]),
    "tiny attention without outputs": (
        lambda: TinyAttention(8, -1, causal=True), ValueError, ["d_out is -1", "at least 1"]),
    "Toeplitz matrix of an even number of weights": (
        lambda: toeplitz(torch.zeros(4)), ValueError, ["kernel.shape is (4,)", "an odd number of weights"]),
    "corpus: no vocabulary": (
        lambda: Corpus("x", None, *2 * [torch.zeros(3, dtype=torch.int64)]), TypeError,
        ["vocabulary is None", "an instance of Vocabulary"]),
    "corpus: a token that the vocabulary lacks": (
        lambda: Corpus("x", Vocabulary("ab"), torch.tensor([0, 1]), torch.tensor([1, 5])), ValueError,
        ["a token of validation is 5", "0 to 1, the vocabulary"]),
    "encode: no text": (lambda: Vocabulary("ab").encode(None), TypeError, ["text is None", "an instance of str"]),
    "sharing: a model of transformers": (
        lambda: expand_sharing(hf.wrap(small_model())), ValueError, ["module is 'BookForCausalLM'", "`hf.wrap` comes"]),
    "initialize: attention without an end": (
        lambda: initialize(layer(attention=nn.Identity())), ValueError,
        ["attention is 'Identity'", "a module with 'output', its last projection"]),
    "leak map: an embedding without a body": (
        lambda: leak_map(with_embedding(), 4), ValueError, ["module is 'Linear'", "one with a body and a norm"]),
    "shortening: other channels": (
        lambda: AvgPoolShortening(4, 2)(X), ValueError, ["x.shape is (2, 4, 6)", "[batch, seq, 4]"]),
    "up-sampling: other channels": (
        lambda: NaiveUpSampling(4, 2)(X, X[:, :2, :4]), ValueError, ["x.shape is (2, 4, 6)", "[batch, seq, 4]"]),
    "digits: no block": (lambda: DigitClassifier(n_layers=-1), ValueError, ["n_layers is -1", "at least 1"]),
    "digits: a rate that is text": (
        lambda: DigitTraining(learning_rate="3e-3"), TypeError, ["learning_rate is '3e-3'", "a number"]),
    "digits: a seed that is not whole": (lambda: DigitTraining(seed=1.5), TypeError, ["seed is 1.5", "an int"]),
    # not modules
    "layer: attention that is not a module": (
        lambda: layer(attention=torch.relu), TypeError, ["attention is <built-in", "a torch.nn.Module"]),
    "layer: network that is not a module": (
        lambda: layer(feed_forward=torch.relu), TypeError, ["feed_forward is <built-in", "a torch.nn.Module"]),
    "network: activation that is not a module": (
        lambda: FeedForward(8, 16, "relu"), TypeError, ["activation is 'relu'", "a torch.nn.Module"]),
    "model: body that is not a module": (
        lambda: LanguageModel([], vocab_size=7, d_model=8, max_seq_len=6), TypeError, ["body is []", "a torch.nn.Mod"]),
    "hourglass: shortening without a factor": (
        resampled(nn.Linear(8, 8), NaiveUpSampling(8, 2)), TypeError, ["shorten is 'Linear'", "with a factor"]),
    "hourglass: up-sampling without a factor": (
        resampled(AvgPoolShortening(8, 2), nn.Linear(8, 8)), TypeError, ["up_sample is 'Linear'", "with a factor"]),
    # names
    "unknown model": (
        make("perceiver"), ValueError, ["name is 'perceiver'", *map(repr, model_names())]),
    "a model that is not a name": (make(None), ValueError, ["name is None", *map(repr, model_names())]),
    "unknown sharing": (
        lambda: CausalDepthwiseConv(8, sharing="some"), ValueError, ["sharing is 'some'", "'heads'", "'all'"]),
    "model: unknown sharing": (make(sharing="some"), ValueError, ["sharing is 'some'", "'heads'", "'none'", "'all'"]),
    "unknown option": (make(width=3), TypeError, ["option is 'width'", "'kernel_size'", "'sharing'", "'primer-ez'"]),
    "option of another model": (
        make("transformer", kernel_size=3), TypeError, ["option is 'kernel_size'", "'transformer'"]),
    "unknown activation": (
        make(activation="tanh"), ValueError, ["activation is 'tanh'", "'squared-relu'", "'gelu'", "'swiglu'"]),
    "unknown subset of q, k, v": (make(convolve="kq"), ValueError, ["convolve is 'kq'", "''", "'qk'", "'qkv'"]),
    "attention: unknown subset": (
        lambda: MultiDConvHeadAttention(8, 2, "x"), ValueError, ["convolve is 'x'", "''", "'qk'", "'qkv'"]),
    "unknown init": (make(init="zero"), ValueError, ["init is 'zero'", "'official'", "'random'"]),
    "a name and an option that contradict each other": (
        make("primer-ez-shared", sharing="none"), ValueError, ["sharing is 'none'", "'all', as the name says"]),
    "a sharing with fewer kernels than there are": (
        lambda: expand_sharing(CausalDepthwiseConv(8, 2, sharing="none"), "heads"), ValueError,
        ["sharing is 'heads'", "kernels of shape (2, 4)"]),
    "one kernel for many": (
        lambda: expand_sharing(CausalDepthwiseConv(8, 2), "all"), ValueError,
        ["sharing is 'all'", "kernels of shape (1, 4)"]),
    "an unknown sharing to expand to": (
        lambda: expand_sharing(CausalDepthwiseConv(8, 2), "each"), ValueError, ["sharing is 'each'", "'none'"]),
    # hierarchies
    "no hierarchy": (hourglass(hierarchy=3), TypeError, ["hierarchy is 3", "a string such as '2@1 6@3 2@1'"]),
    "a stack without a factor": (
        hourglass(hierarchy="2@1 6 2@1"), ValueError, ["stack 2 of the hierarchy is '6'", "layers@factor"]),
    "a stack that is not a number": (
        hourglass(hierarchy="2@1 x@3 2@1"), ValueError, ["stack 2 of the hierarchy is 'x@3'", "layers@factor"]),
    "a factor of zero": (
        hourglass(hierarchy="2@1 6@0 2@1"), ValueError, ["stack 2 of the hierarchy is '6@0'", "layers@factor"]),
    "not a palindrome": (
        hourglass(hierarchy="2@1 6@3 1@1"), ValueError, ["hierarchy is '2@1 6@3 1@1'", "the same read from its end"]),
    "an empty hierarchy": (hourglass(hierarchy=""), ValueError, ["hierarchy is ''", "the same read from its end"]),
    "a hierarchy of one stack": (hourglass(hierarchy="6@1"), ValueError, ["hierarchy is '6@1'", "another one inside"]),
    "a first stack that is shortened": (
        hourglass(hierarchy="1@2 1@4 1@2"), ValueError, ["hierarchy is '1@2 1@4 1@2'", "a first stack @1"]),
    "a factor that does not divide": (
        hourglass(hierarchy="1@1 1@4 1@6 1@4 1@1"), ValueError, ["factor 6 of the hierarchy", "a multiple of 4"]),
    "another number of layers": (
        hourglass(hierarchy="1@1 6@4 1@1", n_layers=4), ValueError, ["n_layers is 4", "None or 8", "'1@1 6@4 1@1'"]),
    "unknown shortening": (
        hourglass(shortening="max"), ValueError, ["shortening is 'max'", "'average'", "'linear'", "'attention'"]),
    "unknown up-sampling": (
        hourglass(up_sampling="max"), ValueError, ["up_sampling is 'max'", "'naive'", "'linear'", "'attention'"]),
    "unknown pooling": (hourglass(pooling="attention"), ValueError, ["pooling is 'attention'", "'average'"]),
    "unknown expansion": (hourglass(expansion="attention"), ValueError, ["expansion is 'attention'", "'naive'"]),
    "unknown layer": (hourglass(layer="gmlp"), ValueError, ["layer is 'gmlp'", "'transformer'", "'primer-ez'"]),
    "no factors": (lambda: levels([], [1]), ValueError, ["factors is []", "at least one factor"]),
    "too few stacks": (lambda: levels([2, 2], [1, 1]), ValueError, ["n_layers is [1, 1]", "3 numbers"]),
    "hourglass of no tokens": (
        lambda: levels([2], [1, 1])(torch.zeros(1, 0, 8)), ValueError, ["the sequence length is 0", "at least one"]),
    "convolution of no tokens": (
        lambda: CausalDepthwiseConv(8, 2)(torch.zeros(1, 0, 8)), ValueError, ["the sequence length is 0", "at least"]),
    "convolution of no tokens after others": (
        lambda: CausalDepthwiseConv(8, 2)(torch.zeros(2, 0, 8), Cache(2)), ValueError, ["the sequence length is 0"]),
    "a cost of something else": (
        lambda: cost_model(nn.Linear(2, 2), 5), TypeError, ["body is 'Linear'", "a Stack or an Hourglass"]),
    "a cache of something else": (
        lambda: cache_bytes(nn.Linear(2, 2), 5), TypeError, ["body is 'Linear'", "a Stack or an Hourglass"]),
    "cache_bytes of another layer": (
        lambda: cache_bytes(Stack([nn.Linear(2, 2)]), 5), TypeError, ["a layer is 'Linear'", "one of the book's"]),
    "a cost of another layer": (
        lambda: cost_model(Stack([nn.Linear(2, 2)]), 5), TypeError, ["a layer is 'Linear'", "one of the book's"]),
    "unknown corpus": (
        lambda: load_corpus("milton"), ValueError, ["'milton'", "'shakespeare'", "'tiny-shakespeare'", "path"]),
    # gates
    "gate: odd split": (lambda: GMLPBlock(6, 7, 4, causal=True), ValueError, ["d_ffn is 7", "an even number"]),
    "gate: unknown": (lambda: gated(gate="glu"), ValueError, ["gate is 'glu'", *map(repr, gmlp.GATES)]),
    "gate: unknown weight": (
        lambda: gated(weight="sparse"), ValueError, ["weight is 'sparse'", "'dense'", "'toeplitz'"]),
    "gate: unknown start": (lambda: gated(start="half"), ValueError, ["start is 'half'", "'open'", "'shut'"]),
    "gate: a sum that starts shut": (
        lambda: gated(gate="additive", start="shut"), ValueError, ["start is 'shut'", "'open': a gate"]),
    "fft of a dense matrix": (lambda: gated(fft=True), ValueError, ["fft is True", "not Toeplitz"]),
    "model: fft of a dense matrix": (
        lambda: build_model("dense-gmlp", vocab_size=5, fft=True), ValueError, ["fft is True", "not Toeplitz"]),
    "model: another attention than the name says": (
        lambda: build_model("amlp", vocab_size=5, d_attention=32), ValueError, ["d_attention is 32", "64"]),
    "causal that is not a bool": (lambda: gated(causal=None), TypeError, ["causal is None", "True or False"]),
    "block: too long": (
        lambda: gated()(torch.zeros(2, 5, 6)), ValueError, ["the sequence length is 5", "max_seq_len=4"]),
    "gate alone, too long": (
        lambda: SpatialGatingUnit(6, 4, causal=True)(torch.zeros(2, 5, 6)), ValueError,
        ["the sequence length is 5", "max_seq_len=4"]),
    "mask of another length": (
        lambda: gated()(X, mask=SEEN[:, 1:]), ValueError, ["mask.shape is (2, 3)", "(2, 4)", "[batch, seq]"]),
    "mask of another rank": (lambda: gated()(X, mask=SEEN[0]), ValueError, ["mask.shape is (4,)", "(2, 4)"]),
    "mask of numbers": (lambda: gated()(X, mask=SEEN.float()), TypeError, ["mask is torch.float32", "torch.bool"]),
    "mask that is a list": (lambda: gated()(X, mask=[[True] * 4] * 2), TypeError, ["mask is 'list'", "torch.bool"]),
    "mask of a causal block": (lambda: gated(causal=True)(X, mask=SEEN), ValueError, ["mask is", "None, for a causal"]),
    "whole numbers to a norm": (lambda: PrimerNorm(4)(torch.tensor([[1, 2, 3, 4]])), TypeError, ["x.dtype", "int64"]),
    "four dimensions to pool": (
        lambda: AvgPoolShortening(8, 2)(torch.zeros(2, 2, 5, 8)), ValueError, ["x.shape", "(2, 2, 5, 8)"]),
    "windows that nobody reads": (
        lambda: NaiveUpSampling(4, 2)(torch.zeros(1, 5, 4), torch.zeros(1, 4, 4)), ValueError, ["short", "(1, 3, 4)"]),
    "one window for all tokens": (
        lambda: NaiveUpSampling(4, 1)(torch.zeros(1, 5, 4), torch.zeros(1, 1, 4)), ValueError, ["short", "(1, 5, 4)"]),
    "windows of another batch": (
        lambda: NaiveUpSampling(4, 2)(torch.zeros(2, 4, 4), torch.zeros(1, 2, 4)), ValueError, ["short", "(2, 2, 4)"]),
    "cache of a two-sided block": (lambda: gated()(X, Cache(2)), ValueError, ["cache is", "None", "not causal"]),
    "gate: cache of another batch size": (
        lambda: gated(causal=True)(X, Cache(3)), ValueError, ["the batch size is 2", "3, the batch size of the cache"]),
    "tiny attention: cache of another batch size": (
        lambda: TinyAttention(6, 4, causal=True)(X, Cache(3)), ValueError, ["the batch size is 2", "3, the batch"]),
    "tiny attention: mask of another length": (
        lambda: TinyAttention(6, 4, causal=False)(X, mask=SEEN[:, 1:]), ValueError, ["mask.shape is (2, 3)"]),
    # tokens
    "float tokens": (read(torch.zeros(1, 3)), TypeError, ["tokens.dtype is torch.float32", "torch.int64"]),
    "int32 tokens": (read(ids(1, 3).int()), TypeError, ["tokens.dtype is torch.int32", "torch.int64"]),
    "a list of tokens": (read([[1, 2]]), TypeError, ["tokens is [[1, 2]]", "a tensor"]),
    "negative token": (read(ids(1, 3) - 2), ValueError, ["a token is -2", "0 to 6"]),
    "token beyond the vocabulary": (read(ids(1, 3) + 7), ValueError, ["a token is 7", "0 to 6"]),
    "one bad token among good ones": (read(torch.tensor([[1, 6], [99, 0]])), ValueError, ["a token is 99", "0 to 6"]),
    "empty sequence": (read(ids(2, 0)), ValueError, ["tokens.shape is (2, 0)", "[batch, seq]"]),
    "empty batch": (read(ids(0, 2)), ValueError, ["tokens.shape is (0, 2)", "[batch, seq]"]),
    "sequence without a batch": (read(ids(3)), ValueError, ["tokens.shape is (3,)", "[batch, seq]"]),
    "too long sequence": (read(ids(1, 7)), ValueError, ["the sequence length is 7", "at most max_seq_len=6"]),
    "cache of another batch size": (
        read(ids(3, 1), cache=Cache(2)), ValueError, ["the batch size is 3", "2, the batch size of the cache"]),
    "attention: cache of another batch size": (
        lambda: MultiHeadAttention(8, 2)(torch.zeros(3, 1, 8), Cache(2)), ValueError, ["the batch size is 3", "2"]),
    "convolution: cache of another batch size": (
        lambda: CausalDepthwiseConv(8, 2)(torch.zeros(3, 1, 8), Cache(2)), ValueError, ["the batch size is 3", "2"]),
    # generation
    "negative temperature": (continue_prompt(temperature=-0.5), ValueError, ["temperature is -0.5", "0 or more"]),
    "temperature of nothing": (
        continue_prompt(temperature=float("nan")), ValueError, ["temperature is nan", "a finite number"]),
    "infinite temperature": (
        continue_prompt(temperature=float("inf")), ValueError, ["temperature is inf", "a finite number"]),
    "temperature that is not a number": (continue_prompt(temperature="1"), TypeError, ["temperature is '1'", "number"]),
    "top_k of zero": (continue_prompt(top_k=0), ValueError, ["top_k is 0", "at least 1"]),
    "negative top_k": (continue_prompt(top_k=-3), ValueError, ["top_k is -3", "at least 1"]),
    "fractional top_k": (continue_prompt(top_k=2.0), TypeError, ["top_k is 2.0", "int"]),
    "negative number of tokens": (
        continue_prompt(max_new_tokens=-1), ValueError, ["max_new_tokens is -1", "at least 0"]),
    "fractional number of tokens": (continue_prompt(max_new_tokens=1.5), TypeError, ["max_new_tokens is 1.5", "int"]),
    "prompt and new tokens too long": (
        continue_prompt(max_new_tokens=5), ValueError, ["prompt and new tokens is 7", "at most max_seq_len=6"]),
    "empty prompt": (continue_prompt(ids(1, 0)), ValueError, ["tokens.shape is (1, 0)", "[batch, seq]"]),
    "float prompt": (continue_prompt(torch.zeros(1, 2)), TypeError, ["tokens.dtype is torch.float32", "torch.int64"]),
    "prompt outside the vocabulary": (continue_prompt(ids(1, 2) + 7), ValueError, ["a token is 7", "0 to 6"]),
    # the rest
    "rotary that is a word": (make("transformer", rotary="False"), TypeError, ["rotary is 'False'", "True or False"]),
    "dropout that is a switch": (make(dropout=False), TypeError, ["dropout is False", "a probability"]),
    "norm: epsilon of zero": (lambda: PrimerNorm(8, 0), ValueError, ["eps is 0", "more than 0"]),
    "norm: epsilon that is a word": (lambda: PrimerNorm(8, "1e-6"), TypeError, ["eps is '1e-6'", "a number"]),
    "seed that is a word": (lambda: TrainingConfig(seed="2"), TypeError, ["seed is '2'", "an int"]),
    "unknown character": (lambda: Vocabulary("abc").encode("abx"), ValueError, ["'x'", "'abc'"]),
    "unknown character of a large vocabulary": (
        lambda: Vocabulary("".join(map(chr, range(0x4E00, 0x9F00)))).encode("x"), ValueError, ["'x'", "'一丁"]),
    "seed of 400 digits": (lambda: TrainingConfig(seed=10**400), ValueError, ["seed is 1000", "from -2**63"]),
    **{
        f"{name} of 400 digits": (
            lambda name=name: TrainingConfig(**{name: 10**400}), ValueError, [f"{name} is 1000", "a finite number"])
        for name in ("learning_rate", "weight_decay", "clip_norm")
    },
    "temperature of 400 digits": (
        continue_prompt(temperature=10**400), ValueError, ["temperature is 1000", "a finite number"]),
    "leak_map of what has no channels": (
        lambda: leak_map(small_model().body, 4), ValueError, ["module is 'Stack'", "one with d_model"]),
    "leak_map of a function": (lambda: leak_map(len, 4), TypeError, ["module is <built-in", "a torch.nn.Module"]),
    "shape_trace without inputs": (lambda: shape_trace(small_model()), ValueError, ["inputs is ()", "called with"]),
    "shape_trace of a function": (lambda: shape_trace(len, X), TypeError, ["module is <built-in", "torch.nn.Module"]),
    "convolution: no batch": (
        lambda: CausalDepthwiseConv(6, 2)(X[0]), ValueError, ["x.shape is (4, 6)", "[batch, seq, 6]"]),
    "convolution: other channels": (
        lambda: CausalDepthwiseConv(8, 2)(X), ValueError, ["x.shape is (2, 4, 6)", "[batch, seq, 8]"]),
    "fractional warm-up": (lambda: TrainingConfig(warmup_steps=1.5), TypeError, ["warmup_steps is 1.5", "int"]),
    "negative warm-up": (lambda: TrainingConfig(warmup_steps=-1), ValueError, ["warmup_steps is -1", "at least 0"]),
    "learning rate of zero": (lambda: TrainingConfig(learning_rate=0), ValueError, ["learning_rate is 0", "more than"]),
    "negative clip_norm": (lambda: TrainingConfig(clip_norm=-1.0), ValueError, ["clip_norm is -1.0", "more than 0"]),
    "digits: learning rate of zero": (
        lambda: DigitTraining(learning_rate=0), ValueError, ["learning_rate is 0", "more than 0"]),
    "digits: negative decay": (lambda: DigitTraining(weight_decay=-1), ValueError, ["weight_decay is -1", "0 or more"]),
    "digits: nothing but smoothing": (
        lambda: DigitTraining(label_smoothing=1), ValueError, ["label_smoothing is 1", "less than 1"]),
    "unknown optimizer": (
        lambda: TrainingConfig(optimizer="moun"), ValueError, ["optimizer is 'moun'", "one of 'adamw', 'muon'"]
    ),
    "negative decay": (lambda: TrainingConfig(weight_decay=-0.1), ValueError, ["weight_decay is -0.1", "0 or more"]),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_by_name_value_and_expectation(what):
    call, error, fragments = BAD[what]
    with pytest.raises((TypeError, ValueError)) as refused:
        call()
    assert type(refused.value) is error
    assert len(str(refused.value)) < 1000
    for fragment in fragments:
        assert fragment in str(refused.value)


# every size, and every way in which it can be wrong

SIZED = {
    **{size: lambda v, size=size: build_model("transformer", **SIZES | {size: v}) for size in [*SIZES, "d_ff"]},
    "factor": lambda v: levels([v], [1, 1]),
    "factor of a shortening": lambda v: AvgPoolShortening(8, v),
    "factor of an up-sampling": lambda v: NaiveUpSampling(8, v),
    "seq_len of cache_bytes": lambda v: cache_bytes(build_model("transformer", **SIZES).body, v),
    "seq_len of cost_model": lambda v: cost_model(build_model("transformer", **SIZES).body, v),
    "kernel_size": lambda v: CausalDepthwiseConv(8, 2, kernel_size=v),
    "kernel_size of a model": lambda v: build_model("primer-ez", **SIZES, kernel_size=v),
    "kernel_size of an attention": lambda v: MultiDConvHeadAttention(8, 2, kernel_size=v),
    "dilation": lambda v: CausalDepthwiseConv(8, 2, dilation=v),
    "dilation of a model": lambda v: build_model("primer-ez", **SIZES, dilation=v),
    "d_model of an attention": lambda v: MultiHeadAttention(v, 2),
    "n_heads of an attention": lambda v: MultiHeadAttention(8, v),
    "d_model of a convolution": lambda v: CausalDepthwiseConv(v, 2),
    "n_heads of a convolution": lambda v: CausalDepthwiseConv(8, v),
    "d_model of a network": lambda v: FeedForward(v, 8, SquaredReLU()),
    "d_ff of a network": lambda v: FeedForward(8, v, SquaredReLU()),
    "d_model of a layer": lambda v: layer(d_model=v),
    "d_model of a norm": PrimerNorm,
    "d_model of positions": lambda v: LearnedPositions(v, 4),
    "max_seq_len of positions": lambda v: LearnedPositions(8, v),
    **{
        f"{size} of a language model": lambda v, size=size: language_model(**{size: v})
        for size in ("vocab_size", "d_model", "max_seq_len")
    },
    **{
        f"d_model of {part.__name__}": lambda v, part=part: part(v, 2)
        for part in (AvgPoolShortening, LinearPoolingShortening, NaiveUpSampling, LinearUpSampling)
    },
    "d_ffn": lambda v: SpatialGatingUnit(v, 4, causal=True, gate="whole"),
    "max_seq_len of a gate": lambda v: SpatialGatingUnit(6, v, causal=True),
    "d_model of a block": lambda v: GMLPBlock(v, 8, 4, causal=True),
    "d_attention": lambda v: TinyAttention(6, 4, v, causal=True),
    "d_attention of a model": lambda v: build_model("gmlp", **SIZES, d_attention=v),
    "batch_size of a cache": Cache,
    "steps of the digits": lambda v: DigitTraining(steps=v),
    "batch_size of the digits": lambda v: DigitTraining(batch_size=v),
    "side": lambda v: DigitClassifier(side=v),
    "seq_len of leak_map": lambda v: leak_map(CausalDepthwiseConv(8, 2), v),
    "seq_len of receptive_field": lambda v: receptive_field(CausalDepthwiseConv(8, 2), v),
    **{
        f"{size} of a training": lambda v, size=size: TrainingConfig(**{size: v})
        for size in ("steps", "batch_size", "seq_len", "eval_every", "eval_batches")
    },
}


@pytest.mark.parametrize("what", SIZED)
@pytest.mark.parametrize(
    ("value", "error"), [(0, ValueError), (-1, ValueError), (2.5, TypeError), (True, TypeError), ("2", TypeError)]
)
def test_a_size_is_an_int_of_at_least_one(what, value, error):
    message = rf"^{what.split()[0]} is {re.escape(repr(value))}; expected an int of at least 1$"
    with pytest.raises(error, match=message):
        SIZED[what](value)


@pytest.mark.parametrize("size", sorted(set(SIZES) - {"n_layers"}))
def test_a_size_is_not_none(size):
    with pytest.raises(TypeError, match=f"^{size} is None; expected an int"):
        build_model("transformer", **SIZES | {size: None})


@pytest.mark.parametrize("name", model_names())
@pytest.mark.parametrize("dropout", [-0.1, 1, 1.5, float("nan")])
def test_dropout_is_a_probability_below_one(name, dropout):
    with pytest.raises(ValueError, match=f"^dropout is {dropout}; expected a probability"):
        build_model(name, **SIZES, dropout=dropout)
