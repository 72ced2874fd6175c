"""On the site: the contents of a page stand below its entry in the sidebar, and the page's right side is free.

The theme has them in a bar of their own at the right, where the margin is; and on paper before the text, where nobody
can press them.
"""

from __future__ import annotations

from typing import Any

from bs4 import BeautifulSoup, Tag


def move_contents(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if "generate_toctree_html" not in context:
        return
    pages, contents = context["generate_toctree_html"], context["generate_toc_html"]()

    def with_contents(**options: Any) -> Tag:
        tree = pages(**options)
        here = tree.select_one("a.current")
        if here and contents:
            nav = BeautifulSoup().new_tag("nav", attrs={"class": "page-toc", "id": "pst-page-toc-nav"})
            nav["aria-label"] = "On this page"
            nav.append(contents.extract())
            here.insert_after(nav)
        return tree

    context["generate_toctree_html"] = with_contents
    context["generate_toc_html"] = lambda **_: ""  # for the theme's own places
    context["secondary_sidebar_items"] = []
