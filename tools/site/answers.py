"""On the site: a question of ``results.yml``, its answer, and its runs as a small picture.

What is notable:
- a cell that calls ``results.answer("name")`` gives way to it, and so does a block ``{answer} name`` of a page;
- a dot is a seed, the bar an interval, and the diamond the mean, filled where the word is *better* or *worse*, as in
  the figure of the notebook; all of the book have one scale;
- it is text and boxes of the page, placed in percent: it turns dark and grows with the reader's letters;
- below the first of a page stands how to read it; below each, *the runs* open, and say which section has them.
"""

from __future__ import annotations

import re
from html import escape
from statistics import fmean
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.util.docutils import SphinxDirective

from efficient_transformers.book import results
from efficient_transformers.book.figures.charts import FARTHEST, beyond
from efficient_transformers.judging.evidence import ALIKE, Comparison, signed
from tools.notebooks import folding
from tools.site import cells

KEY = {  # what stands below the first picture that asks for it
    "*Short* means 500 steps, *long* 2,000{}. ": r"\b(short|long|longest)\b(?! time)",
    "A *short time* is what the Transformer needs for 500 steps, a *long time* for 2,000. ": "(short|long) time",
    "A dot is the difference in loss (nats) between two runs with the same seed, the diamond is the mean of the dots, "
    "and the bar is where the true mean may lie. ": "",
    "< and > stand for what lies beyond the scale. ": "&[lg]t;",
    "A model is *better* or *worse* if the bar leaves out 0 and two further tests agree. If it is neither, it is *as "
    f"good* if the bar is within {ALIKE:g} of 0; otherwise we *cannot tell*. Why so, and how bars are found: ": "",
}
PAGE = {"refdomain": "std", "reftype": "doc", "refexplicit": True}
TICKS = (-FARTHEST, -FARTHEST / 2, 0, FARTHEST / 2, FARTHEST)


def place(number: float) -> str:
    return f"{50 + 50 * min(max(number / FARTHEST, -1), 1):.1f}%"


def marks(found: Comparison) -> str:
    signs = "".join(f'<b style="left:{place(end)}">{"&lt;" if end < 0 else "&gt;"}</b>' for end in beyond(found))
    if abs(found.mean) > FARTHEST:
        return signs
    dots = "".join(f'<i style="left:{place(value)}"></i>' for value in found.values if abs(value) <= FARTHEST)
    bar = f'<u style="left:{place(found.low)};right:{place(-found.high)}"></u>'
    return f'{bar}{dots}<em style="left:{place(found.mean)}"></em>{signs}'


def picture(found: results.Answer) -> str:
    """A row for each pair of models: what it is, the word, the mean, and the runs."""
    lines = []
    for name, row in found.rows.items():
        lines.append(
            f'<div class="{row.word.replace(" ", "-")}"><span>{escape(name)}</span><b>{row}</b>'
            f'<span class="axis"><s style="left:50%"></s>{marks(row.comparison)}</span></div>'
        )
    ticks = "".join(f'<b style="left:{place(tick)}">{tick:g}</b>'.replace("-", "−") for tick in TICKS)
    ends = f'<div class="ends">{ticks}</div>'
    return f'<div class="intervals" role="img" aria-label="{escape(found.picture)}">{"".join(lines)}{ends}</div>'


def table(label: str, row: results.Row) -> str:
    """The losses behind a row, seed by seed, and their difference."""
    ours, theirs = row.models
    heads = [f"{escape(model.name)}<br>rate {model.rate:.3g}" for model in row.models]
    lines: list[tuple[str, ...]] = [
        (f"seed {seed}", f"{ours.losses[seed]:.3f}", f"{theirs.losses[seed]:.3f}", signed(difference))
        for seed, difference in zip(sorted(ours.losses), row.comparison.values, strict=True)
    ]
    c, means = row.comparison, [f"{fmean(model.losses.values()):.3f}" for model in row.models]
    lines.append(("mean", *means, f"{signed(c.mean)}<br>{signed(c.low)} to {signed(c.high)}"))
    head = "".join(f'<th scope="col">{cell}</th>' for cell in ("", *heads, "difference"))
    body = "".join(f'<tr><th scope="row">{first}</th><td>{"</td><td>".join(rest)}</td></tr>' for first, *rest in lines)
    return f"<table><caption>{escape(label)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def runs(found: results.Answer) -> list[nodes.Node]:
    """Closed: a table for each row, the section that has the runs, and the way to what the names mean."""
    tables = "".join(table(label, row) for label, row in found.rows.items())
    made = nodes.Text(f"Section {found.study} says how they were made. ")
    names = pending_xref("", nodes.inline("", "What the names mean"), reftarget="/book/names", **PAGE)
    return [
        nodes.raw("", f'<details class="runs"><summary>The runs</summary>{tables}', format="html"),
        nodes.paragraph("", "", made, names, classes=["more"]),
        nodes.raw("", "</details>", format="html"),
    ]


def key(said: str) -> nodes.Element:
    """How to read a picture; words between stars are emphasized, and a colon at the end leads to the rules."""
    pieces = [nodes.emphasis("", w) if i % 2 else nodes.Text(w) for i, w in enumerate(re.split(r"\*(.+?)\*", said))]
    where = pending_xref("", nodes.inline("", "How we compare"), reftarget="/book/how-we-compare", **PAGE)
    return nodes.paragraph("", "", *pieces, *[where] * said.endswith(": "), classes=["more"])


def shown(name: str, as_expected: bool = False) -> nodes.Element:
    """Question, answer, picture and runs; what was expected in place of the question."""
    found, says = results.find(name), results.written()["questions"][name]
    first, who = nodes.paragraph(classes=["question"]), "We thought" if as_expected else ""
    if (asked := says.get("asked")) and (as_expected or asked != "Others"):
        who = "Others say" if asked == "Others" else f"{asked} {'says' if as_expected else 'asks'}"
    if who:
        first += nodes.inline("", f"{who}: ", classes=["who"])
    first += nodes.Text(says["expected"] if as_expected else found.question)
    words = nodes.container("", first, nodes.paragraph("", found.sentence), classes=["words"])
    drawn = nodes.raw("", picture(found), format="html")
    kind = ["result", "wide"] if as_expected else ["result"]
    return nodes.container("", words, drawn, *runs(found), classes=kind, ids=[f"question-{name}"])


class Block(SphinxDirective):
    """``{answer} name``, or ``{answer} name expected``."""

    required_arguments, optional_arguments = 1, 1

    def run(self) -> list[nodes.Node]:
        return [shown(self.arguments[0], as_expected=len(self.arguments) > 1)]


def take_cells(app: Any, doctree: nodes.document) -> None:
    """Put a question in the place of the cell that asks it, closed where a reader is to guess."""
    for cell in cells.code_cells(doctree):
        if name := folding.asked(next(cell.findall(nodes.literal_block)).astext()):
            found = shown(name)
            cell.parent.replace(cell, found)  # and nothing of the cell stays
            if cells.is_predicted(cell):
                cells.close(found, after=found)
    asked = [node for node in doctree.findall(nodes.container) if "result" in node["classes"]]
    if asked and app.env.docname != "book/index":  # whose words say it
        longest = ", *longest* 8,000" if any("longest" in node.astext() for node in asked) else ""
        said = {words.format(longest): where for words, where in KEY.items()}
        for node in asked:
            if now := [words for words, where in said.items() if re.search(where, node.astext())]:
                node.insert(2, key("".join(now)))
                said = {words: where for words, where in said.items() if words not in now}
