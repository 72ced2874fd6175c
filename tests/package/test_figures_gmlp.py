"""The drawings of Chapter 5 show what they are given, and no text in them is small."""

from __future__ import annotations

import pytest
import torch
from legible import DRAWINGS

from efficient_transformers import Metrics, figures

pytestmark = [*DRAWINGS, pytest.mark.slow]


def test_an_equation_is_written_out_with_every_number():
    w, z = torch.tensor([[0.0, 0.0], [0.25, 0.0]]), torch.tensor([[1.0], [-1.0]])
    (ax,) = figures.written_out([("$W$", w), "·", ("$z$", z), "=", ("$f$", w @ z)], ["a", "b"], shaded="$W$").axes
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["a", "b", "$W$", "0", "0", "0.25", "0", "·", "$z$", "1", "-1", "=", "$f$", "0", "0.25"]
    colors = [patch.get_facecolor() for patch in ax.patches]
    assert len(colors) == 8
    assert sum(color == colors[2] for color in colors) == 1  # what is not 0 in W stands out


def test_a_run_is_drawn_in_the_band_around_the_mean():
    runs = [Metrics({"step": s, "validation_loss": 3 - s / 100 + shift} for s in (0, 50)) for shift in (-0.1, 0.1)]
    (ax,) = figures.loss_in_band(runs[0], runs, margin=0.25, top=4).axes
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((2.25, 3.25))
    assert ax.lines[0].get_ydata() == pytest.approx([2.9, 2.4])
    assert (ax.lines[0].get_color(), ax.lines[0].get_marker()) == figures.MODELS["dense-gmlp"]


def test_rows_of_a_learned_matrix_are_aligned_at_the_diagonal():
    w = torch.zeros(20, 20)
    w += torch.diag(torch.full((19,), 0.5), -1)
    _, below, *_ = figures.learned_matrix(w, 1.0, (9, 18), back=5).axes
    for line in below.lines[:3]:
        assert torch.as_tensor(line.get_ydata()).tolist() == [0, 0.5, 0, 0, 0]
