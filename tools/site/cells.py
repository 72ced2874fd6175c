"""On the site: a folded cell is a line in the margin, an answer one in the text, a caption belongs to what it is about.

What is notable:
- all come from what the notebook has anyhow, a first line ``#@title ...``, an output in a ``<details>``, and a
  paragraph ``**Figure 4.2.** ...``;
- the code of a picture or table folds below it, and opens by a link at the end of its caption;
- an answer is closed without a script, with its caption and the text that tells it;
- a folded cell's code keeps its colors and its links.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

import nbformat
from docutils import nodes
from sphinx.util import logging

from tools.notebooks import folding
from tools.notebooks.folding import CAPTION, anchor

ANSWER = '<details class="answer"><summary>Guess first, then open</summary>'
OPENS = re.compile(r"<details><summary>Guess first, then open</summary>\s*$")  # as a chapter writes it around the text
log = logging.getLogger(__name__)


def open_guesses(app: Any, docname: str, source: list[str]) -> None:
    """Take out of a notebook what closes a guess, which a page does with caption and text, and the link to the page."""
    if docname.startswith("notebooks/"):
        notebook = nbformat.reads(source[0], 4)
        folding.open_guesses(notebook)
        notebook.cells[0].source = folding.PAGE.sub("", notebook.cells[0].source)
        source[0] = nbformat.writes(notebook)


def code_cells(doctree: nodes.document) -> list[nodes.container]:
    return [node for node in doctree.findall(nodes.container) if node.get("nb_element") == "cell_code"]


def part(cell: nodes.Element, name: str) -> nodes.Element | None:
    """The code of a cell, or its output."""
    return next((child for child in cell if child.get("nb_element") == f"cell_code_{name}"), None)


def wrap(node: nodes.Element, before: str, after: str) -> None:
    place = node.parent.index(node)
    node.parent.insert(place + 1, nodes.raw("", after, format="html"))
    node.parent.insert(place, nodes.raw("", before, format="html"))


def fold_cells(app: Any, doctree: nodes.document) -> None:
    """The title leaves the code and becomes the summary of a ``<details>``."""
    for cell in code_cells(doctree):
        if "tag_fold" not in cell["classes"]:
            continue
        code = next(cell.findall(nodes.literal_block))
        first, _, rest = code.astext().partition("\n")
        title, source = first.removeprefix("#@title "), rest.lstrip("\n")
        code.rawsource = source  # Sphinx colors a block only while its text is the raw source
        code[:] = [nodes.Text(source)]
        cell["title"] = title
        if part(cell, "output") is None:
            cell["classes"].append("silent")  # said here, since a browser lays out a cell before its output has come
        tick = " tick" * title.startswith("✓")
        wrap(part(cell, "source"), f'<details class="hide{tick}"><summary>{escape(title)}</summary>', "</details>")


def captioned(paragraph: nodes.Element) -> list[nodes.Element]:
    """What the paragraph is the caption of: the pictures or the table that the cell before it gave."""
    before = paragraph.parent[max(paragraph.parent.index(paragraph) - 1, 0)]
    outputs = part(before, "output") if before.get("nb_element") == "cell_code" else None
    return [o for o in outputs or [] if o.get("nb_element") == "mime_bundle" or isinstance(o, (nodes.image, nodes.raw))]


def take_captions(app: Any, doctree: nodes.document) -> None:
    """Put pictures or tables, with their captions, into a ``<figure id="fig-4-2">``."""
    for paragraph in list(doctree.findall(nodes.paragraph)):
        strong = next((n for n in paragraph if n.astext()), None)  # MyST puts an empty text first
        caption = CAPTION.match(f"**{strong.astext()}** .") if isinstance(strong, nodes.strong) else None
        if not caption:
            continue
        shown = captioned(paragraph)
        if not shown:
            log.warning("%s does not stand after a picture or a table", caption["name"], location=paragraph)
            continue
        figure = nodes.figure(ids=[anchor(caption)], classes=["numbered"])
        figure.line, figure.source = paragraph.line, paragraph.source
        shown[0].parent.insert(shown[0].parent.index(shown[0]), figure)
        for node in shown:
            node.parent.remove(node)
        paragraph.parent.remove(paragraph)
        figure += [*shown, nodes.caption("", "", *paragraph.children)]
        if figure.parent.parent.get("title"):
            link_code(figure)


def link_code(figure: nodes.figure) -> None:
    """Move the folded code below its picture, and end the caption with a link to it."""
    output, name = figure.parent, f"code-{figure['ids'][0]}"
    cell = output.parent
    opening = next(child for child in cell if isinstance(child, nodes.raw))
    opening.replace_self(nodes.raw("", opening.astext().replace('"hide"', f'"hide code" id="{name}"'), format="html"))
    cell.remove(output)
    cell.insert(0, output)
    figure[-1] += [
        nodes.Text(" "),
        nodes.reference("", "code", refuri=f"#{name}", internal=True, classes=["code-link"]),
    ]


def told(cell: nodes.Element) -> list[nodes.Node]:
    """The text of a ``<details>`` after a cell, taken out of it; folded checks may stand between."""
    following = cell.parent[cell.parent.index(cell) + 1 :]
    while following and "tag_fold" in following[0].get("classes", []):
        following = following[1:]
    if not (following and isinstance(following[0], nodes.raw) and OPENS.match(following[0].astext())):
        return []
    end = next(i for i, node in enumerate(following) if isinstance(node, nodes.raw) and "</details>" in node.astext())
    for node in following[: end + 1]:
        cell.parent.remove(node)
    return following[1:end]


def close(answer: nodes.Element, after: nodes.Element) -> None:
    """Put an answer, and the text after a cell that tells it, into a ``<details>``."""
    text = told(after)
    wrap(answer, ANSWER, "</details>")
    end = answer.parent.index(answer) + 1
    answer.parent[end:end] = text


def is_predicted(cell: nodes.Element) -> bool:
    """Whether a reader is to predict what the cell gives; `folding` says which cells these are."""
    return bool(cell.get("cell_metadata", {}).get("predicted"))


def close_answers(app: Any, doctree: nodes.document) -> None:
    """Close what a reader is to predict."""
    for cell in code_cells(doctree):
        if is_predicted(cell) and (output := part(cell, "output")):
            close(output, after=cell)
