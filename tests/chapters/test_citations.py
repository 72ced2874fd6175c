"""What the book says of others was read: no place inside a paper is cited, and each source is on the list of papers.md.

What is notable:
- the book's own places have a dot, as in Figure 2.1 and Section S2.3; those of a paper have none, and nobody read them;
- the list is the first table of the page; a link of it that ends in a slash stands for all below it;
- what others report of a paper stands on that page alone, in its last table.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIST = (ROOT / "book" / "papers.md").read_text(encoding="utf-8").split("\n## ")[1]
PROSE = [
    ROOT / "README.md",
    ROOT / "src" / "efficient_transformers" / "book" / "results.yml",
    *(path for path in sorted((ROOT / "book").rglob("*.md")) if path.parent.name in ("book", "studies")),
    ROOT / "book" / "landing.yml",
]
PLACE = re.compile(
    r"(?<![\w-])(?:[Ff]ig(?:ures?|s?\.)|[Tt]ables?|[Ss]ec(?:tions?|s?\.)|App(?:endix|endices|s?\.)|§)[ ~\u00a0]*"
    r"(?!S?\d+\.\d)(?:\d+|[A-Z](?:\.\d+)*)(?!\w)"
    r"|(?<![\w-])(?:App(?:endix|endices|s?\.)|sec\.|§)[ ~\u00a0]*\d+\.\d"
)
LINK = re.compile(r"https?://[^\s)>\"'`|\\]+")
SECOND_HAND = re.compile(r"\bone reading\b|\bas others report\b")
NO_SOURCE = re.compile(  # this repository, where to install from, a license, and an address on the reader's machine
    r"https?://(github\.com/OWNER/|download\.pytorch\.org/|creativecommons\.org/|localhost|127\.)"
)


def places(text: str) -> list[str]:
    """Where the text cites a place inside a paper."""
    return [m[0] for m in PLACE.finditer(text)]


def unread(text: str) -> list[str]:
    """The links of a text that are not on the list."""
    links = {link.split("#")[0].rstrip(".,;") for link in LINK.findall(text) if not NO_SOURCE.match(link)}
    return sorted(link for link in links if not any(link == one or under(link, one) for one in read()))


def under(link: str, one: str) -> bool:
    return one.endswith("/") and link.startswith(one)


def read() -> list[str]:
    return LINK.findall(LIST)


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.stem)
def test_no_place_inside_a_paper_is_cited(path):
    assert places(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.stem)
def test_what_others_report_stands_on_one_page(path):
    assert path.stem == "papers" or SECOND_HAND.findall(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.stem)
def test_what_is_linked_was_read(path):
    assert unread(path.read_text(encoding="utf-8")) == []


def test_what_is_in_the_bibliography_was_read():
    text = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    numbers = re.findall(r"eprint = \{(.+?)\}", text)
    assert len(numbers) + len(LINK.findall(text)) >= len(re.findall("^@", text, re.MULTILINE))
    assert unread(text.replace("}", " ") + "".join(f" https://arxiv.org/abs/{number}" for number in numbers)) == []
