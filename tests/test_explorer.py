"""The figure with sliders: the same with a kernel and without one."""

from __future__ import annotations

import re

import matplotlib.pyplot as plt
import pytest

from efficient_transformers.explorer import Explorer


def draw(layer, step):
    figure, ax = plt.subplots(figsize=(1, 1))
    ax.plot([0, layer], [0, step])
    return figure


@pytest.fixture
def explorer():
    return Explorer(draw, 'lines & "slopes"', dpi=30, layer=[1, 2], step=[0, 10, 20])


def test_there_is_one_frame_for_each_combination(explorer):
    assert len(explorer.frames) == 6
    assert len(set(explorer.frames)) == 6
    assert plt.get_fignums() == []


def test_moving_a_slider_shows_another_frame(explorer):
    assert explorer.picture.value == explorer.image(0)
    explorer.sliders[0].value, explorer.sliders[1].value = 1, 2
    assert explorer.picture.value == explorer.image(5)


def test_the_stored_form_needs_nothing_else_and_is_the_same_every_time(explorer):
    html = explorer.static_html()
    assert html == Explorer(draw, 'lines & "slopes"', dpi=30, layer=[1, 2], step=[0, 10, 20]).static_html()
    assert "http" not in html
    images = re.findall(r"<img [^>]*>", html)
    assert [" hidden" in image for image in images] == [False] + [True] * 5
    assert all('alt="lines &amp; &quot;slopes&quot;"' in image for image in images)
    assert re.findall(r'type="range" min="0" max="(\d)"', html) == ["1", "2"]


def test_a_notebook_stores_html_a_picture_and_a_word(explorer):
    data = explorer._repr_mimebundle_()
    assert data["text/plain"] == "Explorer(layer, step)"
    assert data["text/html"] == explorer.static_html()
    assert data["image/png"].startswith("iVBOR")


@pytest.mark.parametrize("values", [{}, {"layer": []}])
def test_no_slider_or_one_without_values_is_refused(values):
    with pytest.raises(ValueError, match=r"values is .*expected at least one value per slider"):
        Explorer(draw, "nothing", **values)
