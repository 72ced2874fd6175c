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
APART = (nodes.section, addnodes.desc, nodes.title, nodes.image, nodes.raw, nodes.math_block, nodes.comment)


def formula(latex: str) -> str:
    """A formula within a line as plain text, or an ellipsis where plain text would not do."""
    made = convert(latex, displaystyle=False)
    return "…" if STRUCTURED.search(made) else html.unescape(re.sub("<[^>]*>", "", made)).strip()


def is_shown(node: nodes.Element) -> bool:
    """Not folded away, and not what a cell printed or drew."""
    return "tag_fold" not in node["classes"] and node.get("nb_element") != "cell_code_output"


def prose(node: nodes.Node) -> str:
    """The words of a node, without its subsections."""
    if isinstance(node, nodes.Text):
        return node.astext()
    if isinstance(node, nodes.math):
        return formula(node.astext())
    if isinstance(node, (*APART, nodes.literal_block)) or not is_shown(node):
        return ""
    return ("" if isinstance(node, nodes.TextElement) else " ").join(prose(child) for child in node.children)


def names(node: nodes.Node) -> set[str]:
    """The names in the code that a reader sees at once."""
    if isinstance(node, nodes.literal_block):  # a whole file would be the answer to everything
        return set() if "source" in node else set(NAME.findall(node.astext()))
    if isinstance(node, (nodes.Text, *APART)) or not is_shown(node):
        return set()
    return set().union(*(names(child) for child in node.children))


def entry(page: str, anchor: str, title: str, parts: list[nodes.Node]) -> list[str]:
    """Where it is, what it is called, its words, and the names in its code."""
    text = re.sub(r"\s+", " ", " ".join(prose(part) for part in parts)).strip()
    return [f"{page}.html#{anchor}", title, text, " ".join(sorted(set().union(*(names(part) for part in parts))))]


def sections(page: str, doctree: nodes.document) -> list[list[str]]:
    found = []
    for node in doctree.findall(nodes.section):
        title = node.next_node(nodes.title)
        found.append(entry(page, node["ids"][0], "".join(map(prose, title.children)).strip(), node.children))
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
    where = [link["refuri"] for link in node.findall(nodes.reference) if "#" in link["refuri"]]
    inside = [address for address in where if folder in address]
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
    return [
        [
            *entry(ORIGINALS, row["ids"][0], row[0].astext(), row[1:-1]),
            leads_to(ORIGINALS, row, "notebooks/"),
        ]
        for row in originals(doctree)
    ]


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
