"""What a reference leads to is shown: by pointer, keyboard and touch, across pages, from a disk; every one of them."""

from __future__ import annotations

import json
import posixpath
import re
from functools import cache
from pathlib import Path

import pytest
from axe import violations

from tools.make import browser

SITE = Path(__file__).parents[2] / "_build" / "html"
PAGES = [page for page in browser.pages(SITE) if page.startswith(("book/", "notebooks/"))]
CHAPTER = "notebooks/04-hourglass.html"
LINK = re.compile(r"<a (?P<rest>[^>]*)>(?P<inside>.*?)</a>", re.DOTALL)
# Within the text, what is no reference: code, and links to where one is, to a file of a picture.
CODE = re.compile(r"<(pre|script|style)\b.*?</\1>", re.DOTALL)
NO_REFERENCE = re.compile(r"\b(headerlink|eqno|code-link|image-reference|viewcode-link)\b")

pytestmark = pytest.mark.site


@cache
def shown(page: str) -> dict[str, str]:
    """What the script of a page has, by anchor."""
    text = (SITE / "_static" / "previews" / page).with_suffix(".js").read_text(encoding="utf-8")
    return json.loads(re.fullmatch(r'\(window\.PREVIEWS \?\?= \{\}\)\["[^"]*"\] = (.*);\n', text, re.DOTALL)[1])


def test_every_reference_has_a_preview_and_no_link_is_dead():
    references, bare, empty = 0, [], []
    for page in PAGES:
        text = (SITE / page).read_text(encoding="utf-8")
        article = CODE.sub("", text[text.find("<article") : text.rfind("</article>")])
        for link in LINK.finditer(article):
            href = re.search(r'\bhref="([^"]*)"', link["rest"])
            marked = re.search(r'\bdata-preview(?:="([^"]*)")?', link["rest"])
            if marked is None:
                if 'class="reference internal' in link["rest"] or 'class="term' in link["rest"]:
                    bare += [(page, link[0])] * (not NO_REFERENCE.search(link[0]))
                continue
            references += 1
            path, _, anchor = (marked[1] or href[1]).partition("#")
            here = "" if marked[1] else posixpath.dirname(page)
            target = posixpath.normpath(posixpath.join(here, path)) if path else page
            html = shown(target).get(anchor, "")
            if len(re.sub(r"<[^>]*>|\s", "", html)) < 2 and "<img" not in html:
                empty.append((page, link[0]))
    assert references
    assert (bare, empty) == ([], [])


def test_each_kind_of_reference_is_shown():
    assert "<math" in shown("notebooks/02-primer-ez.html")["eq-2-2"]
    assert re.match(r'<img src="_images/fig-4-7\.\w+".*<strong>Figure 4\.7\.', shown(CHAPTER)["fig-4-7"])
    assert re.match(r"<table>.*Table 2\.2\.", shown("notebooks/02-primer-ez.html")["tab-2-2"])
    assert shown(CHAPTER)["why-the-shift-is-k-1"].startswith("<p><b>4.2 Why the shift is k − 1</b></p><p>")
    assert shown("book/glossary.html")["term-attention"]
    assert any("Searching for efficient" in entry for entry in shown("book/bibliography.html").values())


@pytest.fixture
def tab(chromium):
    """A chapter from a disk, which may fetch nothing."""
    page = chromium.new_page(reduced_motion="reduce", viewport={"width": 1440, "height": 900})
    browser.visit(page, f"{SITE.as_uri()}/{CHAPTER}")
    yield page
    page.close()


def test_a_pointer_opens_it_after_a_moment_and_may_enter_it(tab):
    preview, link = tab.locator("#preview"), tab.locator("p a[data-preview][href='#eq-4-9']").first
    link.scroll_into_view_if_needed()
    link.dispatch_event("pointerenter", {"pointerType": "mouse"})
    assert not preview.is_visible()
    preview.locator("math").first.wait_for()
    assert (preview.get_attribute("role"), link.get_attribute("aria-describedby")) == ("tooltip", "preview")
    assert preview.evaluate("e => getComputedStyle(e).animationName") == "none"  # motion is reduced
    link.dispatch_event("pointerleave", {"pointerType": "mouse"})
    preview.dispatch_event("pointerenter", {"pointerType": "mouse"})
    tab.wait_for_timeout(400)
    assert preview.is_visible()
    tab.keyboard.press("Escape")
    assert not preview.is_visible()
    assert link.get_attribute("aria-describedby") is None


def test_the_keyboard_opens_what_another_page_has(tab):
    preview, link = tab.locator("#preview"), tab.locator("p a[data-preview*='bibliography']").first
    tab.keyboard.press("Tab")  # so that the focus is one of the keyboard
    link.focus()
    preview.get_by_text("Hierarchical").first.wait_for()
    assert violations(tab, "#preview") == []
    tab.keyboard.press("Tab")
    preview.wait_for(state="hidden")


def test_a_tap_opens_a_sheet_with_a_way_there(chromium):
    context = chromium.new_context(
        viewport={"width": 390, "height": 800},
        has_touch=True,
        is_mobile=True,
        color_scheme="dark",
        reduced_motion="reduce",
    )
    page = context.new_page()
    browser.visit(page, f"{SITE.as_uri()}/{CHAPTER}")
    sheet, link = page.locator("#preview"), page.locator("p a[data-preview][href='#eq-4-9']").first
    link.tap()
    sheet.locator("math").first.wait_for()
    assert "#eq-4-9" not in page.url
    assert sheet.get_attribute("role") == "dialog"
    box = sheet.bounding_box()
    assert (box["x"], round(box["x"] + box["width"]), round(box["y"] + box["height"])) == (0, 390, 800)
    assert violations(page, {"exclude": [["pre"], [".instrument"]]}) == []
    page.keyboard.press("Escape")
    assert not sheet.is_visible()
    assert link.evaluate("e => e === document.activeElement")
    link.tap()
    sheet.get_by_role("link", name="Go to (4.9)").tap()
    page.wait_for_url("**/*#eq-4-9")
    assert not sheet.is_visible()
    context.close()


def test_without_a_script_a_reference_is_a_link(chromium, address):
    page = chromium.new_context(java_script_enabled=False).new_page()
    page.goto(f"{address}/{CHAPTER}")
    page.locator("p a[data-preview][href='#eq-4-9']").first.click()
    assert page.url.endswith("#eq-4-9")
    assert page.locator("#preview").count() == 0
    page.context.close()
