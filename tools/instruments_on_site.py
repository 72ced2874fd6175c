"""A Sphinx extension: what an instrument needs on a page that is not a notebook, such as the landing page.

There it stands in two files, ``_static/instruments.css`` and ``_static/NAME.js``; in a notebook it carries them itself.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from efficient_transformers import instruments

ON_PAGES = ("leak-lab",)


def write_files(app: Any, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    shutil.copy(instruments.FOLDER / "instruments.css", static)
    for name in ON_PAGES:
        (static / f"{name}.js").write_text(instruments.script(name), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
