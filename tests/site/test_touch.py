"""What a reader does with a finger, on a phone: touches that Chromium makes as a screen would."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe import violations
from playwright.sync_api import expect

from tools.make import browser

SITE = Path(__file__).parents[2] / "_build" / "html"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "reduced_motion": "reduce"}

pytestmark = pytest.mark.site


@pytest.fixture(scope="module")
def phone(chromium, address):
    """A tab that a finger touches; `drag` takes it from one place to another, in steps, as events of the screen."""
    context = chromium.new_context(**PHONE)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab = context.new_page()
    session = context.new_cdp_session(tab)

    def touch(kind, *points):
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]})

    def drag(x, y, down):
        touch("touchStart", (x, y))
        for step in range(1, 9):
            touch("touchMove", (x, y + down * step / 8))
        tab.wait_for_timeout(200)  # a finger that leaves while it moves would fling, and the next tap stop that
        touch("touchMove", (x, y + down))
        touch("touchEnd")

    tab.drag, tab.address = drag, address
    yield tab
    context.close()


def middle(element):
    element.evaluate("e => e.scrollIntoView({block: 'center'})")
    box = element.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_finger_drags_a_bar_of_kernel_bench_and_the_page_stays(phone):
    browser.visit(phone, f"{phone.address}/notebooks/03-primer-variations.html")
    handle = phone.locator(".kernel-bench [role=slider]").first
    x, y = middle(handle.locator(".room"))
    top = phone.evaluate("scrollY")
    phone.drag(x, y, 48)
    assert float(handle.get_attribute("aria-valuenow")) < -0.7  # 48 pixels below zero: all of them were heard
    assert phone.evaluate("scrollY") == top
    said = phone.locator(".kernel-bench a.link")
    said.tap()
    expect(said).to_have_text("Copied")
    assert phone.evaluate("navigator.clipboard.readText()") == phone.url == said.evaluate("e => e.href")


def test_leak_lab_fits_a_phone_and_its_map_answers_to_a_finger(phone):
    browser.visit(phone, f"{phone.address}/notebooks/04-hourglass.html")
    lab = phone.locator(".leak-lab")
    parts = [lab.locator(part).first.bounding_box() for part in (".sliders", ".flow", "p[aria-live]")]
    bar = phone.locator(".bd-header-article").bounding_box()["height"]
    assert parts[-1]["y"] + parts[-1]["height"] - parts[0]["y"] <= PHONE["viewport"]["height"] - bar
    row = lab.locator(".map rect.row")
    x, y = middle(lab.locator(".map"))
    phone.touchscreen.tap(x, y)
    t = int(row.get_attribute("y"))
    assert 8 < t < 14  # the map has 24 rows
    assert lab.locator("p[aria-live]").inner_text().startswith(f"Output {t} ")


def test_a_picture_opens_larger_by_a_touch_or_a_key_and_says_what_it_shows(phone):
    browser.visit(phone, f"{phone.address}/notebooks/04-hourglass.html")
    figure = phone.locator("figure#fig-4-2")
    small, dialog = figure.locator("img"), phone.locator("dialog.enlarged")
    small.tap()
    large = dialog.locator("img")
    expect(large).to_be_visible()
    assert large.get_attribute("alt") == small.get_attribute("alt")
    assert large.bounding_box()["width"] > 1.8 * small.bounding_box()["width"]
    assert violations(phone, "dialog.enlarged") == []
    large.tap()
    assert dialog.count() == 0
    button = figure.get_by_role("button", name="Enlarge Figure 4.2")
    button.press("Enter")
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    phone.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button).to_be_focused()


def test_code_on_a_phone_hides_nothing_at_its_right(phone):
    """The sizes that it has in its comments are in sight, beside its lines or below them, however long these are."""
    hidden = """() => [...document.querySelectorAll(".bd-article pre")].filter(e => e.checkVisibility())
        .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.slice(0, 80))"""
    for page in ("book/your-own-text", "book/test-for-leaks", "notebooks/01-transformer"):
        browser.visit(phone, f"{phone.address}/{page}.html")
        assert phone.evaluate(hidden) == [], page
    right = """() => [...document.querySelectorAll(".cell_input pre .gap + .c1")].filter(e => e.checkVisibility())
        .map(e => Math.max(...[...e.getClientRects()].map(box => box.right)))"""
    places = phone.evaluate(right)
    assert len(places) > 20
    assert max(places) <= PHONE["viewport"]["width"]


def test_what_a_model_writes_comes_into_sight(phone):
    browser.visit(phone, f"{phone.address}/book/write-with-it.html")
    run = phone.get_by_role("button", name="Run")
    run.evaluate("e => e.scrollIntoView({block: 'end'})")
    run.tap()
    text = phone.locator(".models-text")
    expect(text.locator(".written").nth(20)).to_be_attached(timeout=20_000)
    phone.get_by_role("button", name="Stop").tap()
    box = text.bounding_box()
    assert box["y"] + box["height"] <= PHONE["viewport"]["height"] + 1  # a fraction of a pixel
    expect(phone.locator("#pst-back-to-top")).to_be_hidden()
