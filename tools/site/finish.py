"""On the site: last touches to the pages that are written: lighter, steadier, and with a Content-Security-Policy.

What is notable:
- the policy allows the scripts that the build wrote into a page, by their hashes, and no others; so there is no handler
  in an attribute, and static/page.js has those of the theme's two;
- a page loads the theme's and the extensions' files only if something on it needs them;
- of the theme's icons, the site keeps those that it shows: 4 kB of fonts instead of 800 kB of fonts and script;
- code is half of a chapter's nodes: names and punctuation, which have the color of their block, lose their spans, and a
  block says how many lines and columns it has, so that a browser may leave it out until it is near (static/page.css);
- a browser breaks lines on both sides of a formula, before its full stop too: what touches one stays with it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import logging
import re
from pathlib import Path
from typing import Any

from fontTools import subset
from fontTools.ttLib import TTFont

logging.getLogger("fontTools").setLevel(logging.WARNING)  # it reports every table of a font

POLICY = (
    "default-src 'self'; script-src 'self'{hashes}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'"
)
CHARSET = re.compile(r'<meta charset="utf-8"\s*/?>')
INLINE = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)
HANDLER = re.compile(r' onclick="[^"]*"')
# Written on every page, for features of the theme that the book does not use.
SETTINGS = re.compile(
    r"<script>\s*(?:DOCUMENTATION_OPTIONS\.(?:pagename|search_as_you_type)|let toggle\w+|var togglebuttonSelector)"
    r"[^<]*</script>\s*"
)
# A file of the theme or of an extension, and what a page must have for it to be of use; "(?!)" is nowhere.
NEEDED_BY = {
    "fontawesome": "(?!)",  # draws what the style sheet draws too
    "searchtools|language_data|searchindex": "(?!)",  # static/search.js searches
    "doctools|sphinx_highlight": "(?!)",  # shortcuts that are off, and marks for Sphinx's own search
    "bootstrap": "(?!)",  # of which the pages need three menus: static/page.js
    "togglebutton": r'class="(?:[^"]* )?(?:toggle[ "]|admonition (?:[^"]* )?dropdown[ "])',
    "sphinx-design\\.min": r'class="[^"]*\bsd-',
    "design-tabs": r'class="[^"]*\bsd-tab-set\b',
    "clipboard\\.min|copybutton": r'<div class="highlight',
    "sphinx-codeautolink": r'class="sphinx-codeautolink',
    "mystnb\\.\\w+": r'class="[^"]*\bcell\b',
    "math": "<math",
    "annotated": 'class="join ',
    "previews": "<a data-preview",
    "questions": '<form class="question"',
}
FILES = {
    re.compile(
        rf'<(?:script|link)[^>]*\b(?:src|href)="(?:[^"]*/)?(?:{name})\.(?:js|css)[^>]*>(?:</script>)?\s*'
    ): re.compile(need)
    for name, need in NEEDED_BY.items()
}
PRELOAD = re.compile(r'<link[^>]*\brel="preload"[^>]*>\s*')  # of scripts that are deferred anyhow
# A policy in the page switches Chromium's look-ahead off: no script is fetched before its turn, unless it is deferred.
# page.js does not wait: it asks for the math font before the first line is set.
AT_ONCE = re.compile(r'<script (?![^>]*\bdefer)(?=[^>]*\bsrc="(?![^"]*/page\.js))')
# The theme begins as "auto" and becomes light or dark only when its script runs; code would be set twice, and move.
THEME = re.compile(r'(localStorage\.getItem\("theme"\) \|\| )"auto"')
EARLY = r'\1(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")'
UNDECIDED = re.compile(r'(<html[^>]* data-theme=)"auto"')  # without a script, it would have no colors at all
TOUCHED = re.compile(r"([(\[“‘]?)(<math>(?:(?!</math>).)*</math>)([^\s<>]*)", re.DOTALL)
# Links have a color of their own, which names in them must not take.
PLAIN = re.compile(r'<a\b.*?</a>|<span class="(?:n|nn|p|w)">([^<]*)</span>|(?<=<pre>)<span></span>(?!\n)', re.DOTALL)
GAP = re.compile(r'(?<=[^ \n]) {2,}(?=<span class="c1">)')
CODE = re.compile(r'(<div class="highlight">)<pre>(.*?)</pre>', re.DOTALL)
TAG = re.compile(r"<[^>]*>")
# The book's own small files come together, as one style sheet and one script. By themselves stay the fonts, which are
# alike on all pages, and page.js, which does not wait.
ALONE = ("type.css", "math.css", "page.js")
OWN = {
    "css": r'<link [^>]*\bhref="([^"]*_static/)({names})\.css[^"]*"[^>]*>\s*',
    "js": r'<script defer [^>]*\bsrc="([^"]*_static/)({names})\.js[^"]*"[^>]*></script>\s*',
}
TOGETHER = {"css": '<link rel="stylesheet" href="{}" />\n', "js": '<script defer src="{}"></script>\n'}
# The theme looks at each box, then writes to it, so that the page is laid out again for each; static/page.js does both.
STOPS_AT_BOXES = '"complete"===document.readyState?I():window.addEventListener("load",I)'
CALMED = "/* static/page.js */0"
ICON_RULE = re.compile(r'((?:\.fa-[\w-]+:(?::)?before,?)+)\{content:"\\([0-9a-f]+)"\}')
UNUSED = (
    "**/*.map",
    "*webpack-macros.html",
    "scripts/bootstrap.js*",
    "scripts/fontawesome.js*",
    "searchtools.js",
    "language_data.js",
)
FACE = re.compile(r"src:url\(([^)]*)\.woff2\) format\(\"woff2\"\),url\([^)]*\.ttf\) format\(\"truetype\"\)")


def policy(text: str) -> str:
    """The page with its policy: after the encoding, which must stand within the first 1,024 bytes."""
    hashes = {base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in INLINE.findall(text) if s.strip()}
    content = POLICY.format(hashes="".join(f" 'sha256-{h}'" for h in sorted(hashes)))
    meta = f'<meta http-equiv="Content-Security-Policy" content="{content}">\n'
    place = CHARSET.search(text)
    return f"{text[: place.end()]}\n{meta}{text[place.end() :]}" if place else meta + text


def lighter(text: str) -> str:
    """The page without what it does not need, each formula with its full stop; nothing keeps it from being drawn."""
    head, end, body = text.partition("</head>")
    for tag, need in FILES.items():
        if not need.search(body):
            head, body = tag.sub("", head), tag.sub("", body)
    head = SETTINGS.sub("", PRELOAD.sub("", head))
    head = UNDECIDED.sub(r'\1"light"', head)
    head = AT_ONCE.sub("<script defer ", THEME.sub(EARLY, head))
    return head + end + CODE.sub(plainer, TOUCHED.sub(kept_together, HANDLER.sub("", body)))


def own_files(config: Any) -> dict[str, list[str]]:
    """The names of the files that come together, without their endings, of each kind."""
    return {
        kind: [name.removesuffix(f".{kind}") for name, _ in files if name not in ALONE]
        for kind, files in (("css", config.html_css_files), ("js", config.html_js_files))
    }


def together(text: str, static: Path, names: dict[str, list[str]]) -> str:
    """The page with its own style sheets as one, in the place of the last, and its own deferred scripts as another."""
    for kind, tag in OWN.items():
        own = re.compile(tag.format(names="|".join(names[kind])))
        if not (found := list(own.finditer(text))):
            continue
        content = "\n".join((static / f"{match[2]}.{kind}").read_text(encoding="utf-8") for match in found)
        name = f"book-{hashlib.sha256(content.encode()).hexdigest()[:8]}.{kind}"
        (static / name).write_text(content, encoding="utf-8")
        before, after = text[: found[-1].start()], text[found[-1].end() :]
        text = own.sub("", before) + TOGETHER[kind].format(found[-1][1] + name) + after
    return text


def plainer(match: re.Match[str]) -> str:
    """A block of code without the spans that have no color of their own, and with its size in lines and columns."""
    source = PLAIN.sub(lambda m: m[0] if m[0].startswith("<a") else m[1] or "", f"<pre>{match[2]}")[5:]
    source = GAP.sub(r'<span class="gap">\g<0></span>', source)  # on a phone, a comment follows its code closely
    if '<span class="line"' in source:  # of an annotated block, whose lines go on where they are too long
        return f"{match[1]}<pre>{source}</pre>"
    lines = html.unescape(TAG.sub("", source)).rstrip("\n").split("\n")
    size = f"--lines: {len(lines)}; --columns: {max(map(len, lines))}"
    return f'{match[1]}<pre><span class="lines" style="{size}">{source}</span></pre>'


def kept_together(match: re.Match[str]) -> str:
    return f'<span class="kept">{match[0]}</span>' if match[1] or match[3] else match[0]


def keep_shown_icons(site: Path, pages: str) -> None:
    """Leave the rules and glyphs of those icons that a page or a script names, or that the theme's style draws."""
    style = site / "_static" / "styles" / "pydata-sphinx-theme.css"
    scripts = (path.read_text(encoding="utf-8") for path in site.glob("_static/**/*.js") if path.stem != "fontawesome")
    named = set(re.findall(r"fa-[a-z][\w-]*", pages + "".join(scripts)))
    points: set[int] = set()

    def rule(match: re.Match[str]) -> str:
        if not named & set(re.findall(r"fa-[\w-]+", match[1])):
            return ""
        points.add(int(match[2], 16))
        return match[0]

    css = ICON_RULE.sub(rule, style.read_text(encoding="utf-8"))
    styles = css + "".join(path.read_text(encoding="utf-8") for path in site.glob("_static/**/sphinx-book-theme.css"))
    points |= {ord(c) for c in styles if 0xE000 <= ord(c) <= 0xF8FF}
    points |= {int(code, 16) for code in re.findall(r'"\\([ef][0-9a-f]{3})"', styles)}
    style.write_text(FACE.sub(r'src:url(\1.woff) format("woff")', css), encoding="utf-8")
    for path in site.glob("_static/vendor/fontawesome/webfonts/*.ttf"):
        font = TTFont(path, recalcTimestamp=False)
        subsetter = subset.Subsetter(subset.Options(layout_features=[], hinting=False))
        subsetter.populate(unicodes=points)
        subsetter.subset(font)
        font.flavor = "woff"
        font.save(path.with_suffix(".woff"))
        path.unlink()
        path.with_suffix(".woff2").unlink()


def calm_theme(site: Path) -> None:
    script = site / "_static" / "scripts" / "pydata-sphinx-theme.js"
    text = script.read_text(encoding="utf-8")
    if STOPS_AT_BOXES not in text and CALMED not in text:
        raise ValueError(f"{script.name} is another version's; expected {STOPS_AT_BOXES!r} in it")
    script.write_text(text.replace(STOPS_AT_BOXES, CALMED), encoding="utf-8")


def finish(app: Any, error: Exception | None) -> None:
    if error is not None or app.builder.name != "html":
        return
    site = Path(app.outdir)
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html") if "_static" not in path.parts}
    if (site / "_static" / "vendor" / "fontawesome" / "webfonts" / "fa-solid-900.ttf").exists():
        keep_shown_icons(site, "".join(pages.values()))
    names = own_files(app.config)
    for path, text in pages.items():
        if 'http-equiv="Content-Security-Policy"' not in text:
            path.write_text(policy(together(lighter(text), site / "_static", names)), encoding="utf-8")
    calm_theme(site)
    for unused in (*UNUSED, *(f"{name}.{kind}" for kind, found in names.items() for name in found)):
        for path in (site / "_static").glob(unused):
            path.unlink()
