"""The page: two widths with one left edge, a margin in which nothing meets, and nothing that is cut at any width."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
from axe import violations
from helpers import mostly_long
from polling import until

from tools.make import browser

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
NOTEBOOKS = [page for page in browser.pages(SITE) if page.startswith("notebooks/")]
CHAPTERS = [page for page in NOTEBOOKS if "/studies/" not in page]
STUDY = next(page for page in NOTEBOOKS if page not in CHAPTERS)
OTHERS = [
    "book/how-to-read.html",
    "book/papers.html",
    "book/notation.html",
    "book/write-with-it.html",
    "book/one-token.html",
    "book/api/primer.html",
]
# What type.css has; then, without a letter of the book's own, marks that stand alone, and letters of a formula's words.
LETTERS = set(string.ascii_letters + string.digits + string.punctuation + "©±·×²¹éöüß–—‘’“”…−Łłń")
LETTERS |= set("✓→↗↑↓↕√≤≥≈⌈⌉⌊⌋¶¹²∞␣·␊…−↵") | {chr(c) for c in range(0x370, 0x400)}
OPEN = "document.querySelectorAll('.bd-article details').forEach(e => { e.open = true; })"
# What scrolls sideways, and what ends beyond the article.
CUT = """() => {
    const article = document.querySelector(".bd-article"), end = article.getBoundingClientRect().right, found = [];
    const boxes = ".formula, .pst-scrollable-table-container, .text_html:has(> table), img, .instrument, .models";
    for (const e of article.querySelectorAll(boxes)) {
        if (!e.checkVisibility()) continue;
        const scrolls = e.scrollWidth > e.clientWidth + 1 && !e.matches("img, .instrument, .models");
        if (scrolls || e.getBoundingClientRect().right > end + 1)
            found.push([e.className, e.classList.contains("scrolls"), e.textContent.trim().slice(0, 60)]);
    }
    return found;
}"""
# What stands in the margin must meet neither another note nor anything that is wide.
MEETING = """() => {
    const shown = e => e.checkVisibility() && e.getClientRects().length;
    const notes = [...document.querySelectorAll("figcaption, details.hide > summary")].filter(shown);
    const left = Math.max(...notes.map(e => e.getBoundingClientRect().left)) - 2;
    const own = notes.filter(e => e.getBoundingClientRect().left >= left);
    const boxes = [...document.querySelectorAll(".bd-article :is(pre, table, .formula, .instrument, p, img)")]
        .filter(e => shown(e) && !e.closest("figcaption, summary"));
    const over = (a, b, from, to) => a[from] < b[to] - 1 && b[from] < a[to] - 1;
    const meets = (a, b) => over(a, b, "left", "right") && over(a, b, "top", "bottom");
    const found = [], at = e => e.getBoundingClientRect(), words = e => e.textContent.trim().slice(0, 40);
    const places = [...own, ...boxes].map(e => [e, at(e)]);
    own.forEach((note, i) => places.slice(i + 1).forEach(([e, box]) => {
        if (!e.contains(note) && !note.contains(e) && meets(at(note), box)) found.push([words(note), words(e)]);
    }));
    return [own.length, found];
}"""
# Left edges, and right edges beyond a line of prose, of what stands in a section.
EDGES = """() => {
    const text = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--text")) * 16;
    const section = document.querySelector(".bd-article section").getBoundingClientRect(), wrong = [];
    const blocks = "section > *, div.cell > :is(.cell_input, .cell_output)";
    for (const e of document.querySelector(".bd-article").querySelectorAll(blocks)) {
        const box = e.getBoundingClientRect(), own = e.getClientRects().length && box.height > 0;
        if (!own || e.matches("section, span, script, .join *")) continue;
        const wide = Math.abs(box.right - section.right) < 2, narrow = box.right <= section.left + text + 1;
        if (Math.abs(box.left - section.left) > 1 || !(wide || narrow))
            wrong.push([e.outerHTML.slice(0, 80), box.left, box.right]);
    }
    return wrong;
}"""
# Where code, pictures, tables and instruments end, from the left edge of the text; an annotated block is divided.
ENDS = """() => {
    const start = document.querySelector(".bd-article section").getBoundingClientRect().left;
    return [...document.querySelectorAll(".bd-article :is(pre, figure img, table, div.instrument, .result)")]
        .filter(e => e.checkVisibility() && !e.closest(".join, .guess"))
        .map(e => Math.round(e.getBoundingClientRect().right - start));
}"""
PROSE = """() => {
    const copy = document.querySelector(".bd-article").cloneNode(true);
    copy.querySelectorAll("math, pre, code, script, style, svg, .instrument").forEach(e => e.remove());
    return [copy.textContent, [...copy.querySelectorAll("td, th")].map(e => e.textContent)];
}"""

pytestmark = pytest.mark.site


@pytest.fixture(scope="module")
def tab(chromium):
    page = chromium.new_page(reduced_motion="reduce", viewport={"width": 1440, "height": 900})
    yield page
    page.close()


def visit(tab, path, width=1440):
    tab.set_viewport_size({"width": width, "height": 900})
    browser.visit(tab, f"{SITE.as_uri()}/{path}")
    return tab


@pytest.mark.parametrize("path", mostly_long([*NOTEBOOKS, *OTHERS], [*CHAPTERS, STUDY, *OTHERS]))
def test_nothing_is_cut_nothing_meets_and_there_are_two_widths(tab, path):
    page = visit(tab, path)
    if path in NOTEBOOKS:
        assert page.evaluate(EDGES) == []
        assert {*page.evaluate(ENDS)} <= {672, 1008}
        for width in (1280, 1920):
            page.set_viewport_size({"width": width, "height": 900})
            notes, meeting = page.evaluate(MEETING)
            assert (notes > 2, meeting) == (True, []), width
    page.evaluate(OPEN)
    for width in (1920, 1280, 768):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(CUT) == [], width
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    page.set_viewport_size({"width": 390, "height": 900})
    until(lambda: page.evaluate(f"({CUT})().every(([, marked]) => marked)"))  # what scrolls says so
    text, cells = page.evaluate(PROSE)
    assert {c for c in text if c not in LETTERS and not c.isspace()} == set()
    assert [cell for cell in cells if re.search(r"(?<![\w.)])-\.?\d", cell)] == [], "a hyphen for a minus sign"


def test_the_contents_stand_below_the_entry_of_the_page_and_say_where_one_is(tab):
    page = visit(tab, CHAPTERS[1])
    contents = page.locator("a.current + nav.page-toc")
    assert contents.locator("> ul > li").count() >= 10
    assert page.locator(".bd-sidebar-secondary, .secondary-toggle").count() == 0
    contents.locator("a").nth(4).click()
    current = "document.querySelector('.page-toc [aria-current=true]')?.textContent.startsWith('2.5')"
    until(lambda: page.evaluate(current))
    page.set_viewport_size({"width": 390, "height": 800})
    page.locator(".primary-toggle").click()
    contents.locator("a").nth(6).click()
    assert not page.locator("dialog[open]").count(), "the drawer hides what it leads to"


def test_code_of_a_picture_opens_by_a_link_and_without_a_script_by_a_line(tab, chromium, address):
    page = visit(tab, CHAPTERS[1])
    link = page.locator("#fig-2-1 a.code-link")
    code = page.locator("#code-fig-2-1 pre")
    assert (link.get_attribute("aria-expanded"), code.is_visible()) == ("false", False)
    link.focus()
    link.press("Space")
    until(
        lambda: (link.get_attribute("aria-expanded"), code.is_visible()) == ("true", True)
    )  # the first follows an event
    link.click()
    until(lambda: not code.is_visible())
    assert "Figure 2.1" in link.get_attribute("aria-label")
    plain = chromium.new_context(java_script_enabled=False).new_page()
    plain.goto(f"{address}/{CHAPTERS[1]}")
    plain.locator("#code-fig-2-1 > summary").click()
    assert plain.locator("#code-fig-2-1 pre").is_visible()
    plain.context.close()


def test_a_page_with_all_that_opens_open_is_accessible(chromium, address):
    page = chromium.new_page(color_scheme="dark", reduced_motion="reduce", viewport={"width": 1440, "height": 900})
    browser.visit(page, f"{address}/{CHAPTERS[1]}")
    page.evaluate(OPEN)
    assert violations(page, {"exclude": [["pre"], [".instrument"]]}) == []
    page.close()
