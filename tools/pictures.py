"""Stored pictures with a palette: a quarter of the bytes, and the same bytes each time."""

from __future__ import annotations

import base64
import io

from PIL import Image

from efficient_transformers.explorer import few_colors

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
    drawn = base64.b64decode(png)
    return png if Image.open(io.BytesIO(drawn)).mode == "P" else base64.b64encode(few_colors(drawn)).decode()
