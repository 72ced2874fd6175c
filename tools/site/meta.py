"""On the site: what other pages, search engines and messengers see of it, and what a wrong address leads to.

- Each page says what it is about (its first paragraph), where its one address is, and has a picture for whoever links
  to it. The addresses follow from the repository's, in ``_config.yml``; until that is set, no page has one.
- ``sitemap.xml`` lists the pages; ``404.html`` and the root ``index.html`` lead to the book.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docutils import nodes

from tools.make import repository

LANDING = "book/index"
PICTURE = "_static/preview.png"  # tools/screenshots.py makes it
PICTURE_SAYS = "The first screen of the book: Leak Lab shows which of 24 outputs see their own future."
DESCRIPTION = "Equations of efficient Transformers beside tested PyTorch, each checked by a cell, drawn, and trained."
LENGTH = 200  # characters of a description: search engines cut what is longer
PLAIN_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
{head}
<style>
  html {{ background: #fff; color: #222832; }}
  a {{ color: #0a58ca; }}
  @media (prefers-color-scheme: dark) {{ html {{ background: #121212; color: #eee; }} a {{ color: #8ab4f8; }} }}
  body {{ max-width: 40rem; margin: 20vh auto 0; padding: 0 1rem; font: 1.1rem/1.6 system-ui, sans-serif; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""


def shortened(text: str) -> str:
    """The text up to its last whole sentence, or else its last whole word, that a description has room for."""
    text = " ".join(text.split())
    if len(text) <= LENGTH:
        return text
    sentences = re.match(rf"(.{{60,{LENGTH - 1}}}[.?!])\s", text)
    return sentences[1] if sentences else text[: LENGTH - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…"


def description(doctree: nodes.document | None) -> str:
    """What a page is about: its first paragraph of words that is not in a cell or a list."""
    for paragraph in doctree.findall(nodes.paragraph) if doctree else ():
        words = paragraph.astext()
        opens = isinstance(paragraph.parent, nodes.section) or "about" in paragraph.parent["classes"]
        if opens and len(words) > 40 and not list(paragraph.findall(nodes.math)):
            return shortened(words)
    return DESCRIPTION


def tags(content: Mapping[str, str]) -> str:
    """``<meta>`` elements; what begins with ``og:`` is a property."""
    return "\n".join(
        f'<meta {"property" if name.startswith("og:") else "name"}="{name}" content="{html.escape(value)}">'
        for name, value in content.items()
    )


def addressed(base: str, pagename: str) -> dict[str, str]:
    """What only a site with an address can say: where a page is, and its picture."""
    if not base:
        return {}
    return {
        "og:url": f"{base}{pagename}.html",
        "og:image": f"{base}{PICTURE}",
        "og:image:alt": PICTURE_SAYS,
        "twitter:card": "summary_large_image",
    }


def describe_page(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    about = description(doctree)
    landing = pagename == LANDING
    title = re.sub(r"<[^>]+>", "", context.get("title") or app.config.html_title)  # already escaped where it has to be
    context["metatags"] = context.get("metatags", "") + tags(
        {
            "description": about,
            "og:type": "website" if landing else "article",
            "og:site_name": app.config.html_title,
            "og:title": html.unescape(title),
            "og:description": about,
        }
        | addressed(app.config.html_baseurl, pagename)
    )
    if landing:
        context["docstitle"] = ""  # the page's title is the book's already; the sidebar takes it from the logo
        context["theme_logo"] = {**(context.get("theme_logo") or {}), "text": app.config.html_title}


BUTTONS = ("use_repository_button", "use_edit_page_button", "use_issues_button", "launch_buttons", "repository_url")


def find_address(app: Any, config: Any) -> None:
    """The site's address follows from the repository's; without one, no button leads there."""
    address = repository.known()
    config.html_baseurl = repository.site(address) if address else ""
    if not address:
        config.html_theme_options = {k: v for k, v in config.html_theme_options.items() if k not in BUTTONS}


def write_extra_pages(app: Any, error: Exception | None) -> None:
    """The pages that are not part of the book; the root as well, before sphinx-external-toc would write a bare one."""
    if error or app.builder.name != "html":
        return
    base, folder = app.config.html_baseurl, Path(app.outdir)
    book = app.config.html_title
    about = {"description": DESCRIPTION, "og:title": book, "og:description": DESCRIPTION}
    if base:
        about["og:image"] = f"{base}{PICTURE}"
    canonical = f'<link rel="canonical" href="{base}{LANDING}.html">\n' if base else ""
    root = PLAIN_PAGE.format(
        title=html.escape(book),
        head=f'<meta http-equiv="refresh" content="0; url={LANDING}.html">\n{canonical}'
        '<link rel="icon" href="_static/favicon.svg">\n' + tags(about),
        body=f'<p>{html.escape(DESCRIPTION)}</p>\n<p><a href="{LANDING}.html">Open the book</a></p>',
    )
    (folder / "index.html").write_text(root, encoding="utf-8")
    if not base:
        return  # what follows has whole addresses
    urls = "".join(
        f"<url><loc>{html.escape(f'{base}{name}.html')}</loc></url>\n" for name in sorted(app.env.found_docs)
    )
    (folder / "sitemap.xml").write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{urls}</urlset>\n',
        encoding="utf-8",
    )
    # Shown at whatever address was asked for, however deep: its links are whole addresses.
    missing = PLAIN_PAGE.format(
        title="This page is not in the book",
        head='<meta name="robots" content="noindex">\n<link rel="icon" href="data:,">',
        body="<p>It may have moved, or the address has a slip in it.</p>\n"
        f'<p><a href="{base}{LANDING}.html">The first page</a> · <a href="{base}search.html">Search the book</a></p>',
    )
    (folder / "404.html").write_text(missing, encoding="utf-8")
