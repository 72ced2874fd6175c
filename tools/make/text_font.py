"""Make book/static/type.css: the letters of the book's text, out of two families that were drawn to go together.

    python -m tools.make.text_font SERIF SANS      # once, not at each build; needs `pip install brotli`

SERIF and SANS are the folders of the npm packages @fontsource-variable/source-serif-4 and source-sans-3 (SIL Open Font
License 1.1). Prose and headings are set in the serif, tables, captions and controls in the sans; code and math have
faces of their own. Within a style sheet the letters are there when the page is first drawn, from a disk, too. Of each
font, what remains are the characters of `CHARACTERS`, which tests/site/test_layout.py compares with the pages, and one
weight, or a range of weights. The licence asks that a changed font has another name, and so it has; it is served
beside the style sheet.
"""

from __future__ import annotations

import argparse
import base64
import io
import string
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

ROOT = Path(__file__).parents[2]
CHARACTERS = string.ascii_letters + string.digits + string.punctuation + " \xa0©±·×²¹éöüß–—‘’“”…−"
EXTENDED = "Łłń"  # in a file of their own
Axes = dict[str, float | tuple[float, float]]
FACES: list[tuple[str, str, str, Axes, str, str]] = [  # name, folder, file, the axes' values, weight and style in CSS
    ("Book Text", "serif", "latin-opsz-normal", {"wght": 400, "opsz": 14}, "400", "normal"),
    ("Book Text", "serif", "latin-ext-opsz-normal", {"wght": 400, "opsz": 14}, "400", "normal"),  # names of authors
    ("Book Text", "serif", "latin-opsz-normal", {"wght": 600, "opsz": 20}, "600", "normal"),  # headings too
    ("Book Text", "serif", "latin-opsz-italic", {"wght": 400, "opsz": 14}, "400", "italic"),
    ("Book Sans", "sans", "latin-wght-normal", {"wght": (400, 600)}, "400 600", "normal"),
]
FEATURES = ["kern", "liga", "ccmp", "locl", "mark", "tnum", "lnum"]


def cut(path: Path, axes: Axes, name: str) -> tuple[bytes, str]:
    """The font with the book's characters at one place of its axes, and which characters these are."""
    font = TTFont(path, recalcTimestamp=False)  # the same bytes each time
    wanted = EXTENDED if "-ext-" in path.name else CHARACTERS
    kept = "".join(c for c in wanted if ord(c) in font.getBestCmap())
    options = subset.Options(layout_features=FEATURES, hinting=False, notdef_outline=True, name_IDs=[1, 2, 4, 6])
    options.drop_tables += ["STAT"]
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=kept)
    subsetter.subset(font)
    instancer.instantiateVariableFont(font, axes, inplace=True)
    for record in font["name"].names:
        if record.nameID in (1, 3, 4, 6, 16):
            record.string = name.replace(" ", "")
    font.flavor = "woff2"
    made = io.BytesIO()
    font.save(made)
    return made.getvalue(), kept


def copyright_of(folder: Path) -> str:
    """Whose letters they are, as the font itself says."""
    font = TTFont(next(folder.glob("files/*-latin-*-normal.woff2")))
    return str(font["name"].getDebugName(0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("serif", type=Path)
    parser.add_argument("sans", type=Path)
    arguments = parser.parse_args()
    static, total = ROOT / "book" / "static", 0
    css = [
        "/* Parts of Source Serif 4 and Source Sans 3 (SIL Open Font License 1.1: fonts-license.txt), changed and "
        "renamed as it asks: tools/make/text_font.py */"
    ]
    for name, folder, file, axes, weight, style in FACES:
        made, kept = cut(next(getattr(arguments, folder).glob(f"files/*-{file}.woff2")), axes, name)
        total += len(made)
        only = f" unicode-range: {', '.join(f'U+{ord(c):X}' for c in kept)};" if "-ext-" in file else ""
        css.append(
            f'@font-face {{ font-family: "{name}"; font-weight: {weight}; font-style: {style}; '
            f'font-display: block;{only} src: url("data:font/woff2;base64,{base64.b64encode(made).decode()}"); }}'
        )
    (static / "type.css").write_text("\n".join(css) + "\n", encoding="utf-8")
    owners = [copyright_of(folder) for folder in (arguments.serif, arguments.sans)]
    _, *terms = (arguments.serif / "LICENSE").read_text(encoding="utf-8").split("\n")  # the first line is the package's
    (static / "fonts-license.txt").write_text("\n".join([*owners, *terms]), encoding="utf-8")
    print(f"{static / 'type.css'}: {total / 1000:.1f} kB of fonts")


if __name__ == "__main__":
    main()
