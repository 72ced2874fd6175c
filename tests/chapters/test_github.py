"""What GitHub's preview leaves of the notebooks: no script, no style, and few tags and attributes."""

from __future__ import annotations

import base64
import re

import nbformat
import nh3
import pytest

from efficient_transformers.book import guess
from tools.notebooks import folding, run_notebooks

NOTEBOOKS = run_notebooks.notebooks()
# The tags of html-pipeline's allow list, and of its attributes those that are about what is shown.
TAGS = {
    "a",
    "abbr",
    "b",
    "bdo",
    "blockquote",
    "br",
    "caption",
    "cite",
    "code",
    "dd",
    "del",
    "details",
    "dfn",
    "div",
    "dl",
}
TAGS |= {"dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "ins", "kbd", "li"}
TAGS |= {"mark", "ol", "p", "picture", "pre", "q", "rp", "rt", "ruby", "s", "samp", "small", "source", "span", "strike"}
TAGS |= {"strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "time", "tr", "tt", "ul"}
TAGS |= {"var", "wbr"}
ATTRIBUTES = {
    "a": {"href"},
    "img": {"src", "alt", "longdesc", "loading"},
    "*": {"align", "aria-label", "border", "color", "dir", "height", "hspace", "label", "lang", "name", "open", "role"}
    | {"scope", "size", "span", "start", "summary", "title", "type", "value", "vspace", "width"},
}
IMAGE = re.compile(r"<img [^>]*>")


def left(html):
    return nh3.clean(html, tags=TAGS, attributes=ATTRIBUTES, url_schemes={"http", "https", "data"}, link_rel=None)


def displayed(name):
    """The outputs that have HTML."""
    cells = nbformat.read(run_notebooks.ROOT / "notebooks" / f"{name}.ipynb", 4).cells
    return [o.data for cell in cells for o in cell.get("outputs", []) if "text/html" in o.get("data", {})]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_an_explorer_is_one_frame_with_its_words_and_an_instrument_its_still_with_its_sentence(name):
    for data in displayed(name):
        html = left(data["text/html"])
        assert "getElementById" not in html
        assert "=> {" not in html
        images = IMAGE.findall(html)
        for image in images:
            assert len(re.search(r' alt="([^"]*)"', image)[1]) > 40
        if 'class="explorer"' in data["text/html"]:
            assert len(images) == 1
            frame = re.search(r'src="data:image/png;base64,([^"]+)"', images[0])[1]
            assert base64.b64decode(frame) == base64.b64decode(
                data.get("image/png", frame)
            )  # a closed one has the frame alone
        elif re.search(r'class="instrument (leak-lab|kernel-bench|reading-lamp)"', data["text/html"]):
            assert data["text/plain"] in nh3.clean(html, tags=set()).replace("&nbsp;", "\xa0")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_nothing_is_empty_lost_or_told_before_it_is_opened(name):
    notebook = nbformat.read(run_notebooks.ROOT / "notebooks" / f"{name}.ipynb", 4)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            assert not re.search(r"^(```|:::)\{|\{[a-z]+\}`", cell.source, re.MULTILINE), "a directive, or a role"
            assert "Guess first" not in re.sub(r"<details>.*?</details>", "", cell.source, flags=re.DOTALL)
        for output in cell.get("outputs", []):
            data, html = output.get("data", {}), output.get("data", {}).get("text/html", "")
            assert left(html).strip() or data.get("text/plain") or output.get("text"), cell.source
            images = IMAGE.findall(re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL))
            assert re.findall(r'src="data:[^"]+', left(html)) == re.findall(r'src="data:[^"]+', "".join(images))
    for cell in folding.predicted(notebook):
        shown = [data for o in cell.outputs for kind, data in o.data.items() if kind != "text/plain"]
        assert len(shown) == bool(cell.outputs)
        for html in shown:
            assert left(html).startswith(guess.OPENS)
            assert html.endswith(guess.CLOSES)
