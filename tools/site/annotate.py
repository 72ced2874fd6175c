r"""On the site: an equation stands beside the code that implements it, and each symbol leads to its variable.

An author writes a comment between the equation's sentence and the cell, which notebooks and GitHub do not show::

    <!-- join
    \tilde q_{t,c} = sum(...) | the convolved queries, (B, T, C)
    w_{c,j} = weight[:, j] | column j of the kernels, (C,)
    -->

``join 2 cells`` takes two cells, and ``join (1.4)`` an equation that stands earlier: a copy of it stands here.

What is notable:
- a symbol is LaTeX, a name Python; `` & `` joins several; `pairs` says what they find;
- what is not found is a warning, which ``-W`` makes an error;
- the columns are made when a page is read, the marks when it is written and its code has its colors;
- without scripts the lines below symbols and names are there, and the key in words.
"""

from __future__ import annotations

import html
import re
from typing import Any

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.util import logging

from tools.notebooks.folding import NUMBER
from tools.site.math import TAG, convert
from tools.site.pairs import MOST, NotFoundError, Pair, mark_code, mark_symbols, marks_of, pairs_of

COMMENT = re.compile(
    rf"<!-- join(?: \((?P<number>{NUMBER})\))?(?: (?P<cells>[2-9]) cells)?\n(?P<pairs>.*?)-->\s*", re.DOTALL
)
BLOCK = re.compile(r"<!-- join (?P<number>\S+)\n(?P<pairs>.*?)-->(?P<body>.*?)<!-- joined -->", re.DOTALL)
LONG = 14  # lines of code; beside more, there is room for the key below the sentence
log = logging.getLogger(__name__)


# The two columns, while a page is read.


def equation(comment: nodes.raw, number: str) -> nodes.math_block:
    """A copy of a numbered equation of the page; its number leads to where it stands."""
    for math in comment.document.findall(nodes.math_block):
        if TAG.findall(math.astext()) == [number]:
            copied = math.deepcopy()
            copied["number_of"], copied["ids"] = math["ids"][0], []
            return copied
    raise NotFoundError(f"({number}) is to be joined, and the page has no such equation")


def columns(comment: nodes.raw, match: re.Match[str]) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """The equation with its sentence, and the cells of code; none of them is moved yet."""
    around = comment.parent.children
    place, count = around.index(comment), int(match["cells"] or 1)
    cells = around[place + 1 : place + 1 + count]
    if len(cells) < count or any(cell.get("nb_element") != "cell_code" for cell in cells):
        raise NotFoundError(f"{count} cells of code must follow {match[0].strip()!r}")
    start = place - 1
    if match["number"]:
        return [equation(comment, match["number"]), around[start]], cells
    while start >= 0 and not (isinstance(around[start], nodes.math_block) and TAG.search(around[start].astext())):
        start -= 1
    if start < 0:
        raise NotFoundError(f"no numbered equation stands before {match[0].strip()!r}")
    return around[start:place], cells


def stand_side_by_side(app: Any, doctree: nodes.document) -> None:
    """Put what comments join into two columns, between markers that `annotate` finds in the page."""
    for comment in [raw for raw in doctree.findall(nodes.raw) if raw.astext().startswith("<!-- join")]:
        match = COMMENT.fullmatch(comment.astext())
        try:
            if not match:
                raise NotFoundError(f"expected '<!-- join', one pair a line and '-->', found {comment.astext()!r}")
            left, cells = columns(comment, match)
        except NotFoundError as error:
            log.warning("%s", error, location=comment)
            continue
        number = TAG.search(left[0].astext())[1]  # type: ignore[index]
        block = nodes.container(classes=["join"], ids=[f"join-{number.replace('.', '-')}"])
        comment.replace_self(block)
        for node in [*left, *cells]:
            if node.parent:
                node.parent.remove(node)
        block += [
            nodes.raw("", f"<!-- join {number}\n{match['pairs']}-->", format="html"),
            nodes.container("", *left, classes=["join-math"]),
            nodes.container("", *cells, classes=["join-code"]),
            nodes.raw("", "<!-- joined -->", format="html"),
        ]


# The block.


def unbroken(label: str) -> str:
    """The label with its shapes, such as (B, T, D), each on one line."""
    return re.sub(r"\([^()]{,20}\)", lambda shape: shape[0].replace(" ", "\xa0"), label)


def key_of(pairs: list[Pair], number: str) -> BeautifulSoup:
    """All pairs in words, below the code: what is looked at, one stop of the Tab key, and what is read aloud."""
    buttons = "".join(
        f'<button type="button" tabindex="-1" data-join="{key}">{convert(pair.symbols[0], displaystyle=False)}'
        f"<code>{html.escape(pair.names[0].replace('...', '…'))}</code>"
        f"<span>{html.escape(unbroken(pair.label))}</span></button>"
        for key, pair in enumerate(pairs)
    )
    row = f'<div class="join-key" role="toolbar" aria-label="({number}) and its code, symbol by symbol">{buttons}</div>'
    return BeautifulSoup(row, "html.parser")


def deal(pairs: list[Pair], dealt: dict[str, int]) -> list[int]:
    """A color for each pair of a block: a symbol keeps the one that it got first on its page, if it can.

    Args:
        pairs: of the block.
        dealt: the colors that the page's symbols have so far; new ones are added.
    """
    symbols = [pair.symbols[0] for pair in pairs]
    kept, found = {dealt[symbol] for symbol in symbols if symbol in dealt}, []
    for symbol in symbols:
        color = dealt.get(symbol)
        if color is None or color in found:
            free = [color for color in range(MOST) if color not in kept and color not in found]
            color = min(free, key=list(dealt.values()).count)  # the first of those that fewest have
            dealt.setdefault(symbol, color)
        found.append(color)
    return found


def annotated(body: str, text: str, number: str, dealt: dict[str, int]) -> str:
    """A block with its marks and its key, in the colors that are dealt; NotFoundError for a name that it has not."""
    pairs, block = pairs_of(text), BeautifulSoup(body, "html.parser")
    mark_symbols(pairs, block.select(".join-math math"))
    cells = block.select(".join-code div.cell_input")
    sources = block.select(".join-code div.cell_input pre")
    codes = [source.get_text() for source in sources]
    for source, marks in zip(sources, marks_of(pairs, codes), strict=True):
        mark_code(source, marks)
    if sum(code.count("\n") for code in codes) > LONG:
        block.append(key_of(pairs, number))
    else:
        cells[-1].insert_after(key_of(pairs, number))
    colors = deal(pairs, dealt)
    for mark in block.select("[data-join]"):
        mark["data-join"] = str(colors[int(str(mark["data-join"]))])
    return str(block)


def annotate(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Mark symbols and names in a page, whose code has its colors."""
    dealt: dict[str, int] = {}

    def block(match: re.Match[str]) -> str:
        try:
            return annotated(match["body"], match["pairs"], match["number"], dealt)
        except NotFoundError as problem:
            log.warning("%s: the block of (%s) %s", pagename, match["number"], problem)
            return match["body"]

    if "body" in context:
        context["body"] = BLOCK.sub(block, context["body"])
