"""One PDF of the whole book, at _build/book.pdf, from the built site: `make pdf`.

What is notable:
- Chromium opens each page, so instruments stand on paper as they stand on the page when it is opened;
- their articles become one page, in the order of _toc.yml: a link between two pages is then a link within the PDF,
  and headings become its outline;
- how it looks is static/print.css, as when a reader prints a page.
"""

from __future__ import annotations

import argparse
import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from playwright.sync_api import Page, sync_playwright

from tools.make import browser

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
OUT = ROOT / "_build" / "book.pdf"
WHOLE = "whole-book.html"  # the page that is printed, in the site's folder while it is

# A page's article, as it is to stand in the whole: ids begin with the page's name, addresses are absolute.
TAKE = """([page, pages]) => {
    const article = document.querySelector(".bd-article");
    const home = new URL(document.documentElement.dataset.content_root, location.href).href;
    const name = (path, id) => `${path.replace(/\\.html$/, "").replace(/\\//g, "-")}--${id}`;
    const left = "script, noscript, template, .headerlink, img[hidden], a:has(.viewcode-link)";
    article.querySelectorAll(left).forEach((e) => e.remove());
    article.querySelectorAll("details:not(.hide)").forEach((e) => { e.open = true; });
    article.querySelectorAll("a[href]").forEach((e) => {
        const url = new URL(e.getAttribute("href"), location.href);
        const to = url.href.slice(home.length).split("#")[0];
        const id = url.hash.includes("?") ? "" : decodeURIComponent(url.hash.slice(1)); // "?": an instrument's state
        if (!url.href.startsWith(home)) e.setAttribute("href", url.href);
        else if (pages.includes(to)) e.setAttribute("href", `#${name(to, id || "top")}`);
        else e.removeAttribute("href"); // scripts, listings
    });
    article.querySelectorAll("img[src]").forEach((e) => { e.src = e.src; e.loading = "eager"; });
    article.querySelectorAll("link[href]").forEach((e) => { e.href = e.href; });
    article.querySelectorAll("[id]").forEach((e) => { e.id = name(page, e.id); });
    article.querySelectorAll("[aria-labelledby], [for], [aria-describedby]").forEach((e) => {
        for (const a of ["aria-labelledby", "for", "aria-describedby"])
            if (e.hasAttribute(a)) e.setAttribute(a, name(page, e.getAttribute(a)));
    });
    article.querySelectorAll("svg *").forEach((e) => [...e.attributes].forEach((a) => {
        a.value = a.value.replace(/^url\\(#(.*)\\)$/, (_, id) => `url(#${name(page, id)})`);
    }));
    const heading = article.querySelector("h1");
    const sections = [...article.querySelectorAll("h2")].map((e) => [e.closest("section").id, e.textContent]);
    const styles = [...document.querySelectorAll("head link[rel=stylesheet]")].map((e) => e.href);
    return {id: name(page, "top"), title: heading.textContent, sections, styles, article: article.innerHTML};
}"""
FRAME = """<!doctype html>
<html lang="en" data-theme="light" data-mode="light" data-content_root="./"><head><meta charset="utf-8">
<title>{title}</title>
{styles}
<style>
  .bd-article > .page {{ break-before: page; }}
  .bd-main .bd-content .bd-article h1:first-of-type {{ display: block; }}
  .bd-article .api h1, .bd-article .api h1:first-of-type {{ font-size: 16pt; }}
  .toc ol {{ list-style: none; padding-inline-start: 1.2em; }}
  .toc > ol > li {{ margin-block: 0.5em; font-weight: 600; break-inside: avoid; }}
  .toc li li {{ font-weight: 400; }}
  .toc a {{ color: inherit; text-decoration: none; }}
  .cover {{ min-height: 200mm; display: grid; align-content: center; text-align: center; }}
</style></head>
<body><main class="bd-main"><div class="bd-content"><div class="bd-article-container"><div class="bd-article">
<div class="cover"><p style="font-size: 30pt; line-height: 1.3">{title}</p><p>{author}</p></div>
<nav class="page toc"><h1>Contents</h1><ol>{contents}</ol></nav>
{articles}
</div></div></div></main></body></html>
"""
FOOT = '<div style="width: 100%; font: 8pt sans-serif; text-align: center"><span class="pageNumber"></span></div>'


def order(toc: Any) -> Iterator[str]:
    """The pages in the order of the table of contents."""
    if isinstance(toc, dict):
        if "root" in toc or "file" in toc:
            yield f"{toc.get('root') or toc['file']}.html"
        if "glob" in toc:
            yield from sorted(str(path.relative_to(SITE)) for path in SITE.glob(f"{toc['glob']}.html"))
        for part in ("parts", "chapters", "sections"):
            yield from order(toc.get(part, []))
    else:
        for part in toc:
            yield from order(part)


def listed(part: dict[str, Any]) -> str:
    """A page in the table of contents; of a chapter, its sections too."""
    link = '<a href="#{}">{}</a>'
    sections = part["sections"] if part["id"].startswith("notebooks-") else []
    inner = "".join(f"<li>{link.format(anchor, html.escape(title))}</li>" for anchor, title in sections)
    return f"<li>{link.format(part['id'], html.escape(part['title']))}{f'<ol>{inner}</ol>' if inner else ''}</li>"


def whole(tab: Page, address: str, pages: list[str]) -> str:
    """All articles as one page."""
    parts = []
    for page in pages:
        browser.visit(tab, f"{address}/{page}")
        parts.append(tab.evaluate(TAKE, [page, pages]))
    styles = dict.fromkeys(style for part in parts for style in part["styles"])
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    kinds = ["page api" if part["id"].startswith("book-api-") else "page" for part in parts]
    return FRAME.format(
        title=html.escape(config["title"]),
        author=html.escape(config["author"]),
        styles="\n".join(f'<link rel="stylesheet" href="{style}">' for style in styles),
        contents="".join(map(listed, parts)),
        articles="\n".join(
            f'<div class="{kind}" id="{part["id"]}">{part["article"]}</div>'
            for kind, part in zip(kinds, parts, strict=True)
        ),
    )


def check(text: str) -> None:
    """Every link within the book leads somewhere."""
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    lost = sorted({link for link in re.findall(r'<a[^>]*\bhref="#([^"]+)"', text) if html.unescape(link) not in ids})
    if lost:
        raise ValueError(f"links that lead nowhere in the PDF: {lost}")


def tidy(made: bytes) -> bytes:
    """The PDF with each heading once in its outline: Chromium writes twice what it moved to the next page.

    Blanks take the place of the second, since nothing in a PDF may move.
    """
    once = re.sub(rb"/Title \((.{2,}?)\1\)", lambda m: b"/Title (" + m[1] + b" " * len(m[1]) + b")", made)
    wide = rb"/Title <FEFF((?:[0-9A-F]{4})+?)\1>"
    return re.sub(wide, lambda m: b"/Title <FEFF" + m[1] + b"0020" * (len(m[1]) // 4) + b">", once)


def make(out: Path) -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    page = SITE / WHOLE
    with browser.served(SITE) as address, sync_playwright() as playwright:
        chromium = browser.launch(playwright)
        tab = chromium.new_page(color_scheme="light", reduced_motion="reduce")
        pages = [name for name in order(toc) if not name.startswith("book/source")]  # code beside notes needs a screen
        text = whole(tab, address, pages)
        check(text)
        page.write_text(text, encoding="utf-8")
        try:
            browser.visit(tab, f"{address}/{WHOLE}")
            made = tab.pdf(
                format="A4",
                print_background=True,
                outline=True,
                tagged=True,
                display_header_footer=True,
                header_template="<span></span>",
                footer_template=FOOT,
                margin={"top": "18mm", "bottom": "18mm", "left": "17mm", "right": "17mm"},
            )
        finally:
            page.unlink()
        chromium.close()
    out.write_bytes(tidy(made))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="default: %(default)s")
    out = parser.parse_args().out
    make(out)
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
