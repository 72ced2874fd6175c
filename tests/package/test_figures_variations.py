"""The drawings of Chapter 3, and the leak map that an exercise draws of the reader's own answer."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest
import torch
from legible import DRAWINGS
from wrong_answers import PREAMBLE, WRONG

from efficient_transformers import figures
from efficient_transformers.book.exercises import check
from efficient_transformers.judging.evidence import Comparison

pytestmark = [*DRAWINGS, pytest.mark.slow]


def comparison(mean, told_apart):
    return Comparison([mean, mean], mean, mean - 0.01, mean + 0.01, 0.5, told_apart, 0.003)


def drawings():
    wave = torch.tensor([1.0, -1.0] * 4)
    yield figures.knobs()
    yield figures.waves({"a": (wave, wave / 2), "b": (wave, wave)}, marked=(4, 5))
    yield figures.arrows(torch.tensor([0.5, 0.2, 0.2]), {"constant": 0, "a cycle in 4 tokens": 1 / 4})
    yield figures.shares([250, 500, 8000], {kind: [0.0, 0.1, 0.5] for kind in ("queries", "keys", "values")}, 0.57)
    yield figures.attention_maps({f"head {h}": torch.eye(5) for h in range(4)}, "To be")
    yield figures.differences({"a": comparison(0.1, True), "b": comparison(0.0, False)}, "difference")


def test_drawings_fit_the_page_and_their_text_is_large_enough():
    assert len(list(drawings())) == 6  # what is drawn is looked at by a fixture


def test_a_panel_says_what_comes_out_at_the_marked_tokens():
    wave = torch.tensor([1.0, -1.0])
    figure = figures.waves({"a": (wave, wave / 2), "b": (wave, wave)}, marked=(0, 1))
    assert figure.axes[0].get_title(loc="left") == "a: 0.50 at token 0, −0.50 at token 1"


def test_the_arrows_of_a_kernel_end_at_its_gain():
    figure = figures.arrows(torch.tensor([1 / 2, 1 / 6, 1 / 6]), {"a": 0, "b": 1 / 4, "c": 1 / 2})
    assert [ax.get_title() for ax in figure.axes] == ["a\n0.83 is left", "b\n0.37 is left", "c\n0.50 is left"]


DRAWN = {  # of exercises that speak of the future: what an answer that sees it is told, and how many leaks it has
    "1.1": ("your attention sees its future", 15),
    "3.1": ("sees 2 tokens of the future", 17),
    "4.4": ("shows its readers 3 future tokens", 12),
    "5.4": ("your block sees the future", 10),
}


@pytest.mark.parametrize(("number", "told", "leaks"), [(n, *drawn) for n, drawn in DRAWN.items()])
def test_the_leak_of_an_answer_is_drawn_in_a_notebook_and_nowhere_else(number, told, leaks, monkeypatch, capsys):
    space = {}
    wrong = next(code for code, reason, *_ in WRONG[number] if told in reason)
    exec(PREAMBLE + wrong, space)
    check(number, space["answer"])
    assert plt.get_fignums() == []
    monkeypatch.setattr(plt, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    monkeypatch.setattr(plt, "show", lambda: None)
    check(number, space["answer"])
    assert len(plt.get_fignums()) == 1
    image = plt.gcf().axes[0].images[0].get_array()
    assert (image == 2).sum() == leaks  # red
    assert capsys.readouterr().out.count("not yet: ") == 2
