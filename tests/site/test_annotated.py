"""Equations beside their code: each numbered one is there, finds its names, lights up, and nothing is cut."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from axe import violations
from bs4 import BeautifulSoup

from tools.make import browser
from tools.notebooks import folding
from tools.site import annotate
from tools.site.math import convert
from tools.site.pairs import MOST, NotFoundError, Pair

ROOT = Path(__file__).parents[2]
CHAPTERS = [f"notebooks/{path.stem}.html" for path in sorted((ROOT / "book").glob("0[1-5]-*.md"))]
WIDTHS = (390, 1280, 1920)  # CSS pixels
BESIDE = 1280


# What symbols and names find


def block(latex: str, code: str, pairs: str, sentence: str = "") -> BeautifulSoup:
    inline = re.sub(r"\$(.+?)\$", lambda math: convert(math[1], displaystyle=False), sentence)
    body = (
        f'<div class="join-math">{convert(latex, displaystyle=True)}<p>{inline}</p></div>'
        f'<div class="join-code"><div class="cell"><div class="cell_input"><pre>{code}</pre></div></div></div>'
    )
    return BeautifulSoup(annotate.annotated(body, pairs, "7.1", {}), "html.parser")


def lit(latex: str, code: str, pair: str, sentence: str = "") -> tuple[list[str], list[str]]:
    """The texts of what one pair marks, in the math and in the code."""
    found = block(latex, code, f"{pair} | a label", sentence)
    return tuple([mark.get_text() for mark in found.select(f"{where} [data-join='0']")] for where in ("math", "pre"))


@pytest.mark.parametrize(
    ("symbol", "found"),
    [
        ("w", ["wc,j", "w"]),
        ("w_{c,j}", ["wc,j"]),
        ("q", ["qt"]),  # not the one under the tilde
        (r"\tilde q", ["q˜t"]),
        ("f", ["f"]),  # not f'
        ("f'", ["f′"]),
        ("j", ["j", "j"]),  # in an index, and below a sum
        ("t", []),  # an index alone
        ("w_{c,j} q_t", ["wc,jqt"]),
    ],
)
def test_a_symbol_finds_itself_with_its_indices_and_no_other(symbol, found):
    latex = r"\begin{aligned} \tilde q_t &= f(\sum_{j=0} w_{c,j}\, q_t) \\ f'(w) &= 1 \end{aligned}"
    pair = f"{symbol} = x"
    if found:
        assert lit(latex, "x\n", pair)[0] == found
    else:
        with pytest.raises(NotFoundError):
            lit(latex, "x\n", pair)


def test_symbols_in_the_sentence_light_up_too():
    assert lit("y = x", "x\n", r"x = x", "where $x$ is $x_t$")[0] == ["x", "x", "xt"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("x", ["x", "x", "x"]),
        ("self.x", ["self.x"]),
        ("f(...)", ["f(x,", "(1, 2))"]),  # a mark for each line, and none on the comment
        ("x[:,  1]", ["x[:, 1]"]),
        ("x & 2", ["x", "2", "x", "x"]),
    ],
)
def test_a_name_finds_code_and_neither_strings_nor_comments(name, found):
    code = '"""x"""\ny = f(x,  # x\n      (1, 2))\nz = x.sum() + x[:, 1]\nself.x = "x"\n'
    assert lit("y", code, f"y = {name}")[1] == found


def test_the_smaller_mark_stands_in_the_larger_and_the_code_is_as_it_was():
    code = "def f(x):  # (T,)\n\n    return sum(x[j] * x\n               for j in x)\n"
    found = block("y_t = x", code, "y_t = sum(...) | a sum\nx = x | a vector\n")
    assert found.pre.get_text() == code
    assert [mark["data-join"] for mark in found.select("pre [data-join='0'] [data-join]")] == ["1"] * 3


def test_a_symbol_keeps_its_color_on_a_page_and_no_block_has_one_twice():
    symbols = ["xyz", "zab", "cdefgha", "xbijk", "yxz"]
    dealt: dict[str, int] = {}
    found = [annotate.deal([Pair([s], ["_"], "") for s in of], dealt) for of in symbols]
    assert found[0] == [0, 1, 2]
    assert found[1] == [2, 3, 4]  # z as before
    assert all(len({*colors}) == len(colors) and {*colors} <= {*range(MOST)} for colors in found)
    assert found[4] == [1, 0, 2]
    assert [colors[of.index("b")] for of, colors in zip(symbols, found, strict=True) if "b" in of] == [4, 4]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (r"\hat y = x | it", r"has no '\\hat y' beside the code; its letters are x y"),
        ("y = xx | it", "has no 'xx' in its code; its names are f, x, y"),
        ("y = x", "expected 'symbol = name | what it is', found 'y = x'"),
    ],
)
def test_what_is_not_there_is_a_warning_that_says_what_is(pairs, message, monkeypatch):
    body = (
        f'<div class="join-math">{convert("y = x", displaystyle=True)}</div>'
        '<div class="join-code"><div class="cell_input"><pre>y = f(x)\n</pre></div></div>'
    )
    context = {"body": f"<!-- join 7.1\n{pairs}\n-->{body}<!-- joined -->"}
    said = []
    monkeypatch.setattr(annotate.log, "warning", lambda form, *values: said.append(form % values))
    annotate.annotate(None, "notebooks/07-x", "", context, None)
    assert len(said) == 1
    assert said[0].startswith("notebooks/07-x: the block of (7.1) ")
    assert message in said[0]
    assert context["body"] == body


# The pages

BLOCKS = """() => [...document.querySelectorAll(".join")].map(block => ({
    number: block.id.slice(5).replace("-", "."),
    code: [...block.querySelectorAll(".cell_input pre")].map(pre => pre.textContent),
    copied: [...block.querySelectorAll(".cell_input pre")].map(pre => pre.cloneNode(true).innerText),
    pairs: [...block.querySelectorAll(".join-key button")].map(entry => ({
        words: entry.lastChild.textContent,
        math: block.querySelectorAll(`.join-math [data-join="${entry.dataset.join}"]`).length,
        code: block.querySelectorAll(`pre [data-join="${entry.dataset.join}"]`).length,
    })),
}))"""
EQUATIONS = """() => [...document.querySelectorAll("div.math[id^=eq-]")].map(e => e.id.slice(3).replace("-", "."))"""
# What is wider than the box around it, or stands on something else.
MISPLACED = """beside => [...document.querySelectorAll(".join")].flatMap(block => {
    const box = e => e.getBoundingClientRect(), whole = box(block), found = [];
    const [math, code, key] = [".join-math", ".join-code", ".join-key"].map(part => block.querySelector(part));
    for (const e of block.querySelectorAll(".cell_input pre, .formula, figure, .join-key, .join-key button, .line")) {
        if (e.checkVisibility() && !e.classList.contains("scrolls")
            && (box(e).right > whole.right + 1 || box(e).left < whole.left - 1 || e.scrollWidth > e.clientWidth + 1))
            found.push(`${block.id} ${e.className || e.tagName}: ${e.scrollWidth} in ${e.clientWidth}`);
    }
    if (beside !== (box(math).right < box(code).left)) found.push(`${block.id} stands ${beside ? "below" : "beside"}`);
    if (!beside && (box(code).top < box(math).bottom || box(key).top < box(code.querySelector("pre")).bottom))
        found.push(`${block.id} overlaps`);
    for (const e of document.querySelectorAll("details.hide > summary, figcaption")) {
        const at = box(e);
        if (!block.contains(e) && e.checkVisibility() && at.bottom > whole.top && at.top < whole.bottom
            && at.right > whole.left && at.left < whole.right) found.push(`${block.id}: ${e.textContent.slice(0, 40)}`);
    }
    return found;
})"""
SCROLLING = '[...document.querySelectorAll(".join .scrolls")].map(e => e.closest(".join").id)'


@pytest.mark.site
@pytest.mark.parametrize("path", CHAPTERS)
def test_each_numbered_equation_stands_with_its_code_and_nothing_is_cut(path, chromium, address):
    tab = chromium.new_page(viewport={"width": WIDTHS[0], "height": 900}, reduced_motion="reduce")
    browser.visit(tab, f"{address}/{path}")
    blocks = tab.evaluate(BLOCKS)
    assert {found["number"] for found in blocks} >= set(tab.evaluate(EQUATIONS))
    notebook = nbformat.read(ROOT / path.replace(".html", ".ipynb"), 4)
    folding.open_guesses(notebook)
    written = {f"{cell.source}\n" for cell in notebook.cells if cell.cell_type == "code"}
    for found in blocks:
        assert set(found["code"]) <= written, found["number"]
        assert found["copied"] == found["code"]
        assert 2 <= len(found["pairs"]) <= MOST
        assert all(pair["words"] and pair["math"] and pair["code"] for pair in found["pairs"]), found
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert tab.evaluate(MISPLACED, width >= BESIDE) == [], width
        assert width < 768 or tab.evaluate(SCROLLING) == [], width
    tab.close()


LIT = """() => {
    const block = document.querySelector(".join.on"), label = block?.querySelector(".join-label");
    const texts = part => [...new Set([...block.querySelectorAll(`${part} .lit`)].map(e => e.textContent))];
    return block && {
        math: texts(".join-math"), code: texts("pre"), key: texts(".join-key").length,
        label: label.hidden ? null : label.textContent, thread: block.querySelector(".join-thread path") !== null,
    };
}"""
CONVOLUTION = "#join-2-2"
KERNEL = {"math": ["wc,j"], "code": ["weight[:, j]"], "key": 1, "thread": True}


def joined(tab, entry: int) -> str:
    """What an entry of the key of the convolution's block is joined with."""
    button = tab.locator(f"{CONVOLUTION} .join-key button").nth(entry)
    return f"[data-join='{button.get_attribute('data-join')}']"


@pytest.mark.site
def test_symbol_name_and_entry_light_up_together(chromium, address):
    tab = chromium.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce", color_scheme="light")
    browser.visit(tab, f"{address}/{CHAPTERS[1]}")
    part = {name: tab.locator(f"{CONVOLUTION} {name}") for name in (".join-math", "pre", ".join-key")}
    part["pre"].scroll_into_view_if_needed()
    assert tab.evaluate(LIT) is None
    kernel = joined(tab, 1)

    part[".join-math"].locator(kernel).first.hover()
    assert tab.evaluate(LIT) == KERNEL | {"label": "weight[:, j] · the weight of each channel for j tokens back, (C,)"}
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        tab.locator(f"html[data-theme={scheme}]").wait_for(state="attached")
        assert violations(tab, CONVOLUTION) == [], scheme

    part["pre"].locator(kernel).hover(position={"x": 5, "y": 8})  # not on the j inside it
    assert tab.evaluate(LIT)["label"].startswith("wc,j · the weight of each channel")
    part["pre"].locator(f"{kernel} {joined(tab, 4)}").hover()  # the j inside it
    assert tab.evaluate(LIT)["code"] == ["j"]
    tab.mouse.move(0, 0)
    assert tab.evaluate(LIT) is None

    part["pre"].locator(kernel).click(position={"x": 5, "y": 8})  # a press holds
    tab.mouse.move(0, 0)
    assert tab.evaluate(LIT)["code"] == ["weight[:, j]"]
    tab.keyboard.press("Escape")
    assert tab.evaluate(LIT) is None
    tab.close()


@pytest.mark.site
def test_the_key_is_one_stop_and_has_arrow_keys(chromium, address):
    tab = chromium.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    browser.visit(tab, f"{address}/{CHAPTERS[1]}")
    entries = tab.locator(f"{CONVOLUTION} .join-key button")
    assert [entry.get_attribute("tabindex") for entry in entries.all()] == ["0"] + ["-1"] * (entries.count() - 1)
    entries.first.focus()
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Tab")
    for key, at in (("ArrowDown", 1), ("ArrowLeft", 0), ("ArrowUp", -1), ("Home", 0), ("End", -1), ("ArrowRight", 0)):
        tab.keyboard.press(key)
        assert entries.nth(at).evaluate("e => e === document.activeElement && e.classList.contains('lit')"), key
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate(LIT) == KERNEL | {"label": None}
    assert violations(tab, CONVOLUTION) == []
    tab.keyboard.press("Tab")  # the key of the next block
    assert tab.locator(f"{CONVOLUTION} .lit").count() == 0
    tab.close()


@pytest.mark.site
def test_a_finger_lights_up_what_it_touches(chromium, address):
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, reduced_motion="reduce")
    tab = context.new_page()
    browser.visit(tab, f"{address}/{CHAPTERS[1]}")
    symbol = tab.locator(f"{CONVOLUTION} .join-math {joined(tab, 1)}").first
    symbol.tap()
    shown = tab.evaluate(LIT)
    assert shown["code"] == ["weight[:, j]"]
    assert shown["label"].startswith("weight[:, j] · ")
    assert not shown["thread"]  # one stands below the other
    symbol.tap()
    assert tab.evaluate(LIT) is None
    context.close()


@pytest.mark.site
def test_without_scripts_and_on_paper_the_key_says_it_in_words(chromium, address):
    context = chromium.new_context(java_script_enabled=False, viewport={"width": 1440, "height": 900})
    tab = context.new_page()
    tab.goto(f"{address}/{CHAPTERS[1]}")
    entry = tab.locator(f"{CONVOLUTION} .join-key button").nth(1)
    assert entry.inner_text().split("\n")[-2:] == ["weight[:, j]", "the weight of each channel for j tokens back, (C,)"]
    assert entry.get_attribute("tabindex") == "-1"  # it would do nothing
    tab.emulate_media(media="print")
    assert entry.is_visible()
    context.close()
