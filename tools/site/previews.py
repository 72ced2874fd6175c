"""On the site: what a reference leads to is shown beside it, from another page and from a disk, too.

What is notable:
- a link that has a preview has ``data-preview``: empty where its own address names what to show, else an entry of the
  bibliography, for a link to a paper;
- what is shown stands in one script for each page, ``_static/previews/<page>.js``, which static/previews.js loads when
  somebody first asks for something on that page: a page from a disk may not fetch a file, but it may load a script;
- it is cut out of the finished pages: an equation, a picture or a table with its caption, a section's heading with its
  first paragraph, a word of the glossary, an entry of the package.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import defaultdict
from html import escape
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup, Tag

from tools.site import policy

SHOWN = ("book/", "notebooks/")
LINK = re.compile(r'<a (?=[^>]*\bhref="(?P<href>[^"]*)")(?P<rest>[^>]*)>(?P<inside>(?:(?!</a>).)*)', re.DOTALL)
MARKED = re.compile(r'<a data-preview(?:="([^"]*)")?[^>]*\bhref="([^"]*)"')
# Links that are no references: to where one is already, to a picture's file, to a listing, on a card.
NOT = re.compile(r'class="[^"]*\b(headerlink|eqno|code-link|image-reference)\b')
CLOSED = re.compile(r'<(?P<tag>pre|nav|script|style)\b.*?</(?P=tag)>|<ul class="chapter-cards.*?</ul>', re.DOTALL)
KEPT = ("math", "code", "em", "strong", "p", "b", "sub", "sup", "br")
SHORT = 50  # characters: a paragraph with fewer is no first paragraph, but the kind of an exercise
PREFIX = re.compile(r"https?://(?:www\.)?|(?:v\d+)?(?:\.pdf)?/?$")


def element(text: str, anchor: str) -> str:
    """The source of the element with this id, of the page's body without one; empty if there is none."""
    place = re.search(rf'<(\w+)\b[^>]*\bid="{re.escape(anchor)}"', text) if anchor else re.search(r"<(section)\b", text)
    if not place:
        return ""
    depth = 0
    for tag in re.compile(rf"<(/?){place[1]}\b[^>]*>").finditer(text, place.start()):
        depth += -1 if tag[1] else 1
        if depth == 0:
            return text[place.start() : tag.end()]
    return ""


def bare(node: Tag | None) -> str:
    """Its HTML without links, anchors and classes; formulas as they are."""
    if node is None:
        return ""
    for gone in node.select("a.headerlink, a.code-link, a.eqno, .viewcode-link"):
        gone.decompose()
    for inner in node.find_all(True):
        if inner.find_parent("math"):
            continue
        if inner.name in KEPT:
            inner.attrs = {}
        else:
            inner.unwrap()
    return " ".join(node.decode_contents().split())


def picture(figure: Tag, page: str) -> str:
    """The picture of a figure, or its table."""
    if table := figure.find("table"):
        for inner in (table, *table.find_all(True)):
            inner.attrs = {}  # that a th heads its column or its row, HTML says without a scope
        return str(table)
    image = figure.find("img")
    if image is None:
        return ""
    source = posixpath.normpath(posixpath.join(posixpath.dirname(page), str(image["src"])))
    size = "".join(f' {name}="{image[name]}"' for name in ("width", "height") if name in image.attrs)
    return f'<img src="{source}"{size} alt="">'


def preview(text: str, anchor: str, page: str) -> str:
    """What is shown of an element of a page; empty if there is nothing to show."""
    source = element(text, anchor)
    if source.startswith("<section"):  # without its subsections
        head = re.search(r"<h[1-6]\b.*?</h[1-6]>", source, re.DOTALL)
        words = re.findall(r"<p\b.*?</p>", source[head.end() if head else 0 :], re.DOTALL)
        first = next((p for p in words if len(re.sub("<[^>]*>", "", p)) >= SHORT), "")
        source = f"<section>{head[0] if head else ''}{first}</section>"
    found = BeautifulSoup(source, "html.parser").find(True)
    if not isinstance(found, Tag):
        return ""
    if found.name == "figure":
        return picture(found, page) + f"<p>{bare(found.select_one('figcaption p'))}</p>"
    if formula := found.select_one(".formula"):
        return f'<div class="formula">{formula.decode_contents()}</div>'
    if found.name == "section":
        return f"<p><b>{bare(found.find(re.compile('^h[1-6]$')))}</b></p><p>{bare(found.find('p'))}</p>"
    if found.name == "dt":  # of the package: the next element says what it is
        says = re.search(r"<p>(?!Bases: ).*?</p>", text[text.index(source) + len(source) :], re.DOTALL)
        description = bare(BeautifulSoup(says[0], "html.parser").p) if says else ""
        name = found.select_one(".descname") or found
        return f"<p><code>{escape(name.get_text().strip())}</code></p><p>{description}</p>"
    if found.name == "tr":
        return "".join(f"<p>{bare(cell)}</p>" for cell in found.select("td, th"))
    return f"<p>{bare(found.find('p') or found)}</p>"


def papers(text: str) -> dict[str, str]:
    """The id of each entry of the bibliography, by each address in it."""
    found: dict[str, str] = {}
    for place in re.finditer(r'<div class="citation" id="(\w+)"', text):
        for address in re.findall(r'class="reference external" href="([^"]*)"', element(text, place[1])):
            found.setdefault(PREFIX.sub("", address), place[1])
    return found


def mark(page: str, text: str, cited: dict[str, str]) -> str:
    """The page, with its references marked."""
    start, end = text.find("<article"), text.rfind("</article>")
    article = text[start:end]
    closed = [match.span() for match in CLOSED.finditer(article)]

    def marked(link: re.Match[str]) -> str:
        address, value = link["href"], ""
        is_closed = any(a < link.start() < b for a, b in closed)
        if is_closed or NOT.search(link["rest"]) or "viewcode-link" in link["inside"]:
            return link[0]
        if re.match(r"https?:", address):
            if not (entry := cited.get(PREFIX.sub("", address.partition("#")[0]))):
                return link[0]
            value = f'="book/bibliography.html#{entry}"'
        elif not target_of(page, address)[0].startswith(SHOWN):
            return link[0]
        if link["inside"].startswith("<math"):  # which has no name that a screen reader could say of a link
            value += f' aria-label="symbol {re.sub("<[^>]*>", "", link["inside"])}"'
        return link[0].replace("<a ", f"<a data-preview{value} ", 1)

    return text[:start] + LINK.sub(marked, article) + text[end:]


def target_of(page: str, address: str) -> tuple[str, str]:
    """The page and the anchor to which a link leads from a page; no page of the site if it leads elsewhere."""
    path, _, anchor = address.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    return (target, anchor) if ":" not in address and target.endswith(".html") else ("", "")


def write(app: Any) -> None:
    """Mark the pages that this build has written, and cut out what all pages ask for."""
    site = Path(app.outdir)
    texts = {
        path.relative_to(site).as_posix(): path.read_text(encoding="utf-8")
        for f in SHOWN
        for path in site.glob(f"{f}**/*.html")
    }
    cited = papers(texts["book/bibliography.html"])
    wanted: dict[str, set[str]] = defaultdict(set)
    for page, text in texts.items():
        if policy.FINISHED not in text:  # written by this build
            texts[page] = mark(page, text, cited)
            (site / page).write_text(texts[page], encoding="utf-8")
        for entry, address in MARKED.findall(texts[page]):
            target, anchor = target_of("", entry) if entry else target_of(page, address)
            wanted[target].add(anchor)
    for page in wanted.keys() & texts.keys():
        out = site / "_static" / "previews" / f"{page.removesuffix('.html')}.js"
        out.parent.mkdir(parents=True, exist_ok=True)
        made = {anchor: preview(texts[page], anchor, page) for anchor in sorted(wanted[page])}
        data = json.dumps(made, ensure_ascii=False, separators=(",", ":"))
        out.write_text(f'(window.PREVIEWS ??= {{}})["{page}"] = {data};\n', encoding="utf-8")
