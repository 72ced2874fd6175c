"""Full-page pictures of the built book, wide and narrow, light and dark, for authors who want to look.

python tools/screenshots.py [page ...] --out DIR      pages as under _build/html, such as notebooks/02-primer-ez.html
"""

import argparse
from pathlib import Path

import browser
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="default: every page but the listings of source code")
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    parser.add_argument("--site", type=Path, default=ROOT / "_build" / "html", help="default: %(default)s")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    pages = arguments.pages or [p for p in browser.pages(arguments.site) if not p.startswith("_modules")]

    with browser.served(arguments.site) as address, sync_playwright() as playwright:
        chromium = browser.launch(playwright)
        for theme in ("light", "dark"):
            for width in (browser.WIDE, browser.NARROW):
                tab = chromium.new_page(color_scheme=theme, viewport={"width": width, "height": 900})
                for page in pages:
                    browser.visit(tab, f"{address}/{page}")
                    name = page.removesuffix(".html").replace("/", "-")
                    path = arguments.out / f"{name}-{width}-{theme}.png"
                    tab.screenshot(path=path, full_page=True)
                    print(path)
                tab.close()
        chromium.close()


if __name__ == "__main__":
    main()
