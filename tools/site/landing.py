"""On the landing page: the size of the book, two instruments, and a card for each chapter, so that all is in step.

What a chapter is about stands in ``book/landing.yml``; what came out is questions, as everywhere.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.highlighting import PygmentsBridge

from efficient_transformers.book import instruments
from efficient_transformers.book.instruments import LeakLab
from tools.make import repository
from tools.notebooks import chapters, run_notebooks
from tools.site import annotate, models
from tools.site.math import TAG, mathml

ROOT = Path(__file__).parents[2]
EMBLEMS = ROOT / "book" / "static" / "emblems"
SAYS = yaml.safe_load((ROOT / "book" / "landing.yml").read_text(encoding="utf-8"))
PAGE = "book/index"
BLOCK = re.compile(
    rf"\$\$\n((?:(?!\$\$).)*)\$\$(?:(?!\$\$).)*?{annotate.COMMENT.pattern}```{{code-cell}}[^\n]*\n(.*?)\n```", re.DOTALL
)
READING = re.compile(r"^\| Time[^|]*\| (\d+) minutes to read", re.MULTILINE)


def minutes(name: str) -> int:
    """How long a chapter says that it takes to read."""
    found = READING.search(chapters.prose(name))
    assert found, f"{name} has no row '| Time … | N minutes to read' in its summary"
    return int(found[1])


def colab(name: str, words: str, label: str) -> str:
    """A link that opens a notebook in Colab; empty while the repository has no address."""
    address = repository.known()
    return f'<a href="{repository.colab(address, name)}" aria-label="{label}">{words}</a>' if address else ""


def emblem(name: str) -> str:
    """The emblem of a chapter, which says nothing that its card does not say, or of a page; in the page's colors."""
    return (EMBLEMS / f"{name}.svg").read_text(encoding="utf-8").strip()


def cards() -> str:
    items = []
    for name in run_notebooks.chapters():
        number, title = chapters.title(name)
        title = title.replace("'", "’")  # as Sphinx sets it elsewhere
        says = SAYS["cards"][name]
        in_colab = colab(name, "Colab", f"Chapter {number} in Colab")
        items.append(
            f'<li>{emblem(name)}<h3><a href="../notebooks/{name}.html">{number}. {html.escape(title)}</a></h3>'
            f'<p class="question">{html.escape(says["question"])}</p><p>{html.escape(says["answer"])}</p>'
            '<p class="more">' + " · ".join(filter(None, (f"{minutes(name)} minutes to read", in_colab))) + "</p></li>"
        )
    return f'<ul class="chapter-cards">{"".join(items)}</ul>'


def models_on_pages() -> str:
    items = []
    for name, says in SAYS["models"].items():
        title = (ROOT / "book" / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        items.append(f'<li>{emblem(name)}<h3><a href="{name}.html">{title}</a></h3><p>{says}</p></li>')
    return f'<ul class="chapter-cards strip">{"".join(items)}</ul>'


def facts() -> str:
    """The book in numbers, and the ways into it."""
    names = run_notebooks.chapters()
    said = (
        f"{len(names)} chapters",
        f"{round(sum(map(minutes, names)) / 60)} hours to read",
        f"{len(models.shipped())} trained models that run on the page",
        "nothing to install",
    )
    first = names[0]
    return (
        f'<ul class="facts">{"".join(f"<li>{fact}</li>" for fact in said)}</ul>'
        f'<p class="start"><a href="../notebooks/{first}.html">Start with Chapter 1</a> '
        f"{colab(first, 'Open in Colab', 'Chapter 1 in Colab')}</p>{byline()}"
    )


def byline() -> str:
    """Who keeps the repository, and when it last changed; empty while it has no address."""
    if not (address := repository.known()):
        return ""
    changed = subprocess.check_output(["git", "log", "-1", "--format=%cs"], cwd=ROOT, text=True).strip()
    return f'<p class="more">By {repository.slug(address).partition("/")[0]}, {changed}</p>'


def block() -> str:
    """The first annotated block of Chapter 1, between the markers that `annotate` looks for, which makes it live."""
    first = run_notebooks.chapters()[0]
    found = BLOCK.search((ROOT / "book" / f"{first}.md").read_text(encoding="utf-8"))
    assert found, f"{first} has no annotated block"
    latex, code, number = found[1], found[found.re.groups], TAG.search(found[1])[1]  # type: ignore[index]
    formula = mathml(TAG.sub("", latex).strip(), True, nodes.Element())
    return (
        f'<div class="join"><!-- join {number}\n{found["pairs"]}--><div class="join-math"><div class="math">'
        f'<div class="formula">{formula}</div></div><p>This is attention, as <a href="../notebooks/{first}.html">'
        "Chapter 1</a> writes it. Point at a symbol, or press it: it leads to its name in the code.</p></div>"
        '<div class="join-code"><div class="cell"><div class="cell_input">'
        f"{PygmentsBridge().highlight_block(code, 'python')}</div></div></div><!-- joined --></div>"
    )


def leak_lab() -> str:
    """Leak Lab, from two files; in a notebook it carries them itself."""
    lab = LeakLab()
    return (
        '<link rel="stylesheet" href="../_static/instruments.css">\n'
        + lab.element(lab.still())
        + '\n<details class="more"><summary>More: other mechanisms, other outputs, the whole map</summary>'
        "<p>Choose attention, a convolution or a gate, and each one's mistake; choose the output that is looked at; "
        "decode token by token.</p></details>"
        f'\n<script src="../_static/{lab.name}.js"></script>'
    )


def write_instrument(app: Any) -> None:
    static = Path(app.outdir) / "_static"
    shutil.copy(instruments.FOLDER / "instruments.css", static)
    (static / f"{LeakLab.name}.js").write_text(instruments.script(LeakLab.name), encoding="utf-8")
