"""A figure with sliders that works with a kernel and without one.

What is notable:
- all frames are drawn beforehand, so a slider answers at once;
- in JupyterLab and Colab it is a widget; in a stored notebook and on the site, a few lines of HTML do the same.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import ipywidgets
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

from .checks import require

SCRIPT = """<script>(root => {
  const sliders = [...root.querySelectorAll("input")], frames = [...root.querySelectorAll("img")];
  const show = () => {
    let frame = 0;
    for (const s of sliders) {
      frame = frame * (+s.max + 1) + +s.value;
      const said = s.dataset.values.split("|")[s.value];
      s.nextElementSibling.value = said;
      s.setAttribute("aria-valuetext", said);
    }
    frames.forEach((img, i) => { img.hidden = i !== frame; });
  };
  sliders.forEach(s => s.addEventListener("input", show));
})(document.getElementById("ID"))</script>"""


class Explorer(ipywidgets.VBox):  # type: ignore[misc]
    """One frame for each combination of values, chosen by sliders.

    Args:
        draw: called with one value per name; returns the figure of that frame.
        alt: what the figure shows, for those who cannot see it.
        dpi: resolution of the frames, in dots per inch.
        **values: the values of each slider, by name; underscores become spaces.

    Raises:
        ValueError: if there is no slider, a slider has no values, or a value has a ``|`` in it.
    """

    def __init__(self, draw: Callable[..., Figure], alt: str, dpi: int = 80, **values: Iterable[Any]) -> None:
        self.alt = alt
        self.values = {name: list(v) for name, v in values.items()}
        require(bool(values) and all(self.values.values()), "values", self.values, "at least one value per slider")
        for name, choices in self.values.items():
            for choice in choices:
                require("|" not in str(choice), name, choice, "a value without '|', which parts them on a page")
        self.frames = [
            png(draw(**dict(zip(self.values, combination, strict=True))), dpi)
            for combination in itertools.product(*self.values.values())
        ]
        self.sliders = [
            ipywidgets.SelectionSlider(options=[(str(v), i) for i, v in enumerate(choices)], description=label(name))
            for name, choices in self.values.items()
        ]
        self.picture = ipywidgets.HTML(self.image(0))
        for slider in self.sliders:
            slider.observe(self.show, "value")
        super().__init__([ipywidgets.HBox(self.sliders), self.picture])

    def image(self, frame: int, hidden: bool = False) -> str:
        """One frame as an ``<img>``."""
        source = f"data:image/png;base64,{base64.b64encode(self.frames[frame]).decode()}"
        return f'<img src="{source}" alt="{html.escape(self.alt)}"{" hidden" if hidden else ""}>'

    def show(self, _: Any = None) -> None:
        """Show the frame of the sliders' values."""
        frame = 0
        for slider, choices in zip(self.sliders, self.values.values(), strict=True):
            frame = frame * len(choices) + slider.value
        self.picture.value = self.image(frame)

    def static_html(self) -> str:
        """The same figure without a kernel. Its id depends on nothing that differs between machines."""
        key = "explorer-" + hashlib.sha256(repr((self.alt, self.values)).encode()).hexdigest()[:10]
        controls = "".join(
            f'<label>{html.escape(label(name))} <input type="range" min="0" max="{len(choices) - 1}" value="0" '
            f'aria-valuetext="{html.escape(str(choices[0]))}" style="height: 24px" '
            f'data-values="{html.escape("|".join(map(str, choices)))}"> <output>{html.escape(str(choices[0]))}</output>'
            "</label> "
            for name, choices in self.values.items()
        )
        images = "".join(self.image(i, hidden=i > 0) for i in range(len(self.frames)))
        return f'<div id="{key}" class="explorer"><div>{controls}</div>{images}</div>{SCRIPT.replace("ID", key)}'

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle = super()._repr_mimebundle_(**kwargs)
        data = dict(bundle[0] if isinstance(bundle, tuple) else bundle or {})
        data["text/html"] = self.static_html()
        data["image/png"] = base64.b64encode(self.frames[0]).decode()
        data["text/plain"] = f"Explorer({', '.join(self.values)})"
        return data


def label(name: str) -> str:
    """The text beside a slider."""
    return name.replace("_", " ")


def png(figure: Figure, dpi: int) -> bytes:
    """The figure as a PNG of few colors, a third of the usual size; the same bytes for the same picture."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi, bbox_inches="tight")
    plt.close(figure)
    return few_colors(drawn.getvalue())


def few_colors(drawn: bytes) -> bytes:
    """A PNG with a palette: 64 colors, or 128 where some are more transparent than others."""
    picture = Image.open(io.BytesIO(drawn))
    if "A" in picture.getbands() and min(picture.getchannel("A").tobytes()) < 255:
        reduced = picture.quantize(128, Image.Quantize.FASTOCTREE)  # the only method that knows transparency
    else:
        reduced = picture.convert("RGB").quantize(64, Image.Quantize.MEDIANCUT, kmeans=3)
    small = io.BytesIO()
    reduced.save(small, "png", optimize=True)
    return small.getvalue()
