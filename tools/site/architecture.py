"""On the site: the floors of the package and what imports what, drawn from the code.

What is notable:
- ``<!-- architecture -->`` in a page becomes the picture, at each build, so that it cannot be out of date;
- the floors and their order are those that `lint-imports` holds, in ``pyproject.toml``;
- one column, and all arrows lead down, on the right, a longer one outside: so it is legible on a phone.
"""

from __future__ import annotations

import ast
import html
import tomllib
from collections import defaultdict
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = "efficient_transformers"
SOURCE = ROOT / "src" / PACKAGE
MARK = "<!-- architecture -->"
WIDTH, BOX, LINE, GAP, BEND = 350, 258, 16, 18, 18  # CSS pixels
LETTERS = 38  # of a line in a box
HEADED = 'marker-end="url(#architecture-head)"'
HEAD = (
    '<defs><marker id="architecture-head" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
)
Arrow = tuple[int, int]  # places of floors: of the one that imports, of what it imports from


class Floor(NamedTuple):
    """A folder of the package, or those modules of its top that stand between two folders; and what it is."""

    names: list[str]
    about: str

    @property
    def title(self) -> str:
        return ", ".join(self.names)


def floors() -> list[Floor]:
    """From the roof to the ground."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[Floor] = []
    for name in " | ".join(project["tool"]["importlinter"]["contracts"][0]["layers"]).split(" | "):
        folder = SOURCE / name / "__init__.py"
        if folder.exists():
            about = ast.get_docstring(ast.parse(folder.read_text(encoding="utf-8"))) or ""
            found.append(Floor([name], about.partition("\n")[0]))
        elif found and not found[-1].about:
            found[-1].names.append(name)
        else:
            found.append(Floor([name], ""))
    return found


def imported(path: Path) -> set[str]:
    """The folders and modules at the top of the package that a file of it imports from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            home = path.relative_to(SOURCE).parts[:-1]
            module = [*home[: len(home) + 1 - node.level], *filter(None, (node.module or "").split("."))]
            found |= {module[0]} if module else {alias.name for alias in node.names}
    return found


def arrows(levels: list[Floor]) -> list[Arrow]:
    """What imports from what."""
    place = {name: i for i, level in enumerate(levels) for name in level.names}
    found = set()
    for path in SOURCE.rglob("*.py"):
        top = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        found |= {(place[top], place[name]) for name in imported(path) & place.keys() if top in place}
    return sorted((a, b) for a, b in found if a != b)


def described(levels: list[Floor], found: list[Arrow]) -> str:
    """The picture in words."""
    below: dict[int, list[str]] = defaultdict(list)
    for upper, lower in found:
        below[upper].append(levels[lower].title)
    said = " ".join(f"{levels[i].title} from {'; '.join(names)}." for i, names in below.items())
    return f"The floors of the package, from the roof to the ground, and what each imports from. {said}"


def ends(place: int, found: list[Arrow]) -> list[Arrow]:
    """The arrows at a floor, from its top: what comes in, then what goes out, so that no two of them cross there."""
    return sorted((a for a in found if a[1] == place), reverse=True) + [a for a in reversed(found) if a[0] == place]


def svg() -> str:
    levels = floors()
    found, boxes, y = arrows(levels), [], 1
    at: dict[tuple[int, Arrow], float] = {}  # how far down an arrow is at the edge of a floor
    for place, level in enumerate(levels):
        lines = [f'<tspan x="12" dy="{LINE}" class="title">{line}</tspan>' for line in wrap(level.title, LETTERS - 4)]
        lines += [f'<tspan x="12" dy="{LINE}">{html.escape(line)}</tspan>' for line in wrap(level.about, LETTERS)]
        touching = ends(place, found)
        height = max(LINE * len(lines) + 14, 8 * len(touching) + 8)
        boxes.append(f'<rect x="1" y="{y}" width="{BOX}" height="{height}" rx="4"/><text y="{y + 5}">')
        boxes += [*lines, "</text>"]
        at |= {(place, arrow): y + height * (i + 1) / (len(touching) + 1) for i, arrow in enumerate(touching)}
        y += height + GAP
    curves = []
    for upper, lower in found:
        start, stop = (round(at[place, (upper, lower)], 1) for place in (upper, lower))
        bend = round(BOX + BEND * (lower - upper + 0.6))
        curves.append(f'<path d="M{BOX + 1} {start}C{bend} {start} {bend} {stop} {BOX + 8} {stop}" {HEADED}/>')
    return (
        f'<svg class="architecture" role="img" aria-label="{html.escape(described(levels, found))}" '
        f'viewBox="0 0 {WIDTH} {y - GAP + 1}" width="{WIDTH}">{HEAD}{"".join(curves + boxes)}</svg>'
    )


def draw(app: Any, docname: str, source: list[str]) -> None:
    if MARK in source[0]:
        source[0] = source[0].replace(MARK, f"```{{raw}} html\n{svg()}\n```")
