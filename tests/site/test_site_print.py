"""On paper: a page that was dark is light, nothing is cut, and what cannot be pressed is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tools.make import browser, pdf
from tools.notebooks import chapters

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
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
    solutions = tab.locator(".bd-article details:not(.hide) > *:last-child")
    assert solutions.count() > 3
    assert all(solution.is_visible() for solution in solutions.all())
    tab.emulate_media(media="screen")
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator("html").get_attribute("data-theme") == "dark"
    assert not solutions.first.is_visible()
    tab.close()


@pytest.mark.long
def test_the_whole_book_as_one_pdf(tmp_path):
    out = tmp_path / "book.pdf"
    pdf.make(out)
    made = out.read_bytes()
    notebooks = (ROOT / "notebooks").glob("**/[!.]*.ipynb")
    pictures = sum(path.read_text(encoding="utf-8").count('"image/png"') for path in notebooks)
    assert made.count(b"/Subtype /Image") + made.count(b"/Subtype/Image") >= pictures / 2
    assert not re.search(rb"/URI ?\((?:file:|http://127)", made), "a link that leaves the book for the disk"
    assert len(re.findall(rb"/Subtype ?/Link", made)) > 1000
    assert not re.search(rb"/Title \((.{3,})\1\)", made), "a heading twice in the outline"
    pages = list(pdf.order(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))))
    assert len(re.findall(rb"/Title [(<]", made)) >= len(pages) + len(chapters.sections())
    assert 150 < len(re.findall(rb"/Type ?/Page\b", made)) < 800
    assert not (SITE / pdf.WHOLE).exists()
