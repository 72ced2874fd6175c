"""The annotated source: all of each module is on its page, and what is beside it is right."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from efficient_transformers import MultiHeadAttention
from efficient_transformers.layers import fast
from tools.site import pages, source
from tools.site.names import definitions

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
PACKAGE = ROOT / "src" / "efficient_transformers"
LAYERS = sorted(path.stem for path in (PACKAGE / "layers").glob("[a-z]*.py"))
PAGES = [*LAYERS, "checks"]
MATH = re.compile(r":math:`[^`]*`")
ROLE = re.compile(r":\w+:(?=`)")
# Anything of a row that is wider than its place, or than the page.
CUT = """() => [...document.querySelectorAll(".opening *, .note, .note *, .beside > pre, .line")]
    .filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth && getComputedStyle(e).overflowX !== "auto"
        || e.getBoundingClientRect().right > innerWidth)
    .map(e => e.outerHTML.slice(0, 120))"""
PLACES = """() => [...document.querySelectorAll("section.beside")].map(row => {
    const [note, code] = [row.firstElementChild, row.lastElementChild].map(e => e.getBoundingClientRect());
    if (note.right <= code.left && Math.abs(note.top - code.top) < 2) return "beside";
    return note.bottom <= code.top + 1 ? "above" : "elsewhere";
})"""

pytestmark = pytest.mark.site
every_module = pytest.mark.parametrize("module", PAGES)


def text_of(module: str) -> str:
    folder = PACKAGE / ("layers" if module in LAYERS else "support")
    return (folder / f"{module}.py").read_text(encoding="utf-8")


@cache
def page(address: str) -> BeautifulSoup:
    return BeautifulSoup((SITE / address).read_text(encoding="utf-8"), "html.parser").select_one("article")


def annotated(module: str) -> BeautifulSoup:
    return page(f"book/source/{module}.html")


def said_lines(text: str) -> tuple[set[int], dict[int, str]]:
    """The lines of docstrings, and the comments that have a line to themselves."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    alone = {t.start[0]: t.string for t in tokens if t.type == tokenize.COMMENT and t.line.strip().startswith("#")}
    before = [tokenize.INDENT, tokenize.NEWLINE, tokenize.NL, tokenize.ENCODING, tokenize.COMMENT]
    docstrings = {
        line
        for i, t in enumerate(tokens)
        if t.type == tokenize.STRING and '"""' in t.string and (i == 0 or tokens[i - 1].type in before)
        for line in range(t.start[0], t.end[0] + 1)
    }
    return docstrings, alone


def row_of(module: str, name: str) -> BeautifulSoup:
    """The row in which a name is defined."""
    element = annotated(module).find(id=name)
    return element if "beside" in element.get("class", ()) else element.find_parent(class_="beside")


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"[A-Za-z]{2,}", text))


def test_every_module_of_the_layers_has_a_page():
    assert set(source.modules()) == set(PAGES)
    assert {path.stem for path in (SITE / "book" / "source").glob("*.html")} == set(PAGES)
    index = {Path(link["href"].partition("#")[0]).stem for link in page("book/source.html").select("table a")}
    assert set(PAGES) == index & set(PAGES)


@every_module
def test_each_line_is_on_the_page_once_as_code_or_as_what_is_said(module):
    lines = dict(enumerate(text_of(module).splitlines(), start=1))
    shown = annotated(module)
    code = {int(e["id"][1:]): e.get_text().removesuffix("\n") for e in shown.select(".beside > pre > .line")}
    assert len(code) == len(shown.select(".line"))
    assert {n: lines[n] for n in code} == code
    docstrings, comments = said_lines(text_of(module))
    empty = {number for number, line in lines.items() if not line.strip()}
    said = docstrings | set(comments)
    assert set(lines) - set(code) - empty == said - empty
    assert not set(code) & said
    ids = Counter(e["id"] for e in shown.select("[id]"))
    assert [n for n in lines if ids[f"L{n}"] != 1] == []
    for number, comment in comments.items():
        note = shown.find(id=f"L{number}").find_parent(class_=["note", "parting"]) or shown.find(id=f"L{number}")
        assert not words(comment) - words(note.get_text()), comment


@every_module
def test_a_docstring_is_the_note_of_what_it_is_about_with_its_math_set(module):
    shown = annotated(module)
    tree = ast.parse(text_of(module))
    for name, node in [("", tree), *((name, node) for name, node, _ in definitions(tree))]:
        if not (docstring := ast.get_docstring(node)):
            continue
        note = row_of(module, name).select_one(".note") if name else shown.select_one(".about")
        plain = MATH.sub("", docstring)
        expected = words(ROLE.sub("", re.sub(r"^(Args|Returns|Raises):$", "", plain, flags=re.MULTILINE)))
        assert not expected - words(note.get_text()), name
        assert len(note.select("math")) >= len(MATH.findall(docstring)), name
    assert not shown.select("merror, code.not-converted, .problematic")
    notes = " ".join(e.get_text() for e in shown.select(".note, .about, .contents"))
    assert not re.search(r":\w+:|``|\\\w", notes)


def test_an_entry_that_the_package_exports_says_where_the_book_teaches_it():
    says = pages.explained("MultiHeadAttention", MultiHeadAttention.__doc__)
    assert says in " ".join(page("book/api/attention.html").get_text().split())


def test_fast_forms_and_plain_ones_lead_to_each_other():
    for plain, quick in fast.PAIRS.values():
        home = plain.__module__.rpartition(".")[2]
        row = row_of(home, plain.__name__)
        assert row.select(f'.facts a[href="fast.html#{quick.__name__}"]')
        assert row.pre.select(f'a[href="fast.html#{quick.__name__}"]'), "the layer's own line"
        assert row_of("fast", quick.__name__).select(f'.facts a[href="{home}.html#{plain.__name__}"]')


def test_names_lead_to_where_they_are_defined():
    for module in PAGES:
        for link in annotated(module).select(".beside > pre a:not(.number)"):
            file, _, anchor = link["href"].partition("#")
            home = file.removesuffix(".html") or module
            assert home in PAGES
            if anchor:
                assert anchor.rpartition(".")[2] == link.get_text()
                assert annotated(home).find(id=anchor), link
    forward = row_of("attention", "MultiHeadAttention.forward").pre
    assert forward.find("a", string="attend")["href"] == "#Attention.attend"  # what it inherits
    assert forward.find("a", string="length")["href"] == "cache.html#Cache.length"  # of an argument


def test_notes_stand_beside_the_code_or_above_it_and_nothing_is_cut(chromium):
    tab = chromium.new_context(java_script_enabled=False).new_page()
    tab.goto(f"{SITE.as_uri()}/book/source/fast.html")
    for width, place in ((390, "above"), (1280, "beside"), (1920, "beside")):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("document.scrollingElement.scrollWidth") <= width
        assert tab.evaluate(CUT) == [], width
        assert set(tab.evaluate(PLACES)) == {place}, width
    tab.context.close()
