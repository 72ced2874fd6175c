"""Stored pictures of 64 colors: a quarter of the bytes, and the same bytes each time."""

from __future__ import annotations

import base64
import io

from PIL import Image

COLORS = 64
# For the kernel, before the first cell: a picture's metadata also says how large its smallest text is, in CSS pixels,
# so that a test can tell what is left of it on a phone.
MEASURE = """
from IPython.core import pylabtools
from matplotlib.text import Text

def measured(figure, *, draw=pylabtools.retina_figure, **options):
    data, metadata = draw(figure, **options)
    sizes = [t.get_fontsize() for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
    metadata["smallest_text"] = round(min(sizes) * figure.dpi / 72, 1) if sizes else None
    return data, metadata

pylabtools.retina_figure = measured
"""


def small(png: str) -> str:
    """A PNG, in base64, with a palette; one that has a palette is left as it is, so that twice is the same as once."""
    picture = Image.open(io.BytesIO(base64.b64decode(png)))
    if picture.mode == "P":
        return png
    if picture.getchannel("A").getextrema()[0] < 255 if "A" in picture.getbands() else False:
        reduced = picture.quantize(COLORS, Image.Quantize.FASTOCTREE)  # the only method that keeps transparency
    else:
        reduced = picture.convert("RGB").quantize(COLORS, Image.Quantize.MAXCOVERAGE)
    made = io.BytesIO()
    reduced.save(made, "png", optimize=True)
    return base64.b64encode(made.getvalue()).decode()
