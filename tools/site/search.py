"""On the site: search that lands at a section, or at an entry of the package's pages, and also works from a disk.

What is notable:
- Sphinx's own index knows pages only, and its excerpts come by ``fetch``, which a page from a disk may not call; so the
  sections' titles and prose are written to one script, ``_static/sections.js``, which the search page alone loads;
- math, outputs and folded code stay out; of the code that is shown, its names are found;
- a word of the glossary leads first to the section that the glossary names, and a name of the implementations from
  which the book grew to the section of its row;
- book/asked.yml has words for the same thing, and questions that people have with the sections that answer them.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx import addnodes

from tools.site.math import convert

GLOSSARY, ORIGINALS, SOURCE = "book/glossary", "book/from-labml", "book/source/"
NAME = re.compile(r"[A-Za-z_]\w{2,}")
STRUCTURED = re.compile(r"<(mfrac|msqrt|mtable|munderover|msubsup|msup|mover)\b")
DECLARED, KNOWN = "const SECTIONS = ", "const KNOWN = "
ASKED = Path(__file__).parents[2] / "book" / "asked.yml"
OUTPUT = "cell_code_output"
APART = (nodes.section, addnodes.desc, nodes.title, nodes.image, nodes.raw, nodes.math_block, nodes.comment)


def formula(latex: str) -> str:
    """A formula within a line as plain text, or an ellipsis where plain text would not do."""
    made = convert(latex, displaystyle=False)
    return "…" if STRUCTURED.search(made) else html.unescape(re.sub("<[^>]*>", "", made)).strip()


def seen(node: nodes.Node) -> Iterator[nodes.Node]:
    """The texts, formulas and code that a reader sees of a node at once, without its subsections.

    Left out is what is folded away, and what a cell printed or drew.
    """
    if isinstance(node, (nodes.Text, nodes.math, nodes.literal_block)):
        yield node
    elif not isinstance(node, APART) and "tag_fold" not in node["classes"] and node.get("nb_element") != OUTPUT:
        for child in node.children:
            yield from seen(child)
        if not isinstance(node, nodes.Inline):
            yield nodes.Text(" ")


def prose(*parts: nodes.Node) -> str:
    found = [leaf for part in parts for leaf in seen(part) if not isinstance(leaf, nodes.literal_block)]
    words = (formula(leaf.astext()) if isinstance(leaf, nodes.math) else leaf.astext() for leaf in found)
    return re.sub(r"\s+", " ", "".join(words)).strip()


def entry(page: str, anchor: str, title: str, parts: list[nodes.Node]) -> list[str]:
    """Where it is, what it is called, its words, and the names in its code."""
    code = [leaf for part in parts for leaf in seen(part) if isinstance(leaf, nodes.literal_block)]
    names = {name for block in code if "source" not in block for name in NAME.findall(block.astext())}  # no whole file
    return [f"{page}.html#{anchor}", title, prose(*parts), " ".join(sorted(names))]


def sections(page: str, doctree: nodes.document) -> list[list[str]]:
    found = []
    for node in doctree.findall(nodes.section):
        title = node.next_node(nodes.title)
        found.append(entry(page, node["ids"][0], prose(*title.children), node.children))
    for node in doctree.findall(addnodes.desc):
        signature = node.next_node(addnodes.desc_signature)
        if node["objtype"] in ("class", "function", "data") and signature["ids"]:
            title = signature.next_node(addnodes.desc_name).astext()
            inner = [part for content in node.findall(addnodes.desc_content) for part in content.children]
            found.append(entry(page, signature["ids"][0], title, inner))
    return found


def originals(doctree: nodes.document) -> list[nodes.row]:
    """The rows of the page of originals."""
    return [row for body in doctree.findall(nodes.tbody) for row in body]


def name_terms(app: Any, doctree: nodes.document) -> None:
    """Each word of the glossary, and each row of the originals, can be linked to."""
    if app.env.docname == ORIGINALS:
        for row in originals(doctree):
            table = row.parent.parent.parent.parent.next_node(nodes.title)  # the section's: two may have one name
            row["ids"].append(nodes.make_id(f"{table.astext()} {row[0].astext()}"))
    if app.env.docname == GLOSSARY:
        for paragraph in doctree.findall(nodes.paragraph):
            term = paragraph.next_node(nodes.strong)
            if term is not None:
                paragraph["ids"].append(nodes.make_id(f"term-{term.astext()}"))


def leads_to(page: str, node: nodes.Element, folder: str = "") -> str:
    """The address behind the first link of a node to an anchor in the folder; empty if it has none."""
    links = [link["refuri"] for link in node.findall(nodes.reference)]
    inside = [address for address in links if "#" in address and folder in address]
    return re.sub(r"[^/]+/\.\./", "", str(Path(page).parent / inside[0])) if inside else ""


def terms(doctree: nodes.document) -> list[list[str]]:
    """Each word of the glossary as an entry of its own, with the section that explains it."""
    found = []
    for paragraph in doctree.findall(nodes.paragraph):
        if not paragraph["ids"]:
            continue
        term = paragraph.next_node(nodes.strong).astext().rstrip(".")
        found.append([*entry(GLOSSARY, paragraph["ids"][0], term, [paragraph]), leads_to(GLOSSARY, paragraph)])
    return found


def named(doctree: nodes.document) -> list[list[str]]:
    """Each name of the originals as an entry of its own, with the section in which ours is."""
    found = []
    for row in originals(doctree):
        words = entry(ORIGINALS, row["ids"][0], row[0].astext(), row[1:-1])
        found.append([*words, leads_to(ORIGINALS, row, "notebooks/")])
    return found


def listed(page: str, doctree: nodes.document) -> list[list[str]]:
    """The classes and functions of a page of source, by their names alone: the chapters explain them."""
    module = page.rpartition("/")[2]
    found = [node for node in doctree.findall(nodes.section) if "beside" in node["classes"]]
    return [
        [f"{page}.html#{n['ids'][0]}", f"{n['ids'][0]} in {module}.py", prose(n.next_node(nodes.paragraph)), ""]
        for n in found
    ]


def collect(app: Any, doctree: nodes.document, docname: str) -> None:
    """After the links of the glossary were made."""
    title = app.env.titles[docname].astext()
    if docname.startswith("book/api/"):
        title = f"The package: {title}"
    if docname.startswith(SOURCE):
        app.book_sections[docname] = [f"Annotated source: {title}", listed(docname, doctree)]
        return
    found = terms(doctree) if docname == GLOSSARY else sections(docname, doctree)
    app.book_sections[docname] = [title, found + named(doctree) if docname == ORIGINALS else found]


def read(built: Path) -> dict[str, Any]:
    """The sections of each page that an earlier build wrote."""
    written = built / "_static" / "sections.js"
    if not written.exists():
        return {}
    return dict(json.loads(written.read_text(encoding="utf-8").split("\n")[0].removeprefix(DECLARED)))


def begin(app: Any) -> None:
    """What an earlier build wrote stands, for the pages that this one does not write."""
    app.book_sections = read(Path(app.outdir))
    app.builder.search = False  # Sphinx's own index and page


def write_sections(app: Any) -> None:
    made = json.dumps({page: app.book_sections[page] for page in sorted(app.env.found_docs)}, ensure_ascii=False)
    known = yaml.safe_load(ASKED.read_text(encoding="utf-8"))
    known["asked"] = {section.replace("#", ".html#"): asked for section, asked in known["asked"].items()}
    text = f"{DECLARED}{made}\n{KNOWN}{json.dumps(known, ensure_ascii=False)}\n"
    Path(app.outdir, "_static", "sections.js").write_text(text, encoding="utf-8")
