"""On the site: what other pages, search engines and messengers see of it, and what a wrong address leads to.

What sphinxext-opengraph and sphinx-sitemap make needs the site's address, which follows from the repository's, in
``_config.yml``. ``404.html`` and the root ``index.html``, of book/templates, lead to the book.
"""

from __future__ import annotations

from typing import Any

from tools.make import repository

BUTTONS = ("use_repository_button", "use_edit_page_button", "use_issues_button", "launch_buttons", "repository_url")


def find_address(app: Any, config: Any) -> None:
    """The site's address follows from the repository's; without one, no button leads there."""
    address = repository.known()
    config.html_baseurl = config.ogp_site_url = repository.site(address) if address else ""
    config.ogp_site_name = config.html_title
    if address:
        config.html_additional_pages["404"] = "404.html"
    else:
        config.html_theme_options = {k: v for k, v in config.html_theme_options.items() if k not in BUTTONS}
