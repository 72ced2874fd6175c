"""On the landing page: what the book found, and a card for each chapter, so that nobody has to keep them in step.

- ``<!-- findings -->`` becomes three findings, whose numbers are computed from the records as the chapters compute
  them. A record that no longer says what a sentence says stops the build.
- ``<!-- chapters -->`` becomes a card for each chapter of ``_toc.yml``, with a picture from its notebook.
- ``<!-- leak lab -->`` becomes the instrument, and ``<!-- start -->`` the two buttons.
"""

from __future__ import annotations

import base64
import html
import io
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import yaml
from PIL import Image

from efficient_transformers import evidence, study
from efficient_transformers.book import instruments
from efficient_transformers.book.explorer import few_colors
from efficient_transformers.book.instruments import LeakLab
from tools.make import repository
from tools.notebooks import chapters, folding

ROOT = Path(__file__).parents[2]
PAGE = "book/index"
FOLDER = "chapters"  # of the pictures, in _static
SIZE = (520, 320)  # pixels that a picture has at most, two for each of the page's
READING = re.compile(r"^\| Time[^|]*\| (\d+) minutes to read", re.MULTILINE)
MATRICES = [  # the comparisons of Figure 5.9, whose number widens each interval
    ("split, Toeplitz", "split"),
    ("split, 8 near", "split"),
    ("split, Toeplitz, 8 near", "split, 8 near"),
    ("split, Toeplitz, 8 near", "split, Toeplitz"),
]
HOURGLASS = "hourglass, factor 4"
SHORTENING = [  # those of Figure 4.10
    *((HOURGLASS, f"baseline, {n} layers") for n in (2, 3, 4, 8)),
    *((f"hourglass, factor {k}", HOURGLASS) for k in ("2", "8", "4, attention")),
]
MARKUP = re.compile(r"\[([^\]]+)\]\([^)]*\)|[*`]")


# What a card says of a chapter: the number of a figure, the question, the answer in a line. A chapter that is not here
# shows its first figure and its own first sentence.
CARDS = {
    "01-transformer": (
        "1.2",
        "What must a language model have to be worth comparing with?",
        "Norms inside the branches, turned queries and keys, a map that shows leaks. A weak baseline can flatter "
        "any variant.",
    ),
    "02-primer-ez": (
        "2.3",
        "What do a squared ReLU and a three-token convolution buy?",
        "Fewer steps to the same loss, and less time. After four times as many steps the clock shows hardly a saving.",
    ),
    "03-primer-variations": (
        "3.6",
        "Which of its changes brings the most?",
        "After 500 steps the convolutions, most of all those of the values. After 2,000 the full Primer is ahead, and "
        "SwiGLU without convolutions gains what Primer EZ does, as far as we can tell.",
    ),
    "04-hourglass": (
        "4.1",
        "Must every layer see every token?",
        "No, most may see every fourth. But in a minute two plain layers do better, and at 256 characters three do.",
    ),
    "05-gmlp": (
        "5.6",
        "Is attention needed, or does a learned matrix do?",
        "After 500 steps on 64 characters a matrix is ahead of a plain Transformer. In as much time two plain layers "
        "are ahead of it, unless it knows distances only.",
    ),
    "06-head-to-head": (
        "6.3",
        "Which one should I use, and when?",
        "After 500 steps at 256 characters a Toeplitz gate leads and a dense one trails. In as much time two plain "
        "layers are not told apart from the gate; in four times that, Primer EZ's lead is no longer seen.",
    ),
}


@dataclass(frozen=True)
class Finding:
    """What the records say: its numbers, a headline, a sentence or two, and the figure of the chapter that shows it."""

    numbers: str
    headline: str
    says: str
    chapter: str
    section: str
    figure: str


def signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def interval(found: evidence.Comparison) -> str:
    return f"[{signed(found.low)}, {signed(found.high)}]"


def holds(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"the records no longer say that {what}; expected a finding that they support")


def shallow_layers() -> Finding:
    """Section 4.11: the control that undoes the hourglass."""
    in_a_minute = (r for r in study.load_study("shortening") if r["run"]["name"].endswith("equal time"))
    records = [r for r in in_a_minute if r["run"]["training"]["seq_len"] == 1024]
    by_model, _ = study.by_model(records)
    pairs = {f"{a} − {b}": (by_model[a], by_model[b]) for a, b in SHORTENING}
    found = evidence.compare(pairs)
    eight, two = (found[f"{HOURGLASS} − baseline, {n} layers"] for n in (8, 2))
    holds(eight.told_apart and eight.mean < 0, "the hourglass is ahead of eight layers at equal time")
    holds(two.told_apart and two.mean > 0, "the hourglass is behind two layers at equal time")
    return Finding(
        f"{signed(eight.mean)}, then {signed(two.mean)}",
        "The right control undoes a win",
        "After a minute each, at 1,024 characters, an hourglass of eight layers ends far below eight plain layers. In "
        f"the same minute two plain layers end below the hourglass: it is behind them by {interval(two)}.",
        "04-hourglass",
        "4.11",
        "fig-4-10",
    )


def one_rate() -> Finding:
    """Section 2.10: the learning rate that two models share chooses how far one is ahead."""
    records = (r for r in study.load_study("head-to-head") if r["run"]["training"]["steps"] == 500)
    tried = study.rates_tried(records)
    baseline, ours = tried["Baseline"], tried["Primer EZ"]
    low, high = (ours[rate] - baseline[rate] for rate in (0.001, 0.004))
    own = min(ours.values()) - min(baseline.values())
    holds(high < 3 * low < 0 and high < own < low, "one rate chooses how far Primer EZ is ahead")
    return Finding(
        f"{signed(low)} or {signed(high)}",
        "One rate for all picks the lead",
        "Primer EZ’s validation loss minus the Transformer’s, one run each, if both train at a rate of 0.001, or both "
        f"at 0.004. With each at its own best rate it is {signed(own)}, and so the chapters compare them.",
        "02-primer-ez",
        "2.10",
        "fig-2-8",
    )


def one_weight_for_a_distance() -> Finding:
    """Section 5.10: fewer numbers, lower loss, and what part of that is where they are missing."""
    ends, training = study.by_model(study.load_study("gate-kinds"))
    found = evidence.compare({f"{a} − {b}": (ends[a], ends[b]) for a, b in MATRICES})
    pair, near = found["split, Toeplitz − split"], found["split, 8 near − split"]
    holds(pair.told_apart and pair.mean < 0, "a Toeplitz matrix is ahead of a dense one")
    holds(near.told_apart and pair.mean < near.mean < 0, "a dense one gains a part of that without its far weights")
    n = training["split"]["seq_len"]
    return Finding(
        signed(pair.mean),
        f"{n} weights beat {n * (n + 1) // 2:,}",
        f"After {training['split']['steps']} steps from the paper’s start, a gate with one weight for each distance "
        f"ends below one with a weight for each pair of positions: {interval(pair)}. A dense one that sees only the "
        f"eight nearest tokens gets {signed(near.mean)} of it.",
        "05-gmlp",
        "5.10",
        "fig-5-9",
    )


def findings() -> str:
    items = "".join(
        f'<li><p class="numbers">{f.numbers}</p><h3>{f.headline}</h3><p>{f.says}</p>'
        f'<p class="more"><a href="../notebooks/{f.chapter}.html#{f.figure}">Section {f.section}</a></p></li>'
        for f in (shallow_layers(), one_rate(), one_weight_for_a_distance())
    )
    return f'<ul class="findings">{items}</ul>'


def in_the_book() -> list[str]:
    """The chapters in the order of the table of contents."""
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["parts"]
    files = [chapter["file"] for part in parts for chapter in part["chapters"]]
    return [Path(file).name for file in files if file.startswith("notebooks/")]


def minutes(name: str) -> int:
    """How long a chapter says that it takes to read."""
    found = READING.search(chapters.prose(name))
    if not found:
        raise ValueError(f"{name} has no row '| Time … | N minutes to read'; expected one in its summary")
    return int(found[1])


def first_sentence(name: str) -> str:
    """The first sentence below a chapter's title, without markup."""
    paragraph = chapters.prose(name).split("\n\n")[1]
    return MARKUP.sub(lambda m: m[1] or "", re.split(r"(?<=[.?!])\s", paragraph)[0])


def card(name: str) -> tuple[str, str, str]:
    number = chapters.title(name)[0]
    return CARDS.get(name, (f"{number}.1", "", first_sentence(name)))


def picture(name: str) -> tuple[Image.Image, str]:
    """A chapter's figure for its card, as its notebook stores it, small; and what it shows, in words."""
    figure = f"Figure {card(name)[0]}"
    for cell, caption in folding.captioned(nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", 4)):
        if caption["name"] == figure:
            for output in cell.outputs:
                if "image/png" in output.get("data", {}):
                    drawn = Image.open(io.BytesIO(base64.b64decode(output.data["image/png"]))).convert("RGBA")
                    drawn.thumbnail(SIZE, Image.Resampling.LANCZOS)
                    return drawn, cell.metadata["mystnb"]["image"]["alt"]
    raise ValueError(f"{name} has no picture of {figure}; expected the number of one of its figures")


def colab(name: str) -> str:
    slug = repository.slug(repository.address())
    return f"https://colab.research.google.com/github/{slug}/blob/main/notebooks/{name}.ipynb"


def cards() -> str:
    items = []
    for name in in_the_book():
        number, title = chapters.title(name)
        title = title.replace("'", "’")  # as Sphinx sets it elsewhere
        _, question, answer = card(name)
        drawn, alt = picture(name)
        width, height = (pixels // 2 for pixels in drawn.size)
        items.append(
            f'<li><img src="../_static/{FOLDER}/{name}.png" alt="{html.escape(alt)}" width="{width}" '
            f'height="{height}" loading="lazy">'
            f'<h3><a href="../notebooks/{name}.html">{number}. {html.escape(title)}</a></h3>'
            + (f'<p class="question">{html.escape(question)}</p>' if question else "")
            + f'<p>{html.escape(answer)}</p><p class="more">{minutes(name)} minutes to read · '
            f'<a href="{colab(name)}" aria-label="Chapter {number} in Colab">Colab</a></p></li>'
        )
    return f'<ul class="chapter-cards">{"".join(items)}</ul>'


def start() -> str:
    """The two ways into the book, at its first chapter."""
    first = in_the_book()[0]
    return (
        f'<p class="start"><a href="../notebooks/{first}.html">Start with Chapter 1</a> '
        f'<a href="{colab(first)}">Open in Colab</a></p>'
    )


def leak_lab() -> str:
    """Leak Lab, from two files; in a notebook it carries them itself."""
    lab = LeakLab()
    return (
        '<link rel="stylesheet" href="../_static/instruments.css">\n'
        + lab.element(lab.still())
        + f'\n<script src="../_static/{lab.name}.js"></script>'
    )


MARKS = {
    "<!-- leak lab -->": leak_lab,
    "<!-- start -->": start,
    "<!-- findings -->": findings,
    "<!-- chapters -->": cards,
}


def fill(app: Any, docname: str, source: list[str]) -> None:
    for mark, made in MARKS.items():
        if docname == PAGE and mark in source[0]:
            source[0] = source[0].replace(mark, f"```{{raw}} html\n{made()}\n```")


def draw_pictures(app: Any) -> None:
    if app.builder.format != "html":
        return
    folder = Path(app.outdir) / "_static" / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name in in_the_book():
        drawn = io.BytesIO()
        picture(name)[0].save(drawn, "png")
        (folder / f"{name}.png").write_bytes(few_colors(drawn.getvalue()))


def write_instrument(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        static = Path(app.outdir) / "_static"
        shutil.copy(instruments.FOLDER / "instruments.css", static)
        (static / f"{LeakLab.name}.js").write_text(instruments.script(LeakLab.name), encoding="utf-8")


def add_style(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if pagename == PAGE:
        app.add_css_file("landing.css")
