r"""On the site: math as MathML, made when the book is built. No script sets it, and nothing moves when it is set.

What is notable:
- numbers stand in a column of their own, as links to the equation that they name;
- a browser breaks lines on both sides of a formula, before its full stop too: what touches one stays with it;
- it does not break a formula itself: what a ``\\qquad`` parts may stand below each other where a page is narrow;
- the font has the glyphs that tests/site/test_site.py lists.
"""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.util import logging

TAG = re.compile(r"\s*\\tag\{([^}]*)\}")
TOKEN = re.compile(
    r"\\(?:begin|end)\{\w+\*?\}|\\(?:left|right)(?![a-z])|\\q?quad(?![a-z])|\\.|[{}]|[^\\{}]+", re.DOTALL
)
TOUCHED = re.compile(r"([(\[“‘]?)(<math>(?:(?!</math>).)*</math>)([^\s<>]*)", re.DOTALL)
LONG = 40  # characters: browsers do not break a formula within a line, so a longer one scrolls on a phone
convert = LatexToMathML().convert_with_local_state
log = logging.getLogger(__name__)


def mathml(latex: str, display: bool, node: nodes.Element) -> str:
    try:
        # Chromium lets the root of a low letter hang below the line
        return convert(latex, displaystyle=display).replace("<msqrt>", '<msqrt><mspace height="0.68em"/>')
    except LatexError as error:
        log.warning("math that math-core does not understand: %s (%s)", latex, error, location=node)
        return f'<code class="not-converted">{html.escape(latex)}</code>'


def parts(latex: str) -> list[str]:
    r"""The formula cut at each ``\quad`` and ``\qquad`` that stands in no braces."""
    found, depth = [""], 0
    for token in TOKEN.findall(latex):
        depth += (token == "{" or token.startswith((r"\begin", r"\left"))) - (
            token == "}" or token.startswith((r"\end", r"\right"))
        )
        if depth or not re.fullmatch(r"\\q?quad", token):
            found[-1] += token
        else:
            found.append("")
    return [part.strip() for part in found if part.strip()]


def inline(self: Any, node: nodes.math) -> None:
    made = mathml(node.astext(), False, node)
    is_long = len(re.sub("<[^>]*>", "", made)) > LONG
    self.body.append(f'<span class="math">{made}</span>' if is_long else made)
    raise nodes.SkipNode


def display(self: Any, node: nodes.math_block) -> None:
    latex = node.astext().strip()
    tag = TAG.search(latex)
    made = "".join(mathml(part, True, node) for part in parts(TAG.sub("", latex)))
    self.body.append(self.starttag(node, "div", CLASS="math notranslate nohighlight"))
    self.body.append(f'<div class="formula">{made}</div>')
    if tag:
        self.body.append(f'<a class="eqno" href="#{node.get("number_of") or node["ids"][0]}">({tag[1]})</a>')
    self.body.append("</div>\n")
    raise nodes.SkipNode


def keep_together(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        kept = r'<span class="kept">\g<0></span>'
        context["body"] = TOUCHED.sub(lambda m: m.expand(kept) if m[1] or m[3] else m[0], context["body"])
