"""On the page What did not work: null results and refuted guesses, each with its runs as a small picture.

What is notable:
- ``book/what-did-not-work.yml`` has the words, the runs and the pairs; no number of a result is written by hand;
- differences and intervals are those of :func:`compare`, list by list as the studies have them;
- each line says which verdict its pairs have, and those of the pairs that its words speak of besides; one that the
  records do not bear out stops the build.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from efficient_transformers.studies import evidence, records
from tools.notebooks import run_notebooks
from tools.site import intervals

ROOT = Path(__file__).parents[2]
PAGE, MARK = "book/what-did-not-work", "<!-- nulls -->"
SAYS = yaml.safe_load((ROOT / f"{PAGE}.yml").read_text(encoding="utf-8"))
Line = dict[str, Any]


def chosen(
    study: str, steps: Collection[int] = (), label: Collection[str] = (), without: Collection[str] = ()
) -> list[records.Record]:
    """The records of a study with one of these numbers of steps, and with and without these words in their labels."""
    return [
        record
        for record in records.load_study(study)
        for run in [record["run"]]
        if (not steps or run["training"]["steps"] in steps)
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
def compared(name: str) -> dict[tuple[str, ...], evidence.Comparison]:
    """The comparisons of a list, by their pairs."""
    says = SAYS["lists"][name]
    others = [says["minus"]] if "minus" in says else says["runs"]
    pairs = {str(pair): (found_in(says["runs"], pair[0]), found_in(others, pair[1])) for pair in says["pairs"]}
    return dict(zip(map(tuple, says["pairs"]), evidence.compare(pairs).values(), strict=True))


def checked(line: Line, name: str, pair: tuple[str, ...], verdict: str) -> evidence.Comparison:
    """The comparison of a pair, if the records say of it what the line says."""
    found = compared(name)[pair]
    if intervals.verdict(found) != verdict:
        raise ValueError(
            f"{' − '.join(pair)} of {line['expected']!r} is {found}; expected {verdict!r}, one of "
            f"{[*intervals.CLASSES]}, as book/what-did-not-work.yml says"
        )
    return found


def rows_of(line: Line) -> dict[str, evidence.Comparison]:
    """The rows of a line's picture.

    Raises:
        ValueError: if the records do not say what the line says, of these rows or of the pairs in its words alone.
    """
    for verdict, pairs in line.get("also", {}).items():
        for name, *pair in pairs:
            checked(line, name, tuple(pair), verdict)
    return {label: checked(line, name, tuple(pair), line["verdict"]) for label, (name, *pair) in line["rows"].items()}


def link(line: Line) -> str:
    """The study of a line's section, at the table or figure that proves it."""
    studies = {run_notebooks.number(name): name for name in run_notebooks.studies()}
    return f"../notebooks/{studies[line['section'].partition('.')[0]]}.html#{line['at']}"


def drawn(line: Line) -> str:
    words = {key: html.escape(line[key], quote=False) for key in ("who", "expected", "came", "shows", "section")}
    picture = intervals.drawn(rows_of(line), line["shows"])
    return (
        '<li><div><p><span class="who">{who}</span> {expected}</p><p class="came">{came}</p>'
        '<p class="more"><a href="{link}">Section {section}</a></p></div>'
        '<div><p class="shows">{shows}</p>{picture}</div></li>'
    ).format(**words, link=link(line), picture=picture)


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
