"""On the site: where the symbols of an equation and the names of its code stand, each marked with its pair's number.

What is notable:
- a symbol is LaTeX: it passes through the converter that made the page's MathML, and trees are compared, so that ``w``
  finds ``w_{c,j}``, ``w_{c,j}`` only itself, and ``q`` never the q under a tilde;
- a name is Python: tokens are compared, never strings or comments; ``...`` is whatever stands between two brackets;
- marks stand within each other, the smaller within the larger, and never over two lines;
- whatever is not found is an error, with what there is to be found.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate, groupby, takewhile
from typing import Any

from bs4 import BeautifulSoup, Tag

from tools.site.code import inserted
from tools.site.math import convert

PAIR = re.compile(r"(?P<symbols>\S.*?) = (?P<names>\S.*?) \| (?P<label>\S.*)")
SCRIPTS = {"msub", "msup", "msubsup", "munder", "mover", "munderover"}
OPENING, CLOSING = set("([{"), set(")]}")
MOST = 7  # pairs of a block: annotated.css has as many colors


class NotFoundError(ValueError):
    """A comment does not fit its block."""


# What an author wrote.


@dataclass
class Pair:
    """A line of a comment: symbols, names in the code, and what they are."""

    symbols: list[str]
    names: list[str]
    label: str


def pairs_of(text: str) -> list[Pair]:
    found = []
    for line in text.strip().splitlines():
        match = PAIR.fullmatch(line.strip())
        if not match:
            raise NotFoundError(f"expected 'symbol = name | what it is', found {line!r}")
        found.append(Pair(match["symbols"].split(" & "), match["names"].split(" & "), match["label"]))
    if len(found) > MOST:
        raise NotFoundError(f"has {len(found)} pairs; expected at most {MOST}")
    return found


# Symbols in MathML.


def parts(node: Tag) -> list[Tag]:
    """The elements below a node that are no mere space."""
    return [c for c in node.children if isinstance(c, Tag) and not (c.name == "mspace" or c.get_text() == "\xa0")]


def shape(node: Tag) -> tuple[Any, ...]:
    """What two nodes that look alike have in common."""
    below = parts(node)
    return (node.name, node.get("mathvariant"), *(map(shape, below) if below else [node.get_text(strip=True)]))


def around(node: Tag) -> Tag:
    """The node that this one stands in, below the whole of the page."""
    assert node.parent is not None
    return node.parent


def is_base(node: Tag) -> bool:
    """Whether it carries the indices of the node around it."""
    return around(node).name in SCRIPTS and parts(around(node))[0] is node


def is_another(node: Tag) -> bool:
    """Whether what looks alike is part of another symbol: under a tilde, before a prime, or its index alone."""
    outer = around(node)
    return outer.name in SCRIPTS and (
        not is_base(node) or outer.get("accent") is not None or parts(outer)[-1].get_text() == "′"
    )


def together(run: list[Tag]) -> Tag:
    """Several neighbors in one, with the spaces between them."""
    row, inside = Tag(name="mrow"), takewhile(lambda node: node is not run[-1], list(run[0].next_siblings))
    run[0].insert_before(row)
    row.extend([run[0], *inside, run[-1]])
    return row


def mark_symbol(wanted: tuple[Any, ...], key: int, maths: list[Tag], taken: set[int]) -> int:
    """Mark where a symbol stands, each time with its indices, and say how often; `taken` belongs to longer symbols."""
    count = 0
    for parent in [node for math in maths for node in [math, *math.find_all(True)]]:
        here = parts(parent)
        for at in range(len(here) - len(wanted) + 1):
            run = here[at : at + len(wanted)]
            if tuple(map(shape, run)) != wanted:
                continue
            node = run[0]
            if len(run) > 1:
                node = together(run)
            elif id(node) in taken or is_another(node):
                continue
            while is_base(node):
                node = around(node)
            node["data-join"], count = str(key), count + 1
            while node.name in SCRIPTS:
                taken.add(id(node))
                node = parts(node)[0]
            taken.add(id(node))
    return count


def forms(symbol: str) -> set[tuple[Any, ...]]:
    r"""What a symbol looks like alone and in rows that are aligned: there ``\max`` is made in another way."""
    rows = rf"\begin{{aligned}}{symbol}\end{{aligned}}"
    alone, aligned = (BeautifulSoup(convert(latex, displaystyle=True), "html.parser") for latex in (symbol, rows))
    return {tuple(map(shape, parts(node))) for node in (*alone.select("math"), *aligned.select("mtd"))}


def mark_symbols(pairs: list[Pair], maths: list[Tag]) -> None:
    taken: set[int] = set()
    symbols = [(forms(symbol), key, symbol) for key, pair in enumerate(pairs) for symbol in pair.symbols]
    for looks, key, symbol in sorted(symbols, key=lambda s: -len(str(s[0]))):  # the longest first
        if not sum(mark_symbol(look, key, maths, taken) for look in looks):
            there = sorted({mi.get_text() for math in maths for mi in math.find_all("mi")} - {".", ","})
            raise NotFoundError(f"has no {symbol!r} beside the code; its letters are {' '.join(there)}")


# Names in code.


Mark = tuple[int, int, int]  # where a name begins and ends in the code, within a line; its pair's number


def tokens(code: str) -> list[tuple[str, int, int, int]]:
    """Each token of Python but comments: text, start, end and row."""
    starts = [0, *accumulate(len(line) for line in code.splitlines(keepends=True))]
    read = tokenize.generate_tokens(io.StringIO(code).readline)
    return [
        (t.string, starts[t.start[0] - 1] + t.start[1], starts[t.end[0] - 1] + t.end[1], t.start[0])
        for t in read
        if t.string.strip() and t.type != tokenize.COMMENT
    ]


def end_of(name: list[str], code: list[str], at: int) -> int | None:
    """The token after a name that begins at this one; None if it does not."""
    for want in name:
        if want == "...":
            depth = 0
            while at < len(code) and (depth or code[at] not in CLOSING):
                depth += (code[at] in OPENING) - (code[at] in CLOSING)
                at += 1
        elif at < len(code) and code[at] == want:
            at += 1
        else:
            return None
    return at


def places(name: str, code: list[tuple[str, int, int, int]]) -> list[tuple[int, int]]:
    """Start and end of each line of each place where a name stands; `a` is not there in `x.a`."""
    try:
        wanted = [text for text, *_ in tokens(name)]
    except tokenize.TokenError as error:
        raise NotFoundError(f"names {name!r}, which is not Python: {error.args[0]}") from None
    there, found = [text for text, *_ in code], []
    for at in range(len(code)):
        end = end_of(wanted, there, at) if not (at and there[at - 1] == ".") else None
        if end is not None:
            for _, row in groupby(code[at:end], key=lambda token: token[3]):
                line = list(row)
                found.append((line[0][1], line[-1][2]))
    return found


def nested(marks: list[Mark], pairs: list[Pair]) -> list[Mark]:
    """Each mark before those inside it; one within another of its pair says nothing new."""
    kept: list[Mark] = []
    for start, end, key in marks:
        around = [outer for outer in kept if outer[1] > start]
        if around and end > around[-1][1]:
            raise NotFoundError(f"has names that overlap: {pairs[key].names}, {pairs[around[-1][2]].names}")
        if all(outer[2] != key for outer in around):
            kept.append((start, end, key))
    return kept


def marks_of(pairs: list[Pair], codes: list[str]) -> list[list[Mark]]:
    """The marks of each cell."""
    read = [tokens(code) for code in codes]
    found: list[set[Mark]] = [set() for _ in codes]
    for key, pair in enumerate(pairs):
        for name in pair.names:
            spots = [places(name, code) for code in read]
            if not any(spots):
                there = sorted({text for code in read for text, *_ in code if text.isidentifier()})
                raise NotFoundError(f"has no {name!r} in its code; its names are {', '.join(there)}")
            for cell, spot in zip(found, spots, strict=True):
                cell |= {(start, end, key) for start, end in spot}
    return [nested(sorted(cell, key=lambda mark: (mark[0], -mark[1])), pairs) for cell in found]


def mark_code(pre: Tag, marks: list[Mark]) -> None:
    """Each name in a span, and each line, so that a long one can go on indented."""
    code, start = pre.get_text(), 0
    more: dict[int, str] = defaultdict(str)
    for _, end, _ in marks:
        more[end] += "</span>"
    for line in code.splitlines():
        indent = len(line) - len(line.lstrip())
        more[start] += f'<span class="line" style="--in: {indent}ch">' if indent else '<span class="line">'
        start += len(line) + 1
        more[start] += "</span>"
    for begin, _, key in marks:
        more[begin] += f'<span data-join="{key}">'
    made = BeautifulSoup(f"<pre>{inserted(pre.decode_contents(), more)}</pre>", "html.parser")  # it keeps white space
    pre.replace_with(*made.contents)
