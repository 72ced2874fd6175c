"""On paper: a page that was dark is light, nothing is cut, and what cannot be pressed is not there."""

from __future__ import annotations

import re

import pytest

from tools.make import browser

PAPER = {"width": 665, "height": 980}  # A4 without its margins, in CSS pixels
CUT = """() => [...document.querySelectorAll(".bd-article :is(pre, .formula, table, img, figure)")]
    .filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1)
    .map(e => e.outerHTML.slice(0, 100))"""

pytestmark = pytest.mark.site


@pytest.mark.parametrize(
    "path", ["notebooks/05-gmlp.html", pytest.param("notebooks/03-primer-variations.html", marks=pytest.mark.long)]
)
def test_a_chapter_on_paper(path, chromium, address):
    tab = chromium.new_page(color_scheme="dark", viewport=PAPER)
    browser.visit(tab, f"{address}/{path}")
    assert tab.locator("html").get_attribute("data-theme") == "dark"
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    tab.emulate_media(media="print")
    assert tab.evaluate(CUT) == []
    assert tab.evaluate("document.scrollingElement.scrollWidth") <= PAPER["width"]
    ink = tab.evaluate("getComputedStyle(document.querySelector('.bd-article p')).color")
    assert all(int(part) < 80 for part in re.findall(r"\d+", ink)), ink
    gone = ".bd-sidebar-primary, .bd-header-article, .prev-next-footer, details.hide, input, .copybtn"
    assert [e.evaluate("e => e.outerHTML.slice(0, 80)") for e in tab.locator(gone).all() if e.is_visible()] == []
    solutions = tab.locator(".bd-article details:not(.hide, .runs) > *:last-child")
    assert solutions.count() > 3
    assert all(solution.is_visible() for solution in solutions.all())
    tab.emulate_media(media="screen")
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator("html").get_attribute("data-theme") == "dark"
    assert not solutions.first.is_visible()
    tab.close()
