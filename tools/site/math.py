r"""On the site: math as MathML, made when the book is built. No script sets it, and nothing moves when it is set.

Numbers stand in a column of their own, as links to the equation that they name. The font is made by math_font.py.
"""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.util import logging

TAG = re.compile(r"\s*\\tag\{([^}]*)\}")
LONG = 40  # characters: browsers do not break a formula within a line, so a longer one scrolls on a phone
convert = LatexToMathML().convert_with_local_state
log = logging.getLogger(__name__)


def mathml(latex: str, display: bool, node: nodes.Element) -> str:
    try:
        return convert(latex, displaystyle=display)
    except LatexError as error:
        log.warning("math that math-core does not understand: %s (%s)", latex, error, location=node)
        return f'<code class="not-converted">{html.escape(latex)}</code>'


def inline(self: Any, node: nodes.math) -> None:
    made = mathml(node.astext(), False, node)
    is_long = len(re.sub("<[^>]*>", "", made)) > LONG
    self.body.append(f'<span class="math">{made}</span>' if is_long else made)
    raise nodes.SkipNode


def display(self: Any, node: nodes.math_block) -> None:
    latex = node.astext().strip()
    tag = TAG.search(latex)
    self.body.append(self.starttag(node, "div", CLASS="math notranslate nohighlight"))
    self.body.append(f'<div class="formula">{mathml(TAG.sub("", latex).strip(), True, node)}</div>')
    if tag:
        self.body.append(f'<a class="eqno" href="#{node.get("number_of") or node["ids"][0]}">({tag[1]})</a>')
    self.body.append("</div>\n")
    raise nodes.SkipNode
