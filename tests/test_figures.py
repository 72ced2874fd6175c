"""Figures show what they are given."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest
import torch

from efficient_transformers import Metrics, build_model, figures


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.fixture
def metrics():
    return Metrics({"step": s, "seconds": s / 10, "train_loss": 3.0, "validation_loss": 3.0 - s / 50} for s in (0, 50))


@pytest.mark.parametrize(("name", "convolutions"), [("transformer", 0), ("primer-ez", 3)])
def test_a_layer_is_drawn_from_its_modules(name, convolutions):
    layer = build_model(name, vocab_size=9, d_model=16).body[0]
    texts = [t.get_text() for t in figures.draw_layer(layer).axes[0].texts]
    assert sum(t.startswith("conv_") for t in texts) == convolutions
    assert "query\n256" in texts
    assert ("squared\nReLU" in texts) == (name == "primer-ez")


def test_a_leak_has_a_colour_of_its_own():
    past, leaky = torch.ones(4, 4).tril(), torch.ones(4, 4).tril(1)
    left, right = figures.leak_maps({"past": past, "leaky": leaky}).axes
    assert left.images[0].get_array().max() == 1
    assert (right.images[0].get_array() == 2).sum() == 3


def test_losses_have_units_and_the_models_colours(metrics):
    ax = figures.plot_losses({"transformer": metrics, "primer-ez": metrics}, against="seconds")
    assert ax.get_xlabel() == "training time (s)"
    assert ax.get_ylabel() == "validation loss (nats per character)"
    assert [line.get_color() for line in ax.lines] == [figures.COLORS["transformer"], figures.COLORS["primer-ez"]]


def test_metrics_plot_themselves(metrics):
    line = metrics.plot(label="transformer").lines[0]
    assert list(line.get_xdata()) == [0, 50]
    assert list(line.get_ydata()) == [3.0, 2.0]


def test_heatmaps_share_one_scale():
    figure = figures.heatmaps({"a": torch.tensor([[1.0, -2.0]]), "b": torch.zeros(1, 2)}, "x", "y", diverging=True)
    assert [ax.images[0].get_clim() for ax in figure.axes] == [(-2.0, 2.0), (-2.0, 2.0)]


def test_dots_shows_every_seed():
    ax = figures.dots({"transformer": [[1.0, 2.0], [3.0]]}, ["0.1", "0.2"], "rate", "loss").axes[0]
    assert sorted(y for line in ax.lines[:2] for y in line.get_ydata()) == [1.0, 2.0, 3.0]
    assert list(ax.lines[2].get_ydata()) == [1.5, 3.0]
