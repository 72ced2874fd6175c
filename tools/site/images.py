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
import shutil
import struct
from functools import partial
from pathlib import Path
from typing import Any

from tools.notebooks.pictures import VECTORS

IMAGE = re.compile(r'<img (?![^>]*\bwidth=")([^>]*)>')
STYLE = re.compile(r' style="width: (\d+)px; height: (\d+)px;"')  # MyST-NB's: it would squash pictures on a phone
SOURCE = re.compile(r'src="(?:data:image/png;base64,([^"]{32})|([^":]*_images/[^"]*\.png))')
PNG = re.compile(r"_images/([^\"]*\.png)")
WITHIN = re.compile(r"data:image/png;base64,([\w+/]{200,}={0,2})")
EAGER = re.compile(r"<img (?![^>]*\bloading=)(?=[^>]*_images/)")
FIGURE = re.compile(
    r'<figure[^>]*\bid="(fig-[s\d-]+)"[^>]*>(?:(?!</figure>).)*?<img [^>]*\bsrc="([^"]*\.png)"', re.DOTALL
)


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


def with_vectors(page: Path, text: str, replaced: set[Path]) -> str:
    """The page with the SVGs that are stored; the PNGs that it no longer shows are noted."""

    def vector(match: re.Match[str]) -> str:
        drawn, stored = (page.parent / match[2]).resolve(), VECTORS / f"{match[1]}.svg"
        if not stored.exists():
            return match[0]
        shutil.copyfile(stored, drawn.with_name(stored.name))
        replaced.add(drawn)
        return match[0].replace(drawn.name, stored.name)

    return FIGURE.sub(vector, text)


def size_images(app: Any, error: Exception | None) -> None:
    if error or app.builder.name != "html":
        return
    replaced: set[Path] = set()
    shown: set[str] = set()
    for page in Path(app.outdir).glob("[bn]*/**/*.html"):  # book/ and notebooks/
        text = page.read_text(encoding="utf-8")
        made = IMAGE.sub(partial(sized, page), text)
        made = with_vectors(page, apart(page, made, Path(app.outdir) / "_images"), replaced)
        shown |= set(PNG.findall(made))
        if made != text:
            page.write_text(made, encoding="utf-8")
    for png in replaced:  # a PNG is named by its bytes: two figures may share one
        if png.name not in shown:
            png.unlink(missing_ok=True)
