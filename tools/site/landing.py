"""On the landing page: what the book is, what it found, and a card for each chapter, so that nobody keeps them in step.

- What is claimed stands beside the chapters, in ``book/landing.yml``.
- ``<!-- facts -->`` becomes the book's size, and the ways into it.
- ``<!-- leak lab -->`` becomes the instrument, which static/landing.js moves once.
- ``<!-- writing -->`` becomes two models that write: tools/site/writing.py.
- ``<!-- findings -->`` becomes its findings, whose numbers are computed from the records as the chapters compute them
  and drawn as small pictures. A record that no longer says what a sentence says stops the build.
- ``<!-- chapters -->`` becomes a card for each chapter of ``_toc.yml``, with its emblem.
"""

from __future__ import annotations

import html
import re
import shutil
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from efficient_transformers import evidence, study
from efficient_transformers.book import instruments
from efficient_transformers.book.instruments import LeakLab
from tools.make import repository
from tools.notebooks import chapters, run_notebooks
from tools.site import colab_runs, intervals, models, writing
from tools.site.intervals import signed, verdict

ROOT = Path(__file__).parents[2]
EMBLEMS = ROOT / "book" / "static" / "emblems"
SAYS = yaml.safe_load((ROOT / "book" / "landing.yml").read_text(encoding="utf-8"))
PAGE = "book/index"
READING = re.compile(r"^\| Time[^|]*\| (\d+) minutes to read", re.MULTILINE)
MATRICES = [  # the comparisons of Figure S4.3, whose number widens each interval
    ("gMLP", "dense gMLP"),
    ("dense gMLP, 8 near", "dense gMLP"),
    ("gMLP, 8 near", "dense gMLP, 8 near"),
    ("gMLP, 8 near", "gMLP"),
]
HOURGLASS = "hourglass, factor 4"
SHORTENING = [  # those of a minute at 1,024 in Table S3.2
    *((HOURGLASS, f"baseline, {n} layers") for n in (2, 3, 4, 8)),
    *((f"hourglass, factor {k}", HOURGLASS) for k in ("2", "8", "4, attention")),
]


class Finding(NamedTuple):
    """What the words of a finding take from the records, and the rows of its picture."""

    numbers: dict[str, str]
    rows: dict[str, intervals.Row]


def interval(found: evidence.Comparison) -> str:
    return f"[{signed(found.low)}, {signed(found.high)}]"


def holds(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"the records no longer say that {what}; expected a finding that they support")


def shallow_layers() -> Finding:
    """Section 4.11: the control that undoes the hourglass."""
    in_a_minute = (r for r in study.load_study("shortening") if r["run"]["name"].endswith("equal time"))
    records = [r for r in in_a_minute if r["run"]["training"]["seq_len"] == 1024]
    by_model, trained = study.by_model(records)
    pairs = {f"{a} − {b}": (by_model[a], by_model[b]) for a, b in SHORTENING}
    found = evidence.compare(pairs)
    rows = {n: found[f"{HOURGLASS} − baseline, {n} layers"] for n in (8, 4, 3, 2)}
    eight, two = rows[8], rows[2]
    holds(verdict(eight) == "lower", "the hourglass is ahead of eight layers at equal time")
    holds(verdict(two) == "higher", "the hourglass is behind two layers at equal time")
    steps = {n: str(trained[name]["steps"]) for n, name in (("fewer", HOURGLASS), ("more", "baseline, 2 layers"))}
    numbers = {"interval": interval(two), **steps}
    words = {8: "eight", 4: "four", 3: "three", 2: "two"}
    return Finding(numbers, {f"{words[n]} plain layers": row for n, row in rows.items()})


def one_rate() -> Finding:
    """Section S1.5: the learning rate that two models share chooses how far one is ahead."""
    records = (r for r in study.load_study("head-to-head") if r["run"]["training"]["steps"] == 500)
    tried = study.rates_tried(records)
    baseline, ours = tried["Baseline"], tried["Primer EZ"]
    lead = {rate: ours[rate] - baseline[rate] for rate in sorted(ours.keys() & baseline.keys())}
    low, high = lead[0.001], lead[0.004]
    own = min(ours.values()) - min(baseline.values())
    holds(high < 3 * low < 0 and high < own < low, "one rate chooses how far Primer EZ is ahead")
    rows = {f"both at {rate:g}": difference for rate, difference in lead.items()}
    numbers = {"low": signed(low), "high": signed(high), "own": signed(own)}
    return Finding(numbers, {**rows, "each at its own best": own})


def one_weight_for_a_distance() -> Finding:
    """Section S4.4: fewer numbers, lower loss, and what part of that is where they are missing."""
    ends, training = study.by_model(study.load_study("gate-kinds"))
    found = evidence.compare({f"{a} − {b}": (ends[a], ends[b]) for a, b in MATRICES})
    pair, near = found["gMLP − dense gMLP"], found["dense gMLP, 8 near − dense gMLP"]
    holds(verdict(pair) == "lower", "a Toeplitz matrix is ahead of a dense one")
    holds(
        verdict(near) == "lower" and pair.mean < near.mean, "a dense one gains a part of that without its far weights"
    )
    short, longer = (
        statistics.mean(evidence.paired(found["gMLP"], found["dense gMLP, W not counted"]))
        for found, _ in (study.by_model(study.load_study("head-to-head", steps=steps)) for steps in (500, 2000))
    )
    holds(short < 2 * longer < 0, "at 256 characters less than half of the gap is left after 2,000 steps")
    n = training["gMLP"]["seq_len"]
    numbers = {
        "distances": str(n),
        "pairs": f"{n * (n + 1) // 2:,}",
        "steps": str(training["gMLP"]["steps"]),
        "interval": interval(pair),
        "near": signed(near.mean),
    }
    return Finding(numbers, {"a weight for each distance": pair, "for each pair within 8 tokens": near})


FINDINGS = {made.__name__: made for made in (shallow_layers, one_rate, one_weight_for_a_distance)}


def finding(claim: dict[str, str]) -> dict[str, str]:
    """A finding with its numbers and its picture."""
    found = FINDINGS[claim["from"]]()
    words = {name: words.format(**found.numbers) for name, words in claim.items()}
    return {**words, "picture": intervals.drawn(found.rows, words["shows"])}


def findings() -> str:
    items = "".join(
        '<li><h3>{headline}</h3><p class="shows">{shows}</p>{picture}<p>{says}</p><p class="more">'
        '<a href="../notebooks/{chapter}.html#{figure}">Section {section}</a></p></li>'.format(**finding(claim))
        for claim in SAYS["findings"]
    )
    return f'<ul class="findings">{items}</ul>'


def in_the_book() -> list[str]:
    """The chapters in the order of the table of contents."""
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["parts"]
    files = [chapter["file"] for part in parts for chapter in part["chapters"]]
    return [Path(file).name for file in files if Path(file).name in run_notebooks.chapters()]


def minutes(name: str) -> int:
    """How long a chapter says that it takes to read."""
    found = READING.search(chapters.prose(name))
    if not found:
        raise ValueError(f"{name} has no row '| Time … | N minutes to read'; expected one in its summary")
    return int(found[1])


def colab(name: str, words: str, **attributes: str) -> str:
    """A link that opens a notebook in Colab; empty while the repository has no address."""
    if not (address := repository.known()):
        return ""
    said = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in attributes.items())
    return f'<a href="{repository.colab(address, name)}"{said}>{words}</a>'


def emblem(name: str) -> str:
    """The emblem of a chapter, in the colors of the page; it says nothing that its card does not say."""
    return (EMBLEMS / f"{name}.svg").read_text(encoding="utf-8").strip()


def cards() -> str:
    items = []
    for name in in_the_book():
        number, title = chapters.title(name)
        title = title.replace("'", "’")  # as Sphinx sets it elsewhere
        says = SAYS["cards"][name]
        in_colab = colab(name, "Colab", aria_label=f"Chapter {number} in Colab")
        items.append(
            f'<li>{emblem(name)}<h3><a href="../notebooks/{name}.html">{number}. {html.escape(title)}</a></h3>'
            f'<p class="question">{html.escape(says["question"])}</p><p>{html.escape(says["answer"])}</p>'
            '<p class="more">' + " · ".join(filter(None, (f"{minutes(name)} minutes to read", in_colab))) + "</p></li>"
        )
    return f'<ul class="chapter-cards">{"".join(items)}</ul>'


def facts() -> str:
    """The book in numbers, and the ways into it."""
    names = in_the_book()
    said = (
        f"{len(names)} chapters",
        f"{sum(map(minutes, names))} minutes to read",
        f"{len(models.shipped())} trained models that run on the page",
        "nothing to install",
    )
    first, last = names[0], colab_runs.told()
    return (
        f'<ul class="facts">{"".join(f"<li>{fact}</li>" for fact in said)}</ul>'
        f'<p class="start"><a href="../notebooks/{first}.html">Start with Chapter 1</a> '
        f"{colab(first, 'Open in Colab')}{f' <small>{last}</small>' if last else ''}</p>"
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
    "<!-- facts -->": facts,
    "<!-- leak lab -->": leak_lab,
    "<!-- writing -->": writing.strip,
    "<!-- findings -->": findings,
    "<!-- chapters -->": cards,
}


def fill(app: Any, docname: str, source: list[str]) -> None:
    for mark, made in MARKS.items():
        if docname == PAGE and mark in source[0]:
            source[0] = source[0].replace(mark, f"```{{raw}} html\n{made()}\n```")


def write_instrument(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        static = Path(app.outdir) / "_static"
        shutil.copy(instruments.FOLDER / "instruments.css", static)
        (static / f"{LeakLab.name}.js").write_text(instruments.script(LeakLab.name), encoding="utf-8")
