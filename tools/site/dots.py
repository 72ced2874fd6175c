"""On the page of the rules: a filled and a hollow dot, drawn from records by the function that draws them in studies.

``<!-- filled and hollow -->`` becomes the picture. Records that no longer have one of each stop the build.
"""

from __future__ import annotations

import html
import io
from functools import cache
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt
from matplotlib import rc_context

from efficient_transformers import figures
from efficient_transformers.studies.evidence import Comparison, compare
from efficient_transformers.studies.records import by_model, load_study

MARK = "<!-- filled and hollow -->"
NAME = "filled-and-hollow.svg"  # in _static
PAIRS = (("gMLP", "Primer"), ("Primer", "dense gMLP"))  # of Section S1.6
ALT = (
    "Two rows of differences, each with five dots, a diamond at their mean and an interval. In the upper row the "
    "diamond is filled and its interval lies left of 0. In the lower row it is hollow and gray, and its interval has 0 "
    "in it."
)
CAPTION = (
    "The upper pair is told apart: its interval leaves 0 out. The lower one is not. Five seeds of two pairs of models "
    "by nanoGPT’s recipe, each at its own learning rate."
)


def pairs() -> dict[str, Comparison]:
    """A pair that is told apart, and one that is not."""
    records = load_study("nanogpt-recipe")
    losses, _ = by_model(r for r in records if r["run"]["label"].endswith("12 × 64"))
    found = compare({f"{a} − {b}": (losses[a], losses[b]) for a, b in PAIRS})
    verdicts = [comparison.told_apart for comparison in found.values()]
    if verdicts != [True, False]:
        raise ValueError(f"the records of {PAIRS} give the verdicts {verdicts}; expected one filled, one hollow")
    return found


@cache
def drawn() -> tuple[bytes, int, int]:
    """The picture, its width and its height in CSS pixels."""
    figure, out = figures.differences(pairs(), "difference of losses (nats per character)"), io.BytesIO()
    with rc_context({"svg.hashsalt": "the same names each time"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    plt.close(figure)
    width, height = (round(100 * inches) for inches in figure.get_size_inches())
    return out.getvalue(), width, height


def draw(app: Any) -> None:
    if app.builder.format == "html":
        static = Path(app.outdir) / "_static"
        static.mkdir(parents=True, exist_ok=True)
        (static / NAME).write_bytes(drawn()[0])


def fill(app: Any, docname: str, source: list[str]) -> None:
    if MARK in source[0]:
        _, width, height = drawn()
        picture = (
            f'<figure class="numbered"><img class="drawn" src="../_static/{NAME}" alt="{html.escape(ALT)}" '
            f'width="{width}" height="{height}"><figcaption><p><span class="caption-text">'
            f"{html.escape(CAPTION)}</span></p></figcaption></figure>"
        )
        source[0] = source[0].replace(MARK, f"```{{raw}} html\n{picture}\n```")
