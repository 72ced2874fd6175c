"""One token, all the way: its numbers are PyTorch's, its sums add up, and a hand, a key or a finger finds them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
import torch
from axe import too_small, violations
from playwright.sync_api import expect

from efficient_transformers.layers.attention import Attention
from efficient_transformers.training.runs import load
from tools.site import one_token

SITE = Path(__file__).parents[2] / "_build" / "html"
PAGE = "book/one-token.html"
TEXT = "The king, and no other"

pytestmark = pytest.mark.site

# At each of some places, layers and heads, the numbers of each step, and how far a sum is from its number at most.
WALK = """async ([name, text, settings]) => {
    const { app } = document.querySelector(".token-walk"), found = [];
    app.model.value = name;
    app.text.value = text;
    for (const [place, layer, head] of settings) {
        Object.assign(app.state, { place, layer, head });
        await app.act();
        found.push(app.walked.steps.map(({ step, values, make_sum }) => ({
            step, values: [...values],
            off: Math.max(...[...values].map((x, i) => Math.abs(x - make_sum(i).value))),
        })));
    }
    return found;
}"""


@torch.no_grad()
def hooked(model, tokens, monkeypatch):
    """Logits; what each module took and gave; of an attention, its turned queries and keys, values and weights."""
    took, gave, attended = {}, {}, {}
    names = {module: name for name, module in model.named_modules()}
    attend = Attention.attend

    def keep(module, inputs, output):
        took[names[module]], gave[names[module]] = inputs[0], output

    def watched(self, q, k, v, **rest):
        attended[names[self]] = q[0], k[0], v[0], self.weights(q, k)[0]  # (H, T, K) each, (H, T, T)
        return attend(self, q, k, v, **rest)

    for module in model.modules():
        module.register_forward_hook(keep)
    monkeypatch.setattr(Attention, "attend", watched)
    return model(tokens[None])[0], took, gave, attended


def layers_of(model):
    """The names of all layers."""
    parts = ("before", "inside", "after") if hasattr(model.body, "before") else ("",)
    stacks = [(f"body.{part}", getattr(model.body, part)) if part else ("body", model.body) for part in parts]
    return [f"{name}.{i}" for name, stack in stacks for i in range(len(stack))]


def expected(model, seen, place, name, head):
    """By step, the numbers of one place in a layer, as PyTorch has them."""
    logits, took, gave, attended = seen
    factor = 4 if ".inside." in name else 1
    i, steps = place // factor, defaultdict(list)

    def add(step, x):
        steps[step].append(x)

    add("embedding", took["body"][0, place])
    if "body.shorten" in gave:
        add("long-norm", gave["body.norm_before"][0, place])
        add("shorten", gave["body.shorten"][0, place // 4])
        add("short-norm", gave["body.norm_inside"][0, place // 4])
        add("up-sample", gave["body.up_sample"][0, place])
    add("stream", took[name][0, i])
    if f"{name}.attention" in attended:
        attention, squared = model.get_submodule(f"{name}.attention"), model.config.get("activation") == "squared-relu"
        add("norm", gave[f"{name}.norm1"][0, i])
        for part in ("query", "key", "value"):
            add("project", attention.split(gave[f"{name}.attention.{part}"])[0, head, i])
            if (conv := f"{name}.attention.conv_{part[0]}") in gave:
                convolved = gave[conv]
                whole = convolved if convolved.dim() == 4 else attention.split(convolved)
                add("convolve", whole[0, head, i])
        q, k, v, weights = attended[f"{name}.attention"]
        add("turn", q[head, i])
        add("turn", k[head, i])
        add("scores", k[head, : i + 1] @ q[head, i] / q.shape[-1] ** 0.5)
        add("weights", weights[head, i, : i + 1])
        add("head", weights[head, i] @ v[head])
        add("attention", gave[f"{name}.attention"][0, i])
        add("residual", took[f"{name}.norm2"][0, i])
        add("second-norm", gave[f"{name}.norm2"][0, i])
        add("squared-hidden" if squared else "hidden", took[f"{name}.feed_forward.down"][0, i])
        add("feed-forward", gave[f"{name}.feed_forward"][0, i])
    else:
        gate = model.get_submodule(f"{name}.gate")
        add("norm", gave[f"{name}.norm"][0, i])
        for half in took[f"{name}.gate"][0, i].chunk(2):
            add("halves", half)
        normed = gave[f"{name}.gate.norm"]
        add("gate-norm", normed[0, i])
        add("row", gate.matrix(normed.shape[1])[i, : i + 1])
        add("gate", gate.mix(normed)[0, i] + gate.bias[i])
        add("gated", gave[f"{name}.gate"][0, i])
        add("down", gave[f"{name}.down"][0, i])
    add("output", gave[name][0, i])
    add("last-norm", gave["norm"][0, place])
    add("logits", logits[place].topk(one_token.TOP).values)
    return steps


@pytest.fixture
def walk(visit, address):
    """Open the page, by default as it is served."""

    def open_page(anchor="", where=address, **options):
        return visit(f"{where}/{PAGE}{anchor}", **{"reduced_motion": "reduce"} | options)

    return open_page


def settled(tab):
    tab.evaluate("async () => { await document.querySelector('.token-walk').app.turn; }")
    assert tab.locator(".models-error").inner_text() == ""


def begin(tab):
    tab.get_by_role("button", name="Load the model").click()
    settled(tab)


@pytest.mark.parametrize("name", one_token.SHOWN)
def test_every_number_is_pytorch_s_and_every_sum_adds_up(walk, name, monkeypatch):
    model, vocabulary = load(Path(name))
    seen = hooked(model, vocabulary.encode(TEXT), monkeypatch)
    layers = layers_of(model)
    settings = [(place, layer, (place + layer) % 4) for place in (0, 8) for layer in range(len(layers))]
    found = walk().evaluate(WALK, [name, TEXT, settings])
    for (place, layer, head), steps in zip(settings, found, strict=True):
        wanted = expected(model, seen, place, layers[layer], head)
        by_step = defaultdict(list)
        for step in steps:
            by_step[step["step"]].append(torch.tensor(step["values"]))
            assert step["off"] <= 1e-4, step["step"]
        assert by_step.keys() == wanted.keys()
        for step, values in wanted.items():
            assert len(by_step[step]) == len(values), step
            for one, other in zip(by_step[step], values, strict=True):
                assert (one - other).abs().max() <= 1e-4, (step, place, layer)


def test_the_page_describes_each_step_once_and_links_to_its_equation(walk):
    """Of each model, the steps that have numbers are those that are in sight."""
    tab = walk()
    for name in one_token.SHOWN:
        tab.evaluate(WALK, [name, TEXT, [[5, 0, 0]]])
        steps = tab.evaluate("[...new Set(document.querySelector('.token-walk').app.walked.steps.map(s => s.step))]")
        inside = tab.locator(".token-step:visible")
        assert inside.count() == len(steps)
        for step in steps:
            assert tab.locator(f".step-{step}:visible").count() == 1
        for links in inside.evaluate_all("all => all.map(e => e.querySelectorAll('a[href*=\"#\"]').length)"):
            assert links >= 1


@pytest.mark.parametrize("from_disk", [False, True])
def test_what_the_build_recorded_is_what_a_press_brings_to_life(walk, address, from_disk):
    """Nothing is loaded before; afterwards the same numbers stand at the same places."""
    tab = walk(where=SITE.as_uri() if from_disk else address)
    looks = """() => [...document.querySelectorAll(".token-step")].filter(e => e.checkVisibility()).map(e => {
        const { top, height } = e.getBoundingClientRect(), text = e.innerText.split(/\\s+/).join(" ");
        return { text, strokes: e.querySelectorAll("path").length, top: Math.round(top + scrollY), height };
    })"""
    before, said = tab.evaluate(looks), tab.locator(".token-sum").inner_text()
    assert [url for url in tab.asked if "/weights/" in url] == []
    begin(tab)
    assert len([url for url in tab.asked if "/weights/" in url]) == 1
    assert tab.evaluate(looks) == before
    assert tab.locator(".token-sum").inner_text() == said
    assert said.startswith("q, channel ")


def test_a_pointer_shows_a_sum_and_a_press_holds_it(walk):
    tab = walk()
    begin(tab)
    score, title = tab.locator(".step-scores .token-bars > span").nth(3), tab.locator(".token-sum-title")
    score.hover()
    expect(title).to_contain_text("Score for “b”, 15 back")
    shown = title.locator("strong").inner_text()
    assert tab.locator(".token-sum-total").inner_text().endswith(f"/ √32: {shown}")
    assert tab.locator(".token-sum tr").count() == 5
    score.click()
    tab.locator(".step-weights .token-bars > span").nth(2).hover()
    expect(title).to_contain_text("Score for “b”")
    tab.keyboard.press("Escape")
    tab.locator(".step-weights .token-bars > span").nth(3).hover()
    expect(title).to_contain_text("Weight of “b”, 15 back")
    tab.locator(".step-logits .token-list > div").nth(1).hover()
    expect(title).to_contain_text("Logit of ")


def test_a_strip_is_one_stop_with_arrow_keys(walk):
    tab = walk()
    begin(tab)
    strips = tab.locator(".token-numbers[role=slider]:visible")
    query = tab.locator(".step-project .token-numbers").first
    query.focus()
    for key, place in (
        ("Home", 0),
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("End", 31),
        ("PageDown", 15),
    ):
        tab.keyboard.press(key)
        assert query.get_attribute("aria-valuenow") == str(place)
        assert query.get_attribute("aria-valuetext").startswith(f"q, channel {place}: ")
        expect(tab.locator(".token-sum-title")).to_contain_text(f"q, channel {place}: ")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == "Query, key, value: k"
    assert strips.count() == 19
    tab.get_by_role("radio").last.focus()
    tab.keyboard.press("ArrowLeft")
    settled(tab)
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == "“b”, t = 17"
    assert tab.evaluate("document.querySelector('.token-walk').app.state.place") == 17


def test_an_hourglass_says_into_which_window_the_token_falls(walk):
    tab = walk(anchor="#model=hourglass&text=To+be,+or&place=5")
    settled(tab)
    said = tab.locator(".token-groups small").inner_text()
    assert "falls into window 2, complete at t = 8. Until then it reads window 1, which is tinted." in said
    assert tab.locator(".token-groups .reads").inner_text() == "o␣be"
    assert tab.locator(".token-groups .fell").inner_text() == ",␣or"
    order = """() => [...document.querySelectorAll(".step-stream, .step-shorten, .step-up-sample")]
        .map(e => e.className.match(/step-([\\w-]+)/)[1])"""
    assert tab.evaluate(order) == ["stream", "shorten", "up-sample"]
    tab.get_by_label("layer").select_option("1")
    settled(tab)
    assert tab.evaluate(order) == ["shorten", "stream", "up-sample"]
    assert "on windows of 4: these are the numbers of window 1" in tab.locator(".token-layer > p").inner_text()
    tab.get_by_label("layer").select_option("3")
    settled(tab)
    assert tab.evaluate(order) == ["shorten", "up-sample", "stream"]


def test_an_address_may_ask_for_anything(walk):
    tab = walk("#model=nobody&text=To+be&place=1.5&layer=-1&head=x")
    settled(tab)
    state = "(({ place, layer, head }) => [place, layer, head])(document.querySelector('.token-walk').app.state)"
    assert tab.evaluate(state) == [4, 3, 3]
    assert tab.url.endswith("#model=transformer&text=To+be&place=4&layer=3&head=3")


def test_what_a_model_never_saw_and_an_empty_text_are_refused(walk):
    tab = walk()
    begin(tab)
    for text, said in (
        ("né", "A character is “é”; expected one of this model’s"),
        ("", "The text is “”; expected at least"),
    ):
        tab.get_by_label("text").fill(text)
        expect(tab.locator(".models-error")).to_contain_text(said.replace("’", "'"))
    tab.get_by_label("text").fill("a")
    expect(tab.locator(".models-error")).to_be_empty()
    assert tab.get_by_role("radio").count() == 1
    assert tab.get_by_label("text").get_attribute("maxlength") == "24"


@pytest.mark.parametrize(("name", "theme"), [("gmlp", "light"), ("hourglass", "dark")])
def test_it_is_for_all(walk, name, theme):
    """axe, a phone's width, a finger; nothing to press is smaller than one may hit."""
    tab = walk(anchor=f"#model={name}", viewport={"width": 390, "height": 844}, has_touch=True, color_scheme=theme)
    settled(tab)
    assert violations(tab, ".token-walk") == []
    assert tab.evaluate("document.scrollingElement.scrollWidth") <= 390
    assert too_small(tab, ".token-walk") == []
    strip = tab.locator(".step-last-norm .token-numbers")
    strip.evaluate("e => e.scrollIntoView({block: 'start'})")
    strip.tap()
    expect(tab.locator(".token-sum-title")).to_contain_text("LN(y), channel ")
    box, panel = strip.bounding_box(), tab.locator(".token-sum").bounding_box()
    assert box["y"] + box["height"] <= panel["y"] + 1 or panel["y"] + panel["height"] <= box["y"]


def test_without_javascript_the_steps_stand_there_in_words(walk):
    tab = walk(java_script_enabled=False)
    assert "register_forward_hook" in tab.locator(".token-walk noscript").inner_text()
    assert tab.locator(".step-norm:visible").count() == 1
    assert tab.locator(".token-controls :is(select, input):visible").count() == 0
