"""A figure with sliders in plain HTML: the same with a kernel and without one.

What is notable:
- all frames are drawn beforehand, so a slider answers at once, and a stored notebook loses nothing when it is opened;
- the other frames and the sliders come with a few lines of script: where none runs, one figure stands there, and
  nothing that does not move.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

from ..support.checks import require

__all__ = ["Explorer"]

# JupyterLab may show a cell twice, each time with the same id, and takes the arrows for itself wherever nobody can
# write. The frame that the page has is not there again.
SCRIPT = """<script>(({ names, values, first, alt, frames }) => {
  for (const root of document.querySelectorAll("#ID:not(:has(input))")) {
    const image = root.querySelector("img"), places = [...first], controls = document.createElement("div");
    const shown = () => places.reduce((frame, place, i) => frame * values[i].length + place, 0);
    const own = shown(), source = image.src;
    names.forEach((name, i) => {
      const label = document.createElement("label"), input = document.createElement("input");
      const output = document.createElement("output");
      const say = () => {
        output.value = values[i][places[i]];
        input.setAttribute("aria-valuetext", output.value);
      };
      Object.assign(input, { type: "range", min: 0, max: values[i].length - 1, value: places[i] });
      input.style.height = "24px";
      label.style.marginRight = "1.5em";
      input.addEventListener("keydown", event => /^(Arrow|Home|End|Page)/.test(event.key) && event.stopPropagation());
      input.addEventListener("input", () => {
        places[i] = +input.value;
        say();
        const frame = shown();
        image.src = frame === own ? source : frames[frame];
        image.alt = `${alt} Here: ${names.map((n, j) => `${n} ${values[j][places[j]]}`).join(", ")}.`;
      });
      label.append(`${name} `, input, " ", output);
      controls.append(label, " ");
      say();
    });
    root.prepend(controls);
  }
})(DATA)</script>"""


class Explorer:
    """One frame for each combination of values, chosen by sliders.

    Args:
        draw: called with one value per name; returns the figure of that frame.
        alt: what the figure shows, for those who cannot see it.
        dpi: resolution of the frames, in dots per inch; they are shown at 100 to the inch, as the other figures are,
            so that 200 is sharp where a screen has two dots per pixel.
        start: the value of each slider at first, by name; others start at their first one.
        **values: the values of each slider, by name; underscores become spaces.

    Raises:
        ValueError: if there is no slider, a slider has no values, or a slider is to start at a value that it does not
            have.
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
        self.first = dict.fromkeys(self.values, 0)
        for name, value in (start or {}).items():
            require(value in self.values.get(name, []), f"start of {name!r}", value, "a value of that slider")
            self.first[name] = self.values[name].index(value)
        self.combinations = list(itertools.product(*self.values.values()))
        self.shown = self.combinations.index(tuple(self.values[name][i] for name, i in self.first.items()))
        self.frames = [png(draw(**dict(zip(self.values, chosen, strict=True))), dpi) for chosen in self.combinations]

    def __repr__(self) -> str:
        return f"Explorer({', '.join(self.values)})"

    def words(self) -> str:
        """For those who cannot see the first frame; they end with the values of its sliders, as the script's do."""
        chosen = zip(self.values, self.combinations[self.shown], strict=True)
        return f"{self.alt} Here: {', '.join(f'{label(name)} {value}' for name, value in chosen)}."

    def image(self) -> str:
        """The first frame as an ``<img>``."""
        size = Image.open(io.BytesIO(self.frames[self.shown])).size
        width, height = (round(pixels * 100 / self.dpi) for pixels in size)
        return (
            f'<img src="data:image/png;base64,{encoded(self.frames[self.shown])}" alt="{html.escape(self.words())}" '
            f'width="{width}" height="{height}" style="max-width: 100%; height: auto">'
        )

    def _repr_html_(self) -> str:
        """The figure. Its id depends on nothing that differs between machines."""
        key = "explorer-" + hashlib.sha256(repr((self.alt, self.values)).encode()).hexdigest()[:10]
        data = {
            "names": [label(name) for name in self.values],
            "values": [[str(value) for value in choices] for choices in self.values.values()],
            "first": list(self.first.values()),
            "alt": self.alt,
            "frames": [
                "" if i == self.shown else f"data:image/png;base64,{encoded(frame)}"
                for i, frame in enumerate(self.frames)
            ],
        }
        written = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")  # no value ends the script
        script = SCRIPT.replace("ID", key, 1).replace("DATA", written, 1)
        return f'<div id="{key}" class="explorer">{self.image()}</div>{script}'

    def _repr_png_(self) -> tuple[str, dict[str, str]]:
        """The first frame, for where HTML is not shown."""
        return encoded(self.frames[self.shown]), {"alt": self.words()}


def encoded(frame: bytes) -> str:
    """A picture as text."""
    return base64.b64encode(frame).decode()


def label(name: str) -> str:
    """The text beside a slider."""
    return name.replace("_", " ")


def png(figure: Figure, dpi: int) -> bytes:
    """The figure as a PNG of few colors, a third of the usual size; the same bytes for the same picture.

    It is white where the figure is transparent, since an explorer may stand on a dark page. All of it is kept, empty
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
