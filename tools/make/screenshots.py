"""Pictures of the built book.

    python -m tools.make.screenshots [page ...] --out DIR    full pages, wide and narrow, light and dark, to look at
    python -m tools.make.screenshots --stored                those that the README and links to the book show

Pages are named as under _build/html, such as notebooks/02-primer-ez.html.
"""

import argparse
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, ViewportSize, sync_playwright

from tools.make import browser

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
FOLDER = ROOT / "book" / "static"
TALLEST = 8000  # pixels of a picture: below 16,384 Chromium leaves out what is dark
STORED = {  # a page, the element that is at the top, and the size, in CSS pixels and in pixels for each
    "preview.png": ("book/index.html", "#can-you-see-what-is-wrong", ViewportSize(width=944, height=660), 1.25),
    "page.png": ("notebooks/02-primer-ez.html", "#eq-2-3", ViewportSize(width=1280, height=800), 1),
}


def store(chromium: Browser, address: str) -> None:
    for name, (page, top, size, scale) in STORED.items():
        tab = chromium.new_page(viewport=size, device_scale_factor=scale, reduced_motion="reduce")
        browser.visit(tab, f"{address}/{page}")
        tab.evaluate("document.querySelectorAll('details.answer').forEach(e => { e.open = true; })")
        tab.locator(top).first.evaluate("e => scrollTo({top: e.getBoundingClientRect().top - 64, behavior: 'instant'})")
        tab.wait_for_timeout(500)
        path = FOLDER / name
        tab.screenshot(path=path)
        tab.close()
        Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)
        print(path.relative_to(ROOT))


def look(chromium: Browser, address: str, pages: list[str], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for theme in ("light", "dark"):
        for width in (browser.WIDE, browser.NARROW):
            tab = chromium.new_page(color_scheme=theme, viewport={"width": width, "height": 900})
            for page in pages:
                browser.visit(tab, f"{address}/{page}")
                name = page.removesuffix(".html").replace("/", "-")
                browser.draw_all(tab)
                height = tab.evaluate("document.documentElement.scrollHeight")
                for part, top in enumerate(range(0, height, TALLEST), start=1):
                    path = out / f"{name}-{width}-{theme}-{part}.png"
                    tall = min(TALLEST, height - top)
                    tab.screenshot(path=path, full_page=True, clip={"x": 0, "y": top, "width": width, "height": tall})
                    print(path)
            tab.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="default: every page")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", type=Path, help="folder for the pictures")
    where.add_argument("--stored", action="store_true", help="make the stored pictures, in book/static")
    arguments = parser.parse_args()
    with browser.served(SITE) as address, sync_playwright() as playwright:
        chromium = browser.launch(playwright)
        if arguments.stored:
            store(chromium, address)
        else:
            look(chromium, address, arguments.pages or browser.pages(SITE), arguments.out)


if __name__ == "__main__":
    main()
