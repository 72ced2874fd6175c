"""Figures show what they are given."""

from __future__ import annotations

import io

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import to_rgb

from efficient_transformers import Corpus, Metrics, Vocabulary, build_model, figures

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def drawn_and_closed():
    """Whatever a test made is drawn, without a warning."""
    yield
    for number in plt.get_fignums():
        plt.figure(number).savefig(io.BytesIO(), dpi=30)
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
    nothing, past, leak = (right.images[0].cmap(right.images[0].norm(kind))[:3] for kind in (0, 1, 2))
    assert nothing == to_rgb("white")
    assert len({nothing, past, leak}) == 3
    assert leak[0] > leak[2]  # red
    assert past[0] < past[2]
    assert [ax.get_xlabel() for ax in (left, right)] == ["input position"] * 2
    assert (left.get_ylabel(), left.get_title(), right.get_title()) == ("output position", "past", "leaky")


def test_a_leak_map_of_one_position_is_drawn():
    (ax,) = figures.leak_maps({"one": torch.ones(1, 1)}).axes
    assert ax.images[0].get_array().tolist() == [[1]]


def test_losses_have_units_and_the_models_colours(metrics):
    ax = figures.plot_losses({"transformer": metrics, "primer-ez": metrics}, against="seconds")
    assert ax.get_xlabel() == "training time (s)"
    assert ax.get_ylabel() == "validation loss (nats per character)"
    assert [line.get_color() for line in ax.lines] == [figures.COLORS["transformer"], figures.COLORS["primer-ez"]]


def test_losses_are_drawn_into_the_axes_that_are_given(metrics):
    figure, ax = plt.subplots()
    assert figures.plot_losses({"some": metrics}, ax, target=2.5) is ax
    line, target = ax.lines
    assert line.get_label() == "some"
    assert list(target.get_ydata()) == [2.5, 2.5]
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["some"]
    assert metrics.plot(ax) is ax
    assert figure.axes == [ax]


def test_comparison_is_by_steps_and_by_seconds(metrics):
    figure = figures.compare_losses({"transformer": metrics, "primer-ez": metrics}, target=2.5, zoom=2.8)
    steps, seconds = figure.axes
    assert [ax.get_xlabel() for ax in figure.axes] == ["step", "training time (s)"]
    assert [ax.get_ylabel() for ax in figure.axes] == ["validation loss (nats per character)", ""]
    assert [list(ax.lines[0].get_xdata()) for ax in figure.axes] == [[0, 50], [0, 5]]
    assert [[line.get_color() for line in ax.lines[:2]] for ax in figure.axes] == [list(figures.COLORS.values())] * 2
    assert steps.get_ylim()[1] == seconds.get_ylim()[1] == 2.8


def test_metrics_plot_themselves(metrics):
    line = metrics.plot(label="transformer").lines[0]
    assert list(line.get_xdata()) == [0, 50]
    assert list(line.get_ydata()) == [3.0, 2.0]
    assert line.get_color() == figures.COLORS["transformer"]
    ax = metrics.plot(against="seconds")
    assert ax.get_xlabel() == "training time (s)"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["validation"]


def test_heatmaps_share_one_scale():
    figure = figures.heatmaps({"a": torch.tensor([[1.0, -2.0]]), "b": torch.zeros(1, 2)}, "x", "y", diverging=True)
    assert [ax.images[0].get_clim() for ax in figure.axes] == [(-2.0, 2.0), (-2.0, 2.0)]


def test_dots_shows_every_seed():
    ax = figures.dots({"transformer": [[1.0, 2.0], [3.0]]}, ["0.1", "0.2"], "rate", "loss").axes[0]
    assert sorted(y for line in ax.lines[:2] for y in line.get_ydata()) == [1.0, 2.0, 3.0]
    assert list(ax.lines[2].get_ydata()) == [1.5, 3.0]


def test_dots_and_their_line_have_one_colour():
    values = {label: [[1.0], [2.0]] for label in ("transformer", "primer-ez", "other", "another")}
    ax = figures.dots(values, ["0.1", "0.2"], "rate", "loss").axes[0]
    colors = [line.get_color() for line in ax.lines]
    assert colors == [color for color in colors[::3] for _ in range(3)]
    assert colors[0:6:3] == list(figures.COLORS.values())
    assert len(set(colors)) == 4
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0.1", "0.2"]


def test_curves_have_a_panel_each_and_the_models_colours():
    lines = {"primer-ez": ([1, 10], [1.0, 2.0]), "other": (torch.tensor([1, 10]), torch.tensor([2.0, 1.0]))}
    left, right = figures.curves({"a": lines, "b": {"transformer": ([1], [1])}}, "x", "y", marker="o", log=True).axes
    assert (left.get_title(), right.get_title()) == ("a", "b")
    assert (left.get_xlabel(), right.get_xlabel()) == ("x", "x")
    assert (left.get_ylabel(), right.get_ylabel()) == ("y", "")
    assert left.lines[0].get_color() == figures.COLORS["primer-ez"]
    assert right.lines[0].get_color() == figures.COLORS["transformer"]
    assert left.lines[1].get_color() not in figures.COLORS.values()
    assert left.get_xscale() == left.get_yscale() == "log"
    assert [t.get_text() for t in left.get_legend().get_texts()] == ["primer-ez", "other"]
    assert right.get_legend() is None


def test_heatmaps_have_titles_labels_ticks_and_a_colour_bar():
    matrices = {str(i): torch.rand(3, 3) for i in range(5)}
    figure = figures.heatmaps(matrices, "key", "query", columns=2, limit=2.0, ticks=["a", "$", "¶"], colorbar="weight")
    *maps, empty, bar = figure.axes
    assert [ax.get_title() for ax in maps] == list(matrices)
    assert [ax.get_ylabel() for ax in maps] == ["query", "", "query", "", "query"]
    assert {ax.get_xlabel() for ax in maps} == {"key"}
    assert [t.get_text() for t in maps[0].get_xticklabels()] == ["a", "$", "¶"]
    assert {ax.images[0].get_clim() for ax in maps} == {(0.0, 2.0)}
    assert not empty.axison
    assert bar.get_ylabel() == "weight"


def test_heatmaps_of_zeros_are_drawn():
    (ax,) = figures.heatmaps({"zeros": torch.zeros(2, 2, requires_grad=True)}, "x", "y").axes
    assert ax.images[0].get_array().tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("text", ["a b\n" * 6 + "bb$", "ab" * 9 + "b"])
def test_a_corpus_is_drawn_by_its_characters(text):
    vocabulary = Vocabulary("".join(sorted(set(text))))
    train, validation = vocabulary.encode(text[:-2]), vocabulary.encode(text[-2:])
    left, right = figures.plot_corpus(Corpus("some", vocabulary, train, validation)).axes
    labels = [t.get_text().replace("\\", "") for t in left.get_xticklabels()]
    shares = {label: bar.get_height() for label, bar in zip(labels, left.patches, strict=True)}
    names = {" ": "space", "\n": "line"}
    assert shares == pytest.approx({names.get(c, c): text.count(c) / len(text) for c in set(text)})
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    turned = {label for label, t in zip(labels, left.get_xticklabels(), strict=True) if t.get_rotation() == 90}
    assert turned == {"space", "line"} & set(shares)
    assert left.get_yscale() == "log"
    assert left.get_title() == f"{len(vocabulary)} characters"
    assert [bar.get_height() for bar in right.patches] == pytest.approx([(len(text) - 2) / 1e6, 2 / 1e6])
    assert right.get_ylabel() == "million characters"
    assert [t.get_text() for t in right.get_xticklabels()] == ["training", "validation"]
