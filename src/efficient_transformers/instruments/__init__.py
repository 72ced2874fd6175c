"""Things to touch: instruments in plain JavaScript, which compute what the package computes.

What is notable:
- the same script serves the site and a notebook's output; without JavaScript a sentence remains;
- tests compare what an instrument shows with the leak maps of the package's layers.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Literal, get_args

from ..checks import require_known

Mechanism = Literal["attention", "convolution", "hourglass", "gmlp"]
FOLDER = Path(__file__).parent
STILL = (
    "Leak Lab, which needs JavaScript: an hourglass of factor 4 whose sequence is shifted by 2 instead of 3 tokens"
    " lets 6 of 24 outputs see their future."
)


class LeakLab:
    """Which tokens each output depends on, for a mechanism and its mistakes, as an instrument on the page.

    Args:
        mechanism: the one to begin with.
        fixed: whether it is the only one.

    Raises:
        ValueError: for an unknown mechanism.
    """

    def __init__(self, mechanism: Mechanism = "hourglass", *, fixed: bool = False) -> None:
        require_known("mechanism", mechanism, get_args(Mechanism))
        self.mechanism, self.fixed = mechanism, fixed

    def __repr__(self) -> str:
        return STILL

    def _repr_html_(self) -> str:
        style, script = ((FOLDER / name).read_text(encoding="utf-8") for name in ("instruments.css", "leak-lab.js"))
        fixed = " data-fixed" if self.fixed else ""
        mount = f'<div class="leak-lab" data-mechanism="{self.mechanism}"{fixed}>{escape(STILL)}</div>'
        return f"<style>{style}</style>{mount}<script>{script}</script>"
