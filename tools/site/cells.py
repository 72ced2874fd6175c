"""On the site: a folded cell is one line to open, so is an answer, and a caption belongs to its picture or table.

What is notable:
- all come from what the notebook has anyhow, a first line ``#@title ...``, an output that JupyterLab keeps collapsed,
  and a paragraph ``**Figure 4.2.** ...``;
- an answer is closed without a script, and with its caption, which may say it;
- a folded cell's code keeps its colors and its links.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.util import logging

from tools.notebooks.folding import CAPTION, TITLE, anchor

ANSWER = '<details class="answer"><summary>Guess first, then open</summary>'
log = logging.getLogger(__name__)


def fold_cells(app: Any, doctree: nodes.document) -> None:
    """The title leaves the code and becomes the summary; MyST-NB writes the ``<details>``."""
    for cell in doctree.findall(nodes.container):
        if "tag_fold" not in cell["classes"]:
            continue
        code = next(cell.findall(nodes.literal_block))
        title = TITLE.match(code.astext())
        if not title:
            log.warning("a folded cell without a title: %r", code.astext()[:60], location=cell)
            continue
        source = code.astext()[title.end() :].lstrip("\n")
        code.rawsource = source  # Sphinx colors a block only while its text is the raw source
        code.children = []
        code += nodes.Text(source)
        cell["classes"].append("tag_hide-input")
        cell["hide_mode"], cell["prompt_show"], cell["prompt_hide"] = "input", title[1], title[1]


def captioned(paragraph: nodes.Element) -> list[nodes.Element]:
    """What the paragraph is the caption of: the pictures or the table just before it."""
    place = paragraph.parent.index(paragraph)
    before = paragraph.parent[place - 1] if place else None
    if isinstance(before, nodes.table):
        return [before]
    if before is None or before.get("nb_element") != "cell_code":
        return []
    outputs = next((c for c in before if c.get("nb_element") == "cell_code_output"), None)
    if outputs is None:
        return []
    return [o for o in outputs if o.get("nb_element") == "mime_bundle" or isinstance(o, (nodes.image, nodes.raw))]


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


def close_answers(app: Any, doctree: nodes.document) -> None:
    """Put what a reader is to predict into a ``<details>``; `folding` says which cells these are."""
    for cell in doctree.findall(nodes.container):
        if not cell.get("cell_metadata", {}).get("jupyter", {}).get("outputs_hidden"):
            continue
        for output in [child for child in cell if child.get("nb_element") == "cell_code_output"]:
            place = cell.index(output)
            cell.insert(place + 1, nodes.raw("", "</details>", format="html"))
            cell.insert(place, nodes.raw("", ANSWER, format="html"))
