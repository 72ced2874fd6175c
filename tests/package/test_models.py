"""Families and their options, starting weights, what an import costs, and what a printed model says."""

import itertools
import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from efficient_transformers import (
    FeedForward,
    GMLPBlock,
    LanguageModel,
    MultiHeadAttention,
    PrimerLayer,
    TransformerLayer,
    build_model,
    initialize,
    model_names,
)
from efficient_transformers.layers.family import Family
from efficient_transformers.models.language_model import FAMILIES

SIZES = {"vocab_size": 7, "d_model": 8, "n_heads": 2, "max_seq_len": 12}
HEAVY = (
    "IPython",
    "ipywidgets",
    "matplotlib",
    "pooch",
    "safetensors",
    "scipy",
    "sklearn",
)

every_model = pytest.mark.parametrize("name", model_names())


@dataclass(frozen=True, kw_only=True)
class BagFamily(Family):
    """A sixth family: the mean of all tokens so far, with a learned weight."""

    scale: float = 1.0

    def make_layer(self, sizes):
        layer = nn.Linear(sizes.d_model, sizes.d_model)
        layer.forward = lambda x, cache=None: x + self.scale * nn.functional.linear(x.cumsum(1), layer.weight)
        return layer


def test_a_sixth_family_is_one_class_and_one_entry(monkeypatch, tmp_path):
    monkeypatch.setitem(FAMILIES, "bag", BagFamily)
    assert "bag" in model_names()
    model = build_model("bag", **SIZES, scale=0.5)
    assert len(model.body) == 4
    assert model.config["scale"] == 0.5
    with pytest.raises(TypeError, match=r"option is 'width'; expected one of \['scale'\], the options of 'bag'"):
        build_model("bag", **SIZES, width=1)
    model.save_pretrained(tmp_path / "bag")
    tokens = torch.randint(7, (2, 5))
    assert torch.equal(LanguageModel.from_pretrained(tmp_path / "bag")(tokens), model.eval()(tokens))


@every_model
def test_each_layer_of_a_new_model_is_drawn_for_itself(name):
    layers = [m for m in build_model(name, **SIZES).modules() if isinstance(m, TransformerLayer | GMLPBlock)]
    drawn = [next(p for p in layer.parameters() if p.dim() == 2 and p.any()) for layer in layers]
    assert len(drawn) > 1
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(drawn, 2))


@every_model
def test_dropout_reaches_every_layer(name):
    model = build_model(name, **SIZES, dropout=0.25)
    assert [m.p for m in model.modules() if isinstance(m, nn.Dropout)] == [0.25] * (1 + model.config["n_layers"])


@every_model
def test_layers_begin_as_the_identity_unless_a_norm_follows(name):
    model = build_model(name, **SIZES).double()
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    layers = [layer for layer in model.modules() if isinstance(layer, TransformerLayer | GMLPBlock)]
    assert len(layers) == model.config["n_layers"]
    for layer in layers:
        change = (layer(x) - x).abs().max()
        assert (change > 0.1) if isinstance(layer, PrimerLayer) else (change == 0)


def test_initialize_serves_layers_in_a_model_of_ones_own():
    layer = TransformerLayer(MultiHeadAttention(64, 4), FeedForward(64, 256, nn.ReLU()), 64)
    own = nn.Sequential(nn.Linear(16, 64), layer)
    initialize(own)
    x = torch.randn(2, 5, 64)
    assert torch.equal(layer(x), x)
    assert own[0].weight.std().item() == pytest.approx(16**-0.5, rel=0.1)
    assert layer.feed_forward.up.weight.std().item() == pytest.approx(64**-0.5, rel=0.1)


def run_alone(code):
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return result.stdout.splitlines()


@pytest.mark.slow
def test_an_import_loads_nothing_heavy_but_torch():
    for _ in range(3):  # more tries if the machine was busy
        seconds, loaded = run_alone(
            "import sys, time, torch; t = time.process_time(); import efficient_transformers;"
            f"print(time.process_time() - t); print([m for m in {HEAVY} if m in sys.modules])"
        )
        assert loaded == "[]"
        if float(seconds) < 0.1:
            return
    pytest.fail(f"the import took {seconds} seconds beside PyTorch's")


@pytest.mark.slow
def test_figures_leave_the_readers_style_alone():
    same, colors = run_alone(
        "import matplotlib as mpl, matplotlib.pyplot as plt; mpl.use('agg'); before = dict(mpl.rcParams);"
        "from efficient_transformers import figures; from efficient_transformers.book import diagrams;"
        "ax = figures.curves({'': {'a': ([1, 2], [3, 4])}}, 'x', 'y').axes[0];"
        "print(dict(mpl.rcParams) == before); print(ax.lines[0].get_color(), figures.OTHERS[0])"
    )
    assert same == "True"
    ours, wanted = colors.split()
    assert ours == wanted
