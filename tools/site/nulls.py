"""On the page What did not work: null results and refuted guesses, each with its runs as a small picture.

What is notable:
- ``book/what-did-not-work.yml`` has the words, the runs and the pairs; no number of a result is written by hand;
- differences and intervals are those of :func:`compare`, list by list as the studies have them;
- each line says which verdict its pairs have; one that the records do not bear out stops the build.
"""

from __future__ import annotations

import html
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from efficient_transformers.studies import evidence, records
from tools.site import intervals

ROOT = Path(__file__).parents[2]
PAGE, MARK = "book/what-did-not-work", "<!-- nulls -->"
SAYS = yaml.safe_load((ROOT / f"{PAGE}.yml").read_text(encoding="utf-8"))
VERDICTS = ("lower", "higher", "not told apart")

Line = dict[str, Any]


def chosen(study: str, steps: Any = (), label: Any = (), without: Any = ()) -> list[records.Record]:
    """The records of a study with one of these numbers of steps, and with and without these words in their labels."""
    wanted = [steps] if isinstance(steps, int) else list(steps)
    return [
        record
        for record in records.load_study(study)
        for run in [record["run"]]
        if (not wanted or run["training"]["steps"] in wanted)
        and all(part in run["label"] for part in label)
        and not any(part in run["label"] for part in without)
    ]


@cache
def losses(runs: str) -> dict[str, dict[int, float]]:
    """Losses by model and seed of runs that are read together."""
    by_model, _ = records.by_model(record for filters in SAYS["runs"][runs] for record in chosen(**filters))
    return by_model


def found_in(runs: list[str], name: str) -> dict[int, float]:
    """A model's losses, of the first runs that have it."""
    for of in runs:
        if name in losses(of):
            return losses(of)[name]
    raise ValueError(
        f"{name!r} is not among the runs {runs}; expected one of {sorted(set().union(*map(losses, runs)))}"
    )


@cache
def compared(name: str) -> dict[tuple[str, str], evidence.Comparison]:
    """The comparisons of a list, by their pairs."""
    says = SAYS["lists"][name]
    others = [says["minus"]] if "minus" in says else says["runs"]
    pairs = {str(pair): (found_in(says["runs"], pair[0]), found_in(others, pair[1])) for pair in says["pairs"]}
    return dict(zip(map(tuple, says["pairs"]), evidence.compare(pairs).values(), strict=True))


def verdict(found: evidence.Comparison) -> str:
    if not found.told_apart:
        return "not told apart"
    return "lower" if found.mean < 0 else "higher"


def rows_of(line: Line) -> dict[str, evidence.Comparison]:
    """The rows of a line's picture.

    Raises:
        ValueError: if the records do not say what the line says.
    """
    rows = {label: compared(name)[ours, theirs] for label, (name, ours, theirs) in line["rows"].items()}
    for label, found in rows.items():
        if verdict(found) != line["verdict"]:
            raise ValueError(
                f"{label!r} of {line['expected']!r} is {found}; expected {line['verdict']!r}, one of {VERDICTS}, "
                "as book/what-did-not-work.yml says"
            )
    return rows


def drawn(line: Line) -> str:
    words = {key: html.escape(line[key], quote=False) for key in ("who", "expected", "came", "shows", "section")}
    picture = intervals.drawn(rows_of(line), line["shows"])
    return (
        '<li><div><p><span class="who">{who}</span> {expected}</p><p class="came">{came}</p>'
        '<p class="more"><a href="../notebooks/studies/{link}">Section {section}</a></p></div>'
        '<div><p class="shows">{shows}</p>{picture}</div></li>'
    ).format(**words, link=line["link"], picture=picture)


def page() -> str:
    """A heading and a list for each part."""
    parts = []
    for title, lines in SAYS["parts"].items():
        items = "".join(map(drawn, lines))
        parts.append(f'## {title}\n\n```{{raw}} html\n<ul class="nulls wide">{items}</ul>\n```')
    return "\n\n".join(parts)


def count() -> str:
    return str(sum(map(len, SAYS["parts"].values())))


def fill(app: Any, docname: str, source: list[str]) -> None:
    if docname == PAGE:
        source[0] = re.sub(MARK, lambda _: page(), source[0]).replace("<!-- how many -->", count())


def add_style(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if pagename == PAGE:
        for style in ("intervals.css", "nulls.css"):
            app.add_css_file(style, priority=900)  # after those of every page
