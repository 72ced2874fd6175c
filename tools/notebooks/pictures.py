"""Stored pictures: a PNG with a palette in the notebook, and beside the notebook an SVG where that is smaller.

What is notable:
- a palette makes a quarter of the bytes, and the same bytes each time;
- notebooks keep PNG, since GitHub shows their SVG with text missing and strict nbval compares it as text; the site
  takes the SVG (tools.site.images), which is sharp at any size;
- a picture's metadata names the SVG that was drawn with it, so that a test can tell when one was left behind;
- an SVG's coordinates have two decimals: further ones depend on the machine.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import re
from pathlib import Path

from nbformat import NotebookNode
from PIL import Image

from efficient_transformers.book.explorer import few_colors
from tools.notebooks import folding

PLACES = re.compile(r' (?:d|height|points|transform|viewBox|width|x|y)="[^"]*"')
COORDINATE = re.compile(r"scale\([^)]*\)|-?\d+\.\d{3,}")
VECTORS = Path(__file__).parents[2] / "notebooks" / "pictures"

# For the kernel, before the first cell: a picture's metadata also says how large its smallest text is, in CSS pixels,
# so that a test can tell what is left of it on a phone; and it carries the SVG, which `take_vectors` takes out again.
MEASURE = """
from IPython.core import pylabtools
from matplotlib import rc_context
from matplotlib.text import Text

def measured(figure, *, draw=pylabtools.retina_figure, **options):
    data, metadata = draw(figure, **options)
    sizes = [
        t.get_fontsize() * (0.7 if "$" in t.get_text() and set("_^") & set(t.get_text()) else 1)  # an index is smaller
        for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()
    ]
    metadata["smallest_text"] = round(min(sizes) * figure.dpi / 72, 1) if sizes else None
    with rc_context({"svg.hashsalt": "the same names each time"}):
        metadata["svg"] = pylabtools.print_figure(figure, fmt="svg", metadata={"Date": None})
    return data, metadata

pylabtools.retina_figure = measured
"""


def small(png: str) -> str:
    """A PNG, in base64, with a palette; one that has a palette is left as it is, so that twice is the same as once."""
    drawn = base64.b64decode(png)
    return png if Image.open(io.BytesIO(drawn)).mode == "P" else base64.b64encode(few_colors(drawn)).decode()


def rounded(svg: str) -> str:
    """An SVG whose coordinates have two decimals; factors of a scale keep theirs."""

    def shorter(number: re.Match[str]) -> str:
        return number[0] if number[0].startswith("scale") else f"{round(float(number[0]), 2) + 0.0:g}"

    return PLACES.sub(lambda attribute: COORDINATE.sub(shorter, attribute[0]), svg)


def fingerprint(svg: str) -> str:
    return hashlib.sha256(svg.encode()).hexdigest()[:16]


def take_vectors(notebook: NotebookNode) -> dict[str, str]:
    """The SVGs that the kernel sent, by the anchor of their figure, where they are smaller than the PNG; out of it."""
    found = {}
    for cell, caption in folding.captioned(notebook):
        for output in (each for given in cell.get("outputs", []) for each in folding.opened(given)):
            about = output.get("metadata", {}).get("image/png", {})
            svg = rounded(about.pop("svg", ""))
            if svg and caption and len(gzip.compress(svg.encode())) < len(base64.b64decode(output.data["image/png"])):
                found[folding.anchor(caption)] = svg
                about["vector"] = fingerprint(svg)
    return found


def anchors(notebook: NotebookNode) -> dict[str, str]:
    """Of the figures that have an SVG: its fingerprint, and the anchor under which it is stored."""
    return {
        output.metadata["image/png"]["vector"]: folding.anchor(caption)
        for cell, caption in folding.captioned(notebook)
        for output in cell.get("outputs", [])
        if caption and "vector" in output.get("metadata", {}).get("image/png", {})
    }


def keep_vectors(notebook: NotebookNode, stored: NotebookNode, number: str) -> None:
    """Store the SVGs under the anchors that their figures have now; those of figures that went are removed."""
    before, now = anchors(stored), anchors(notebook)
    kept = {now[sign]: (VECTORS / f"{before[sign]}.svg").read_text(encoding="utf-8") for sign in now}
    write_vectors(kept, number)


def write_vectors(vectors: dict[str, str], number: str) -> None:
    """Store the SVGs of the chapter or study with this number, and nothing else of it."""
    for path in VECTORS.glob(f"fig-{number.lower()}-*.svg"):
        path.unlink()
    for anchor, svg in vectors.items():
        (VECTORS / f"{anchor}.svg").write_text(svg, encoding="utf-8")
