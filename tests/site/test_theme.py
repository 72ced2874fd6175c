"""What the book changes of its theme: menus, the sidebar, links under the mouse, code."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import expect

from tools.make import browser
from tools.notebooks import folding

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
CONTRAST = """e => {
    const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const light = color => {
        paint.fillStyle = color;
        paint.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3)
            .map(x => x / 255).map(x => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const [a, b] = [getComputedStyle(e).color, getComputedStyle(document.body).backgroundColor].map(light);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""

pytestmark = pytest.mark.site


@pytest.fixture(scope="module", params=["light", "dark"])
def tab(request, chromium):
    """A chapter whose line in the contents is in the lower half of the window, where the theme would scroll to it."""
    page = chromium.new_page(
        color_scheme=request.param, reduced_motion="reduce", viewport={"width": 1440, "height": 900}
    )
    browser.visit(page, (SITE / "notebooks" / "06-head-to-head.html").as_uri())
    yield page
    page.close()


def test_a_link_under_the_mouse_can_be_read(tab):
    for link in (
        ".bd-article p a.reference",
        ".bd-sidebar-primary li:not(.current) > a:visible",
        ".prev-next-footer a",
    ):
        element = tab.locator(link).first
        element.hover()
        assert element.evaluate(CONTRAST) >= 4.5, link


def test_a_menu_opens_and_closes(tab):
    button = tab.locator(".dropdown-download-buttons > button")
    menu = tab.locator(".dropdown-download-buttons > ul")
    for close in (lambda: tab.keyboard.press("Escape"), lambda: tab.mouse.click(600, 500)):
        button.press("Enter")
        expect(menu).to_be_in_viewport(ratio=1)
        assert button.get_attribute("aria-expanded") == "true"
        close()
        expect(menu).to_be_hidden()
        assert button.get_attribute("aria-expanded") == "false"


def test_without_a_script_code_has_colors_and_the_bar_hides_what_is_below(chromium):
    page = chromium.new_page(java_script_enabled=False, viewport={"width": 1440, "height": 900})
    page.goto((SITE / "notebooks" / "02-primer-ez.html").as_uri(), wait_until="domcontentloaded")
    color = "e => getComputedStyle(e).color"
    keyword = page.locator(".cell_input:not(details *) .k").first
    assert keyword.evaluate(color) != page.locator(".cell_input:not(details *) pre").first.evaluate(color)
    bar = page.locator(".bd-header-article")
    assert bar.evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 255)"
    page.close()


def test_a_page_has_all_code_of_its_notebook():
    page = BeautifulSoup((SITE / "notebooks" / "04-hourglass.html").read_text(encoding="utf-8"), "html.parser")
    shown = {block.get_text() for block in page.select(".bd-article div.highlight > pre")}
    notebook = nbformat.read(ROOT / "notebooks" / "04-hourglass.ipynb", 4)
    folding.open_guesses(notebook)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code" and not cell.metadata.get("tags")]
    code = [source for source in code if not folding.asked(source)]
    assert len(code) > 15
    assert [source for source in code if f"{source}\n" not in shown] == []
