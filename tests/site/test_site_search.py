"""Search, from a disk: it lands at the right section, and shows words that a reader can read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from axe import violations
from playwright.sync_api import expect

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
RIGHT = {
    "squared ReLU": "2.1 Squared ReLU",
    "cache": "1.10 Why a cache is right",
    "leak": "1.3 Does it peek?",
    "SpatialGatingUnit": "SpatialGatingUnit",
}
ASKED = yaml.safe_load((ROOT / "book" / "asked.yml").read_text(encoding="utf-8"))["asked"]
QUERIES = yaml.safe_load((Path(__file__).parent / "queries.yml").read_text(encoding="utf-8"))
ROW = re.compile(r"^\| `(\w+)` \| .+? \| Section (\d+\.\d+) \|", re.MULTILINE)
RAW = re.compile(r"\\[a-z]|\$|\.ipynb|\.pdf|#@title|\{math\}")

pytestmark = pytest.mark.site


@pytest.fixture(scope="module")
def tab(chromium):
    return chromium.new_page()


def search(tab, words):
    tab.goto(f"{SITE.as_uri()}/search.html?q={words.replace(' ', '+')}")
    return tab.locator("#search-results > li")


@pytest.mark.parametrize(("words", "section"), RIGHT.items())
def test_the_right_section_comes_first(tab, words, section):
    results = search(tab, words)
    assert results.count() > 2
    first = results.first
    assert first.locator("a").inner_text() == section
    assert not [text for text in results.locator("p").all_inner_texts() if RAW.search(text)]
    anchor = first.locator("a").get_attribute("href").split("#")[1]
    first.locator("a").click()
    assert section in tab.locator(f'[id="{anchor}"]').text_content()
    assert tab.url.endswith(f"#{anchor}")


def test_each_name_of_the_originals_leads_to_the_section_of_ours_and_then_to_its_row(tab):
    rows = ROW.findall((ROOT / "book" / "from-labml.md").read_text(encoding="utf-8"))
    search(tab, rows[0][0])
    for name in {name for name, _ in rows}:  # all by the script of this one page
        first, second = tab.evaluate("name => search(name).slice(0, 2)", name)
        assert first["title"].split()[0] in [section for of, section in rows if of == name]
        assert first["address"].startswith("notebooks/")
        assert second["title"] == name
        assert second["address"].startswith("book/from-labml.html#")


def test_of_what_people_type_nearly_all_is_answered_first_and_each_is_answered(tab):
    search(tab, "leak")
    found = {
        asked["query"]: tab.evaluate("query => search(query).map(e => e.title)", asked["query"]) for asked in QUERIES
    }
    assert [query for query, titles in found.items() if not titles] == []
    missed = {asked["query"] for asked in QUERIES if found[asked["query"]][0] not in asked["first"]}
    assert len(missed) <= 4, missed


def test_the_first_question_of_each_section_leads_to_it(tab):
    search(tab, "leak")
    asked = {questions[0]: section.replace("#", ".html#") for section, questions in ASKED.items()}
    assert len(asked) >= 50
    found = tab.evaluate("all => all.map(query => search(query)[0]?.address)", list(asked))
    missed = [query for query, first in zip(asked, found, strict=True) if first != asked[query]]
    assert len(missed) <= len(asked) / 10, missed


def test_results_change_while_somebody_types_and_are_gone_through_by_keyboard(tab):
    search(tab, "leak")
    field = tab.locator(".bd-search-container input[type=search]")
    field.fill("kv cac")
    first = tab.locator("#search-results > li > a").first
    expect(first).to_have_text("1.10 Why a cache is right")
    assert tab.url.endswith("?q=kv%20cac")
    field.press("ArrowDown")
    expect(first).to_be_focused()
    first.press("ArrowDown")
    expect(tab.locator("#search-results > li > a").nth(1)).to_be_focused()
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("ArrowUp")
    expect(field).to_be_focused()


def test_the_dialog_shows_results_while_somebody_types_and_loads_the_index_when_it_opens(chromium):
    tab, asked = chromium.new_page(color_scheme="dark", viewport={"width": 1280, "height": 844}), []
    tab.on("request", lambda request: asked.append(request.url.rsplit("/", 1)[-1]))
    tab.goto(f"{SITE.as_uri()}/notebooks/04-hourglass.html")
    dialog = tab.locator("#pst-search-dialog")
    field, first = dialog.locator("input"), dialog.locator("ol > li > a").first
    assert "sections.js" not in asked
    tab.keyboard.press("Control+k")
    tab.keyboard.type("kv cac")
    expect(first).to_have_text("1.10 Why a cache is right")
    assert violations(tab, "#pst-search-dialog") == []
    tab.keyboard.press("Escape")
    assert not dialog.is_visible()
    tab.keyboard.press("Control+k")
    field.fill("why shift by k-1")
    expect(first).to_have_text("4.2 Why the shift is k − 1")
    tab.keyboard.press("ArrowDown")
    expect(first).to_be_focused()
    tab.keyboard.press("Enter")
    expect(dialog).not_to_be_visible()  # the place is on this page
    assert tab.url.endswith("04-hourglass.html#why-the-shift-is-k-1")
    assert asked.count("sections.js") == 1
    tab.close()


def test_no_result_and_odd_questions_get_a_sentence(tab):
    assert search(tab, "zebra").count() == 0
    assert "Nothing has any word of “zebra”" in tab.locator("#search-status").inner_text()
    search(tab, "%3Cimg+src%3Dx+onerror%3Dalert(1)%3E+zebra")
    assert tab.locator("#search-results img, #search-status img").count() == 0
    assert tab.locator(".bd-search-container img").count() == 0


def test_every_result_leads_to_an_anchor():
    pages = {}
    for page, anchor in re.findall(r'"([\w./-]+\.html)#([^"]+)"', (SITE / "_static/sections.js").read_text("utf-8")):
        if page not in pages:
            pages[page] = set(re.findall(r'\bid="([^"]+)"', (SITE / page).read_text(encoding="utf-8")))
        assert anchor in pages[page], f"{page}#{anchor}"
