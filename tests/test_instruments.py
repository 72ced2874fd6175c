"""The instruments compute what the package computes, and work on a page of their own."""

from __future__ import annotations

import json
import random
from pathlib import Path

import browser
import pytest
import torch
import torch.nn.functional as F
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright
from torch import nn

from efficient_transformers import CausalDepthwiseConv, MultiHeadAttention, NaiveUpSampling, ShiftRight, leak_map
from efficient_transformers.gmlp import SpatialGatingUnit
from efficient_transformers.instruments import FOLDER, LeakLab
from efficient_transformers.resampling import AvgPoolShortening

T = 24

pytestmark = pytest.mark.skipif(browser.find() is None, reason="no Chromium or Chrome on the PATH")


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
        return self.expand(x, self.shorten(self.shift(x)))


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
def page():
    with sync_playwright() as playwright:
        chromium = browser.launch(playwright)
        tab = chromium.new_page(reduced_motion="reduce")
        yield tab
        chromium.close()


def show(page, instrument):
    head = '<html lang="en"><head><title>Leak Lab</title></head>'
    page.set_content(f"{head}<body><main><h1>Leak Lab</h1>{instrument._repr_html_()}</main></body></html>")


def random_settings(page, n):
    chance = random.Random(0)
    sliders = page.evaluate("Object.fromEntries(Object.entries(LeakLab.MECHANISMS).map(([m, v]) => [m, v.sliders]))")
    for i in range(n):
        mechanism = list(sliders)[i % len(sliders)]
        yield mechanism, {key: chance.randint(low, high) for key, (_, low, high, _) in sliders[mechanism].items()}


def test_what_an_output_reads_is_what_the_packages_layers_read(page):
    show(page, LeakLab())
    settings = list(random_settings(page, 100))
    assert len(settings) == 100
    ask = "([m, v]) => Array.from({length: 24}, (_, t) => LeakLab.reads(m, v, t))"
    for mechanism, values in settings:
        assert page.evaluate(ask, [mechanism, values]) == expected(mechanism, values), (mechanism, values)


def test_a_setting_that_is_mended_leaks_nothing(page):
    show(page, LeakLab())
    for mechanism in MODULES:
        page.click(f'button[data-m="{mechanism}"]')
        page.click("text=Mend it")
        assert "No output sees its future:" in page.inner_text("p[aria-live]")
        assert page.locator(".map rect.future").count() == 0


def test_keys_move_a_slider_and_its_value_is_said(page):
    show(page, LeakLab("hourglass", fixed=True))
    assert page.locator("button[data-m]").count() == 1
    slider = page.locator("input").nth(1)
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "3"
    assert "No output sees its future: k − 1 = 3" in page.inner_text("p[aria-live]")


def test_decoding_says_what_the_cache_holds(page):
    show(page, LeakLab("hourglass"))
    page.click("text=Decode one token")
    assert "After token 9 the cache holds 3 tokens of the window to come" in page.inner_text(".decoding")
    for _ in range(3):
        page.click("text=Decode one token")
    assert "the inner layers run now" in page.inner_text(".decoding")


def test_a_link_restores_a_setting_and_nonsense_is_ignored(page, tmp_path):
    file = tmp_path / "lab.html"
    file.write_text(f"<meta charset=utf-8>{LeakLab()._repr_html_()}", encoding="utf-8")
    page.goto(f"{file.as_uri()}#leak-lab?m=convolution&t=99&w=5&d=x&s=2")
    assert [page.locator("input").nth(i).input_value() for i in range(4)] == ["5", "1", "2", "23"]
    address = page.get_attribute("text=Link to this setting", "href")
    assert address == "#leak-lab?m=convolution&t=23&w=5&d=1&s=2"
    page.goto("about:blank")
    page.goto(f"{file.as_uri()}#leak-lab?m=nothing")
    assert page.get_attribute('button[data-m="hourglass"]', "aria-pressed") == "true"


@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_page(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    show(page, LeakLab())
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert json.dumps(found) == "[]"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_without_javascript_a_sentence_remains():
    assert "6 of 24 outputs see their future" in repr(LeakLab())
    with pytest.raises(ValueError, match="mechanism is 'rnn'; expected one of 'attention'"):
        LeakLab("rnn")


def test_the_script_is_small():
    assert sum(Path(file).stat().st_size for file in FOLDER.glob("*.js")) < 14_000
