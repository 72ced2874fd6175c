"""On the site: old addresses lead to where things are now, from one table, ``book/moved.yml``.

What is notable:
- a server sees no anchor, and there may be no server: a part that moved leaves a note with its old anchor on its old
  page, seen only by who asks for it; page.js follows its link, and without a script a reader does;
- a page that moved leaves a small page that leads on, with the anchor that was asked for where scripts run;
- what a table promises is checked as every link is; an old address that is still in use is an error.
"""

from __future__ import annotations

import html
import json
import os
import re
from pathlib import Path
from typing import Any

import yaml

from tools.site.meta import PLAIN_PAGE

TABLE: dict[str, str] = yaml.safe_load((Path(__file__).parents[2] / "book" / "moved.yml").read_text(encoding="utf-8"))
HAS_MOVED = "This page has moved"
ADDRESS = re.compile(r"[\w/-]+\.html(#[\w.-]+)?")


def moved_from(page: str) -> dict[str, str]:
    """The anchors that moved from a page, such as ``notebooks/01-transformer.html``, and where to."""
    found = {}
    for old, new in TABLE.items():
        for address in (old, new):
            if not ADDRESS.fullmatch(address):
                raise ValueError(f"book/moved.yml has {address!r}; expected an address such as book/page.html#anchor")
        before, _, anchor = old.partition("#")
        if before == page and anchor:
            found[anchor] = new
    return found


def link(page: str, target: str) -> str:
    """The address of a target as a page names it."""
    return html.escape(os.path.relpath(target, Path(page).parent))


def notes(page: str, body: str) -> str:
    """What stands at the end of a page for its anchors that moved.

    Raises:
        ValueError: if one of them is still on the page.
    """
    made = []
    for anchor, target in moved_from(page).items():
        if f'id="{anchor}"' in body:
            raise ValueError(f"book/moved.yml has {page}#{anchor}; expected an anchor that the page no longer has")
        made.append(f'<p id="{anchor}">This part has moved: <a href="{link(page, target)}">it is here now</a>.</p>')
    return f'<aside class="moved">{"".join(made)}</aside>' if made else ""


def add_notes(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        context["body"] += notes(f"{pagename}.html", context["body"])


def leading_on(page: str, target: str) -> str:
    """The page that stands where one was."""
    where = link(page, target)
    script = f"location.replace({json.dumps(where)}{'' if '#' in target else ' + location.hash'})"
    return PLAIN_PAGE.format(
        title=HAS_MOVED,
        head=f'<meta name="robots" content="noindex">\n<link rel="icon" href="data:,">\n<script>{script}</script>\n'
        f'<noscript><meta http-equiv="refresh" content="0; url={where}"></noscript>',
        body=f'<p><a href="{where}">It is here now</a>.</p>',
    )


def write_pages(app: Any, error: Exception | None) -> None:
    if error or app.builder.name != "html":
        return
    for page, target in TABLE.items():
        path = Path(app.outdir) / page
        if "#" in page:
            path = path.with_name(path.name.partition("#")[0])
            if not path.exists():
                raise ValueError(f"book/moved.yml has {page!r}; expected an anchor of a page that is there")
        elif path.exists() and HAS_MOVED not in path.read_text(encoding="utf-8"):  # written by the build before
            raise ValueError(f"book/moved.yml has {page!r}; expected a page that is no longer there")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(leading_on(page, target), encoding="utf-8")
