"""On the site: what other pages, search engines and messengers see of it, and what a wrong address leads to.

What sphinxext-opengraph and sphinx-sitemap make needs the site's address, which follows from the repository's, in
``_config.yml``. ``404.html`` and the root ``index.html`` lead to the book.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from tools.make import repository

LANDING = "book/index"
DESCRIPTION = "Equations of efficient Transformers beside tested PyTorch, each checked by a cell, drawn, and trained."
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


def title_landing(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """The first page's title is the book's already; the sidebar takes it from the logo."""
    if pagename == LANDING:
        context["docstitle"] = ""
        context["theme_logo"] = {**(context.get("theme_logo") or {}), "text": app.config.html_title}


BUTTONS = ("use_repository_button", "use_edit_page_button", "use_issues_button", "launch_buttons", "repository_url")


def find_address(app: Any, config: Any) -> None:
    """The site's address follows from the repository's; without one, no button leads there."""
    address = repository.known()
    config.html_baseurl = config.ogp_site_url = repository.site(address) if address else ""
    config.ogp_site_name = config.html_title
    if not address:
        config.html_theme_options = {k: v for k, v in config.html_theme_options.items() if k not in BUTTONS}


def write_extra_pages(app: Any, error: Exception | None) -> None:
    """The pages that are not part of the book; the root as well, before sphinx-external-toc would write a bare one."""
    if error or app.builder.name != "html":
        return
    base, folder = app.config.html_baseurl, Path(app.outdir)
    canonical = f'<link rel="canonical" href="{base}{LANDING}.html">\n' if base else ""
    root = PLAIN_PAGE.format(
        title=html.escape(app.config.html_title),
        head=f'<meta http-equiv="refresh" content="0; url={LANDING}.html">\n{canonical}'
        '<link rel="icon" href="_static/favicon.svg">\n'
        f'<meta name="description" content="{html.escape(DESCRIPTION)}">',
        body=f'<p>{html.escape(DESCRIPTION)}</p>\n<p><a href="{LANDING}.html">Open the book</a></p>',
    )
    (folder / "index.html").write_text(root, encoding="utf-8")
    if not base:
        return
    # Shown at whatever address was asked for, however deep: its links are whole addresses.
    missing = PLAIN_PAGE.format(
        title="This page is not in the book",
        head='<meta name="robots" content="noindex">\n<link rel="icon" href="data:,">',
        body="<p>It may have moved, or the address has a slip in it.</p>\n"
        f'<p><a href="{base}{LANDING}.html">The first page</a> · <a href="{base}search.html">Search the book</a></p>',
    )
    (folder / "404.html").write_text(missing, encoding="utf-8")
