"""The instruments compute what the package computes, and work on a page of their own."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from axe import violations
from torch import nn

from efficient_transformers import (
    Cache,
    CausalDepthwiseConv,
    LanguageModel,
    MultiHeadAttention,
    NaiveUpSampling,
    ShiftRight,
    SpatialGatingUnit,
    leak_map,
    pretrained_snapshots,
)
from efficient_transformers.book.instruments import Bet, KernelBench, LeakLab, ReadingLamp
from efficient_transformers.judging.evidence import compare
from efficient_transformers.layers.resampling import AvgPoolShortening
from efficient_transformers.training.runs import load

INSTRUMENTS = {"leak-lab": LeakLab(), "kernel-bench": KernelBench(), "reading-lamp": ReadingLamp()}

T = 24


class Attention(MultiHeadAttention):
    """Attention whose mask lets some tokens of the future through."""

    def __init__(self, a: int) -> None:
        super().__init__(8, 2)
        self.a = a

    def forward(self, x, cache=None):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(self.a)
        q, k, v = self.heads(x)
        return self.output(F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2))


class Convolution(nn.Module):
    """The package's convolution with another padding on its left."""

    def __init__(self, w: int, d: int, s: int) -> None:
        super().__init__()
        self.d_model, self.late = 8, (w - 1) * d - s
        self.conv = CausalDepthwiseConv(8, kernel_size=w, dilation=d)

    def forward(self, x):
        before, after = max(0, -self.late), max(0, self.late)
        return self.conv(F.pad(x, (0, 0, before, after)))[:, after : after + x.shape[1]]


class Hourglass(nn.Module):
    """Shift, shorten, expand, add: without layers, so that nothing but the windows mixes tokens."""

    def __init__(self, k: int, s: int) -> None:
        super().__init__()
        self.d_model = 8
        self.shift, self.shorten = ShiftRight(s), AvgPoolShortening(8, k, causal=False)
        self.expand = NaiveUpSampling(8, k)

    def forward(self, x):
        short = self.shorten(self.shift(x))  # a window more where a shift reaches beyond the last
        return self.expand(x, short[:, : -(-x.shape[1] // self.expand.factor)])


class Gate(SpatialGatingUnit):
    """A gate that keeps some diagonals above the main one."""

    def __init__(self, a: int) -> None:
        super().__init__(16, T, causal=False)
        self.weight = nn.Parameter(torch.randn(T, T).tril(a))


MODULES = {"attention": Attention, "convolution": Convolution, "hourglass": Hourglass, "gmlp": Gate}


def expected(mechanism, values):
    """Which tokens each output reads, from the leak map of the package's layers."""
    if mechanism == "gmlp":  # its weights are not perturbed: the zeros above the diagonals are what is asked for
        gate = Gate(**values)
        x = torch.randn(1, T, 16, dtype=torch.float64, requires_grad=True)
        rows = [torch.autograd.grad(gate.double()(x)[0, t].sum(), x)[0][0].abs().amax(1) > 0 for t in range(T)]
        return [row.nonzero().flatten().tolist() for row in rows]
    depends = leak_map(MODULES[mechanism](**values).eval(), T) > 0
    return [row.nonzero().flatten().tolist() for row in depends]


@pytest.fixture(scope="module")
def page(chromium):
    return chromium.new_page(reduced_motion="reduce")


def show(page, instrument):
    title = type(instrument).__name__
    head = f'<html lang="en"><head><title>{title}</title></head>'
    page.goto("about:blank")  # a new document: Chromium would not let an old one capture the pointer
    page.set_content(f"{head}<body><main><h1>{title}</h1>{instrument._repr_html_()}</main></body></html>")


def random_settings(page, n):
    chance = random.Random(0)
    sliders = page.evaluate("Object.fromEntries(Object.entries(LeakLab.MECHANISMS).map(([m, v]) => [m, v.sliders]))")
    for i in range(n):
        mechanism = list(sliders)[i % len(sliders)]
        yield mechanism, {key: chance.randint(low, high) for key, (_, low, high, _) in sliders[mechanism].items()}


def test_what_an_output_reads_is_what_the_packages_layers_read(page):
    show(page, LeakLab())
    ask = "([m, v]) => Array.from({length: 24}, (_, t) => LeakLab.reads(m, v, t))"
    for mechanism, values in random_settings(page, 40):
        assert page.evaluate(ask, [mechanism, values]) == expected(mechanism, values), (mechanism, values)


def test_a_setting_that_is_mended_leaks_nothing(page):
    show(page, LeakLab())
    for mechanism in MODULES:
        page.click(f'button[data-m="{mechanism}"]')
        page.click("text=Mend it")
        assert "No output sees its future." in page.inner_text("p[aria-live]")
        assert page.locator(".map rect.future").count() == 0


HONEST = [  # settings that can be decoded, and the package's layers, whose caches hold what is asked for
    ("attention", {"a": 0}, MultiHeadAttention(8, 2)),
    ("convolution", {"w": 3, "d": 2, "s": 4}, CausalDepthwiseConv(8, kernel_size=3, dilation=2)),
    ("hourglass", {"k": 4, "s": 3}, (AvgPoolShortening(8, 4), NaiveUpSampling(8, 4))),
    ("gmlp", {"a": 0}, SpatialGatingUnit(16, T, causal=True)),
]


def held(layer, cache):
    """Of which tokens a cache holds the inputs, where the input of token t is t + 1; or of how many the rest."""
    if isinstance(layer, CausalDepthwiseConv):
        inputs = cache._window[layer]
    elif isinstance(layer, tuple):
        inputs = cache._window[layer[0].shift]
    else:
        return {what: int(cache.length(layer)) for what in ("keys and values", "normalized rows")}
    return {"inputs": [int(x) - 1 for x in inputs[0, :, 0].tolist() if x > 0]}  # zeros stand before the first token


@pytest.mark.parametrize(("mechanism", "values", "layer"), HONEST)
def test_a_cache_holds_what_the_packages_cache_holds(page, mechanism, values, layer):
    show(page, LeakLab())
    cache = Cache(1)
    for t in range(T):
        shown = dict(page.evaluate("([m, v, t]) => LeakLab.holds(m, v, t)", [mechanism, values, t]))
        x = torch.full((1, 1, 16 if mechanism == "gmlp" else 8), t + 1.0)
        with torch.no_grad():
            if mechanism == "hourglass":
                shorten, expand = layer
                short = shorten(x, cache)
                assert short.shape[1] == ("run now" in page.evaluate(f"LeakLab.memory('hourglass', {values}, {t})"))
                expand(x, short, cache)
                result = cache._window[expand.shift][0, -1, 0].item()  # the mean of its window, with zeros before it
                assert sum(s + 1 for s in shown["result of a window"]) == pytest.approx(values["k"] * result, rel=1e-5)
            else:
                layer(x, cache)
        kept = held(layer, cache)
        (what,) = shown.keys() & kept.keys()
        assert kept[what] in (shown[what], len(shown[what])), (t, what)


def test_decoding_shows_the_cache_and_says_what_cannot_be_decoded(page):
    show(page, LeakLab("hourglass"))
    assert page.is_disabled("text=Decode one token")
    assert "cannot write token by token: 6 outputs would read" in page.inner_text("p[aria-live]")
    assert page.locator(".held").count() == 0
    page.click("text=Mend it")
    said = "After token 8 the cache holds the inputs of tokens 6 to 8 and the result of a window of tokens 5 to 8"
    assert said in page.inner_text("p[aria-live]")
    assert page.locator(".held").count() == 3 + 1


def test_the_bench_convolves_and_weighs_frequencies_as_the_package_does(page):
    show(page, KernelBench())
    chance = random.Random(0)
    for _ in range(30):
        weights, d = [chance.uniform(-1.5, 1.5) for _ in range(3)], chance.randint(1, 4)
        f = chance.randint(0, 32) / 64
        conv = CausalDepthwiseConv(1, dilation=d).double()
        conv.weight.data[:] = torch.tensor(weights, dtype=torch.float64)
        wave = torch.tensor(page.evaluate(f"KernelBench.wave({f})"), dtype=torch.float64)
        torch.testing.assert_close(wave, torch.cos(2 * torch.pi * f * torch.arange(24, dtype=torch.float64)))
        shown = page.evaluate("([x, w, d]) => KernelBench.convolve(x, w, d)", [wave.tolist(), weights, d])
        torch.testing.assert_close(torch.tensor(shown, dtype=torch.float64), conv(wave.view(1, -1, 1)).flatten())
        answer = conv(F.pad(torch.ones(1, 1, 1, dtype=torch.float64), (0, 0, 0, 63))).flatten()
        gain = torch.fft.rfft(answer).abs()[int(64 * f)].item()
        assert page.evaluate("([w, f, d]) => KernelBench.gain(w, f, d)", [weights, f, d]) == pytest.approx(gain)


def bars(page):
    return [float(bar.get_attribute("aria-valuenow")) for bar in page.locator('.bars [role="slider"]').all()]


def test_bars_are_dragged_and_moved_by_keys_and_the_gain_cannot_tell_a_reversed_kernel(page):
    show(page, KernelBench())
    handle = page.locator('.bars [role="slider"]').nth(1)
    box = handle.locator(".room").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 5, box["y"] - 40)
    page.mouse.up()
    assert bars(page)[1] == 1.5  # held at its limit
    handle.press("ArrowDown")
    assert bars(page)[1] == pytest.approx(1.45)
    page.click("text=Start")
    curve = page.locator(".gain path.out").get_attribute("d")
    pulse = page.locator(".pulse path.out").get_attribute("d")
    page.click("text=Reversed")
    assert bars(page) == pytest.approx([1 / 6, 1 / 6, 1 / 2], abs=1e-3)
    assert page.locator(".gain path.out").get_attribute("d") == curve
    assert page.locator(".pulse path.out").get_attribute("d") != pulse
    assert "the wrong way round" in page.inner_text("p[aria-live]")


def test_a_link_restores_a_setting_and_nonsense_is_ignored(page, tmp_path):
    file = tmp_path / "lab.html"
    file.write_text(f"<meta charset=utf-8>{LeakLab()._repr_html_()}", encoding="utf-8")
    page.goto(f"{file.as_uri()}#leak-lab?m=convolution&t=99&w=5&d=x&s=2")
    assert [page.locator("input").nth(i).input_value() for i in range(4)] == ["5", "1", "2", "23"]
    address = page.get_attribute("a.link", "href")
    assert address == "#leak-lab?m=convolution&t=23&w=5&d=1&s=2"
    page.goto("about:blank")
    page.goto(f"{file.as_uri()}#leak-lab?m=nothing")
    assert page.get_attribute('button[data-m="hourglass"]', "aria-pressed") == "true"


@torch.no_grad()
def shipped_attention(name, line):
    """The attention maps of a model that ships while it reads a line, (layers, heads, T, T)."""
    model, vocabulary = load(Path(name))
    maps = []
    for layer in model.body:
        layer.attention.register_forward_pre_hook(lambda m, x: maps.append(m.attention_map(x[0])[0]))
    model(vocabulary.encode(line)[None])
    return torch.stack(maps)


def averaged(w):
    return sum(torch.diag_embed(w.diagonal(-j).mean().expand(len(w) - j), -j) for j in range(len(w)))


SHADES = """(strip) => [...document.querySelectorAll(`.strip.${strip} span`)].map(
    e => +e.style.getPropertyValue("--w") * (e.matches(".minus") ? -1 : 1))"""
ASK = f"""(settings) => settings.map(([address, strips]) => {{
    history.replaceState(null, "", address);
    dispatchEvent(new HashChangeEvent("hashchange"));
    return strips.map({SHADES});
}})"""


def test_what_the_lamp_shades_is_what_the_shipped_models_read(page):
    lamp = ReadingLamp()
    show(page, lamp)
    maps = {"attention": "transformer", "convolved": "primer-ez"}
    maps = {strip: [shipped_attention(name, line) for line in lamp.lines] for strip, name in maps.items()}
    gates = pretrained_snapshots("dense-gmlp") | {8000: LanguageModel.from_pretrained("dense-gmlp").state_dict()}
    chance, settings, expected = random.Random(0), [], []
    for _ in range(30):
        number, mean = chance.randrange(2), chance.random() < 0.5
        t, layer, head, block = (chance.randrange(n) for n in (len(lamp.lines[number]), 4, 4, 8))
        step = chance.choice(list(gates))
        given = f"line={number + 1}&t={t}&layer={layer + 1}&head={head + 1}&block={block + 1}&step={step}"
        settings.append([f"#reading-lamp?{given}&averaged={int(mean)}", lamp.strips])
        gate = gates[step][f"body.{block}.gate.weight"][:31, :31].tril()
        rows = [(averaged(gate) if mean else gate)[t], *(maps[s][number][layer, head, t] for s in maps)]
        expected.append([(row / row.abs().max()).tolist() for row in (rows[1], rows[2], rows[0])])
    for (address, _), shades, rows in zip(settings, page.evaluate(ASK, settings), expected, strict=True):
        for strip, shade, row in zip(lamp.strips, shades, rows, strict=True):
            assert len(shade) == len(lamp.lines["line=2" in address]), (strip, address)
            wanted = row[: len(shade)] + [0] * (len(shade) - len(row))
            assert shade == pytest.approx(wanted, abs=0.02), (strip, address)


def test_the_lamp_says_how_toeplitz_a_gate_is_and_averages_it(page):
    show(page, ReadingLamp("gate"))
    gate = LanguageModel.from_pretrained("dense-gmlp").state_dict()["body.0.gate.weight"][:31, :31].tril()
    share = (averaged(gate).square().sum() / gate.square().sum()).item()
    assert f"τ = {share:.2f}" in page.inner_text(".strip .name")
    page.click("text=Replace diagonals")
    assert "τ = 1.00" in page.inner_text(".strip .name")
    before = page.evaluate(SHADES, "gate")
    page.click("text=“Once more")
    assert page.evaluate(SHADES, "gate")[: len(before)] == before  # the gate reads every line alike


def test_touching_a_character_moves_the_lamp_and_arrows_move_it_on(page):
    show(page, ReadingLamp("attention"))
    page.locator(".line span").nth(7).click()
    assert "From character 7, “o”" in page.inner_text("p[aria-live]")
    page.keyboard.press("ArrowLeft")
    assert "From character 6, a space" in page.inner_text("p[aria-live]")
    assert page.locator("label").count() == 3  # character, layer, head


@pytest.fixture(scope="module")
def bet():
    """One whose queries alone are not told apart from nothing."""
    means = {"q": -0.001, "k": -0.02, "v": -0.06, "qk": -0.02, "qv": -0.05, "kv": -0.07, "qkv": -0.055}
    zeros = dict.fromkeys(range(5), 0.0)
    noise = (-0.004, -0.002, 0.0, 0.002, 0.004)
    return Bet(compare({s: ({i: mean + e for i, e in enumerate(noise)}, zeros) for s, mean in means.items()}))


def test_a_bet_opens_by_keys_and_marks_the_row_of_the_choice_without_a_script(chromium, tmp_path, bet):
    file = tmp_path / "bet.html"
    file.write_text(f"<meta charset=utf-8>{bet._repr_html_()}", encoding="utf-8")
    tab = chromium.new_page(java_script_enabled=False)
    tab.goto(file.as_uri())
    drawn, row = tab.locator(".drawn"), tab.locator(".subset.v")
    assert not drawn.is_visible()
    for _ in range(3):
        tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert drawn.is_visible()
    assert tab.locator("details[open]").count() == 1
    assert "Of the three, values alone bring most." in tab.inner_text("details.v")
    paint = "e => getComputedStyle(e).backgroundColor"
    assert row.evaluate(paint) != tab.locator(".subset.k").evaluate(paint) == "rgba(0, 0, 0, 0)"
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Enter")
    assert tab.locator("details[open]").all_inner_texts()[0].startswith("Keys"), "one choice takes the other's place"
    assert tab.locator("details[open]").count() == 1
    tab.close()


def test_a_bet_draws_what_it_was_given(page, bet):
    page.set_viewport_size({"width": 390, "height": 900})
    show(page, bet)
    page.locator("summary").first.click()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    names = page.locator(".subset > span:first-child").all_inner_texts()[:7]
    assert names == ["keys and values", "values", "all three", "queries and values", *names[4:6], "queries"]
    for letters, found in bet.rows.items():
        row = page.locator(f".subset.{letters}")
        assert row.locator("b.sure").count() == found.told_apart == (letters != "q")
        zero, mean, low, high, *dots = row.evaluate(
            """row => ["s", "b", "u", "u", "i", "i", "i", "i", "i"].map((tag, n) => {
                const box = row.querySelectorAll(tag)[n < 4 ? 0 : n - 4].getBoundingClientRect();
                return n === 2 ? box.left : n === 3 ? box.right : n === 0 ? box.left : (box.left + box.right) / 2;
            })"""
        )
        width = row.locator(".axis").bounding_box()["width"] / bet.width  # pixels for a nat
        wanted = [(value - found.mean) * width for value in (0, found.low, found.high, *found.values)]
        assert [place - mean for place in (zero, low, high, *dots)] == pytest.approx(wanted, abs=1.5)


# The height of an instrument after each of n moves of a slider or a button, as by chance.
WALK = """(root, n) => Array.from({length: n}, (_, i) => {
    const all = [...root.querySelectorAll("input, button")];
    const control = all[i * 7919 % 10007 % all.length];
    if (control.tagName === "BUTTON") control.click();
    else {
        const places = Math.round((control.max - control.min) / control.step) + 1;
        control.value = +control.min + i * 6151 % 9973 % places * control.step;
        control.dispatchEvent(new Event("input"));
    }
    return root.getBoundingClientRect().height;
})"""


@pytest.mark.parametrize("name", INSTRUMENTS)
def test_axe_finds_nothing_and_nothing_is_wider_than_the_page_or_moves(page, name):
    page.set_viewport_size({"width": 390, "height": 900})
    show(page, INSTRUMENTS[name])
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for slider in page.locator("input").all():
        assert slider.bounding_box()["height"] >= 24
        slider.press("End")
        assert slider.get_attribute("aria-valuetext") == slider.locator("+ output").inner_text()
    root = page.locator(".instrument")
    assert len(set(root.evaluate(WALK, 100))) == 1
    assert page.get_by_role("group", name=root.locator(".heading strong").inner_text(), exact=True).count() == 1


def test_without_javascript_a_still_and_its_sentence_remain(page):
    for mechanism in MODULES:
        show(page, LeakLab())
        first = {key: start for key, (*_, start) in page.evaluate(f"LeakLab.MECHANISMS.{mechanism}.sliders").items()}
        depends = [row.nonzero().flatten().tolist() for row in LeakLab(mechanism).depends()]
        assert depends == expected(mechanism, first)
    for instrument in INSTRUMENTS.values():
        text = instrument._repr_html_()
        assert "; run this cell to touch it (on the site, allow scripts): " in repr(instrument)
        assert f"<p>{instrument!r}</p></div><script>" in text
    gate = LanguageModel.from_pretrained("dense-gmlp").state_dict()["body.0.gate.weight"]
    back = 18 - gate[18, :19].abs().argmax()
    assert f"it reads the one {back} back most" in repr(ReadingLamp())
    with pytest.raises(ValueError, match="mechanism is 'rnn'; expected"):
        LeakLab("rnn")


def test_an_instrument_leaves_the_readers_random_numbers_alone():
    torch.manual_seed(0)
    for make in (ReadingLamp, KernelBench):
        make()._repr_html_()
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(1))
