"""The explorer: a frame for every combination, shown by sliders with a kernel and by plain HTML without one."""

import base64
import io
import re
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from IPython.core.formatters import DisplayFormatter
from PIL import Image

from efficient_transformers import figures
from efficient_transformers.book.explorer import Explorer, few_colors

GRID = {"layer": range(1, 4), "attention_head": ["first", "second"]}
COMBINATIONS = [(layer, head) for layer in (1, 2, 3) for head in ("first", "second")]
TINY = {"draw": lambda **values: write(*values.values()), "alt": "The value of each slider.", "dpi": 20}


def write(*values):
    """A figure that differs from those of other values."""
    figure = plt.figure(figsize=(1, 0.5))
    figure.text(0, 0.5, " ".join(map(str, values)))
    return figure


def explorer(**changes):
    return Explorer(**TINY | GRID | changes)


class Page(HTMLParser):
    """The tags of a piece of HTML with their attributes, and its text."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open += [tag] * (tag not in ("img", "input"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def all(self, wanted):
        return [attributes for tag, attributes in self.tags if tag == wanted]


def picture_of(source):
    """The PNG within an ``<img>``."""
    (image,) = Page(source).all("img")
    return base64.b64decode(image["src"].removeprefix("data:image/png;base64,"), validate=True)


# Frames


def test_every_combination_is_drawn_once_in_order():
    drawn = []

    def draw(layer, attention_head):
        drawn.append((layer, attention_head))
        return write(layer, attention_head)

    frames = explorer(draw=draw).frames
    assert drawn == COMBINATIONS
    assert len(set(frames)) == 6
    assert all(frame.startswith(b"\x89PNG\r\n\x1a\n") for frame in frames)


def test_figures_are_closed():
    before = plt.get_fignums()
    explorer()
    assert plt.get_fignums() == before


def test_frames_are_the_same_bytes_each_time():
    assert explorer().frames == explorer().frames
    assert b"matplotlib" not in b"".join(explorer().frames).lower()  # a version would differ between machines


def test_resolution_is_dots_per_inch():
    def width(dpi):
        return int.from_bytes(explorer(dpi=dpi).frames[0][16:20], "big")

    assert width(80) == pytest.approx(2 * width(40), abs=2)


def test_a_frame_has_the_colors_of_its_figure():
    """A dark blue was once drawn in the green of a circle, which few pixels have."""
    figure = figures.digit_filters(
        torch.linspace(-1, 1, 64).pow(3).expand(64, 64) + 0.1 * torch.randn(64, 64), 8, [(1, 1), (6, 6)]
    )
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=120, facecolor="white")
    plt.close(figure)
    before, after = (
        np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), int)
        for png in (drawn.getvalue(), few_colors(drawn.getvalue()))
    )
    assert abs(after - before).max() <= 24


def test_frames_are_shown_at_the_size_of_the_other_figures_whatever_their_resolution():
    for dpi in (50, 200):
        shown = Page(explorer(dpi=dpi).static_html()).all("img")
        assert {(image["width"], image["height"]) for image in shown} == {("100", "50")}


def test_frames_are_opaque_since_a_widget_may_stand_on_a_dark_page():
    def draw(**_):
        return plt.figure(figsize=(1, 1), facecolor="none")

    made = explorer(draw=draw)
    assert Image.open(io.BytesIO(made.frames[0])).convert("RGBA").getextrema() == ((255, 255),) * 4


def test_words_for_those_who_cannot_see_a_frame_end_with_its_values():
    alts = [image["alt"] for image in Page(explorer().static_html()).all("img")]
    heads = ("first", "second")
    assert alts[:2] == [f"The value of each slider. Here: layer 1, attention head {head}." for head in heads]
    assert len(set(alts)) == 6


def test_values_may_come_from_any_iterable():
    grid = {"a": {"x": 1, "y": 2}, "b": (n * n for n in range(3))}
    made = Explorer(**TINY, **grid)
    assert made.values == {"a": ["x", "y"], "b": [0, 1, 4]}
    assert len(made.frames) == 6
    assert Page(made.static_html()).all("input")[0]["data-values"] == "x|y"
    assert "Explorer" in repr(made)


# Sliders, with a kernel


def test_there_is_a_slider_for_each_name():
    made = explorer()
    assert [slider.description for slider in made.sliders] == ["layer", "attention head"]
    assert [[label for label, _ in slider.options] for slider in made.sliders] == [
        ["1", "2", "3"],
        ["first", "second"],
    ]
    shown = [widget for box in made.children for widget in getattr(box, "children", [box])]
    assert shown == [*made.sliders, made.picture]


def test_the_first_frame_is_shown_at_the_start():
    made = explorer()
    assert picture_of(made.picture.value) == made.frames[0]
    assert "hidden" not in Page(made.picture.value).all("img")[0]


def test_moving_the_sliders_shows_the_frame_of_their_values():
    made = explorer()
    for layer, head in [(0, 1), (2, 1), (2, 0), (1, 0), (0, 0)]:
        made.sliders[0].value, made.sliders[1].value = layer, head
        assert picture_of(made.picture.value) == made.frames[2 * layer + head]
        assert (layer + 1, made.sliders[1].label) == (int(made.sliders[0].label), ("first", "second")[head])


def test_sliders_move_one_explorer_only():
    made, other = explorer(), explorer()
    made.sliders[0].value = 2
    assert picture_of(other.picture.value) == other.frames[0]


def test_a_slider_starts_where_it_is_told():
    made = explorer(start={"layer": 3})
    assert [slider.label for slider in made.sliders] == ["3", "first"]
    assert picture_of(made.picture.value) == made.frames[4]
    page = Page(made.static_html())
    assert [slider["value"] for slider in page.all("input")] == ["2", "0"]
    assert ["hidden" in image for image in page.all("img")] == [True] * 4 + [False, True]
    assert page.text.split("(root")[0].split() == ["layer", "3", "attention", "head", "first"]
    assert base64.b64decode(made._repr_mimebundle_()["image/png"]) == made.frames[4]


@pytest.mark.parametrize("start", [{"layer": 9}, {"head": "first"}], ids=str)
def test_a_start_that_no_slider_has_is_refused(start):
    with pytest.raises(ValueError, match="expected a value of that slider"):
        explorer(start=start)


# HTML, without one


def test_html_shows_the_first_frame_and_hides_the_others():
    made = explorer()
    images = Page(made.static_html()).all("img")
    assert [base64.b64decode(image["src"].partition(",")[2]) for image in images] == made.frames
    assert ["hidden" in image for image in images] == [False, True, True, True, True, True]


def test_html_has_a_labelled_slider_for_each_name():
    page = Page(explorer().static_html())
    assert page.open == []
    sliders = page.all("input")
    assert [slider["type"] for slider in sliders] == ["range", "range"]
    assert [(slider["min"], slider["max"], slider["value"]) for slider in sliders] == [("0", "2", "0"), ("0", "1", "0")]
    assert [slider["data-values"] for slider in sliders] == ["1|2|3", "first|second"]
    assert [slider["aria-valuetext"] for slider in sliders] == ["1", "first"]
    assert page.text.split("(root")[0].split() == ["layer", "1", "attention", "head", "first"]
    assert [tag for tag, _ in page.tags if tag in ("label", "input", "output")] == ["label", "input", "output"] * 2


def test_html_needs_nothing_from_elsewhere():
    source = explorer().static_html()
    assert "http" not in source
    assert "//" not in re.sub(r'src="data:image/png;base64,[^"]*"', "", source)
    page = Page(source)
    assert {tag for tag, _ in page.tags} == {"div", "label", "input", "output", "img", "script"}
    assert all(image["src"].startswith("data:image/png;base64,") for image in page.all("img"))
    assert page.all("script") == [{}]


def test_html_is_the_same_each_time():
    assert explorer().static_html() == explorer().static_html()


def id_of(made):
    return Page(made.static_html()).all("div")[0]["id"]


def test_the_script_finds_the_explorer_by_its_id():
    made = explorer()
    assert f'getElementById("{id_of(made)}")' in Page(made.static_html()).text


def test_the_id_is_the_same_on_every_machine():
    assert id_of(explorer()) == "explorer-55cd1e404e"
    assert id_of(explorer(dpi=30)) == id_of(explorer())  # fonts, and with them frames, differ between machines


@pytest.mark.parametrize("changes", [{"alt": "Another."}, {"layer": range(3)}, {"more": [1]}], ids=str)
def test_other_words_or_values_have_another_id(changes):
    assert id_of(explorer(**changes)) != id_of(explorer())


def test_words_and_values_are_escaped():
    alt, value = 'x < y & "z" <script>alert(1)</script>', '<b class="c">'
    made = Explorer(lambda **_: write(1), alt, dpi=20, **{"a<i>": [value, "&amp;"]})
    page = Page(made.static_html())
    assert [image["alt"] for image in page.all("img")] == [f"{alt} Here: a<i> {v}." for v in (value, "&amp;")]
    assert page.all("input")[0]["data-values"] == f"{value}|&amp;"
    assert {tag for tag, _ in page.tags} == {"div", "label", "input", "output", "img", "script"}
    assert len(page.all("script")) == 1
    assert page.text.startswith(f"a<i>  {value} ")
    assert Page(made.picture.value).all("img")[0]["alt"].startswith(alt)


# What is displayed


def test_a_notebook_receives_the_widget_the_html_and_a_picture():
    made = explorer()
    data, _ = DisplayFormatter().format(made)
    assert data["text/html"] == made.static_html()
    assert base64.b64decode(data["image/png"]) == made.frames[0]
    assert data["text/plain"] == "Explorer(layer, attention_head)"
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == made.model_id


def test_what_is_stored_does_not_depend_on_where_the_sliders_are():
    made = explorer()
    before = made._repr_mimebundle_()
    made.sliders[0].value = 2
    assert made._repr_mimebundle_() == before


# What is refused


@pytest.mark.parametrize("values", [{}, {"layer": []}, {"layer": [1, 2], "head": range(0)}], ids=str)
def test_sliders_without_values_are_refused(values):
    def draw(**_):
        raise AssertionError("drawn before the check")

    with pytest.raises(ValueError, match=r"values is \{.*\}; expected at least one value per slider"):
        Explorer(draw, "", **values)


def test_a_value_that_would_be_split_on_the_page_is_refused():
    with pytest.raises(ValueError, match=r"layer is 'a\|b'; expected a value without '\|'"):
        explorer(layer=["a|b", "c"])
