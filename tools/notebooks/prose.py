"""How a chapter's text reads: its words, numbers, references and hedges, and how long it takes.

    python -m tools.notebooks.prose               # every chapter
    python -m tools.notebooks.prose 02-primer-ez  # one: with the paragraphs that hold too many numbers

What is notable:
- visible prose is what a reader meets in paragraphs and lists: no code, formula, table, caption, hint or solution;
- a number is one with a decimal point or a sign, or a percentage; what only looks like one is not counted: a reference,
  the number of an equation, a version, an identifier of arXiv;
- a section that calculates an example by hand, and says so in its heading, may hold as many numbers as it needs.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from dataclasses import dataclass

import nbformat

from efficient_transformers.tables import aligned
from tools.notebooks import chapters, folding, run_notebooks

MANY = 3  # numbers in a paragraph
WORDS_A_MINUTE, SECONDS_A_LINE = 220, 3
LINKS = "Open in Colab"  # in the line that ends a first screen

HIDDEN = [re.compile(pattern, re.DOTALL) for pattern in (r"```.*?```", r"<!--.*?-->", r"<details>.*?</details>", r"<[^>]+>")]
DISPLAYED = re.compile(r"\$\$.*?\$\$", re.DOTALL)
INLINE = re.compile(r"\$[^$\n]*\$")
ADDRESS = re.compile(r"(?<=\])\([^)]*\)")
CAPTION = ("**Figure", "**Table")
APART = ("|", "#", ":", "<", "![", *CAPTION)  # what a block that is no prose begins with
RULE = set("-=* ")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")

WORD = re.compile(r"[A-Za-z][\w'’-]*")
NUMBER = re.compile(
    r"""(?<![\w.§]) [−+-]? \d+\.\d+ (?![\w.]*\d)   # 0.25, −0.044
      | (?<!\w) [−+] \d+ \b                         # +3
      | \b \d+ (?:\.\d+)? \x20? %                   # 95 %""",
    re.VERBOSE,
)
REFERENCE = re.compile(r"\b(?:Section|Table|Figure|Chapter|Exercise)s? S?\d+(?:\.\d+)?")
NO_NUMBER = re.compile(
    rf"""{REFERENCE.pattern.replace(" ", "[ ]")}
      | \(S?\d\.\d+[a-z]?\)             # an equation
      | \bto[ ]S?\d\.\d+\b (?=[ ]?\))   # the last of several references
      | \b\d{{4}}\.\d{{5}}\b            # arXiv
      | ==?[ ]?\d[\d.]*                 # a version, or a setting
      | \b[A-Za-z]+[ ]\d+\.\d+\.\d+     # a version""",
    re.VERBOSE,
)
HEDGES = (
    "not told apart",
    "told apart",
    "cannot tell",
    "as far as we",
    "not tried",
    "not run",
    "we do not know",
    "asked afterwards",
    "one seed",
    "interval",
    "corrected",
    "by the recorded",
    "in our runs",
    "unchecked",
    "second hand",
    "is not seen",
    "no crossing",
)
HEDGE = re.compile("|".join(HEDGES), re.IGNORECASE)


@dataclass(frozen=True)
class Counts:
    """What was counted in visible prose.

    Args:
        words: of all of it.
        decimals: numbers in 100 words, outside sections that calculate by hand.
        crowded: the paragraphs with more than ``MANY`` numbers, outside such sections too.
        references: to sections, tables, figures, chapters and exercises, in 100 words.
        hedges: how often each was said.
    """

    words: int
    decimals: float
    crowded: list[str]
    references: float
    hedges: Counter[str]

    def hedging(self, without: tuple[str, ...] = ()) -> float:
        """Hedges in 1,000 words, but for those that are named."""
        return 1000 * sum(n for said, n in self.hedges.items() if said not in without) / max(self.words, 1)


def blocks(text: str) -> list[str]:
    """The blocks of a Markdown text that a reader sees, headings included, with formulas within a line as X."""
    for pattern in (*HIDDEN, DISPLAYED):
        text = pattern.sub("", text)
    found = (block.strip() for block in re.split(r"\n\s*\n", INLINE.sub("X", text)))
    return [block for block in found if not set(block) <= RULE]


def is_prose(block: str) -> bool:
    return not block.startswith(APART)


def plain(block: str) -> str:
    """A block as one line, without the addresses of its links."""
    return ADDRESS.sub("", block).replace("\n", " ")


def without_references(block: str) -> str:
    return NO_NUMBER.sub("ref", block)


def numbers(block: str) -> int:
    return len(NUMBER.findall(without_references(plain(block))))


def count(text: str) -> Counts:
    """Count in a Markdown text with headings of sections."""
    by_hand, paragraphs, counted = False, [], []
    for block in blocks(text):
        if block.startswith("## "):
            by_hand = "by hand" in block
        if is_prose(block):
            paragraphs.append(plain(block))
            counted += [paragraphs[-1]] * (not by_hand)

    def words(among: list[str]) -> int:
        return sum(len(WORD.findall(without_references(paragraph))) for paragraph in among)

    whole = words(paragraphs)
    return Counts(
        words=whole,
        decimals=100 * sum(map(numbers, counted)) / max(words(counted), 1),
        crowded=[paragraph for paragraph in counted if numbers(paragraph) > MANY],
        references=100 * sum(len(REFERENCE.findall(paragraph)) for paragraph in paragraphs) / max(whole, 1),
        hedges=Counter(said.lower() for paragraph in paragraphs for said in HEDGE.findall(paragraph)),
    )


def first_screen(text: str) -> list[str]:
    """The blocks up to the line of links that ends it, captions and tables included.

    Raises:
        ValueError: if there is no such line.
    """
    found = blocks(text)
    last = next((i for i, block in enumerate(found) if LINKS in block), None)
    if last is None:
        raise ValueError(f"the text has no line of links with {LINKS!r}; expected one below its first picture")
    return found[: last + 1]


def elsewhere(name: str) -> int:
    """How many numbers a chapter has in its captions, tables and lists, and in the tables that its cells print."""
    text = chapters.prose(name)
    apart = [b for b in blocks(text) if b.startswith(("|", *CAPTION)) or ITEM.match(b)]
    notebook = nbformat.read(run_notebooks.ROOT / "notebooks" / f"{name}.ipynb", 4)
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    tables = [data["text/plain"] for data in shown if 'class="results"' in data.get("text/html", "")]
    return sum(map(numbers, apart)) + sum(len(NUMBER.findall(table)) for table in tables)


def minutes(name: str) -> float:
    """How long a chapter takes to read, with the lines of code that a reader sees without opening anything."""
    lines = sum(len(cell.node.source.splitlines()) for cell in chapters.cells(name) if cell.is_teaching)
    return count(chapters.prose(name)).words / WORDS_A_MINUTE + lines * SECONDS_A_LINE / 60


def row(name: str) -> list[str]:
    text = chapters.prose(name)
    found = count(text)
    cells: list[object] = [
        name,
        found.words,
        f"{found.decimals:.1f}",
        len(found.crowded),
        sum(map(numbers, first_screen(text))),
        f"{found.references:.1f}",
        f"{found.hedging():.1f}",
        elsewhere(name),
        f"{minutes(name):.0f}",
    ]
    return [str(cell) for cell in cells]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = run_notebooks.notebooks()
    parser.add_argument("names", nargs="*", help=f"of {known}; by default the chapters")
    names = parser.parse_args().names
    if unknown := set(names) - set(known):
        parser.error(f"names is {sorted(unknown)}; expected some of {known}")
    heads = ["", "words", "numbers/100", "crowded", "first screen", "references/100", "hedges/1000", "elsewhere", "min"]
    print(aligned([heads, *map(row, names or run_notebooks.chapters())]))
    for name in names:
        for paragraph in count(chapters.prose(name)).crowded:
            print(f"\n{name}, {numbers(paragraph)} numbers: {paragraph}")


if __name__ == "__main__":
    main()
