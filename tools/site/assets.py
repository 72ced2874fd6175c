"""On the site: the styles and scripts that a page loads: those that something on it needs, and none that holds it up.

What is notable:
- what every page loads of the book's own comes together, as one style sheet and one script; by themselves stay the
  fonts, and page.js, which does not wait: it asks for the math font before the first line is set;
- of the theme's icons, static/icons.css has those that the site shows, so that no browser asks for all of them;
- templates/static/webpack-macros.html has what the theme loads by itself.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tools.site import landing, models, one_token, source

STATIC = Path(__file__).parents[2] / "book" / "static"
TOGETHER = {
    "book.css": ("icons.css", "custom.css", "page.css", "layout.css", "annotated.css", "print.css"),
    "book.js": ("a11y.js", "previews.js", "annotated.js", "search-dialog.js", "questions.js"),
}
LOADS: dict[str, tuple[str, ...]] = {  # by page, in their order, after those of every page
    landing.PAGE: ("landing-math.css", "models.css", "landing.css", "landing.js"),
    "book/what-would-it-cost": ("models.css", "cost.css", "cost.js", "cost-page.js"),
    one_token.PAGE: ("models.css", "token.css", "models.js", "model-parts.js", "token-steps.js", "token-page.js"),
    **dict.fromkeys(models.PAGES, ("models.css", *models.SCRIPTS)),
    **{f"{source.FOLDER}/{name}": ("source.css",) for name in source.modules()},
}
NEEDED_BY = {  # how a file or a script begins that every page would have, and what is on a page that needs it
    "doctools.js": "(?!)",  # nowhere: its shortcuts are off,
    "sphinx_highlight.js": "(?!)",  # static/search.js searches,
    "DOCUMENTATION_OPTIONS.": "(?!)",  # and nothing has versions
    "sphinx-design.min.css": r'class="[^"]*\bsd-',
    "design-tabs.js": r'class="[^"]*\bsd-tab-set\b',
    "clipboard.min.js": '<div class="highlight',
    "copybutton": '<div class="highlight',
    "mystnb": r'class="[^"]*\bcell\b',
    "math.css": '(?s)<math(?!.*id="two-write-here")',  # the landing page has its own few glyphs
    "answers.css": 'class="intervals',
}


def put_together(app: Any) -> None:
    if app.builder.format == "html":
        folder = Path(app.outdir) / "_static"
        folder.mkdir(parents=True, exist_ok=True)
        for name, parts in TOGETHER.items():
            text = "\n".join((STATIC / part).read_text(encoding="utf-8") for part in parts)
            (folder / name).write_text(text, encoding="utf-8")


def is_needed(file: Any, body: str) -> bool:
    name = Path(file.filename).name if file.filename else file.attributes["body"]
    return all(re.search(need, body) for start, need in NEEDED_BY.items() if name.startswith(start))


def choose(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    for name in LOADS.get(pagename, ()):
        if name.endswith(".css"):
            app.add_css_file(name, priority=900)
        else:
            app.add_js_file(name)
    for kind in ("css_files", "script_files"):
        context[kind] = [file for file in context[kind] if is_needed(file, context.get("body", ""))]
    for script in context["script_files"]:
        # A policy in the page switches Chromium's look-ahead off: no script is fetched before its turn, unless it is
        # deferred.
        if script.filename and script.filename != "_static/page.js":
            script.attributes["defer"] = "defer"
