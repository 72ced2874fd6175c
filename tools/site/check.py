"""At the end of a build: every link within the site leads to a file that is there, and to an anchor in it.

Sphinx checks the links that it makes itself. This looks at the finished pages, and so also at those in raw HTML, at
pictures, scripts and styles. ``make linkcheck`` looks at the links that leave the site.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from posixpath import dirname, normpath
from typing import Any
from urllib.parse import unquote

from sphinx.util import logging

LINK = re.compile(r'\s(?:href|src)="([^"]*)"')
ID = re.compile(r'\s(?:id|name)="([^"]*)"')
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//")  # https:, mailto:, data:
CODE = re.compile(r"<(script|template|textarea)\b(?![^>]*\bsrc=).*?</\1>", re.DOTALL)  # not the page's markup
log = logging.getLogger(__name__)


def broken_links(site: Path) -> list[str]:
    """``page: link`` for each link within the site that leads nowhere."""
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    pages = [file for file in sorted(files) if file.endswith(".html") and not file.startswith("_static/")]
    texts = {page: CODE.sub("", (site / page).read_text(encoding="utf-8")) for page in pages}
    ids = {page: {unescape(name) for name in ID.findall(text)} for page, text in texts.items()}
    found = []
    for page, text in texts.items():
        for link in sorted(set(LINK.findall(text))):
            if ELSEWHERE.match(link):
                continue
            address, _, anchor = unescape(link).partition("#")
            file = unquote(address.split("?")[0])
            target = normpath(f"{dirname(page)}/{file}").lstrip("/") if file else page
            leads = anchor in ("", "top") or target not in ids or unquote(anchor) in ids[target]
            if not (target in files and leads):
                found.append(f"{page}: {link}")
    return found


def check_links(app: Any) -> None:
    for link in broken_links(Path(app.outdir)):
        log.warning("a link leads nowhere: %s", link)
