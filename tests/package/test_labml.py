"""Layers by labml's names give the figures of labml-nn 0.5.1: outputs and gradients, keys, shapes and starting values.

The figures are in labml.json. `make bench` installs labml-nn in .peers, and
`PYTHONPATH=.peers:tests python tests/package/test_labml.py` writes the file again.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from efficient_transformers import labml
from efficient_transformers.layers import resampling, transformer
from efficient_transformers.layers.convolution import CausalDepthwiseConv

FIGURES = Path(__file__).with_name("labml.json")
PEERS = Path(__file__).parents[2] / ".peers"  # where `make bench` puts labml-nn
STARTS = 200  # layers that are made for their starting values
quietly = pytest.mark.filterwarnings("ignore:invalid escape sequence")  # in labml's docstrings


def wave(*shape, phase=0.0):
    """Numbers that a formula gives, without a pattern along any dimension."""
    i = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return torch.sin(0.37 * (i + 1) ** 2 + phase).view(shape)


X, LONG, HEADS = wave(7, 2, 8), wave(11, 2, 8, phase=1), wave(7, 2, 3, 4, phase=2)
FREE = wave(7, 7, 1, phase=3) > -0.3  # a mask of any form
MASKS = wave(7, 11, 2, phase=4) > -0.3  # another one for each sequence of a batch
CAUSAL = torch.ones(7, 7).tril()[..., None] > 0


def to_itself(x, mask=None):
    return {"query": x, "key": x, "value": x, "mask": mask}


# For each case: the layer in a namespace of labml's names, and what it is called with.
CASES = {
    "SquaredReLU": (lambda m: m.SquaredReLU(), [X]),
    "SpatialDepthWiseConvolution": (lambda m: m.SpatialDepthWiseConvolution(4), [HEADS]),
    "SpatialDepthWiseConvolution of 5 tokens": (lambda m: m.SpatialDepthWiseConvolution(4, 5), [HEADS]),
    "SpatialDepthWiseSharedConvolution": (lambda m: m.SpatialDepthWiseSharedConvolution(), [HEADS]),
    "SpatialDepthWisePerHeadConvolution": (lambda m: m.SpatialDepthWisePerHeadConvolution(3, 4), [HEADS]),
    "MultiDConvHeadAttention": (lambda m: m.MultiDConvHeadAttention(2, 8, 0.0), to_itself(X, CAUSAL)),
    "MultiDConvHeadAttention without a mask": (lambda m: m.MultiDConvHeadAttention(4, 8, 0.0), to_itself(X)),
    "MultiDConvHeadAttention to another sequence": (
        lambda m: m.MultiDConvHeadAttention(2, 8, 0.0),
        {"query": X, "key": LONG, "value": LONG, "mask": MASKS},
    ),
    "MultiDSharedConvHeadAttention": (lambda m: m.MultiDSharedConvHeadAttention(2, 8, 0.0), to_itself(X, FREE)),
    "MultiDPHConvHeadAttention": (lambda m: m.MultiDPHConvHeadAttention(2, 8, 0.0), to_itself(X, CAUSAL)),
    "HourGlass": (lambda m: m.HourGlass(2, 8, 0.0, 12, [3]), [LONG]),
    "HourGlass in an HourGlass": (lambda m: m.HourGlass(2, 8, 0.0, 12, [2, 3]), [LONG]),
    "ShiftRight": (lambda m: m.ShiftRight(3), [X]),
    "ShiftRight by nothing": (lambda m: m.ShiftRight(0), [X]),
    "AvgPoolShortening": (lambda m: m.AvgPoolShortening(3), [LONG]),
    "NaiveUpSampling": (lambda m: m.NaiveUpSampling(2), [X, wave(4, 2, 8, phase=5)]),
    "AutoregressiveMask": (lambda m: m.AutoregressiveMask(), [X]),
    "GMLPBlock": (lambda m: m.GMLPBlock(8, 12, 9), {"x": X, "mask": CAUSAL}),
    "GMLPBlock with a free mask": (lambda m: m.GMLPBlock(8, 12, 7), {"x": X, "mask": FREE}),
    "GMLPBlock without a mask": (lambda m: m.GMLPBlock(8, 12, 7), {"x": X}),
    "SpacialGatingUnit": (lambda m: m.SpacialGatingUnit(8, 9), [X]),
    "SpacialGatingUnit with one row of a mask": (lambda m: m.SpacialGatingUnit(8, 9), [X, FREE[:1]]),
}


def digest(tensor):
    """The shape, and the sums of the numbers times two waves."""
    tensor = tensor.detach().double()
    sums = [(tensor * wave(*tensor.shape, phase=p)).sum().item() for p in (0.1, 1.3)]
    return [list(tensor.shape), *(round(total, 10) + 0.0 for total in sums)]


def given(layer):
    """A layer with weights that a formula gives, in the order of their names."""
    layer = layer.double().eval()
    state = layer.state_dict()
    layer.load_state_dict({name: 0.5 * wave(*state[name].shape, phase=i) for i, name in enumerate(sorted(state))})
    return layer


def call(layer, inputs):
    return layer(**inputs) if isinstance(inputs, dict) else layer(*inputs)


def figures(make, inputs):
    """Digests of the output, and of the gradients of one number that comes of it."""
    layer = given(make)
    named = inputs if isinstance(inputs, dict) else {str(i): x for i, x in enumerate(inputs)}
    leaves = {id(x): x.clone().requires_grad_() for x in named.values() if x is not None and x.is_floating_point()}
    named = {name: leaves.get(id(x), x) for name, x in named.items()}  # a tensor that is given twice is one leaf
    y = call(layer, named if isinstance(inputs, dict) else named.values())
    found = {"output": digest(y)}
    if y.requires_grad:
        (y * wave(*y.shape, phase=6)).sum().backward()
        found |= {
            f"gradient of {name}": digest(x.grad) for name, x in named.items() if getattr(x, "grad", None) is not None
        }
    return found | {f"gradient of {name}": digest(p.grad) for name, p in layer.named_parameters()}


def starts(make):
    """The least and the largest number that each parameter starts with."""
    torch.manual_seed(0)
    drawn = [make().state_dict() for _ in range(STARTS)]
    return {
        name: [round(best(best(state[name].flatten().tolist()) for state in drawn), 5) for best in (min, max)]
        for name in sorted(drawn[0])
    }


def theirs():
    """The names of labml's four pages."""
    from labml_nn.transformers import gmlp, hour_glass, primer_ez
    from labml_nn.transformers.primer_ez import variations

    return SimpleNamespace(**vars(primer_ez) | vars(variations) | vars(hour_glass) | vars(gmlp))


def record(names):
    return {
        case: {"figures": figures(make(names), inputs), "starts": starts(lambda make=make: make(names))}
        for case, (make, inputs) in CASES.items()
    }


RECORDED = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
every_case = pytest.mark.parametrize("case", CASES)


def assert_figures(names, case):
    make, inputs = CASES[case]
    found, expected = figures(make(names), inputs), RECORDED[case]["figures"]
    assert found.keys() == expected.keys()
    for name, (shape, *sums) in expected.items():
        assert found[name][0] == shape, name
        assert found[name][1:] == pytest.approx(sums, rel=1e-9, abs=1e-9), name


@every_case
def test_outputs_and_gradients_are_labmls(case):
    assert_figures(labml, case)


@every_case
def test_keys_and_starting_values_are_labmls(case):
    found, expected = starts(lambda: CASES[case][0](labml)), RECORDED[case]["starts"]
    assert found.keys() == expected.keys()
    for name, bounds in expected.items():
        assert found[name] == pytest.approx(bounds, rel=0.1), name


@pytest.fixture
def installed(monkeypatch):
    """The names of labml's four pages; `make test-long` brings it."""
    monkeypatch.syspath_prepend(PEERS)
    return theirs()


@quietly
@pytest.mark.long
def test_the_figures_are_those_of_the_labml_that_is_installed(installed):
    for case in CASES:
        assert_figures(installed, case)


@quietly
@pytest.mark.long
def test_what_labml_saves_loads_and_computes_the_same(installed):
    for make, inputs in CASES.values():
        original, ours = make(installed).double().eval(), make(labml).double().eval()
        ours.load_state_dict(original.state_dict())
        torch.testing.assert_close(call(ours, inputs), call(original, inputs), rtol=0, atol=1e-12)


def test_the_mask_that_labml_imports():
    assert torch.equal(labml.subsequent_mask(7), CAUSAL)


# What raises NotImplementedError there


def hourglass_with_all_that_raises_there(shortening, up_sampling):
    """Two levels, by names of what stands in the place of means and copies."""
    sizes = {"Linear": (8,), "Attention": (2, 8, 12)}
    layer = labml.HourGlass(2, 8, 0.0, 12, [2, 3])
    for level, k in ((layer, 2), (layer.hour_glass, 3)):
        level.shortening = getattr(labml, shortening)(k, *sizes[re.match("Linear|Attention", shortening)[0]])
        level.up_sampling = getattr(labml, up_sampling)(k, *sizes[re.match("Linear|Attention", up_sampling)[0]])
    return given(layer)


@pytest.mark.parametrize("shortening", ["LinearPoolingShortening", "AttentionBasedShortening"])
@pytest.mark.parametrize("up_sampling", ["LinearUpSampling", "AttentionBasedUpSampling"])
def test_in_an_hourglass_they_read_the_past_alone_at_any_length(shortening, up_sampling):
    layer = hourglass_with_all_that_raises_there(shortening, up_sampling)
    for length in (1, 2, 5, 6, 12):
        y = layer(LONG[0].new_zeros(length, 1, 8) + wave(length, 1, 8))
        assert y.isfinite().all()
    x = wave(12, 1, 8).requires_grad_()
    for t in range(12):
        (slopes,) = torch.autograd.grad(layer(x)[t].sum(), x)
        assert not slopes[t + 1 :].any(), f"token {t} reads a later one"
        assert slopes[: t + 1].abs().sum() > 1e-6


@pytest.mark.parametrize("name", ["LinearPoolingShortening", "AttentionBasedShortening"])
def test_a_shortening_of_shifted_tokens_is_the_books(name):
    sizes = (8,) if name == "LinearPoolingShortening" else (2, 8, 12)
    ours = given(getattr(labml, name)(3, *sizes))
    books = resampling.LinearPoolingShortening(8, 3)
    if name == "AttentionBasedShortening":
        network = transformer.FeedForward(8, 12, nn.ReLU())
        books = resampling.AttentionBasedShortening(resampling.AvgPoolShortening(8, 3), 2, network)
    books.double().load_state_dict(ours.layer.state_dict())
    x = wave(9, 2, 8)
    torch.testing.assert_close(ours(labml.ShiftRight(2)(x)), labml.sequence_first(books, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["LinearUpSampling", "AttentionBasedUpSampling"])
def test_what_an_up_sampling_adds_is_the_books(name):
    ours = given(getattr(labml, name)(3, *((8,) if name == "LinearUpSampling" else (2, 8, 12))))
    short = wave(4, 2, 8, phase=1)
    torch.testing.assert_close(
        LONG + ours(LONG, short), labml.sequence_first(ours.layer, LONG, short), rtol=0, atol=1e-12
    )


# What is not labml's


@pytest.mark.parametrize("sharing", ["heads", "all", "none"])
def test_the_books_convolution_is_the_same_sum(sharing):
    ours = {
        "heads": labml.SpatialDepthWiseConvolution(4),
        "all": labml.SpatialDepthWiseSharedConvolution(),
        "none": labml.SpatialDepthWisePerHeadConvolution(3, 4),
    }[sharing]
    books = CausalDepthwiseConv(12, 3, sharing=sharing, bias=True).double()
    weight, bias = given(ours).conv.parameters()
    books.weight.data = weight.detach().flip(2).view_as(books.weight)
    books.bias.data = bias.detach().view_as(books.bias)
    found = labml.sequence_first(books, HEADS.flatten(2)).view_as(HEADS)
    torch.testing.assert_close(found, ours(HEADS), rtol=0, atol=1e-12)


def test_dropout_is_labmls_by_default_and_active_in_training_alone():
    assert labml.MultiDConvHeadAttention(2, 8).dropout == 0.1
    layer = labml.HourGlass(2, 8, 0.5, 12, [2]).double()
    assert {m.dropout for m in layer.modules() if isinstance(m, labml.MultiHeadAttention)} == {0.5}
    assert {m.p for m in layer.modules() if isinstance(m, nn.Dropout)} == {0.5}
    assert not torch.equal(layer(X), layer(X))
    assert torch.equal(layer.eval()(X), layer(X))


BAD = {
    "mask.shape is (5, 7, 1)": lambda: labml.MultiDConvHeadAttention(2, 8).double()(**to_itself(X, FREE[:5])),
    "mask.shape is (7, 7, 2)": lambda: labml.GMLPBlock(8, 12, 9).double()(x=X, mask=MASKS[:, :7]),
    "mask is torch.float64": lambda: labml.SpacialGatingUnit(8, 9).double()(X, FREE.double()),
    "the sequence length is 7": lambda: labml.SpacialGatingUnit(8, 5).double()(X),
    "x.shape is (7, 2, 3, 4)": lambda: labml.SpatialDepthWisePerHeadConvolution(2, 4).double()(HEADS),
    "shortening_factors is []": lambda: labml.HourGlass(2, 8, 0.0, 12, []),
    "shift is -1": lambda: labml.ShiftRight(-1),
}


@pytest.mark.parametrize("found", BAD)
def test_bad_input_is_refused_in_one_sentence(found):
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(found)}; expected .*$"):
        BAD[found]()


def test_weights_of_another_size_are_refused_by_their_name():
    weights = labml.HourGlass(2, 8, 0.0, 16, [2]).state_dict()
    with pytest.raises(ValueError, match=r"pre\.feed_forward\.layer1\.weight is \(16, 8\); expected \(12, 8\)"):
        labml.HourGlass(2, 8, 0.0, 12, [2]).load_state_dict(weights)


if __name__ == "__main__":
    made = json.dumps(record(theirs()))
    FIGURES.write_text(made.replace('}}, "', '}},\n"').replace('"starts"', '\n"starts"') + "\n", encoding="utf-8")
