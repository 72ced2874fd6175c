"""The built book in a real browser, every page: wide and narrow, light and dark.

`make book` builds it.
"""

from __future__ import annotations

import re
import string
from html import unescape
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from axe import violations
from helpers import mostly_long
from legible import LEAST
from polling import until
from sphinx.util.inventory import InventoryFile

from tools.make import browser
from tools.notebooks import folding

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
PAGES = [page for page in browser.pages(SITE) if page != "index.html"]  # that one only points to book/index.html
LOOKED_AT = browser.one_of_each(PAGES)
# One of each template, and each with a script of its own: what axe looks at.
TEMPLATES = {"notebooks/01-transformer", "notebooks/studies/s1-strong-baseline", "search", "genindex", "book/index"}
TEMPLATES |= {f"book/{name}" for name in ("api/attention", "source/attention", "glossary", "exercises")}
TEMPLATES |= {f"book/{name}" for name in ("what-would-it-cost", "one-token", "write-with-it", "read-with-it")}
CHAPTERS = [page for page in PAGES if re.match("notebooks/0", page) or (page in LOOKED_AT and "/studies/" in page)]
API = "book/api/"

pytestmark = [
    pytest.mark.site,
    pytest.mark.slow,  # the longest file: it begins early, so that no process is left alone with it
]

# A chapter's code is thousands of spans, of which axe need not look at each.
WITHOUT_CODE = {"exclude": [["pre"]]}
COLORS = ["color-contrast", "link-in-text-block"]  # axe's rules that look at colors, which take most of its time
# What they look at: an element's letters, the backgrounds of all that is around it, and what lies over the rest. Up to
# five elements are marked for each combination that is not among the known ones: axe cannot judge what is covered.
LOOKS = """known => {
    const around = new Map(), found = {};
    const backgrounds = e => {
        if (!e) return "";
        if (!around.has(e)) {
            const {backgroundColor, backgroundImage, opacity, position} = getComputedStyle(e);
            const lies = ["absolute", "fixed", "sticky"].includes(position) ? e.outerHTML.split(">")[0] : "static";
            const own = `${backgroundColor} ${backgroundImage} ${opacity} ${lies}; `;
            around.set(e, backgrounds(e.parentElement) + (own === "rgba(0, 0, 0, 0) none 1 static; " ? "" : own));
        }
        return around.get(e);
    };
    document.querySelectorAll("[data-look]").forEach(e => delete e.dataset.look);
    for (const e of document.querySelectorAll("body *:not(script, style, noscript)")) {
        if (![...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim())) continue;
        if (!e.getClientRects().length) continue;
        const s = getComputedStyle(e), before = e.tagName === "A" ? getComputedStyle(e.parentElement).color : "";
        const letters = [s.color, s.fontSize, s.fontWeight, s.textDecorationLine, s.textShadow, before].join(" ");
        (found[`${letters}; ${backgrounds(e)}`] ??= []).push(e);
    }
    const fresh = Object.keys(found).filter(look => !known.includes(look));
    fresh.forEach(look => found[look].slice(0, 5).forEach(e => e.dataset.look = ""));
    return fresh;
}"""
# What math.css and landing-math.css have: letters as a browser shows them, italic or script, and what else there is.
MATH = (
    string.ascii_letters + string.digits + " αβγδεθλμνπρστφχψωϕϵϑΓΔΘΛΠΣΦΨΩ"
    "()[]{}|/+−=<>≤≥≠≈∼≪≫±×·⋅∗⊙⊗∘∂∈∉∑∏∫√∞′″…⋯⋮⋱→←↦∣∥⌊⌋⌈⌉⟨⟩⊤⊥∀∃∪∩⊂∖ℱℝℓ𝟙¯‾˜ˆ˙→⏟⏞̲̅,.;:!%*"
    "ℎ𝜕𝜖𝜗𝜙" + "".join(map(chr, [*range(0x1D434, 0x1D468), *range(0x1D49C, 0x1D4B6)])) + "ℬℰℱℋℐℒℳℛ"
    "𝛼𝛽𝛾𝛿𝜀𝜃𝜆𝜇𝜈𝜋𝜌𝜎𝜏𝜑𝜒𝜓𝜔𝛤𝛥𝛩𝛬𝛱𝛴𝛷𝛹𝛺"
)
LANDING = "(),./=′∑≤⋅√−aeKkpqstvxy" + "𝑎𝐾𝑘𝑞𝑠𝑡𝑣𝑦"
BAD_MATH = "merror, math mtext[style*=color], code.not-converted"
RAW_MATH = re.compile(r"\$\$|\\[(\[]|\\(begin|tag|frac|mathrm)\b")
PROSE = """() => {
    const copy = document.querySelector(".bd-article").cloneNode(true);
    copy.querySelectorAll("pre, code, script, style, math").forEach(e => e.remove());
    return copy.textContent;
}"""
BAD_IMAGES = r"""() => [...document.querySelectorAll(".bd-article img")]
    .filter(e => !e.alt.trim() || /\.(png|svg)$/.test(e.alt)).map(e => e.outerHTML.slice(0, 120))"""
UNLINKED = r"""() => {
    const mention = /\([1-9]\d?\.[1-9]\d?\)|\b(Figure|Table|Section|Exercise)\s[1-9]\d?\.[1-9]\d?/;
    const closed = "a, button, pre, code, math, script, style, h1, h2, h3, figcaption strong, summary, .math, nav";
    const walk = document.createTreeWalker(document.querySelector(".bd-article"), NodeFilter.SHOW_TEXT), found = [];
    while (walk.nextNode()) {
        const node = walk.currentNode;
        if (mention.test(node.data) && !node.parentElement.closest(closed)) found.push(node.data.trim().slice(0, 80));
    }
    return found;
}"""
TOO_WIDE = """() => [...document.querySelectorAll("table.results")]
    .filter(t => t.offsetWidth > t.parentElement.clientWidth + 1)
    .filter(t => getComputedStyle(t.parentElement).overflowX !== "auto")
    .map(t => t.textContent.slice(0, 80))"""
SORTED = """() => [...document.querySelectorAll("table.results")].map(table => {
    const heading = [...table.querySelectorAll("thead th")].at(-1);
    heading.querySelector("button").click();
    const column = [...table.querySelectorAll("tbody td:last-child")].map(cell => cell.textContent);
    return [heading.ariaSort, column];
})"""
UNMARKED = """() => [...document.querySelectorAll(".formula, span.math, .text_html:has(> table.results)")]
    .filter(e => e.scrollWidth > e.clientWidth + 1 && !e.classList.contains("scrolls"))
    .map(e => e.textContent.slice(0, 80))"""
SCROLLING_WORDS = """() => [...document.querySelectorAll("table.stacks")]
    .filter(table => table.parentElement.scrollWidth > table.parentElement.clientWidth).map(table => table.innerText)"""
LONG_LINES = """() => [...document.querySelectorAll(".bd-article p")]
    .filter(e => !e.closest("table, div.cell summary") && e.getBoundingClientRect().width > 672.5)
    .map(e => e.textContent.slice(0, 80))"""
BROKEN = """() => [...document.querySelectorAll("math:not(.join-key *)")].map(e => e.closest(".kept") || e)
    .filter(e => /[.,;:]/.test(e.nextSibling?.textContent[0]) || e.getClientRects().length > 1)
    .map(e => e.textContent + e.nextSibling?.textContent.slice(0, 20))"""
# CSS pixels: frames are shown at 100 to the inch, and tests of figures hold them to 12 points.
EXPLORER_TEXT = LEAST * 100 / 72
MOST_NODES = 9000
CLIPPED = """() => [...document.querySelectorAll(".cell_output pre")]
    .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"""
NUMBERED = "[id^=eq-], [id^=fig-], [id^=tab-]"
OPEN = "document.querySelectorAll('details.answer').forEach(e => { e.open = true; })"  # as a reader who has guessed
# page.js looks at them a few at a time, so that the last are made reachable some time after a page has loaded.
REACHABLE = """() => [...document.querySelectorAll("pre, .formula, span.math, .pst-scrollable-table-container")]
    .every(box => box.tabIndex === 0 || box.scrollWidth <= box.clientWidth + 1)"""
ANSWERS = """() => [...document.querySelectorAll("details.answer")]
    .map(e => [e.querySelector("summary").innerText, e.querySelector(".cell_output").checkVisibility()])"""
VISIBLE_FRAME = """explorer => [...explorer.querySelectorAll("img")]
    .filter(e => e.getClientRects().length).map(e => e.src)"""


class Watched:
    """A tab that remembers what it asked other hosts for, and what its console complained about."""

    def __init__(self, chromium, home: str) -> None:
        self.page = chromium.new_page(reduced_motion="reduce")
        self.home, self.elsewhere, self.errors = home, [], []
        self.looks = []
        self.page.on("request", self.on_request)
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def on_request(self, request) -> None:
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def visit(self, path: str):
        self.elsewhere, self.errors = [], []
        self.page.emulate_media(color_scheme="light")
        self.page.set_viewport_size({"width": browser.WIDE, "height": 900})
        browser.visit(self.page, f"{self.home}/{path}")
        self.page.evaluate(OPEN)
        browser.draw_all(self.page)  # else each look is a layout
        return self.page


@pytest.fixture(scope="module")
def tab(chromium, address):
    watched = Watched(chromium, address)
    yield watched
    watched.page.close()


def unreadable(page, known):
    """What cannot be read among all that looks like nothing known, which is known from now on."""
    known += (fresh := page.evaluate(LOOKS, known))
    return violations(page, "[data-look]", only=COLORS) if fresh else []


def darken(page):
    """As when the reader's system turns dark."""
    page.emulate_media(color_scheme="dark")
    page.locator("html:not([data-theme=light])").wait_for(state="attached")  # pages without a theme have none


@pytest.mark.parametrize("path", mostly_long(PAGES, LOOKED_AT))
def test_page(tab, path):
    """All that every page is held to, by one visit: what else than its colors changes with none of its themes."""
    page = tab.visit(path)
    assert page.evaluate("document.querySelectorAll('*').length") <= MOST_NODES
    page.wait_for_function(REACHABLE)
    assert page.evaluate(BAD_IMAGES) == [], "images without alt text"
    assert page.locator(BAD_MATH).all_text_contents() == [], "math that is not understood"
    assert not RAW_MATH.search(page.evaluate(PROSE) if page.locator(".bd-article").count() else "")
    if path.removesuffix(".html") in TEMPLATES:
        assert violations(page, WITHOUT_CODE, without=COLORS) == []
        assert unreadable(page, tab.looks) == []
        darken(page)
        assert unreadable(page, tab.looks) == []

    page.set_viewport_size({"width": browser.WIDE // 2, "height": 450})  # as a page of twice the size
    assert page.evaluate("document.scrollingElement.scrollWidth") <= browser.WIDE // 2, "wider than the window"
    assert page.locator("h1").last.is_visible()
    page.set_viewport_size({"width": browser.NARROW, "height": 900})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= browser.NARROW, "wider than a phone"
    assert page.evaluate(SCROLLING_WORDS) == [], "a table of words that scrolls"
    assert tab.elsewhere == [], "requests to other hosts"
    assert tab.errors == []


@pytest.fixture(scope="module")
def opened(request, chromium, address):
    """A chapter's page, once for all tests that look at it in turn."""
    watched = Watched(chromium, address)
    yield watched.visit(request.param), request.param
    assert watched.errors == []
    watched.page.close()


@pytest.fixture
def chapter(opened):
    opened[0].set_viewport_size({"width": browser.WIDE, "height": 900})
    return opened[0]


@pytest.fixture
def notebook(opened):
    return nbformat.read(ROOT / Path(opened[1]).with_suffix(".ipynb"), 4)


every_chapter = pytest.mark.parametrize("opened", CHAPTERS, indirect=True, scope="module")


@every_chapter
def test_chapter(chapter, notebook):
    """Math is set, and every slider changes the picture."""
    page = chapter
    assert page.locator("math").count() > 0 or not any("$" in cell.source for cell in notebook.cells)
    for explorer in page.locator(".explorer").all():
        for slider in explorer.locator("input[type=range]").all():
            before, said = explorer.evaluate(VISIBLE_FRAME), slider.locator("+ output").inner_text()
            slider.press("ArrowLeft" if slider.evaluate("e => e.value === e.max") else "ArrowRight")
            after = explorer.evaluate(VISIBLE_FRAME)
            assert len(before) == len(after) == 1
            assert before != after
            now = slider.locator("+ output").inner_text()
            assert said != now == slider.get_attribute("aria-valuetext")
            assert slider.bounding_box()["height"] >= 24


@every_chapter
def test_numbers_are_links_and_no_two_things_have_one(chapter):
    assert chapter.evaluate(UNLINKED) == []
    ids = chapter.eval_on_selector_all(NUMBERED, "all => all.map(e => e.id)")
    assert len(ids) == len(set(ids))


@every_chapter
def test_folded_cells_are_closed_lines_that_open(chapter, notebook):
    titles = [folding.TITLE.match(cell.source)[1] for cell in notebook.cells if folding.is_folded(cell)]
    summaries = chapter.locator("div.cell details.hide > summary")
    assert [words.strip() for words in summaries.all_inner_texts()] == titles
    code = chapter.locator("div.cell details.hide pre").first
    assert not code.is_visible()
    summaries.first.press("Enter")
    assert code.is_visible()
    assert "#@title" not in code.inner_text()


@pytest.mark.parametrize("path", CHAPTERS[:2])
def test_an_answer_stays_closed_until_a_reader_opens_it_without_a_script(chromium, address, path):
    notebook = nbformat.read(ROOT / Path(path).with_suffix(".ipynb"), 4)
    asked = sum(bool(cell.outputs) for cell in folding.predicted(notebook))
    page = chromium.new_context(java_script_enabled=False).new_page()
    page.goto(f"{address}/{path}", wait_until="domcontentloaded")
    assert page.evaluate(ANSWERS) == [["Guess first, then open", False]] * asked
    if asked:
        page.locator("details.answer > summary").first.click()
        assert page.evaluate(ANSWERS)[0][1]
    page.context.close()


@every_chapter
def test_figures_have_captions_and_text_that_a_phone_shows(chapter, notebook):
    """At 390 px, no text is below 9 px: from its size in the picture, and the ratio of shown to drawn width."""
    drawn = {}
    for cell, caption in folding.captioned(notebook):
        for output in cell.outputs if caption and cell.cell_type == "code" else []:
            size = output.get("metadata", {}).get("image/png", {})
            if size or "image/png" in output.get("data", {}):  # an explorer's frame has no measures
                drawn[folding.anchor(caption)] = size
    assert drawn
    chapter.set_viewport_size({"width": 390, "height": 900})
    small = {}
    for name, size in drawn.items():
        figure = chapter.locator(f"figure#{name}")
        assert figure.locator("figcaption").inner_text().startswith(("Figure ", "Table "))
        visible = figure.locator("img:not([hidden])").first
        wide = int(visible.get_attribute("width"))
        assert wide == size.get("width", wide)
        shown = size.get("smallest_text", EXPLORER_TEXT) * visible.bounding_box()["width"] / wide
        if shown < 9:
            small[name] = round(shown, 1)
    assert small == {}


@every_chapter
def test_lines_are_short_and_results_sort_and_fit_a_phone_or_scroll(chapter):
    chapter.set_viewport_size({"width": 1440, "height": 900})
    assert chapter.evaluate(LONG_LINES) == [], "longer than an eye can follow"
    assert chapter.evaluate(CLIPPED) == [], "printed, and not seen"
    for direction in ("ascending", "descending"):
        for said, column in chapter.evaluate(SORTED):
            assert said == direction
            values = [v.replace("−", "-").replace(",", "") for v in column]
            numbers = [float(m[0]) for v in values if (m := re.match(r"-?\d+(\.\d+)?(e-?\d+)?", v))]
            if len(numbers) == len(values):
                assert numbers == sorted(numbers, reverse=direction == "descending")
    chapter.set_viewport_size({"width": 390, "height": 900})
    assert chapter.evaluate(TOO_WIDE) == []
    assert chapter.evaluate(CLIPPED) == []
    assert chapter.evaluate(BROKEN) == [], "a full stop could stand in a line without its formula"
    until(lambda: chapter.evaluate(UNMARKED) == [])  # what scrolls says so, once the page knows of its new size


def test_the_root_leads_to_the_book(chromium, address):
    page = chromium.new_page()
    page.goto(f"{address}/index.html")
    page.wait_for_url(f"{address}/book/index.html")
    page.close()


@pytest.mark.parametrize(("pages", "font"), [(PAGES, MATH), (["book/index.html"], LANDING)])
def test_the_math_font_has_every_character_of_an_equation(pages, font):
    texts = [(SITE / path).read_text(encoding="utf-8") for path in pages]
    formulas = [formula for text in texts for formula in re.findall(r"<math.*?</math>", text, re.DOTALL)]
    shown = set(unescape("".join(re.sub(r"<[^>]+>", "", formula) for formula in formulas)))
    invisible = {"\u2061", "\u2062", "\u2063", "\u200b", "\xa0", "\u2003", "\ufe00", "\n"}
    assert {c for c in shown - invisible if c not in font} == set()


def test_every_public_name_is_on_a_page_of_the_package():
    with (SITE / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda _, uri: uri)
    documented = {name: entry[2] for kind in inventory for name, entry in inventory[kind].items()}
    package = import_module("efficient_transformers")
    for name in package.__all__:
        assert documented[f"{package.__name__}.{name}"].startswith(API)


# What somebody may write behind the address of a page, who mistypes or means harm: alone, and as each of its settings.
HOSTILE = ["%", "%zz", "%E0%A4%A", "%00", "%F0%9F%92%A9", "__proto__", "constructor", "toString", "hasOwnProperty"]
HOSTILE += ["a" * 10_000, "%C3%9F+" * 3_000, "(((", "[\\", "*+?$&", "<img src=x onerror=alert(1)>", "\"]'"]
HOSTILE += ["NaN", "Infinity", "-1e999", "0x10"]
SETTINGS = ["q", "T", "D", "V", "hierarchy", "shows", "model", "a", "b", "text", "place", "layer", "head"]
READ = ["search", "book/what-would-it-cost", "book/one-token", "book/write-with-it"]  # by a script of the page
OTHERS = [
    "book/glossary",
    "book/api/language_model",
    "book/source/gmlp",
    "notebooks/02-primer-ez",
    "notebooks/studies/s4-gates",
]


@pytest.mark.parametrize("page", mostly_long([*READ, *OTHERS], READ[::2]))
def test_no_address_makes_a_page_complain(chromium, page):
    tab, complaints = chromium.new_page(), []
    tab.on("pageerror", lambda error: complaints.append((tab.url[-80:], str(error))))
    said = ("error", "warning")
    tab.on("console", lambda m: complaints.append((tab.url[-80:], m.text)) if m.type in said else None)
    for text in HOSTILE:
        settings = "&".join(f"{name}={text}" for name in SETTINGS)
        tab.goto(f"{SITE.as_uri()}/{page}.html?{settings}#{settings}", wait_until="domcontentloaded")
    tab.wait_for_timeout(300)
    tab.close()
    assert complaints == []
