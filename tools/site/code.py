"""On the site: code is half of a chapter's nodes, and is made lighter.

What is notable:
- names, punctuation and operators have the color of their block, and no spans;
- a block says how many lines and columns it has, so that a browser may leave it out until it is near (static/page.css).
"""

from __future__ import annotations

import html
import re
from typing import Any

PLAIN = re.compile(r'<span class="(?:n|nn|o|p|w)">([^<]*)</span>|(?<=<pre>)<span></span>(?!\n)')
GAP = re.compile(r'(?<=[^ \n]) {2,}(?=<span class="c1">)')
CODE = re.compile(r'(<div class="highlight">)(<pre>.*?)</pre>', re.DOTALL)
TAG = re.compile(r"<[^>]*>")


def inserted(source: str, more: dict[int, str]) -> str:
    """HTML with more before some characters of its text; elements that are open there end before it and go on after."""
    made, place, opened = "", 0, 0
    tags: list[str] = []
    for tag, character in re.findall(r"(<[^>]*>)|(&#?\w+;|[^<])", source):
        if tag.startswith("</"):
            made += tag if opened == len(tags) else ""
            tags.pop()
            opened = min(opened, len(tags))
        elif tag:
            tags.append(tag)
        else:
            if place in more:
                made += "".join(f"</{tag[1:-1].split()[0]}>" for tag in reversed(tags[:opened])) + more[place]
                opened = 0
            made += "".join(tags[opened:]) + character
            place, opened = place + 1, len(tags)
    return made + more[place]


def lighter(block: re.Match[str]) -> str:
    """A block of code without the spans that have no color of their own, and with its size in lines and columns."""
    source = PLAIN.sub(r"\1", block[2]).removeprefix("<pre>")
    source = GAP.sub(r'<span class="gap">\g<0></span>', source)  # on a phone, a comment follows its code closely
    if '<span class="line"' in source:  # of an annotated block, whose lines go on where they are too long
        return f"{block[1]}<pre>{source}</pre>"
    lines = html.unescape(TAG.sub("", source)).rstrip("\n").split("\n")
    size = f"--lines: {len(lines)}; --columns: {max(map(len, lines))}"
    return f'{block[1]}<pre><span class="lines" style="{size}">{source}</span></pre>'


def lighten(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        context["body"] = CODE.sub(lighter, context["body"])
