"""The drawings of Chapter 4 show what they are given."""

import pytest
import torch
from legible import DRAWINGS
from matplotlib.colors import to_hex

from efficient_transformers import figures
from efficient_transformers.book.figures.hourglass import LIT

pytestmark = [*DRAWINGS, pytest.mark.slow]


def spans(ax, y):
    """First and last token of each box in row ``y``, by the boxes' middle lines."""
    boxes = [box for box in ax.patches if abs(box.get_y() + box.get_height() / 2 - y) < 0.01]
    return [(round(box.get_x() + 0.44), round(box.get_x() + box.get_width() - 0.44)) for box in boxes]


@pytest.mark.parametrize("factor", [1, 2, 4, 8])
def test_a_waist_has_a_box_for_each_vector_and_windows_end_at_multiples(factor):
    ax = figures.waist(factor, {"8 plain layers": 2.0}, tokens=24).axes[0]
    assert spans(ax, 0) == spans(ax, 2) == [(t, t) for t in range(24)]
    assert spans(ax, 1) == [(end - factor + 1, end) for end in range(0, 24, factor)]
    lit = [box for box in ax.patches if to_hex(box.get_facecolor()).upper() == LIT]
    assert len(lit) == 2 * factor + 1  # what is read, the window, and who reads it


def test_below_a_waist_are_costs_as_shares_of_the_first():
    _, ax = figures.waist(4, {"8 plain layers": 20.0, "this hourglass": 7.6}).axes
    assert [bar.get_width() for bar in ax.patches] == [1.0, 0.38]
    assert [text.get_text() for text in ax.texts] == ["100%", "38%"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["8 plain layers", "this hourglass"]


def test_the_worked_example_is_drawn_with_its_numbers():
    x, windows, inside = torch.tensor([8.0, 4, 8, 4, 8, 0, 4, 8]), torch.tensor([2.0, 6]), torch.tensor([2.0, 8])
    ax = figures.by_hand(x, windows, inside, x + inside.repeat_interleave(4), 4).axes[0]
    rows = {y: [t.get_text() for t in ax.texts if t.get_text() and t.get_position()[1] == y] for y in range(5)}
    assert rows[0] == ["0"] * 3 + list("84848048")
    assert rows[1] == ["mean 2", "mean 6"]
    assert rows[2] == ["sum 2", "2 + 6 = 8"]
    assert rows[3] == ["+2"] * 4 + ["+8"] * 4
    assert rows[4] == ["10", "6", "10", "6", "16", "8", "12", "16"]
    assert spans(ax, 1) == spans(ax, 2) == [(-3, 0), (1, 4)]


def test_masks_name_windows_by_the_token_at_which_they_end():
    t, j = torch.arange(9), 4 * torch.arange(3)
    left, right = figures.who_sees_whom(t <= j[:, None], j <= t[:, None], 4).axes
    assert left.images[0].get_array().sum() == 1 + 5 + 9
    assert right.images[0].get_array().sum() == 4 * 1 + 4 * 2 + 3
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["0", "4", "8"]
    assert [tick.get_text() for tick in right.get_xticklabels()] == ["0", "4", "8"]
    assert left.get_xlabel() == "key: token"
    assert right.get_ylabel() == "query: token"


def test_costs_are_stacked_on_one_axis_of_lengths():
    lines = {"eight": (4.0, 8.0), "three": (1.0, 2.0), "waist": (1.0, 2.0)}
    first, second = figures.cost_by_length((256, 512), {"seconds": lines, "MiB": lines}).axes
    assert first.get_position().y0 > second.get_position().y0
    assert [tick.get_text() for tick in second.get_xticklabels()] == ["256", "512"]
    assert [line.get_linestyle() for line in first.lines] == ["-", "--", "-"]
