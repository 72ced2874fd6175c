r"""On the site: plain words become links, so that a notebook stays portable Markdown.

- ``\tag{4.1}`` is ``#eq-4-1``; ``(4.1)`` in prose, on any page, is a link to it, and so are ``Figure 4.2``,
  ``Tables 4.1 and 4.2``, ``Section 4.3``, ``Exercise 4.1`` and, in a study, ``Figure S4.2``.
- ``test_name`` in backquotes is a link to that test in the repository, and ``test_file.py`` to the file.
- The row of links on a notebook's first screen goes on, once the repository has an address, to Colab and to the text.
- A link that leads nowhere is a warning, which ``-W`` makes an error.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging

from tools.make import repository
from tools.notebooks import folding, tested
from tools.site.math import TAG

TITLE = re.compile(rf"(?P<kind>Section|Exercise)? ?(?P<number>{folding.NUMBER})(?=[:. ])")
NUMBER = r"S?[1-9]\d?\.[1-9]\d?(?![\d.]*\d)"
MORE = r"(?:(?:,|,? and|,? or| to|–)\s?" + NUMBER + r")*"
MENTION = re.compile(rf"\({NUMBER}(?:(?:,|–)\s?{NUMBER})*\)|\b(?:Figure|Table|Section|Exercise)s?\s{NUMBER}{MORE}")
PART = re.compile(rf"(?:^\w+\s|^\()?({NUMBER})\)?")
TEST = re.compile(r"(?:tests/\w+/)?(?P<file>test_\w+\.py)(?:::(?P<member>test_\w+))?|(?P<name>test_\w+)")
CLOSED = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.reference, nodes.title, nodes.raw)
log = logging.getLogger(__name__)


def find(app: Any, doctree: nodes.document) -> None:
    """Remember, for each numbered thing, the page and the id where it is."""
    anchors = vars(app.env).setdefault("book_anchors", {})

    def note(name: str, node: nodes.Element) -> None:
        if name in anchors:
            log.warning("%s is there twice, in %s too", name, anchors[name][0], location=node)
        anchors[name] = (app.env.docname, node["ids"][0])

    for math in doctree.findall(nodes.math_block):
        for number in TAG.findall(math.astext())[:1]:
            math["ids"].insert(0, f"eq-{number.replace('.', '-')}".lower())
            note(f"({number})", math)
    for figure in doctree.findall(lambda n: isinstance(n, nodes.figure) and "numbered" in n["classes"]):
        kind, number = figure["ids"][0].split("-", 1)
        note(f"{'Figure' if kind == 'fig' else 'Table'} {number.replace('-', '.').upper()}", figure)
    if app.env.docname.startswith("notebooks/"):
        for title in doctree.findall(nodes.title):
            if match := TITLE.match(title.astext()):
                note(f"{match['kind'] or 'Section'} {match['number']}", title.parent)


def forget(app: Any, env: Any, docname: str) -> None:
    env.book_anchors = {k: v for k, v in getattr(env, "book_anchors", {}).items() if v[0] != docname}


def is_closed(node: Any) -> bool:
    """Whether the text is code, math, a link, a heading, or a caption's own number."""
    while node is not None:
        if isinstance(node, CLOSED) or (isinstance(node, nodes.strong) and isinstance(node.parent, nodes.caption)):
            return True
        node = node.parent
    return False


def pieces(mention: str) -> list[tuple[str, str]]:
    """The mention cut into words and the names that they are links to: an empty one where they are none."""
    kind = re.match(r"\w*?(?=s?\s)", mention)
    cut: list[tuple[str, str]] = []
    end = 0
    for part in PART.finditer(mention):
        name = f"{kind[0]} {part[1]}" if kind else f"({part[1]})"
        cut += [(mention[end : part.start()], ""), (part[0], name)]
        end = part.end()
    return [piece for piece in cut if piece[0]]


def link_mentions(app: Any, doctree: nodes.document, docname: str) -> None:
    """Make links of the numbers in prose."""
    anchors = app.env.book_anchors
    counts = Counter(name[1:].split(".")[0] for name in anchors if name[0] == "(")

    def is_missing(name: str) -> bool:
        """Not there, and not just a number in parentheses, as those without a chapter or far beyond its last are."""
        chapter, _, index = name.strip("()").partition(".")
        return bool(name) and (name[0] != "(" or int(index) <= counts.get(chapter, -9) + 3)

    for text in list(doctree.findall(nodes.Text)):
        mentions = list(MENTION.finditer(text))
        if not mentions or is_closed(text.parent):
            continue
        made: list[nodes.Node] = []
        end = 0
        for mention in mentions:
            made.append(nodes.Text(text[end : mention.start()]))
            end = mention.end()
            for words, name in pieces(mention[0]):
                if name in anchors:
                    page, anchor = anchors[name]
                    address = app.builder.get_relative_uri(docname, page) if page != docname else ""
                    made.append(nodes.reference("", words, refuri=f"{address}#{anchor}", internal=True))
                    continue
                made.append(nodes.Text(words))
                if is_missing(name):
                    log.warning("nothing is called %s", name, location=docname)
        text.parent.replace(text, [node for node in [*made, nodes.Text(text[end:])] if node.astext()])


def is_row(paragraph: nodes.paragraph) -> bool:
    """Whether a paragraph is links alone, with dots between them."""
    between = [child for child in paragraph.children if not isinstance(child, nodes.reference | addnodes.pending_xref)]
    return len(between) < len(paragraph.children) and all(child.astext().strip() == "·" for child in between)


def lead_out(app: Any, doctree: nodes.document) -> None:
    """Add the links to Colab and to the text, which a page has once the repository has an address."""
    name = app.env.docname.removeprefix("notebooks/")
    if name == app.env.docname:
        return
    row = next((paragraph for paragraph in doctree.findall(nodes.paragraph) if is_row(paragraph)), None)
    if row is None:
        log.warning("the first screen has no row of links", location=doctree)
    elif address := repository.known():
        text = in_repository(f"book/{name}.md")
        more = {"Open in Colab": repository.colab(address, name), "Source of this page": text}
        for words, link in more.items():
            row += [nodes.Text(" · "), nodes.reference("", words, refuri=link, internal=False)]


def in_repository(file: str, line: int = 0) -> str:
    """The address of a file there, or of a line in it; empty while the repository has none."""
    address = repository.known()
    return f"{address}/blob/main/{file}{f'#L{line}' if line else ''}" if address else ""


def to_repository(words: str, file: str, line: int = 0) -> str:
    """A link there in reStructuredText, or the words alone."""
    address = in_repository(file, line)
    return f"`{words} <{address}>`__" if address else words


def link_tests(app: Any, doctree: nodes.document) -> None:
    """Make links of the names of tests."""
    for literal in list(doctree.findall(nodes.literal)):
        match = TEST.fullmatch(literal.astext())
        if not match or isinstance(literal.parent, nodes.reference):
            continue
        name = "::".join(part for part in match.groups() if part)
        if name not in tested.places():
            log.warning("no test is called %s", literal.astext(), location=literal)
            continue
        if address := in_repository(*tested.places()[name]):
            reference = nodes.reference("", "", refuri=address, internal=False)
            literal.replace_self(reference)
            reference += literal


def resolve_short_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """A bare name in a docstring, such as :func:`build_model`, is a link in whatever module it stands."""
    domain, target = env.get_domain("py"), node.get("reftarget", "")
    if node.get("refdomain") != "py" or "." in target:
        return None
    matches = [name for name in domain.objects if name.split(".")[-1] == target]
    if not matches:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], min(matches, key=len), node, contnode)
