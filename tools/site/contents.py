"""On the site: the contents of a page stand below its entry in the sidebar, and the page's right side is free.

Of the parts, the chapters are open, and the one that the page is in; the others are folded.

The theme has them in a bar of their own at the right, where the margin is; and on paper before the text, where nobody
can press them. A section of a chapter or study ends with a way up.
"""

from __future__ import annotations

from typing import Any

from bs4 import BeautifulSoup, Tag
from docutils import nodes


def move_contents(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    pages, contents = context["generate_toctree_html"], context["generate_toc_html"]()

    def with_contents(**options: Any) -> Tag:
        tree = pages(**options)
        here = tree.select_one("a.current")
        if here and contents:
            nav = BeautifulSoup().new_tag("nav", attrs={"class": "page-toc", "id": "pst-page-toc-nav"})
            nav["aria-label"] = "On this page"
            nav.append(contents.extract())
            here.insert_after(nav)
        for caption in tree.select("p.caption"):
            pages_of = caption.find_next_sibling("ul")
            if caption.get_text() != "Chapters" and pages_of:
                part = BeautifulSoup().new_tag("details", attrs={"open": ""} if pages_of.select_one(".current") else {})
                caption.wrap(part).append(pages_of.extract())
                caption.wrap(BeautifulSoup().new_tag("summary"))
        return tree

    context["generate_toctree_html"] = with_contents
    context["generate_toc_html"] = lambda **_: ""  # for the theme's own places
    context["secondary_sidebar_items"] = []


def lead_up(app: Any, doctree: nodes.document, docname: str) -> None:
    if docname.startswith("notebooks/"):
        page = doctree.next_node(nodes.section)
        for section in [part for part in page.children if isinstance(part, nodes.section)]:
            up = f'<p class="up"><a href="#{page["ids"][0]}">↑ To the top</a></p>'
            section += nodes.raw("", up, format="html")
