"""Figures show what they are given."""

from __future__ import annotations

import itertools
import re

import matplotlib.pyplot as plt
import pytest
import torch
from figure_examples import EIGHT, EXAMPLES, INSIDE, WINDOWS
from legible import DRAWINGS, collisions, contrast, in_the_dark, seen_by, small_letters, width
from matplotlib.colors import to_rgb
from wrong_answers import PREAMBLE, WRONG

from efficient_transformers import GMLPBlock, Metrics, build_model, figures
from efficient_transformers.book import diagrams
from efficient_transformers.book.exercises import check
from efficient_transformers.book.figures import head_to_head
from efficient_transformers.judging.evidence import Comparison

pytestmark = [*DRAWINGS, pytest.mark.slow]


# What holds for every figure


def test_every_public_figure_has_an_example():
    """A new one is added to the examples, and with that held to the house rule."""
    drawing = [name for name, of in vars(figures).items() if hasattr(of, "__wrapped__")]
    drawn = {name for f in EXAMPLES.values() for name in (f.__name__, *f.__code__.co_names)}
    assert [name for name in drawing if name not in drawn] == []


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
    plt.close(figure)  # which no other rule shall see


COLORS_OF_LINES = [color for color, _ in figures.MODELS.values()] + figures.OTHERS + [figures.GREY]


@pytest.mark.parametrize("color", COLORS_OF_LINES)
def test_colors_stand_out_on_white_and_in_the_dark(color):
    assert contrast(to_rgb(color), to_rgb("white")) >= 3
    assert contrast(in_the_dark(to_rgb(color)), in_the_dark(to_rgb("white"))) >= 3


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
    assert leak[0] > leak[2]  # red
    assert past[0] < past[2]


def test_losses_are_compared_by_steps_and_by_seconds():
    metrics = Metrics({"step": s, "seconds": s / 10, "validation_loss": 3.0 - s / 50} for s in (0, 50))
    figure = figures.compare_losses({"transformer": metrics, "primer-ez": metrics}, target=2.5)
    assert [ax.get_xlabel() for ax in figure.axes] == ["step", "training time (s)"]
    assert [list(ax.lines[0].get_xdata()) for ax in figure.axes] == [[0, 50], [0, 5]]
    for ax in figure.axes:
        assert [line.get_color() for line in ax.lines[:2]] == [figures.COLORS[n] for n in ("transformer", "primer-ez")]
        assert list(ax.lines[0].get_ydata()) == [3.0, 2.0]
        assert not ax.texts, "the target is reached at the end only"


def test_of_two_runs_the_second_is_marked_where_it_reaches_the_target():
    first, second = (
        Metrics({"step": s, "seconds": s * slow, "train_loss": 2.0, "validation_loss": loss} for s, loss in run)
        for slow, run in ((1.0, ((0, 3.0), (50, 2.4), (100, 2.2))), (1.1, ((0, 3.0), (50, 2.1), (100, 2.0))))
    )
    steps, seconds = figures.compare_losses({"transformer": first, "primer-ez": second}, target=2.2).axes
    assert [ax.texts[0].get_text() for ax in (steps, seconds)] == ["50% ", "55% "]
    assert [list(ax.lines[-1].get_xdata()) for ax in (steps, seconds)] == [[50, 50], [50 * 1.1] * 2]


def test_differences_are_grey_where_the_interval_holds_zero():
    rows = {
        "better": Comparison([-0.2, -0.1], -0.15, -0.2, -0.1, 0.01, told_apart=True, error=0.01),
        "unclear": Comparison([0.2, -0.1], 0.05, -0.1, 0.2, 0.6, told_apart=False, error=0.05),
    }
    (ax,) = figures.differences(rows, "loss").axes
    assert [t.get_text() for t in ax.get_yticklabels()] == list(rows)
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first row is on top
    dots, intervals, means = (ax.lines[i::3] for i in (1, 2, 3))  # after the line at 0
    assert [line.get_xdata().tolist() for line in dots] == [row.values for row in rows.values()]
    assert [line.get_xdata().tolist() for line in intervals] == [[row.low, row.high] for row in rows.values()]
    assert [float(line.get_xdata()[0]) for line in means] == [row.mean for row in rows.values()]
    assert [line.get_color() == figures.GREY for line in means] == [False, True]
    (ax,) = figures.differences(rows, "loss", unsure=["better"]).axes
    assert [line.get_markerfacecolor() == "white" for line in ax.lines[3::3]] == [True, True]


@pytest.mark.parametrize("d_attention", [None, 4])
def test_a_block_is_drawn_with_the_parameters_of_its_parts(d_attention):
    block = GMLPBlock(8, 12, 5, causal=True, d_attention=d_attention)
    (ax,) = diagrams.draw_block(block).axes
    labels = "\n".join(t.get_text() for t in ax.texts)
    counts = [int(n.replace(",", "")) for n in re.findall(r"^[\d,]+$", labels, re.MULTILINE)]
    assert sum(counts) == sum(p.numel() for p in block.parameters())
    assert ("tiny attention" in labels) == (d_attention is not None)


# What a figure computes of what it is given: an error of these is not seen by a look


def test_a_reading_labels_the_weights_of_the_last_letter_and_hands_show_their_products():
    weights, values = (
        torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0.2, 0.6, 0.2]]),
        torch.tensor([[1.0, 0], [0, 5], [5, 0]]),
    )
    texts = [text.get_text() for text in figures.reading("abc", values, weights, weights @ values).axes[0].texts]
    assert [text for text in texts if "/" in text] == ["1/5", "3/5", "1/5"]
    assert "c, 2\ny = (1.2, 3)" in texts
    assert [ax.texts[0].get_text() for ax in figures.clock_hands("ab", keys=[0.0, 1.0], query=1.0).axes] == [
        "+0.54", "+1.00"
    ]  # fmt: skip


def test_glimpses_counts_the_letters_that_agree():
    for text, letters, counts in (
        ("the hen the", 1, ["1 of 1"] * 3),
        ("the hen the", 3, ["3 of 3", "2 of 3", "3 of 3"]),
        ("e the", 3, ["3 of 3"]),  # the first letter has no two before it
    ):
        (ax,) = figures.glimpses(text, {"": letters}).axes
        assert [t.get_text() for t in ax.texts[len(text) :]] == counts


def test_gains_of_waves_and_kernels_are_written_above_them():
    wave, kernel = torch.tensor([1.0, -1.0]), torch.tensor([1 / 2, 1 / 6, 1 / 6])
    figure = figures.waves({"a": (wave, wave / 2), "b": (wave, wave)}, marked=(0, 1))
    assert figure.axes[0].get_title(loc="left") == "a: 0.50 at token 0, −0.50 at token 1"
    figure = figures.arrows(kernel, {"a": 0, "b": 1 / 4, "c": 1 / 2})
    assert [ax.get_title() for ax in figure.axes] == ["a\n0.83 is left", "b\n0.37 is left", "c\n0.50 is left"]


@pytest.mark.parametrize("factor", [1, 2, 4, 8])
def test_windows_of_a_waist_end_at_multiples_and_costs_are_shares_of_the_first(factor):
    ax, costs = figures.waist(factor, {"8 plain layers": 20.0, "this hourglass": 7.6}).axes
    boxes = [box for box in ax.patches if abs(box.get_y() + box.get_height() / 2 - 1) < 0.01]
    spans = [(round(box.get_x() + 0.44), round(box.get_x() + box.get_width() - 0.44)) for box in boxes]
    assert spans == [(end - factor + 1, end) for end in range(0, 24, factor)]
    assert [text.get_text() for text in costs.texts] == ["100%", "38%"]


def test_an_hourglass_by_hand_is_drawn_with_its_numbers():
    ax = figures.by_hand(EIGHT, WINDOWS, INSIDE, EIGHT + INSIDE.repeat_interleave(4), 4).axes[0]
    rows = [[t.get_text() for t in ax.texts if t.get_text() and t.get_position()[1] == y] for y in range(1, 5)]
    assert rows[:3] == [["mean 2", "mean 6"], ["sum 2", "2 + 6 = 8"], ["+2"] * 4 + ["+8"] * 4]
    assert rows[3] == ["10", "6", "10", "6", "16", "8", "12", "16"]


def test_a_run_is_drawn_in_the_band_around_the_mean_and_a_lottery_with_its_means():
    runs = [Metrics({"step": s, "validation_loss": 3 - s / 100 + shift} for s in (0, 50)) for shift in (-0.1, 0.1)]
    heights = figures.loss_in_band(runs[0], runs, margin=0.25, top=4).axes[0].collections[0].get_paths()[0].vertices
    assert (heights[:, 1].min(), heights[:, 1].max()) == pytest.approx((2.25, 3.25))
    gains = torch.randn(500, 2) + torch.tensor([0.0, -2.0])
    one, its_mean, *_ = figures.lottery(gains, ["one", "best"]).axes[0].lines
    assert sum(one.get_ydata()) == pytest.approx(1)
    assert its_mean.get_xdata()[0] == pytest.approx(gains[:, 0].mean().item())


def test_marks_by_length_are_hollow_where_not_sure():
    lines = {"gMLP": {500: (-0.15, True), 2000: (-0.08, False)}, "gMLP, 4 blocks": {500: (-0.2, True)}}
    (ax,) = figures.by_length({"steps": lines}, "nats").axes
    assert [text.get_text() for text in ax.texts] == ["gMLP, 4 blocks", "gMLP"]
    hollow = [mark.get_markerfacecolor() == "white" for mark in ax.lines if mark.get_marker() == "P"]
    assert (len(hollow), sum(hollow)) == (3, 1)


@pytest.mark.parametrize("heights", [[0.02, 0.0, 0.01], [0.5, 0.5, 0.5, 3.0]])
def test_labels_keep_their_order_and_a_distance(heights):
    placed = head_to_head.apart(heights, 0.1)
    order = sorted(range(len(heights)), key=heights.__getitem__)
    assert all(placed[b] - placed[a] > 0.099 for a, b in itertools.pairwise(order))
    assert sum(placed) == pytest.approx(sum(heights))


DRAWN = {  # of exercises that speak of the future: what an answer that sees it is told, and how many leaks it has
    "1.1": ("your attention sees its future", 15),
    "3.1": ("sees 2 tokens of the future", 17),
    "4.4": ("shows its readers 3 future tokens", 12),
    "5.4": ("your block sees the future", 10),
}


@pytest.mark.parametrize("number", DRAWN)
def test_the_leak_of_an_answer_is_drawn_in_a_notebook_and_nowhere_else(number, monkeypatch):
    space, (told, leaks) = {}, DRAWN[number]
    exec(PREAMBLE + next(code for code, reason in WRONG[number] if told in reason), space)
    check(number, space["answer"])
    assert plt.get_fignums() == []
    monkeypatch.setattr(plt, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    monkeypatch.setattr(plt, "show", lambda: None)
    check(number, space["answer"])
    assert (plt.gcf().axes[0].images[0].get_array() == 2).sum() == leaks  # red
