"""On the site: when the notebooks last ran in Colab, beside the links that open them there.

``.github/workflows/colab.yml`` writes the record, ``book/colab.json``, after a week's run of every notebook without an
error; while there is none, nothing is said.
"""

from __future__ import annotations

import json
from datetime import date
from html import escape
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parents[2] / "book" / "colab.json"
LINK = "Open in Colab</a>"


def told() -> str:
    """The last run, as a phrase; empty without a record."""
    if not RECORD.exists():
        return ""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    day = date.fromisoformat(record["date"])
    return f"last run in Colab: {day.day} {day:%B %Y}, torch {escape(record['torch'])}"


def tell(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Beside the link of a chapter or a study."""
    if pagename.startswith("notebooks/") and (said := told()):
        context["body"] = context["body"].replace(LINK, f"{LINK} <small>({said})</small>", 1)
