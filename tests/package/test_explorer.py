"""The explorer: a frame for every combination in plain HTML, of which one is left where no script runs."""

import base64
import io
import json
import re
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import pytest
from IPython.core.formatters import DisplayFormatter
from PIL import Image

from efficient_transformers.book.explorer import Explorer

GRID = {"layer": range(1, 4), "attention_head": ["first", "second"]}
COMBINATIONS = [(layer, head) for layer in (1, 2, 3) for head in ("first", "second")]
TINY = {"draw": lambda **values: write(*values.values()), "alt": "The value of each slider.", "dpi": 20}


def write(*values):
    """A figure that differs from those of other values."""
    figure = plt.figure(figsize=(1, 0.5), facecolor="none")
    figure.text(0, 0.5, " ".join(map(str, values)))
    return figure


def explorer(**changes):
    return Explorer(**TINY | GRID | changes)


class Page(HTMLParser):
    """The tags of a piece of HTML with their attributes."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open += [tag] * (tag not in ("img", "input"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def picture(source):
    """The PNG that an address holds."""
    return base64.b64decode(source.removeprefix("data:image/png;base64,"), validate=True)


def read(made):
    """What a page has where no script runs, a ``<div>`` with an ``<img>``, and what its script gets."""
    source = made._repr_html_()
    page = Page(source)
    assert page.open == []
    assert [tag for tag, _ in page.tags] == ["div", "img", "script"]
    return page.tags[0][1], page.tags[1][1], json.loads(re.search(r"\}\)\((\{.*\})\)</script>$", source)[1])


def test_every_combination_is_drawn_once_in_order_closed_and_the_same_each_time():
    drawn, before = [], plt.get_fignums()

    def draw(layer, attention_head):
        drawn.append((layer, attention_head))
        return write(layer, attention_head)

    frames = explorer(draw=draw).frames
    assert drawn == COMBINATIONS
    assert len(set(frames)) == 6
    assert plt.get_fignums() == before
    assert explorer().frames == frames
    assert b"matplotlib" not in b"".join(frames).lower()  # a version would differ between machines
    for frame in frames:  # opaque: an explorer may stand on a dark page
        assert Image.open(io.BytesIO(frame)).convert("RGBA").getextrema()[3] == (255, 255)


@pytest.mark.parametrize(("start", "shown", "first"), [({}, 0, [0, 0]), ({"layer": 3}, 4, [2, 0])])
def test_one_frame_stands_there_and_the_script_gets_the_others_once(start, shown, first):
    made = explorer(start=start)
    root, image, data = read(made)
    assert picture(image["src"]) == made.frames[shown]
    assert image["alt"] == f"The value of each slider. Here: layer {COMBINATIONS[shown][0]}, attention head first."
    assert data["frames"][shown] == ""
    assert [picture(frame) for frame in data["frames"] if frame] == made.frames[:shown] + made.frames[shown + 1 :]
    assert (data["names"], data["first"], data["alt"]) == (["layer", "attention head"], first, TINY["alt"])
    assert data["values"] == [["1", "2", "3"], ["first", "second"]]
    assert f'querySelectorAll("#{root["id"]}:not(:has(input))")' in made._repr_html_()
    assert "//" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", made._repr_html_())  # nothing comes from elsewhere


def test_the_id_is_that_of_words_and_values_on_every_machine():
    def key(**changes):
        return read(explorer(**changes))[0]["id"]

    assert key() == key(dpi=30) == "explorer-55cd1e404e"  # fonts, and with them frames, differ between machines
    assert len({key(), key(alt="Another."), key(layer=range(3)), key(more=[1])}) == 4


def test_words_and_values_are_escaped():
    alt, value = 'x < y & "z" <script>alert(1)</script>', '<b class="c">'
    _, image, data = read(Explorer(lambda **_: write(1), alt, dpi=20, **{"a<i>": [value, "&amp;", "DATA"]}))
    assert image["alt"] == f"{alt} Here: a<i> {value}."
    assert (data["alt"], data["values"]) == (alt, [[value, "&amp;", "DATA"]])


def test_a_notebook_receives_html_and_a_picture_and_no_widget():
    made = explorer()
    data, metadata = DisplayFormatter().format(made)
    assert data.keys() == {"text/html", "text/plain", "image/png"}
    assert base64.b64decode(data["image/png"]) == made.frames[0]
    assert metadata == {"image/png": {"alt": read(made)[1]["alt"]}}


@pytest.mark.parametrize("values", [{}, {"layer": []}, {"layer": [1], "start": {"layer": 9}}], ids=str)
def test_sliders_without_values_and_a_start_that_no_slider_has_are_refused_before_anything_is_drawn(values):
    with pytest.raises(ValueError, match=r"^(values|start of 'layer') is .*; expected "):
        Explorer(lambda **_: pytest.fail("drawn before the check"), "", **values)
