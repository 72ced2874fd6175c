"""Figures show what they are given."""

from __future__ import annotations

import io
import itertools
import re

import matplotlib.pyplot as plt
import pytest
import torch
from figure_examples import EXAMPLES
from legible import collisions, contrast, in_the_dark, seen_by, small_letters, width
from matplotlib.colors import to_rgb

from efficient_transformers import (
    CausalDepthwiseConv,
    Corpus,
    GMLPBlock,
    Metrics,
    Vocabulary,
    build_model,
    diagrams,
    figures,
)
from efficient_transformers.figures import charts, maps
from efficient_transformers.study import Difference

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


def legend_of(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


# What holds for every figure


def test_every_public_figure_has_an_example():
    """A new one is added to the examples, and with that held to the house rule."""
    drawing = [name for name in figures.__all__ if hasattr(getattr(figures, name), "__wrapped__")]
    drawn = "\n".join(name for f in EXAMPLES.values() for name in f.__code__.co_names)
    assert [name for name in drawing if name not in drawn and name in vars(charts) | vars(maps)] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_phone_shows_no_letter_too_small_and_none_over_another(name):
    made = EXAMPLES[name]()
    made.draw_without_rendering()
    assert width(made) <= figures.WIDTH + 0.05
    assert small_letters(made) == []
    assert collisions(made) == []
    assert made.get_facecolor()[3] == 0
    assert {ax.get_facecolor()[3] for ax in made.axes} == {0}


def test_what_is_illegible_is_found():
    figure, ax = plt.subplots(figsize=(5.6, 3))
    ax.set_xticks(range(40), [f"name {i}" for i in range(40)])
    ax.set_title("small", fontsize=9)
    ax.set_ylabel("$x^2$", fontsize=12)
    figure.text(0.95, 0.5, "beyond the edge")
    figure.draw_without_rendering()
    assert {"small", "$x^2$"} <= set(small_letters(figure))
    assert ("name 1", "name 2") in collisions(figure)
    assert ("beyond the edge", "edge") in collisions(figure)


def test_the_house_rule_is_nine_pixels_on_a_phone():
    with plt.style.context(figures.STYLE):
        assert plt.rcParams["font.size"] / 72 * 358 / (figures.WIDTH + 0.1) > 9


COLORS_OF_LINES = [color for color, _ in figures.MODELS.values()] + figures.OTHERS + [figures.GREY]


@pytest.mark.parametrize("color", COLORS_OF_LINES)
def test_colors_stand_out_on_white_and_in_the_dark(color):
    assert contrast(to_rgb(color), to_rgb("white")) >= 3
    assert contrast(in_the_dark(to_rgb(color)), in_the_dark(to_rgb("white"))) >= 3


def test_white_melts_into_the_dark_page_and_black_is_light():
    assert in_the_dark(to_rgb("white")) == pytest.approx(to_rgb("#14181e"), abs=1e-6)
    assert min(in_the_dark(to_rgb("black"))) > 0.99


def test_no_two_models_share_a_color_or_a_marker_and_no_other_line_has_one_of_theirs():
    colors, markers = zip(*figures.MODELS.values(), strict=True)
    assert len({*colors, *figures.OTHERS, figures.GREY}) == len(COLORS_OF_LINES)
    assert len(set(markers)) == len(markers)
    others = figures.looks([f"other {i}" for i in range(len(figures.OTHERS))]).values()
    assert not set(markers) & {look["marker"] for look in others}
    assert len({look["marker"] for look in others}) == len({look["color"] for look in others}) == len(figures.OTHERS)


def test_a_label_has_the_same_look_in_every_figure():
    alone, among = figures.looks(["only v"]), figures.looks(["a", "baseline", "b", "only v", "gMLP"])
    for part in ("color", "marker"):
        assert alone["only v"][part] == among["only v"][part]
        assert among["baseline"][part] == figures.looks(["transformer"])["transformer"][part]
    assert len({look["color"] for look in among.values()}) == 5
    assert figures.COLORS["baseline"] == figures.COLORS["transformer"] == figures.COLORS["Transformer"]


@pytest.mark.parametrize("eyes", ["protan", "deutan"])
def test_color_blind_readers_tell_neighbors_apart(eyes):
    """By what remains of the color where it differs enough, else by dash and marker, which neighbors never share."""
    labels = [*figures.MODELS, *(f"other {i}" for i in range(len(figures.OTHERS)))]
    for first, second in itertools.combinations(labels, 2):
        look = figures.looks([first, second])
        colors = [to_rgb(look[label]["color"]) for label in (first, second)]
        assert look[first]["linestyle"] != look[second]["linestyle"]
        assert look[first]["marker"] != look[second]["marker"]
        assert seen_by("all", *colors) > 10
    main = [to_rgb(figures.COLORS[name]) for name in ("transformer", "primer-ez", "hourglass", "gmlp")]
    assert min(seen_by(eyes, *pair) for pair in itertools.combinations(main, 2)) > 20


def test_ticks_are_thinned_and_not_shrunk():
    assert figures.thin(["0", "1", "2", "3"], 3.0) == ["0", "1", "2", "3"]
    assert figures.thin(["1,024", "2,048", "4,096", "8,192"], 1.2) == ["1,024", "", "4,096", ""]
    assert [figures.plain(x) for x in (1e-5, 0.5, 20, 4096)] == ["1e-5", "0.5", "20", "4,096"]


def test_long_labels_are_folded_before_their_unit():
    assert figures.fold("loss (nats)", 5) == "loss (nats)"
    assert figures.fold("validation loss (nats per character)", 2.3) == "validation loss\n(nats per character)"
    assert figures.fold("one two three", 0.7) == "one two\nthree"


# Each figure


@pytest.mark.parametrize(("name", "convolutions"), [("transformer", 0), ("primer-ez", 3)])
def test_a_layer_is_drawn_from_its_modules(name, convolutions):
    layer = build_model(name, vocab_size=9, d_model=16).body[0]
    texts = [t.get_text() for t in diagrams.draw_layer(layer).axes[0].texts]
    assert sum(t.startswith("conv_") for t in texts) == convolutions
    assert "query\n256" in texts
    assert ("squared ReLU" in texts) == (name == "primer-ez")


def test_a_leak_has_a_color_of_its_own():
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
    assert legend_of(right.figure) == ["reads this input", "reads its future: a leak"]


def test_a_leak_map_of_one_position_is_drawn():
    (ax,) = figures.leak_maps({"one": torch.ones(1, 1)}).axes
    assert ax.images[0].get_array().tolist() == [[1]]


def test_losses_have_units_and_the_models_colors(metrics):
    ax = figures.plot_losses({"transformer": metrics, "primer-ez": metrics}, against="seconds")
    assert ax.get_xlabel() == "training time (s)"
    assert ax.get_ylabel() == "validation loss\n(nats per character)"
    assert [line.get_color() for line in ax.lines] == [figures.COLORS["transformer"], figures.COLORS["primer-ez"]]


def test_losses_are_drawn_into_the_axes_that_are_given(metrics):
    figure, ax = plt.subplots()
    assert figures.plot_losses({"some": metrics}, ax, target=2.5, target_name="goal") is ax
    line, target = ax.lines
    assert line.get_label() == "some"
    assert list(target.get_ydata()) == [2.5, 2.5]
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["some", "goal"]
    assert figure.axes == [ax]


def test_comparison_is_by_steps_and_by_seconds(metrics):
    figure = figures.compare_losses({"transformer": metrics, "primer-ez": metrics}, target=2.5, zoom=2.8)
    steps, seconds = figure.axes
    assert [ax.get_xlabel() for ax in figure.axes] == ["step", "training time (s)"]
    assert [ax.get_ylabel() for ax in figure.axes] == ["validation loss\n(nats per character)", ""]
    assert [list(ax.lines[0].get_xdata()) for ax in figure.axes] == [[0, 50], [0, 5]]
    assert [[line.get_color() for line in ax.lines[:2]] for ax in figure.axes] == [
        [figures.COLORS[name] for name in ("transformer", "primer-ez")]
    ] * 2
    assert steps.get_ylim()[1] == seconds.get_ylim()[1] == 2.8


def test_heatmaps_share_one_scale():
    figure = figures.heatmaps({"a": torch.tensor([[1.0, -2.0]]), "b": torch.zeros(1, 2)}, "x", "y", diverging=True)
    assert [ax.images[0].get_clim() for ax in figure.axes] == [(-2.0, 2.0), (-2.0, 2.0)]


def test_dots_shows_every_seed():
    ax = figures.dots({"transformer": [[1.0, 2.0], [3.0]]}, ["0.1", "0.2"], "rate", "loss").axes[0]
    assert sorted(y for line in ax.lines[:2] for y in line.get_ydata()) == [1.0, 2.0, 3.0]
    assert list(ax.lines[2].get_ydata()) == [1.5, 3.0]


def test_dots_and_their_line_have_one_color():
    values = {label: [[1.0], [2.0]] for label in ("transformer", "primer-ez", "other", "another")}
    ax = figures.dots(values, ["0.1", "0.2"], "rate", "loss").axes[0]
    colors = [line.get_color() for line in ax.lines]
    assert colors == [color for color in colors[::3] for _ in range(3)]
    assert colors[0:6:3] == [figures.COLORS[name] for name in ("transformer", "primer-ez")]
    assert len(set(colors)) == 4
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0.1", "0.2"]


def test_curves_have_a_panel_each_and_the_models_colors():
    lines = {"primer-ez": ([1, 10], [1.0, 2.0]), "other": (torch.tensor([1, 10]), torch.tensor([2.0, 1.0]))}
    left, right = figures.curves({"a": lines, "b": {"transformer": ([1], [1])}}, "x", "y", marker="o", log=True).axes
    assert (left.get_title(), right.get_title()) == ("a", "b")
    assert (left.get_xlabel(), right.get_xlabel()) == ("x", "x")
    assert (left.get_ylabel(), right.get_ylabel()) == ("y", "")
    assert left.lines[0].get_color() == figures.COLORS["primer-ez"]
    assert right.lines[0].get_color() == figures.COLORS["transformer"]
    assert left.lines[1].get_color() not in figures.COLORS.values()
    assert left.get_xscale() == left.get_yscale() == "log"
    assert legend_of(left.figure) == ["primer-ez", "other", "transformer"]
    assert [t.get_text() for t in left.get_xticklabels()] == ["1", "10"]


def test_a_single_curve_has_no_legend_and_its_axis_may_be_given():
    (ax,) = figures.curves({"": {"a": (range(4), [1, 2, 3, 4])}}, "x", "y", ylim=(0, None)).axes
    assert ax.figure.legends == []
    assert ax.get_ylim()[0] == 0
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "1", "2", "3"]


def test_heatmaps_have_titles_labels_ticks_and_a_color_bar():
    matrices = {str(i): torch.rand(3, 3) for i in range(5)}
    figure = figures.heatmaps(matrices, "key", "query", columns=2, limit=2.0, ticks=["a", "$", "¶"], colorbar="weight")
    *maps, bar = figure.axes
    assert len(maps) == 5
    assert [ax.get_title() for ax in maps] == list(matrices)
    assert [ax.get_ylabel() for ax in maps] == ["query", "", "query", "", "query"]
    assert [ax.get_xlabel() for ax in maps] == ["", "", "", "key", "key"]
    assert [t.get_text() for t in maps[3].get_xticklabels()] == ["a", r"\$", "¶"]
    assert {ax.images[0].get_clim() for ax in maps} == {(0.0, 2.0)}
    assert bar.get_ylabel() == "weight"


def test_letters_that_do_not_fit_are_written_as_words():
    line = "First Witch:¶When shall we three meet again? Where"
    (ax,) = figures.heatmaps({"": torch.ones(50, 50)}, "key", "query", ticks=list(line)).axes
    assert [t.get_text() for t in ax.get_xticklabels()] == line.replace("¶", " ").split()
    assert list(ax.get_xticks())[:2] == [2, 8.5]  # the middles of the letters 0 to 4 and 6 to 11
    assert ax.get_xlabel() == "key"


def test_too_many_letters_are_thinned_and_the_axis_says_so():
    (ax,) = figures.heatmaps({"": torch.ones(90, 90)}, "key", "query", ticks=["x"] * 90).axes
    assert 90 > 2 * len(ax.get_xticks()) > 40
    assert ax.get_xlabel() == "key\n(1 name in 3)"


def test_boundaries_cross_both_axes_and_names_go_to_the_axis_that_has_as_many():
    (ax,) = figures.heatmaps({"": torch.ones(2, 4)}, "key", "query", ticks=list("the "), boundaries=[1.5]).axes
    assert [t.get_text() for t in ax.get_xticklabels()] == ["t", "h", "e", "␣"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines] == [(1.5, 0), (0, 1.5)]


def test_heatmaps_of_zeros_are_drawn():
    (ax,) = figures.heatmaps({"zeros": torch.zeros(2, 2, requires_grad=True)}, "x", "y").axes
    assert ax.images[0].get_array().tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("text", ["a b\n" * 6 + "bb$", "ab" * 9 + "b"])
def test_a_corpus_is_drawn_by_its_characters(text):
    vocabulary = Vocabulary("".join(sorted(set(text))))
    train, validation = vocabulary.encode(text[:-2]), vocabulary.encode(text[-2:])
    rows = figures.plot_corpus(Corpus("some", vocabulary, train, validation)).axes
    ticks = [tick for ax in rows for tick in ax.get_xticklabels()]
    labels = [tick.get_text().replace("\\", "") for tick in ticks]
    shares = dict(zip(labels, (bar.get_height() for ax in rows for bar in ax.patches), strict=True))
    names = {" ": "space", "\n": "line"}
    assert shares == pytest.approx({names.get(c, c): text.count(c) / len(text) for c in set(text)})
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    turned = {label for label, tick in zip(labels, ticks, strict=True) if tick.get_rotation() == 90}
    assert turned == {"space", "line"} & set(shares)
    assert {ax.get_yscale() for ax in rows} == {"log"}
    assert rows[0].get_title() == f"{len(vocabulary)} characters; {len(text) - 2} to train on, 2 held out"


@pytest.mark.parametrize(("sharing", "count"), [("all", 1), ("heads", 3), ("none", 6)])
def test_places_of_one_color_share_a_kernel(sharing, count):
    (ax,) = diagrams.sharings({"some": CausalDepthwiseConv(6, 2, sharing=sharing)}).axes
    colors = ax.images[0].get_array()
    assert colors.shape == (2, 3)
    assert len(set(colors.ravel().tolist())) == count
    assert (colors[0] == colors[1]).all() == (sharing != "none")
    assert ax.get_title() == f"some: {count} kernel{'s' if count > 1 else ''}"


def test_a_filter_is_drawn_with_its_weights_and_its_gain():
    left, right = figures.filters({"difference": torch.tensor([1.0, -1.0]), "nothing": torch.zeros(2)}).axes
    assert [bar.get_height() for bar in left.patches] == [1, -1, 0, 0]
    frequency, gain = right.lines[0].get_data()
    for f, g in ((0.0, 0.0), (0.25, 2**0.5), (0.5, 2.0)):
        assert float(gain[abs(frequency - f).argmin()]) == pytest.approx(g, abs=1e-6)
    assert not right.lines[1].get_ydata().any()


def test_a_kernel_map_colors_groups_like_their_means():
    groups = {"query": torch.tensor([[0, 1, 1]]), "key": torch.tensor([[2, 2, 0]])}
    figure = figures.kernel_map(groups, torch.rand(3, 4))
    query, key, means = figure.axes
    for ax, group in ((query, groups["query"]), (key, groups["key"])):
        image = ax.images[0]
        shown = image.cmap(image.norm(image.get_array()))[0]
        for place, i in enumerate(group[0].tolist()):
            assert tuple(shown[place][:3]) == to_rgb(means.lines[i].get_color())
    assert len(means.lines[0].get_ydata()) == 4
    assert legend_of(figure) == ["kind 1", "kind 2", "kind 3"]


def test_the_kinds_of_a_kernel_map_have_names_and_the_kernel_at_the_start():
    figure = figures.kernel_map({"key": torch.tensor([[0, 1]])}, torch.rand(2, 3), ["flat", "steep"], torch.ones(3))
    assert legend_of(figure) == ["flat", "steep", "at the start"]
    assert figure.axes[-1].lines[2].get_ydata().tolist() == [1, 1, 1]


def test_differences_are_grey_where_the_interval_holds_zero():
    rows = {
        "better": Difference([-0.2, -0.1], -0.15, -0.2, -0.1),
        "worse": Difference([0.2, 0.1], 0.15, 0.1, 0.2),
        "unclear": Difference([0.2, -0.1], 0.05, -0.1, 0.2),
    }
    (ax,) = figures.differences(rows, "loss").axes
    assert [t.get_text() for t in ax.get_yticklabels()] == list(rows)
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first row is on top
    dots, intervals, means = ax.lines[0:9:3], ax.lines[1:9:3], ax.lines[2:9:3]
    assert [line.get_xdata().tolist() for line in dots] == [row.values for row in rows.values()]
    assert [line.get_xdata().tolist() for line in intervals] == [[row.low, row.high] for row in rows.values()]
    assert [float(line.get_xdata()[0]) for line in means] == [row.mean for row in rows.values()]
    colors = [line.get_color() for line in means]
    assert len(set(colors)) == 3
    assert colors[2] == "#777777"


def test_scattered_points_are_labelled():
    (ax,) = figures.scatter({"baseline": (0, 0.5), "b": (1000, 0.25)}, "x", "y").axes
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines[1:3]] == [(0, 0.5), (1000, 0.25)]
    assert [t.get_text() for t in ax.texts] == ["baseline", "b"]
    assert ax.lines[1].get_color() == figures.COLORS["transformer"]
    low, high = ax.get_xlim()
    assert low < 0 < 1000 < high


def test_a_label_that_has_no_room_beside_its_point_is_led_to_it():
    points = {f"a long label {i}": (i / 100, 1 + i / 1000) for i in range(9)}
    (ax,) = figures.scatter({**points, "far": (9, 9)}, "x", "y").axes
    leaders = ax.lines[11:]
    assert len(leaders) >= 7
    assert {(line.get_xdata()[0], line.get_ydata()[0]) for line in leaders} <= set(points.values())


def test_masks_show_where_a_query_sees_a_key():
    left, right = figures.masks({"a": torch.tensor([[True, False]]), "b": torch.ones(3, 2, dtype=torch.bool)}).axes
    assert left.images[0].get_array().tolist() == [[1, 0]]
    assert right.images[0].get_array().shape == (3, 2)
    assert (left.get_title(), left.get_xlabel(), left.get_ylabel()) == ("a", "key", "query")


def test_a_hierarchy_is_drawn_from_the_model():
    model = build_model("hourglass", vocab_size=5, d_model=8, n_heads=2, hierarchy="2@1 1@2 3@4 1@2 2@1")
    (ax,) = diagrams.draw_hierarchy(model.body, 9).axes
    labels = ["2 layers\nat length 9", "1 layer\nat length 5", "3 layers\nat length 3"]
    assert [t.get_text() for t in ax.get_yticklabels()] == [*labels, *labels[1::-1]]
    boxes = [p for p in ax.patches if p.get_height() == 0.5]
    ends = sorted({round(b.get_x() + b.get_width()) for b in boxes if abs(b.get_y() + 0.25 - 2) < 0.1})
    assert ends == [0, 4, 8]  # windows of four end at tokens 0, 4 and 8


def test_lines_of_a_hierarchy_say_what_a_vector_is_made_from():
    model = build_model("hourglass", vocab_size=5, d_model=8, n_heads=2, hierarchy="1@1 1@3 1@1")
    (ax,) = diagrams.draw_hierarchy(model.body, 9).axes
    joined = {(tuple(line.get_xdata()), line.get_ydata()[0] > 1) for line in ax.lines}
    down = {(token, max(-0.3, -(-token // 3) * 3 - 1)) for token in range(7)}  # tokens 1, 2 and 3 make window 1
    up = {(max(-0.3, token // 3 * 3 - 1), token) for token in range(9)}  # which tokens 3, 4 and 5 read
    assert joined == {(x, False) for x in down} | {(x, True) for x in up}


@pytest.mark.parametrize("d_attention", [None, 4])
def test_a_block_is_drawn_with_the_parameters_of_its_parts(d_attention):
    block = GMLPBlock(8, 12, 5, causal=True, d_attention=d_attention)
    (ax,) = diagrams.draw_block(block).axes
    labels = "\n".join(t.get_text() for t in ax.texts)
    counts = [int(n.replace(",", "")) for n in re.findall(r"^[\d,]+$", labels, re.MULTILINE)]
    assert sum(counts) == sum(p.numel() for p in block.parameters())
    assert ("tiny attention" in labels) == (d_attention is not None)


def test_lines_by_depth_have_their_number_at_their_end_and_labels_keep_clear():
    (ax,) = figures.by_depth([0, 10], [[0.1, 0.8], [0.1, 0.5], [0.1, 0.81]], "step", "share", "block").axes
    labels = {t.get_text(): t.get_position() for t in ax.texts}
    assert set(labels) == {"block 1", "block 2", "block 3"}
    assert labels["block 2"][1] == 0.5
    assert labels["block 3"][1] - labels["block 1"][1] >= 0.04
    assert all(x > 10 for x, _ in labels.values())
    assert [line.get_ydata()[-1] for line in ax.lines] == [0.5, 0.8, 0.81]


def test_spatial_weights_are_aligned_at_the_diagonal():
    kernel = torch.tensor([4.0, 3.0, 2.0, 1.0])
    matrix = torch.tensor([[kernel[t - s] if s <= t else 9.0 for s in range(4)] for t in range(4)])
    left, right = figures.spatial_weights(matrix, 5.0, (2, 3), back=3).axes[:2]
    assert left.images[0].get_array().max() == 4  # the future is not shown
    for line in right.lines[:3]:  # two rows and the mean of all
        assert list(line.get_ydata()) == [4.0, 3.0, 2.0]
    assert right.get_ylim() == (-5.0, 5.0)


def test_pixel_filters_stand_where_their_pixel_is():
    weight = torch.arange(16.0).view(4, 4)
    ax, bar = figures.pixel_filters(weight, 2).axes
    assert bar.get_xlabel() == "weight"
    canvas = ax.images[0].get_array()
    assert canvas.shape == (5, 5)
    assert canvas[3:, :2].tolist() == [[8, 9], [10, 11]]  # the row of pixel (1, 0)
    assert canvas.mask[2].all()
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines] == [(0, 0), (4, 0), (0, 4), (4, 4)]
