"""On the site: the styles and scripts that some pages load; ``_config.yml`` has those of every page."""

from __future__ import annotations

from typing import Any

from tools.site import landing, models, nulls, one_token, source

LOADS: dict[str, tuple[str, ...]] = {  # by page, in their order
    landing.PAGE: ("models.css", "intervals.css", "landing.css", "landing.js"),
    nulls.PAGE: ("intervals.css", "nulls.css"),
    "book/what-would-it-cost": ("models.css", "cost.css", "cost.js", "cost-page.js"),
    one_token.PAGE: ("models.css", "token.css", "models.js", "model-parts.js", "token-steps.js", "token-page.js"),
    **dict.fromkeys(models.PAGES, ("models.css", *models.SCRIPTS)),
    **{f"{source.FOLDER}/{name}": ("source.css",) for name in source.modules()},
}


def add(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    for name in LOADS.get(pagename, ()):
        if name.endswith(".css"):
            app.add_css_file(name, priority=900)  # after those of every page
        else:
            app.add_js_file(name, loading_method="defer")
