"""On the site: where a chapter first says a word of the glossary, or a symbol of the notation, it is a link.

What is notable:
- words and symbols are those of book/glossary.md and book/notation.md; each is linked once a page, in its prose;
- a symbol that the second table of the notation gives another meaning in a chapter leads, there, to that row.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes

from tools.site.links import is_closed

ROOT = Path(__file__).parents[2]
GLOSSARY, NOTATION = "book/glossary", "book/notation"
TERM = re.compile(r"^\*\*([^*]+)\*\*", re.MULTILINE)
ROW = re.compile(r"^\| (?P<symbols>\$.*?) \|(?P<rest>.*)\|$", re.MULTILINE)
SYMBOL = re.compile(r"\$([^$]+)\$")
PLACE = re.compile(r"(?:Chapter|Exercise)s? (\d)(?:\.\d)?(?: and (\d))?")


class Row(NamedTuple):
    """A row of the notation: its symbols, and the chapters that its meaning is for, none for the whole book."""

    anchor: str
    symbols: list[str]
    chapters: set[str]


@cache
def terms() -> tuple[re.Pattern[str], dict[str, str]]:
    """What finds a word in a text, the longest first, so that a leak map is no leak; and each word's anchor."""
    strong = TERM.findall((ROOT / f"{GLOSSARY}.md").read_text(encoding="utf-8"))
    found = {word.lower(): nodes.make_id(f"term-{s}") for s in strong for word in s.rstrip(".").split(", ")}
    words = "|".join(map(re.escape, sorted(found, key=len, reverse=True)))
    return re.compile(rf"(?<![\w-])({words})s?(?![\w-])", re.IGNORECASE), found


@cache
def rows() -> list[Row]:
    found = []
    for number, row in enumerate(ROW.finditer((ROOT / f"{NOTATION}.md").read_text(encoding="utf-8"))):
        second = "|" not in row["rest"]  # of the two tables, which has no column for code
        chapters = {n for place in PLACE.findall(row["rest"]) for n in place if n} if second else set()
        found.append(Row(f"symbol-{number}", SYMBOL.findall(row["symbols"]), chapters))
    return found


def name_symbols(app: Any, doctree: nodes.document) -> None:
    """Each row of the notation can be linked to."""
    if app.env.docname == NOTATION:
        body = [row for table in doctree.findall(nodes.tbody) for row in table]
        for row, known in zip(body, rows(), strict=True):
            row["ids"].append(known.anchor)


def is_prose(node: nodes.Node) -> bool:
    """In a paragraph of a section or a list, outside of code, math, links, tables, captions and hints."""
    paragraph = node.parent
    while paragraph is not None and not isinstance(paragraph, (nodes.paragraph, nodes.caption)):
        paragraph = paragraph.parent
    return isinstance(paragraph, nodes.paragraph) and isinstance(paragraph.parent, (nodes.section, nodes.list_item))


def link_terms(app: Any, doctree: nodes.document, docname: str) -> None:
    if not docname.startswith("notebooks/"):
        return
    chapter = docname.split("/")[1][:2].lstrip("0")

    def link(page: str, anchor: str, *inside: nodes.Node) -> nodes.reference:
        address = f"{app.builder.get_relative_uri(docname, page)}#{anchor}"
        return nodes.reference("", "", *inside, refuri=address, internal=True, classes=["term"])

    meant = {symbol: row.anchor for row in reversed(rows()) if not row.chapters for symbol in row.symbols}
    meant |= {symbol: row.anchor for row in rows() if chapter in row.chapters for symbol in row.symbols}
    for math in list(doctree.findall(nodes.math)):
        if math.astext() in meant and is_prose(math) and not isinstance(math.parent, nodes.reference):
            math.replace_self(link(NOTATION, meant.pop(math.astext()), math.deepcopy()))
    pattern, wanted = terms()[0], dict(terms()[1])
    for text in list(doctree.findall(nodes.Text)):
        if not is_prose(text) or is_closed(text.parent):
            continue
        made: list[nodes.Node] = []
        end = 0
        for match in pattern.finditer(text):
            if anchor := wanted.pop(match[1].lower(), ""):
                made += [nodes.Text(text[end : match.start()]), link(GLOSSARY, anchor, nodes.Text(match[0]))]
                end = match.end()
        if made:
            text.parent.replace(text, [node for node in [*made, nodes.Text(text[end:])] if node.astext()])
