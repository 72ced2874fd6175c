"""The first page: its first screen, the block that moves once, the lab, two models that write, small pictures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from axe import violations
from playwright.sync_api import expect

from tools.make import repository
from tools.notebooks import run_notebooks
from tools.site import landing, writing

SITE = Path(__file__).parents[2] / "_build" / "html"
PAGE = (SITE / "book" / "index.html").as_uri()
SEEN = "e => { const b = e.getBoundingClientRect(); return [b.top / innerHeight, b.bottom / innerHeight]; }"
SHIFT = """window.shift = 0; new PerformanceObserver(list => list.getEntries().forEach(e => { shift += e.value; }))
    .observe({type: "layout-shift", buffered: true});"""
SETTING = "e => [...e.querySelectorAll('input')].map(input => input.value).join(' ')"  # factor, shift, output
HONEST, LEAK = "4 3 8", "4 2 8"


@pytest.fixture
def open_page(visit):
    """From a disk, in a tab that remembers what moved."""

    def go(width=1440, height=900, motion="no-preference", **options):
        return visit(PAGE, SHIFT, viewport={"width": width, "height": height}, reduced_motion=motion, **options)

    return go


@pytest.mark.site
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_first_screen_says_what_it_is_and_has_a_block_that_shows_itself_once(open_page, width, height):
    tab = open_page(width, height, clock=True)
    lit = []
    for _ in range(8):
        tab.clock.run_for(1000)
        lit.append(tab.locator(".join .join-math .lit").first.text_content() if tab.locator(".join.on").count() else "")
    assert [name for name, before in zip(lit, ["", *lit], strict=False) if name != before] == ["yt", "ats", "vs", ""]
    for what, end in {"h1": 0.75, "h1 + p": 0.75, ".facts": 0.75, ".start": 0.75, ".join-math .formula": 1}.items():
        top, bottom = tab.locator(f".bd-article {what}").first.evaluate(SEEN)
        assert 0 <= top < bottom < end, what
    tab.locator(".join-math msub[data-join]").first.hover()
    assert tab.locator(".join.on").count() == 1
    assert tab.evaluate("shift") < 0.02
    assert violations(tab, ".join") == []


@pytest.mark.site
def test_a_reader_who_wants_no_motion_or_takes_over_is_left_alone(open_page):
    still, taken = open_page(motion="reduce", clock=True), open_page(clock=True)
    taken.locator(".join-code pre").hover(position={"x": 5, "y": 5})
    for tab in (still, taken):
        tab.clock.run_for(8000)
        assert tab.locator(".join.on").count() == 0


@pytest.mark.site
def test_the_leak_is_there_from_the_start_with_one_slider_and_the_rest_behind_more(open_page):
    tab = open_page()
    lab = tab.locator(".leak-lab")
    assert lab.evaluate(SETTING) == LEAK
    assert lab.locator("input:visible").count() == 1
    lab.locator("input:visible").fill("3")
    assert lab.evaluate(SETTING) == HONEST
    tab.locator("details.more > summary").click()
    assert lab.locator("input:visible").count() == 3
    assert violations(tab, ".leak-lab") == []


@pytest.mark.site
def test_two_models_write_on_from_what_is_recorded(open_page):
    tab = open_page()
    strip = tab.locator("#two-write-here")
    texts, button = strip.locator(".models-text"), strip.get_by_role("button")
    recorded = texts.all_text_contents()
    assert recorded == [writing.written(name)[0] for name in writing.PAIR]
    assert [url for url in tab.asked if re.search(r"weights|/models?(-\w+)?\.js", url)] == []
    button.click()
    for text in texts.all():
        expect(text.locator("span.written").nth(20)).to_be_attached(timeout=30_000)
    button.click()
    expect(button).to_have_text("Write on")
    now = texts.all_text_contents()
    assert all(
        after.startswith(before) and len(after) > len(before) + 20 for before, after in zip(recorded, now, strict=True)
    )
    for text, name in zip(texts.all(), writing.PAIR, strict=True):  # in the browser, by PyTorch's numbers
        shades = text.locator("span").evaluate_all("all => all.map(e => Number(e.style.getPropertyValue('--shade')))")
        wanted = [min(1, nats / writing.MOST) for nats in writing.written(name)[1]]
        assert shades[1 : len(wanted) + 1] == pytest.approx(wanted, abs=2e-3)
    assert sum("/weights/" in url for url in tab.asked) == 2
    assert tab.evaluate("shift") < 0.02
    assert violations(tab, "#two-write-here") == []
    assert strip.locator(".models-error").inner_text() == ""


@pytest.mark.site
def test_without_javascript_the_page_is_whole(open_page):
    tab = open_page(java_script_enabled=False)
    assert tab.locator(".leak-lab img").is_visible()
    assert not tab.locator("#two-write-here button").is_visible()
    assert "ROMEO:" in tab.locator("#two-write-here .models-text").first.inner_text()
    assert tab.locator(".intervals").count() == 3
    assert tab.locator("svg.emblem[aria-hidden]").count() == len(run_notebooks.chapters())


def test_an_author_and_a_date_stand_there_once_the_repository_has_an_address(monkeypatch):
    monkeypatch.setattr(repository, "known", lambda: "")
    assert landing.byline() == ""
    monkeypatch.setattr(repository, "known", lambda: "https://github.com/somebody/book")
    assert re.search(r">By somebody, \d{4}-\d\d-\d\d<", landing.byline())
