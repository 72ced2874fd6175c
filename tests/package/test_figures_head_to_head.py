"""The drawings of Chapter 6: what is drawn is what was given."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from legible import DRAWINGS

from efficient_transformers import figures
from efficient_transformers.book.figures import head_to_head

pytestmark = [*DRAWINGS, pytest.mark.slow]


def test_a_lottery_has_a_curve_and_a_mean_for_each_column():
    gains = torch.randn(500, 2) + torch.tensor([0.0, -2.0])
    (ax,) = figures.lottery(gains, ["one", "best"]).axes
    one, its_mean, best, _, _ = ax.lines
    assert [sum(line.get_ydata()) for line in (one, best)] == pytest.approx([1, 1])
    assert its_mean.get_xdata()[0] == pytest.approx(gains[:, 0].mean().item())


def test_the_best_rate_of_each_model_has_a_larger_mark():
    (ax,) = figures.tuning_curves({"baseline": {0.001: 2.0, 0.002: 1.9, 0.00283: 1.95}, "gMLP": {0.001: 1.8}}).axes
    marked = [line for line in ax.lines if len(line.get_xdata()) == 1 and line.get_markersize() > 8]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in marked] == [(0.002, 1.9), (0.001, 1.8)]


def test_points_have_the_models_colors_in_every_panel():
    points = {"baseline": (1.0, 1.9), "Hourglass": (0.7, 1.95)}
    for ax in figures.trade_offs({"work": points, "time": points}, "loss").axes:
        assert [line.get_color() for line in ax.lines] == [figures.COLORS[name] for name in points]
        assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines] == list(points.values())


def test_differences_by_length_end_with_their_names_and_hollow_marks_are_not_sure():
    lines = {"gMLP": {500: (-0.15, True), 2000: (-0.08, False)}, "gMLP, 4 blocks": {500: (-0.2, True)}}
    (ax,) = figures.by_length({"steps": lines}, "nats").axes
    assert [text.get_text() for text in ax.texts] == ["gMLP, 4 blocks", "gMLP"]
    marks = {(m.get_xdata()[0], m.get_ydata()[0]): m for m in ax.lines if m.get_marker() == "P"}
    assert [mark.get_markerfacecolor() == "white" for mark in marks.values()] == [False, True, False]
    assert {mark.get_color() for mark in marks.values()} == {figures.COLORS["gMLP"]}


@pytest.mark.parametrize("heights", [[0.02, 0.0, 0.01], [0.5, 0.5, 0.5, 3.0]])
def test_labels_keep_their_order_and_a_distance(heights):
    placed = head_to_head.apart(heights, 0.1)
    order = sorted(range(len(heights)), key=heights.__getitem__)
    gaps = [placed[b] - placed[a] for a, b in pairwise(order)]
    assert all(gap > 0.099 for gap in gaps)
    assert sum(placed) == pytest.approx(sum(heights))
