"""Every page has a Content-Security-Policy that allows what the build wrote and nothing else, and lives with it."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest
from polling import until

from tools.make import browser

SITE = Path(__file__).parents[2] / "_build" / "html"
PAGES = browser.pages(SITE)
DIRECTIVES = {
    "default-src": "'self'",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data:",
    "font-src": "'self' data:",
    "worker-src": "'self' blob:",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
}
META = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<source>.*?)</script>", re.DOTALL)
LOADED = re.compile(r'<(?:script|img|iframe|source)[^>]*\bsrc="([^"]*)"|<link[^>]*rel="stylesheet"[^>]*href="([^"]*)"')

pytestmark = pytest.mark.site


@pytest.fixture(params=["http", "file"])
def home(request):
    if request.param == "file":
        yield SITE.as_uri()
    else:
        with browser.served(SITE) as address:
            yield address


@pytest.fixture
def tab(chromium):
    """A tab that remembers what a policy refused, on every page that it visits."""
    page = chromium.new_page(reduced_motion="reduce")
    page.add_init_script(
        "addEventListener('securitypolicyviolation', e => console.error(`refused: ${e.violatedDirective}`))"
    )
    page.errors = []
    page.on("console", lambda m: page.errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    yield page
    page.close()


@pytest.mark.parametrize("path", PAGES)
def test_the_policy_allows_the_scripts_of_the_page_and_no_others(path):
    text = (SITE / path).read_text(encoding="utf-8")
    policies = META.findall(text)
    assert len(policies) == 1
    assert text.index(policies[0]) < (text.index("<script") if "<script" in text else len(text))
    given = {name: rest for name, _, rest in (part.strip().partition(" ") for part in policies[0].split(";"))}
    sources = set(given.pop("script-src").split())
    assert given == DIRECTIVES
    inline = [m["source"] for m in SCRIPT.finditer(text) if "src=" not in m["attributes"] and m["source"].strip()]
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in inline}
    assert sources == {"'self'"} | hashes
    assert not re.search(r"<[a-z][^<>]*\son[a-z]+=\"", text), "a handler in an attribute"
    assert [one or other for one, other in LOADED.findall(text) if re.match(r"(\w+:)?//", one or other)] == []


def test_every_kind_of_page_works_under_its_policy(tab, home):
    tab.goto(f"{home}/book/index.html")
    lab = tab.locator(".leak-lab")
    before = lab.inner_text()
    lab.locator("input:visible").press("ArrowRight")
    assert lab.inner_text() != before

    tab.goto(f"{home}/notebooks/04-hourglass.html")
    explorer = tab.locator(".explorer").first
    said = explorer.locator("output").first.inner_text()
    explorer.locator("input").first.press("ArrowRight")
    assert explorer.locator("output").first.inner_text() != said
    tab.locator("button.theme-switch-button").first.click()
    assert tab.locator("html").get_attribute("data-mode") != "auto"
    tab.locator(".dropdown-download-buttons > button").click()
    assert tab.locator(".btn-download-pdf-button").is_visible()

    tab.keyboard.press("Control+k")
    tab.locator("#pst-search-dialog input").fill("shortening")
    tab.keyboard.press("Enter")
    assert tab.locator("#search-results a").first.inner_text() == "4.1 Eight tokens by hand"

    tab.goto(f"{home}/book/write-with-it.html")
    tab.get_by_role("button", name="Step", exact=True).click()
    written = "document.querySelector('.models').app.writings[0]?.pieces.length ?? 0"
    until(lambda: tab.evaluate(written) > len("KING HENRY:\n"))
    assert tab.locator(".models-error").inner_text() == ""
    assert "starts no worker" not in tab.locator(".models-status").inner_text()
    assert tab.errors == []


def test_what_is_injected_is_refused(tab, home):
    tab.goto(f"{home}/notebooks/02-primer-ez.html")
    tab.evaluate("""() => {
        document.body.insertAdjacentHTML("beforeend", "<img src=nothing onerror='window.injected = 1'>");
        const script = document.createElement("script");
        script.textContent = "window.injected = 2";
        document.body.append(script);
        const image = document.createElement("img");
        image.src = "https://example.org/picture.png";
        document.body.append(image);
    }""")
    tab.wait_for_timeout(300)
    assert tab.evaluate("window.injected") is None
    assert {"script-src-elem", "script-src-attr", "img-src"} <= {e.split()[-1] for e in tab.errors}
