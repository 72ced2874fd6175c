"""The drawings of Chapter 2: what they show is what they were given."""

from __future__ import annotations

import torch
from legible import DRAWINGS

from efficient_transformers import figures

pytestmark = DRAWINGS


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
    assert [ax.get_title("left") for ax in (one, other)] == ["one", "other"]
    assert one.get_ylim() == other.get_ylim() == (0, 1)
