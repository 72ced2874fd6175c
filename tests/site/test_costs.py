"""The page What would it cost?: its numbers are the package's, and what does not fit is said beside its field."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from axe import violations
from playwright.sync_api import expect

from efficient_transformers import build_model
from efficient_transformers.layers.hourglass import parse_hierarchy
from efficient_transformers.models.cost import cache_bytes, cost_model, effective_parameters, multiply_adds

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
STATIC = ROOT / "book" / "static"
PAGE = SITE / "book" / "what-would-it-cost.html"
FAMILIES = {  # of the page's rows, and how the model of each is made
    "transformer": ("transformer", {}),
    "swiglu": ("primer-ez", {"convolve": "", "activation": "swiglu"}),
    "primer-ez": ("primer-ez", {}),
    "primer": ("primer", {}),
    "hourglass": ("hourglass", {}),
    "gmlp": ("gmlp", {}),
    "dense-gmlp": ("dense-gmlp", {}),
    "amlp": ("amlp", {}),
}
SIZES = {"T": 256, "D": 128, "L": 4, "H": 4, "V": 79}
RESAMPLINGS = {
    "simplest": {},
    "linear": {"shortening": "linear", "up_sampling": "linear"},
    "attention": {"shortening": "attention", "up_sampling": "attention"},
}
HIERARCHIES = (None, "1@1 2@4 1@1", "0@1 1@3 0@1", "2@1 0@5 2@1", "2@1 4@2 8@6 4@2 2@1")
ASK = """([family, at, T]) => cost_model(family, {
    d_model: at.D, n_heads: at.H, n_layers: at.L, d_ff: at.F ?? 4 * at.D, vocab_size: at.V,
    hierarchy: at.hierarchy, resampling: at.resampling}, T)"""
PARSE = """hierarchy => {
    try { const { n_layers, factors } = cost_model.parse_hierarchy(hierarchy); return [n_layers, factors]; }
    catch (error) { return error.message; }
}"""
SHOWN = """() => Object.fromEntries([...document.querySelectorAll("tr[data-model]")].map(row => [row.dataset.model,
    Object.fromEntries([...row.querySelectorAll("td")].map(cell => [cell.dataset.what,
        Number(cell.querySelector("data").value)]))]))"""
TEXTS = """family => [...document.querySelectorAll(`tr[data-model=${family}] td`)].map(cell =>
    cell.innerText.replace(/\\s+/g, " "))"""


def grid(n=20):
    """Settings of every family: round sizes and odd ones, lengths that are multiples of no factor, few tokens."""
    chance = random.Random(0)
    for i in range(n):
        H = chance.choice((1, 2, 4, 12))
        at = {
            "T": chance.choice((1, 2, 7, 15, 64, 255, 1024, 100_000)),
            "D": 2 * H * chance.choice((1, 8, 13, 32)),
            "L": chance.choice((1, 2, 3, 4, 12)),
            "H": H,
            "V": chance.choice((1, 79, 50257)),
        }
        if i % 3 == 0:
            at["F"] = 2 * chance.randint(1, 999)
        yield at


def settings():
    for i, at in enumerate(grid()):
        for family in FAMILIES:
            if family != "hourglass":
                yield family, at, {}, {}
                continue
            hierarchy, resampling = HIERARCHIES[i % len(HIERARCHIES)], [*RESAMPLINGS][i % 3]
            options = ({} if hierarchy is None else {"hierarchy": hierarchy}) | RESAMPLINGS[resampling]
            yield family, at, {"hierarchy": hierarchy, "resampling": resampling}, options


def model_of(family, sizes, **options):
    """The model of a row, without memory for its weights; gMLP has two blocks for each layer."""
    name, fixed = FAMILIES[family]
    layers = 2 * sizes["L"] if "mlp" in family else None if "hierarchy" in options else sizes["L"]
    rest = {"d_ff": sizes.get("F"), "max_seq_len": sizes["T"]} | fixed | options
    with torch.device("meta"):
        return build_model(name, vocab_size=sizes["V"], d_model=sizes["D"], n_layers=layers, n_heads=sizes["H"], **rest)


def of_package(model, T):
    """What the package says that a model costs."""
    return {
        "parameters": effective_parameters(model),
        "multiply_adds": multiply_adds(model, T),
        "activation_bytes": T * cost_model(model.body, T).activation_bytes,
        "cache_bytes": cache_bytes(model.body, T),
    }


def table(sizes, resampling="simplest"):
    """Of each family, what the package says."""
    options = {"hourglass": RESAMPLINGS[resampling]}
    models = {family: model_of(family, sizes, **options.get(family, {})) for family in FAMILIES}
    return {family: of_package(model, sizes["T"]) for family, model in models.items()}


def assert_shown(page, expected):
    shown = page.evaluate(SHOWN)
    assert shown.keys() == expected.keys()
    for family, of in expected.items():
        assert shown[family] == pytest.approx(of, rel=1e-9), family


def test_the_closed_forms_of_the_page_are_those_of_the_package(chromium):
    tab = chromium.new_page()
    tab.add_script_tag(path=STATIC / "cost.js")
    for family, at, asked, options in settings():
        expected = of_package(model_of(family, at, **options), at["T"])
        assert tab.evaluate(ASK, [family, at | asked, at["T"]]) == pytest.approx(expected, rel=1e-9), (
            family,
            at,
            asked,
        )
    tab.close()


def test_a_hierarchy_is_read_as_the_package_reads_it(chromium):
    """And refused where it refuses it, with a sentence that names what is wrong."""
    tab = chromium.new_page()
    tab.add_script_tag(path=STATIC / "cost.js")
    chance = random.Random(0)
    tried = set(filter(None, HIERARCHIES)) | {"", "1", "@", "1@1", "1@1 1@1", " 2@1  1@3 2@1 "}
    for _ in range(300):
        levels = [f"{chance.randint(0, 3)}@{chance.choice((1, 1, 2, 3, 4, 6))}" for _ in range(chance.randint(1, 3))]
        tried.add(" ".join(levels + chance.choice((levels[-2::-1], levels[-2::-1], levels[::-1], levels))))
    tried |= {"1@1 1@-2 1@1", "1@1 1.5@2 1@1", "1@1 x@2 1@1", "1@1 1@2@2 1@1", "1@1 1@ 1@1", "1@0 1@2 1@0"}
    good = 0
    for hierarchy in sorted(tried):
        found = tab.evaluate(PARSE, hierarchy)
        try:
            expected = [*parse_hierarchy(hierarchy)]
        except ValueError:
            assert re.fullmatch(r"[“FT].+; expected .+\.", found), (hierarchy, found)
        else:
            good += 1
            assert found == expected, hierarchy
    assert 20 < good < len(tried) - 20
    tab.close()


@pytest.fixture
def page(visit):
    return visit("about:blank", viewport={"width": 1440, "height": 900})


@pytest.mark.site
def test_what_is_typed_is_computed_and_the_address_keeps_it(page):
    page.goto(PAGE.as_uri())
    assert_shown(page, table(SIZES))
    assert page.evaluate(TEXTS, "transformer") == ["799k × 1.00", "1.06M × 1.00", "6.29 MB × 1.00", "1.05 MB × 1.00"]
    page.get_by_label("Tokens T").fill("1000")
    page.get_by_label("Layers", exact=True).fill("6")
    page.get_by_label("Its resampling").select_option("attention")
    page.get_by_role("radio", name="dense gMLP").check()
    changed = table(SIZES | {"T": 1000, "L": 6}, "attention")
    assert_shown(page, changed)
    expect(page.locator(".said")).to_contain_text("dense gMLP (12 blocks) at 1,000 tokens: ")
    assert page.url.endswith("#T=1000&L=6&resampling=attention&model=dense-gmlp")
    page.reload()
    assert_shown(page, changed)
    page.get_by_role("button", name="The book’s sizes").click()
    page.get_by_role("radio", name="Hourglass").check()
    assert_shown(page, table(SIZES))
    assert "#" not in page.url
    page.get_by_role("button", name="GPT-2’s").click()
    assert_shown(page, table({"T": 1024, "D": 768, "L": 12, "H": 12, "V": 50257}))


@pytest.mark.site
@pytest.mark.parametrize(
    ("label", "typed", "said"),
    [
        ("Layers", "0", "This is 0; expected a whole number from 1 to 1,000."),
        ("Tokens T", "", "This is not a number; expected a whole number from 1 to 1,000,000."),
        ("Width D", "130", "130 channels do not divide among 4 heads; expected a multiple of 4."),
        ("Hidden channels", "511", "This is 511; expected an even number, which gMLP’s gate splits."),
        ("Hourglass as layers@factor", "1@1 2", "“2” is no stack; expected layers@factor, such as 2@4."),
        ("Hourglass as layers@factor", "1@1 2@4", "“1@1 2@4” does not read the same from its end; expected a way in"),
    ],
)
def test_what_does_not_fit_is_said_beside_its_field_and_the_last_numbers_stay(page, label, typed, said):
    page.goto(PAGE.as_uri())
    before, field = page.evaluate(SHOWN), page.get_by_label(label, exact=True)
    field.fill(typed)
    wrong = page.locator(f"#{field.get_attribute('aria-describedby')}")
    expect(wrong).to_contain_text(said)
    assert field.get_attribute("aria-invalid") == "true"
    assert page.locator(".wrong:not(:empty)").count() == 1
    assert page.evaluate(SHOWN) == before
    expect(page.locator(".said")).to_have_text("One of the sizes does not fit; below are the last that did.")
    if label == "Layers":
        assert violations(page, "#what-would-it-cost-here") == []


@pytest.mark.site
def test_an_address_that_does_not_fit_is_told_and_the_first_sizes_are_there(page):
    page.goto(f"{PAGE.as_uri()}#D=130&model=nobody&shows=nothing&T=512")
    expect(page.locator("#wrong-D")).to_have_text("130 channels do not divide among 4 heads; expected a multiple of 4.")
    assert page.locator(".drawing .line").count() == len(FAMILIES)
    page.get_by_label("Width D").fill("256")
    expect(page.locator(".said")).to_contain_text("Hourglass (1@1 2@4 1@1) at 512 tokens: ")


@pytest.mark.site
def test_a_picture_of_each_quantity_has_a_line_for_each_model_and_a_touch_moves_it(page):
    page.goto(PAGE.as_uri())
    shows = page.get_by_label("Drawn against the tokens")
    for title in shows.locator("option").all_inner_texts():
        shows.select_option(title)
        drawing = page.locator(".drawing svg")
        assert drawing.locator(".line").count() == drawing.locator(".dot").count() == len(FAMILIES)
        assert drawing.get_attribute("aria-label").startswith(
            f"{title} against the tokens, from 16 to 65,536. At 256: "
        )
        heights = sorted(name.bounding_box()["y"] for name in drawing.locator(".name").all())
        assert min(b - a for a, b in pairwise(heights)) > 10
        assert drawing.locator(".name").last.text_content() == "Hourglass"
    drawing.click(position={"x": drawing.bounding_box()["width"] - 120, "y": 100})
    assert int(page.get_by_label("Tokens T").input_value()) > 8000


@pytest.mark.site
@pytest.mark.parametrize("width", [320, 390, 1440])
def test_the_page_fits_and_is_reached_by_keyboard(page, width):
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(PAGE.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_label("Tokens T").focus()
    page.keyboard.press("ArrowUp")
    assert page.get_by_label("Tokens T").input_value() == "257"
    page.get_by_role("radio", name="Hourglass").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".said")).to_contain_text("gMLP (8 blocks) at 257 tokens: ")


@pytest.mark.site
def test_without_javascript_a_sentence_names_the_call(visit):
    tab = visit(PAGE.as_uri(), java_script_enabled=False)
    assert tab.locator("noscript p").inner_text().count("multiply_adds(build_model(") == 1
    assert not any(part.is_visible() for part in tab.locator(".cost :is(table, input, select, button)").all())


@pytest.mark.site
def test_on_paper_the_table_and_the_sizes_are_there_and_nothing_to_press(page):
    page.goto(PAGE.as_uri())
    page.get_by_label("Tokens T").fill("512")
    page.set_viewport_size({"width": 665, "height": 980})  # A4 without its margins
    page.emulate_media(media="print")
    for there in (page.locator(".cost-table"), page.locator(".drawing svg"), page.get_by_label("Tokens T")):
        box = there.bounding_box()
        assert box["width"] > 40
        assert box["x"] + box["width"] <= 665
    assert not any(e.is_visible() for e in page.locator(".cost :is(button, [type=radio])").all())
