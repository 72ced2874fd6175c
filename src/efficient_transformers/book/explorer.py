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
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import ipywidgets
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

from ..checks import require

SCRIPT = """<script>(root => {
  const sliders = [...root.querySelectorAll("input")], frames = [...root.querySelectorAll("img")];
  const show = () => {
    let frame = 0;
    for (const s of sliders) {
      const value = s.dataset.values.split("|")[s.value];
      frame = frame * (+s.max + 1) + +s.value;
      s.nextElementSibling.value = value;
      s.setAttribute("aria-valuetext", value);
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
        dpi: resolution of the frames, in dots per inch; they are shown at 100 to the inch, as the other figures are,
            so that 200 is sharp where a screen has two dots per pixel.
        start: the value of each slider at first, by name; others start at their first one.
        **values: the values of each slider, by name; underscores become spaces.

    Raises:
        ValueError: if there is no slider, a slider has no values, a value has a ``|`` in it, or a slider is to start
            at a value that it does not have.
    """

    def __init__(
        self,
        draw: Callable[..., Figure],
        alt: str,
        *,
        dpi: int = 200,
        start: Mapping[str, Any] | None = None,
        **values: Iterable[Any],
    ) -> None:
        self.alt = alt
        self.dpi = dpi
        self.values = {name: list(v) for name, v in values.items()}
        require(bool(values) and all(self.values.values()), "values", self.values, "at least one value per slider")
        for name, choices in self.values.items():
            for choice in choices:
                require("|" not in str(choice), name, choice, "a value without '|', which parts them on a page")
        self.first = dict.fromkeys(self.values, 0)
        for name, value in (start or {}).items():
            require(value in self.values.get(name, []), f"start of {name!r}", value, "a value of that slider")
            self.first[name] = self.values[name].index(value)
        self.frames = [
            png(draw(**dict(zip(self.values, combination, strict=True))), dpi)
            for combination in itertools.product(*self.values.values())
        ]
        self.sliders = [
            ipywidgets.SelectionSlider(
                options=[(str(v), i) for i, v in enumerate(choices)], index=self.first[name], description=label(name)
            )
            for name, choices in self.values.items()
        ]
        self.picture = ipywidgets.HTML(self.image(self.number(self.first.values())))
        for slider in self.sliders:
            slider.observe(self.show, "value")
        super().__init__([ipywidgets.HBox(self.sliders), self.picture])

    def number(self, places: Iterable[int]) -> int:
        """The number of the frame for the place of each slider."""
        frame = 0
        for place, choices in zip(places, self.values.values(), strict=True):
            frame = frame * len(choices) + place
        return frame

    def image(self, frame: int, hidden: bool = False) -> str:
        """One frame as an ``<img>``, whose words for those who cannot see it end with the values of its sliders."""
        source = base64.b64encode(self.frames[frame]).decode()
        size = Image.open(io.BytesIO(self.frames[frame])).size
        width, height = (round(pixels * 100 / self.dpi) for pixels in size)
        combination = list(itertools.product(*self.values.values()))[frame]
        now = ", ".join(f"{label(name)} {value}" for name, value in zip(self.values, combination, strict=True))
        return (
            f'<img src="data:image/png;base64,{source}" alt="{html.escape(f"{self.alt} Here: {now}.")}" '
            f'width="{width}" height="{height}" style="max-width: 100%; height: auto"{" hidden" if hidden else ""}>'
        )

    def show(self, _: Any = None) -> None:
        """Show the frame of the sliders' values."""
        self.picture.value = self.image(self.number(slider.value for slider in self.sliders))

    def static_html(self) -> str:
        """The same figure without a kernel. Its id depends on nothing that differs between machines."""
        key = "explorer-" + hashlib.sha256(repr((self.alt, self.values)).encode()).hexdigest()[:10]
        controls = "".join(
            f'<label>{html.escape(label(name))} <input type="range" min="0" max="{len(choices) - 1}" '
            f'value="{self.first[name]}" data-values="{html.escape("|".join(map(str, choices)))}" '
            f'aria-valuetext="{html.escape(str(choices[self.first[name]]))}" style="height: 24px"> '
            f"<output>{html.escape(str(choices[self.first[name]]))}</output></label> "
            for name, choices in self.values.items()
        )
        shown = self.number(self.first.values())
        images = "".join(self.image(i, hidden=i != shown) for i in range(len(self.frames)))
        return f'<div id="{key}" class="explorer"><div>{controls}</div>{images}</div>{SCRIPT.replace("ID", key)}'

    _ipython_display_ = None  # by which ipywidgets 7 would show the widget, and store nothing else

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {
            "application/vnd.jupyter.widget-view+json": {
                "version_major": 2,
                "version_minor": 0,
                "model_id": self.model_id,
            },
            "text/html": self.static_html(),
            "image/png": base64.b64encode(self.frames[self.number(self.first.values())]).decode(),
            "text/plain": f"Explorer({', '.join(self.values)})",
        }


def label(name: str) -> str:
    """The text beside a slider."""
    return name.replace("_", " ")


def png(figure: Figure, dpi: int) -> bytes:
    """The figure as a PNG of few colors, a third of the usual size; the same bytes for the same picture.

    It is white where the figure is transparent, since a widget may stand on a dark page. All of it is kept, empty
    margins too, so that frames have one size.
    """
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi, facecolor="white")
    plt.close(figure)
    return few_colors(drawn.getvalue())


def few_colors(drawn: bytes) -> bytes:
    """A PNG with a palette: 64 colors, or 128 where some are more transparent than others."""
    picture = Image.open(io.BytesIO(drawn))
    if "A" in picture.getbands() and min(picture.getchannel("A").tobytes()) < 255:
        reduced = picture.quantize(128, Image.Quantize.FASTOCTREE)  # the only method that knows transparency
    else:
        # the only method that leaves a color alone that few pixels have, and the smallest file
        reduced = picture.convert("RGB").quantize(64, Image.Quantize.MAXCOVERAGE)
    small = io.BytesIO()
    reduced.save(small, "png", optimize=True)
    return small.getvalue()
