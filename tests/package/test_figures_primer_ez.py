"""The drawings of Chapter 2: what they show is what they were given."""

from __future__ import annotations

import pytest
import torch
from legible import DRAWINGS
from matplotlib.colors import to_hex
from matplotlib.patches import PathPatch, Rectangle

from efficient_transformers import figures

pytestmark = [*DRAWINGS, pytest.mark.slow]


def words(ax):
    return [t.get_text() for t in ax.get_xticklabels()]


def test_the_worked_example_fills_the_ones_and_draws_the_scores():
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    scores = {"before": torch.tensor([0.0, 1.0, 2.0]), "after": torch.tensor([3.0, 0.0, 1.0])}
    *tables, bars = figures.worked_example("a b", "ab", {"before": vectors, "after": vectors.flip(0)}, scores).axes
    for ax, filled in zip(tables, ([(0, 0), (1, 1)], [(1, 1), (2, 0)]), strict=True):
        squares = [p for p in ax.patches if p.get_facecolor()[3] > 0]
        assert [(round(p.get_x() + 0.44), round(p.get_y() + 0.42)) for p in squares] == filled
        assert words(ax) == ["a", "␣", "b"]
        assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    assert [bar.get_height() for bar in bars.patches] == [0, 1, 2, 3, 0, 1]
    assert [t.get_text() for t in bars.get_legend().get_texts()] == ["before", "after"]
    assert bars.get_title("left") == "score of the last b with each key"


def test_glimpses_counts_the_letters_that_agree_and_draws_them_as_wide():
    one, three = figures.glimpses("the hen the", {"one": 1, "three": 3}).axes
    for ax, counts in ((one, ["1 of 1"] * 3), (three, ["3 of 3", "2 of 3", "3 of 3"])):
        texts = [t.get_text() for t in ax.texts]
        assert texts[:11] == [*"the␣hen␣the"]
        assert texts[11:] == counts
        arcs = [p for p in ax.patches if isinstance(p, PathPatch)]
        assert [arc.get_path().vertices[0][0] for arc in arcs] == [2, 5]
        widths = [arc.get_linewidth() for arc in arcs]
        assert widths[0] / widths[1] == pytest.approx(int(counts[0][0]) / int(counts[1][0]))
    filled = [round(p.get_x() + 0.44) for p in three.patches if isinstance(p, Rectangle) and p.get_facecolor()[3] > 0]
    assert filled == [0, 1, 2, 4, 5, 8, 9, 10]
    (short,) = figures.glimpses("e the", {"three": 3}).axes
    assert [t.get_text() for t in short.texts[5:]] == ["3 of 3"], "the first letter has no two before it"


def test_learned_kernels_shows_each_channel_the_mean_and_the_start():
    kernels = {"queries": torch.randn(2, 5, 3), "values": torch.randn(2, 5, 3)}
    start = torch.tensor([0.5, 0.2, 0.2])
    figure = figures.learned_kernels(kernels, start)
    for ax, (kind, w) in zip(figure.axes, kernels.items(), strict=True):
        assert ax.get_title("left") == kind
        zero, *lines = ax.lines
        assert list(zero.get_ydata()) == [0, 0]
        for n in range(2):
            *dots, began, mean = lines[5 * n : 5 * n + 5]
            assert torch.equal(torch.stack([torch.as_tensor(d.get_ydata()) for d in dots]).float(), w[n].T)
            assert torch.allclose(torch.as_tensor(began.get_ydata()).float(), start)
            assert torch.allclose(torch.as_tensor(mean.get_ydata()).float(), w[n].mean(0))
        assert words(ax) == ["0", "1", "2"] * 2
        assert ax.get_ylim()[0] < min(0, w.min().item())
        assert ax.get_ylim()[1] > w.max()


def test_readings_shows_the_weight_of_each_character():
    weights = torch.tensor([0.1, 0.2, 0.7])
    one, other = figures.readings({"one": ("a\nb", weights), "other": ("ab", weights[:2])}).axes
    assert [bar.get_height() for bar in one.patches] == weights.tolist()
    assert words(one) == ["a", "¶", "b"]
    orange = [to_hex(bar.get_facecolor()).upper() == figures.COLORS["Primer EZ"] for bar in one.patches]
    assert orange == [False, False, True], "the letter that asks"
    assert [ax.get_title("left") for ax in (one, other)] == ["one", "other"]
    assert one.get_ylim() == other.get_ylim() == (0, 1)
