"""On the site: pictures with their size, so that nothing moves when they arrive, and loaded when they are near.

A picture that came within the page, the frame of an explorer or the still of an instrument, becomes a file of its own,
which is loaded when it is shown. A numbered figure whose SVG is stored beside the notebooks is shown as that:
pictures.py says when.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import struct
from functools import partial
from pathlib import Path
from typing import Any

from docutils import nodes

from tools.notebooks.pictures import VECTORS

IMAGE = re.compile(r'<img (?![^>]*\bwidth=")([^>]*)>')
STYLE = re.compile(r' style="width: (\d+)px; height: (\d+)px;"')  # MyST-NB's: it would squash pictures on a phone
SOURCE = re.compile(r'src="(?:data:image/png;base64,([^"]{32})|([^":]*_images/[^"]*\.png))')
WITHIN = re.compile(r"data:image/png;base64,([\w+/]{200,}={0,2})")
EAGER = re.compile(r"<img (?![^>]*\bloading=)(?=[^>]*_images/)")


def sized(page: Path, match: re.Match[str]) -> str:
    """An image with its size as attributes, from its style or from the first bytes of the PNG."""
    attributes = match[1]
    if style := STYLE.search(attributes):
        width, height = map(int, style.groups())
    elif source := SOURCE.search(attributes):
        head = base64.b64decode(source[1]) if source[1] else (page.parent / source[2]).resolve().read_bytes()[:24]
        width, height = struct.unpack(">II", head[16:24])
    else:
        return match[0]
    return f'<img width="{width}" height="{height}" loading="lazy" {STYLE.sub("", attributes)}>'


def apart(page: Path, text: str, images: Path) -> str:
    """The page with the pictures that came within it as files, which are loaded when they are near."""

    def file(match: re.Match[str]) -> str:
        images.mkdir(exist_ok=True)
        drawn = base64.b64decode(match[1])
        path = images / f"{hashlib.sha256(drawn).hexdigest()[:20]}.png"
        path.write_bytes(drawn)
        return os.path.relpath(path, page.parent)

    return EAGER.sub('<img loading="lazy" ', WITHIN.sub(file, text))


def take_vectors(app: Any, doctree: nodes.document) -> None:
    """Show the SVGs that are stored in the place of the PNGs that came with the notebook."""
    for figure in doctree.findall(nodes.figure):
        image = figure.next_node(nodes.image)
        vector = VECTORS / f"{figure['ids'][0]}.svg" if figure["ids"] else VECTORS
        if image is not None and vector.is_file():
            image["uri"] = f"/{vector.relative_to(app.srcdir)}"


def size_images(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        page = Path(app.builder.get_outfilename(pagename))
        context["body"] = apart(page, IMAGE.sub(partial(sized, page), context["body"]), Path(app.outdir, "_images"))
