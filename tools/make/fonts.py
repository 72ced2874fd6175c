"""Make book/static/type.css, the letters of the book's text, math.css, the glyphs of its equations, and book-sans.ttf,
the letters of its figures.

    python -m tools.make.fonts SERIF SANS MATH      # once, not at each build; needs `pip install brotli`

SERIF and SANS are the folders of the npm packages @fontsource-variable/source-serif-4 and source-sans-3 (SIL Open Font
License 1.1), MATH is latinmodern-math.otf (GUST Font License; Debian: fonts-lmodern). Within a style sheet the letters
are there when the page is first drawn, from a disk, too. Of each font remain the characters that follow, which
tests/site/test_layout.py compares with the pages. The licences ask that a changed font has another name.
"""

from __future__ import annotations

import base64
import io
import string
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fontTools import subset
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "book" / "static"
FIGURES = ROOT / "src" / "efficient_transformers" / "book" / "book-sans.ttf"
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
# Letters of equations as a browser shows them, italic or script, and what else an equation may show.
MATH = (
    string.ascii_letters + string.digits + " αβγδεθλμνπρστφχψωϕϵϑΓΔΘΛΠΣΦΨΩ"
    "()[]{}|/+−=<>≤≥≠≈∼≪≫±×·⋅∗⊙⊗∘∂∈∉∑∏∫√∞′″…⋯⋮⋱→←↦∣∥⌊⌋⌈⌉⟨⟩⊤⊥∀∃∪∩⊂∖ℱℝℓ𝟙¯‾˜ˆ˙→⏟⏞̲̅,.;:!%*"
    "ℎ𝜕𝜖𝜗𝜙" + "".join(map(chr, [*range(0x1D434, 0x1D468), *range(0x1D49C, 0x1D4B6)])) + "ℬℰℱℋℐℒℳℛ"
    "𝛼𝛽𝛾𝛿𝜀𝜃𝜆𝜇𝜈𝜋𝜌𝜎𝜏𝜑𝜒𝜓𝜔𝛤𝛥𝛩𝛬𝛱𝛴𝛷𝛹𝛺"
)
LANDING = "(),./=′∑≤⋅√−aeKkpqstvxy" + "𝑎𝐾𝑘𝑞𝑠𝑡𝑣𝑦"  # of its one block
TALLEST = 2400  # thousandths of an em: Chromium makes each delimiter as wide as the widest that there is


def part(font: TTFont, characters: Iterable[str], name: str, axes: Axes, **options: list[Any]) -> TTFont:
    """The font with these characters, at one place of its axes."""
    chosen = subset.Options(hinting=False, notdef_outline=True, **options)
    chosen.drop_tables += ["STAT"]
    subsetter = subset.Subsetter(chosen)
    subsetter.populate(text="".join(characters))
    subsetter.subset(font)
    if axes:
        instancer.instantiateVariableFont(font, axes, inplace=True)
    for record in font["name"].names:
        if record.nameID in (1, 3, 4, 6, 16):
            record.string = name.replace(" ", "")
    return font


def rule(font: TTFont, name: str, css: str = "") -> str:
    """The font in a style sheet."""
    font.flavor = "woff2"
    made = io.BytesIO()
    font.save(made)
    data = base64.b64encode(made.getvalue()).decode()
    return f'@font-face {{ font-family: "{name}";{css} src: url("data:font/woff2;base64,{data}"); }}\n'


def for_matplotlib(font: TTFont) -> None:
    """Its lines as close as those of a figure; the licence stays in its table of names."""
    every = map(chr, font.getBestCmap())
    part(font, every, "Book Sans", {"wght": 400}, layout_features=["kern"], name_IDs=[0, 1, 2, 4, 6, 13, 14])
    font["hhea"].ascent = font["OS/2"].sTypoAscender = 800
    font["hhea"].descent = font["OS/2"].sTypoDescender = -250
    font.flavor = None
    font.save(FIGURES)


def use_primes_of_superscripts(font: TTFont) -> None:
    """Those of `ssty`, which Chromium does not ask for."""
    table, prime = font["GSUB"].table, font.getBestCmap()[0x2032]
    for feature in (f.Feature for f in table.FeatureList.FeatureRecord if f.FeatureTag == "ssty"):
        for part in (p for i in feature.LookupListIndex for p in table.LookupList.Lookup[i].SubTable):
            part = getattr(part, "ExtSubTable", part)
            choices = getattr(part, "alternates", None) or {k: [v] for k, v in part.mapping.items()}
            if prime in choices:
                for cmap in (c.cmap for c in font["cmap"].tables if 0x2032 in c.cmap):
                    cmap[0x2032] = choices[prime][0]


def drop_tall_delimiters(font: TTFont) -> None:
    limit = TALLEST * font["head"].unitsPerEm / 1000
    for construction in font["MATH"].table.MathVariants.VertGlyphConstruction:
        variants = construction.MathGlyphVariantRecord
        kept = [v for v in variants if v.AdvanceMeasurement <= limit] or variants[:1]
        construction.MathGlyphVariantRecord, construction.VariantCount = kept, len(kept)
        construction.GlyphAssembly = None


def main(serif: Path, sans: Path, math: Path) -> None:
    css = (
        "/* Parts of Source Serif 4 and Source Sans 3 (SIL Open Font License 1.1: fonts-license.txt), changed and "
        "renamed as it asks: tools/make/fonts.py */\n"
    )
    for name, folder, file, axes, weight, style in FACES:
        path = next({"serif": serif, "sans": sans}[folder].glob(f"files/*-{file}.woff2"))
        font = TTFont(path, recalcTimestamp=False)  # the same bytes each time
        kept = "".join(c for c in (EXTENDED if "-ext-" in file else CHARACTERS) if ord(c) in font.getBestCmap())
        only = f" unicode-range: {', '.join(f'U+{ord(c):X}' for c in kept)};" if "-ext-" in file else ""
        part(font, kept, name, axes, layout_features=FEATURES, name_IDs=[1, 2, 4, 6])
        css += rule(font, name, f" font-weight: {weight}; font-style: {style}; font-display: block;{only}")
    (STATIC / "type.css").write_text(css, encoding="utf-8")
    for_matplotlib(TTFont(path, recalcTimestamp=False))
    for file, characters in {"math.css": MATH, "landing-math.css": LANDING}.items():
        font = TTFont(math, recalcTimestamp=False)
        use_primes_of_superscripts(font)
        drop_tall_delimiters(font)
        css = f"/* A part of {math.name}, changed and renamed as its licence asks: tools/make/fonts.py */\n"
        css += rule(part(font, characters, "Book Math", {}, layout_features=[]), "Book Math")
        (STATIC / file).write_text(css, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
