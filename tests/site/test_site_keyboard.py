"""A chapter by keyboard alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import mostly_long

from tools.make import browser

SITE = Path(__file__).parents[2] / "_build" / "html"
CHAPTERS = [page for page in browser.pages(SITE) if page.startswith("notebooks/")]
MOST = 100  # tab stops of a chapter, without those of the contents, which grow with the book
FOCUSED = """() => {
    const active = document.activeElement, arrow = active.querySelector(":scope > .toctree-toggle");
    if (active === document.body) return null;
    const e = arrow ?? active; // the theme's summary has no height, and its arrow the ring
    const style = getComputedStyle(e), box = e.getBoundingClientRect();
    return {
        what: active.outerHTML.slice(0, 100),
        contents: active.closest(".bd-sidebar-primary") !== null,
        ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1,
        seen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && e.checkVisibility(),
    };
}"""
SLID_IN = f"() => ({FOCUSED})()?.seen"  # the bar with the skip link, which is the first stop

pytestmark = pytest.mark.site


@pytest.fixture(scope="module")
def tab(chromium):
    return chromium.new_page(reduced_motion="reduce")


def stops(tab, most):
    """What the Tab key stops at, until it leaves the page."""
    found = []
    for _ in range(most + 1):
        tab.keyboard.press("Tab")
        focused = tab.evaluate(FOCUSED)
        if focused and not found:
            tab.wait_for_function(SLID_IN)
            focused = tab.evaluate(FOCUSED)
        if focused is None or (found and focused["what"] == found[0]["what"]):
            break
        found.append(focused)
    return found


@pytest.mark.parametrize("path", mostly_long(CHAPTERS, [CHAPTERS[0], CHAPTERS[4]]))
def test_the_keyboard_stops_where_a_reader_wants_to_and_shows_where_it_is(tab, path):
    tab.set_viewport_size({"width": 1440, "height": 900})
    browser.visit(tab, f"{SITE.as_uri()}/{path}")
    found = stops(tab, 2 * MOST)
    assert 20 < len([stop for stop in found if not stop["contents"]]) <= MOST
    assert [stop["what"] for stop in found if not (stop["ring"] and stop["seen"])] == []
    reached = " ".join(stop["what"] for stop in found)
    assert all(part in reached for part in ("Skip to", "theme-switch", "search-button", "dropdown", "<summary"))


def test_a_reader_may_ask_for_every_stop(tab, address):
    """Served, since Chromium forgets what a page of a local file stores, in about one reload of a hundred."""
    tab.set_viewport_size({"width": 1440, "height": 900})
    browser.visit(tab, f"{address}/{CHAPTERS[1]}")
    for key in ("Tab", "Tab", "Enter"):  # the skip link, the switch beside it
        tab.keyboard.press(key)
    assert tab.locator("#pst-skip-link button").get_attribute("aria-pressed") == "true"
    tab.reload()  # it is remembered
    left_out = """() => [...document.querySelectorAll("a[href], button, summary, input, select")]
        .filter(e => !e.matches("[role=toolbar] > :not([tabindex='0'])")) // which the arrow keys reach
        .filter(e => e.tabIndex < 0 && e.checkVisibility()).map(e => e.outerHTML.slice(0, 80))"""
    assert tab.evaluate(left_out) == []
    tab.evaluate("localStorage.clear()")
