"""The drawings of Chapter 1 show what they are given, and fit a page of 5.6 inches."""

from __future__ import annotations

import pytest
import torch
from legible import DRAWINGS

from efficient_transformers import figures

pytestmark = [*DRAWINGS, pytest.mark.slow]
WEIGHTS = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.6, 0.2]])


def test_a_reading_has_a_line_for_each_weight_and_labels_those_of_the_last_letter():
    values = torch.tensor([[1.0, 0.0], [0.0, 5.0], [5.0, 0.0]])
    (ax,) = figures.reading("abc", values, WEIGHTS, WEIGHTS @ values).axes
    widths = {tuple(line.get_xdata()): line.get_linewidth() for line in ax.lines}
    assert set(widths) == {(s, t) for t in range(3) for s in range(t + 1)}
    assert widths[1, 2] == pytest.approx(3 * widths[0, 2])
    texts = [text.get_text() for text in ax.texts]
    assert [text for text in texts if "/" in text] == ["1/5", "3/5", "1/5"]
    assert "c, 2\ny = (1.2, 3)" in texts


def test_hands_point_where_they_are_told_and_products_are_cosines():
    axes = figures.clock_hands("ab", keys=[0.0, 1.0], query=1.0).axes
    assert [ax.get_title() for ax in axes] == ["a, s = 0", "b, s = 1"]
    assert [ax.texts[0].get_text() for ax in axes] == ["+0.54", "+1.00"]
    query, key = (line.get_xydata()[1] for line in axes[1].lines)
    assert query.tolist() == key.tolist()
    assert axes[0].lines[1].get_xydata()[1].tolist() == [pytest.approx(0.93), 0.0]


def test_a_loss_is_drawn_with_its_landmarks_and_its_band():
    levels = {"crossed early": 3.5, "crossed late": 2.5}
    ax = figures.loss_and_landmarks({0: 4.4, 20: 3.0, 100: 2.0}, levels, (1.9, 2.1)).axes[0]
    early, late, curve, band = ax.lines
    assert set(early.get_ydata()) == {3.5}
    assert set(late.get_ydata()) == {2.5}
    assert curve.get_xydata().tolist() == [[0, 4.4], [20, 3.0], [100, 2.0]]
    assert band.get_xydata().tolist() == [[100, 1.9], [100, 2.1]]
    assert {text.get_text(): text.get_ha() for text in ax.texts} == {
        "crossed early": "right", "crossed late": "left", "2.00": "center",
    }  # fmt: skip
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "10", "50", "100"]


@pytest.mark.parametrize("heads", [1, 3, 4])
def test_heads_have_a_map_each_on_one_scale_with_the_characters_on_both_axes(heads):
    axes = figures.head_maps(WEIGHTS.expand(heads, 3, 3), "a b", "layer 2").axes
    shown = [ax for ax in axes if ax.images]
    assert [ax.get_title() for ax in shown] == [f"layer 2, head {h + 1}" for h in range(heads)]
    assert {image.get_clim() for ax in shown for image in ax.images} == {(0.0, 1.0)}
    for axis in (shown[0].get_xticklabels(), shown[0].get_yticklabels()):
        assert [tick.get_text() for tick in axis] == ["a", "·", "b"]
