"""The explorer: a frame for every combination in plain HTML, of which one is left where no script runs."""

import base64
import io
import json
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


def picture(source):
    """The PNG that an address holds."""
    return base64.b64decode(source.removeprefix("data:image/png;base64,"), validate=True)


def shown(made):
    """The only ``<img>`` of an explorer."""
    (image,) = Page(made._repr_html_()).all("img")
    return image


def handed(made):
    """What its script gets."""
    return json.loads(re.search(r"\}\)\((\{.*\})\)</script>$", made._repr_html_())[1])


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
        assert (shown(explorer(dpi=dpi))["width"], shown(explorer(dpi=dpi))["height"]) == ("100", "50")


def test_frames_are_opaque_since_an_explorer_may_stand_on_a_dark_page():
    def draw(**_):
        return plt.figure(figsize=(1, 1), facecolor="none")

    made = explorer(draw=draw)
    assert Image.open(io.BytesIO(made.frames[0])).convert("RGBA").getextrema() == ((255, 255),) * 4


def test_values_may_come_from_any_iterable():
    grid = {"a": {"x": 1, "y": 2}, "b": (n * n for n in range(3))}
    made = Explorer(**TINY, **grid)
    assert made.values == {"a": ["x", "y"], "b": [0, 1, 4]}
    assert len(made.frames) == 6
    assert handed(made)["values"] == [["x", "y"], ["0", "1", "4"]]
    assert repr(made) == "Explorer(a, b)"


def test_a_slider_starts_where_it_is_told():
    made = explorer(start={"layer": 3})
    assert picture(shown(made)["src"]) == made.frames[4]
    assert shown(made)["alt"] == "The value of each slider. Here: layer 3, attention head first."
    assert handed(made)["first"] == [2, 0]
    assert [frame == "" for frame in handed(made)["frames"]] == [False] * 4 + [True, False]


@pytest.mark.parametrize("start", [{"layer": 9}, {"head": "first"}], ids=str)
def test_a_start_that_no_slider_has_is_refused(start):
    with pytest.raises(ValueError, match="expected a value of that slider"):
        explorer(start=start)


# HTML


def test_where_no_script_runs_one_frame_stands_there_and_no_slider():
    made = explorer()
    page = Page(made._repr_html_())
    assert page.open == []
    assert [tag for tag, _ in page.tags] == ["div", "img", "script"]
    assert picture(shown(made)["src"]) == made.frames[0]
    assert "hidden" not in shown(made)
    assert page.all("script") == [{}]


def test_the_script_gets_each_other_frame_once():
    made = explorer()
    data = handed(made)
    assert data["frames"][0] == ""
    assert [picture(frame) for frame in data["frames"][1:]] == made.frames[1:]
    assert made._repr_html_().count("data:image/png") == 6
    assert data["names"] == ["layer", "attention head"]
    assert data["values"] == [["1", "2", "3"], ["first", "second"]]
    assert (data["first"], data["alt"]) == ([0, 0], TINY["alt"])


def test_html_needs_nothing_from_elsewhere():
    source = re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", explorer()._repr_html_())
    assert "http" not in source
    assert "//" not in source


def test_html_is_the_same_each_time():
    assert explorer()._repr_html_() == explorer()._repr_html_()


def id_of(made):
    return Page(made._repr_html_()).all("div")[0]["id"]


def test_the_script_finds_the_explorer_by_its_id():
    made = explorer()
    assert f'querySelectorAll("#{id_of(made)}:not(:has(input))")' in Page(made._repr_html_()).text


def test_the_id_is_the_same_on_every_machine():
    assert id_of(explorer()) == "explorer-55cd1e404e"
    assert id_of(explorer(dpi=30)) == id_of(explorer())  # fonts, and with them frames, differ between machines


@pytest.mark.parametrize("changes", [{"alt": "Another."}, {"layer": range(3)}, {"more": [1]}], ids=str)
def test_other_words_or_values_have_another_id(changes):
    assert id_of(explorer(**changes)) != id_of(explorer())


def test_words_and_values_are_escaped():
    alt, value = 'x < y & "z" <script>alert(1)</script>', '<b class="c">'
    made = Explorer(lambda **_: write(1), alt, dpi=20, **{"a<i>": [value, "&amp;", "DATA"]})
    page = Page(made._repr_html_())
    assert shown(made)["alt"] == f"{alt} Here: a<i> {value}."
    assert [tag for tag, _ in page.tags] == ["div", "img", "script"]
    assert (handed(made)["alt"], handed(made)["values"]) == (alt, [[value, "&amp;", "DATA"]])


def test_a_notebook_receives_html_and_a_picture_and_no_widget():
    made = explorer()
    data, metadata = DisplayFormatter().format(made)
    assert data.keys() == {"text/html", "text/plain", "image/png"}
    assert base64.b64decode(data["image/png"]) == made.frames[0]
    assert data["text/plain"] == "Explorer(layer, attention_head)"
    assert metadata == {"image/png": {"alt": shown(made)["alt"]}}


# What is refused


@pytest.mark.parametrize("values", [{}, {"layer": []}, {"layer": [1, 2], "head": range(0)}], ids=str)
def test_sliders_without_values_are_refused(values):
    def draw(**_):
        raise AssertionError("drawn before the check")

    with pytest.raises(ValueError, match=r"values is \{.*\}; expected at least one value per slider"):
        Explorer(draw, "", **values)
