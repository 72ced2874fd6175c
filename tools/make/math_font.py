"""Make book/static/math.css: the glyphs of the book's equations, out of an OpenType math font.

    python -m tools.make.math_font latinmodern-math.otf      # once, not at each build; needs `pip install brotli`

The font is Latin Modern Math (GUST Font License; Debian: fonts-lmodern, CTAN: lm-math). Within a style sheet it is
there when the page is first drawn, from a disk, too. What is changed, besides what is left out:
- primes are those made for superscripts (`ssty`), which Chromium does not ask for;
- delimiters grow to 2.4 em only, since Chromium makes each as wide as the widest that there is.
The licence asks that a changed font has another name, and so it has.
"""

from __future__ import annotations

import argparse
import base64
import io
import string
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

ROOT = Path(__file__).parents[2]
GREEK = "αβγδεθλμνπρστφχψωϕϵϑΓΔΘΛΠΣΦΨΩ"
SYMBOLS = "()[]{}|/+−=<>≤≥≠≈∼≪≫±×·⋅∗⊙⊗∘∂∈∉∑∏∫√∞′″…⋯⋮⋱→←↦∣∥⌊⌋⌈⌉⟨⟩⊤⊥∀∃∪∩⊂∖ℱℝℓ𝟙¯‾˜ˆ˙→⏟⏞̲̅,.;:!%*"
TALLEST = 2400  # thousandths of an em
FIRST = {"A": 0x1D434, "a": 0x1D44E, "Α": 0x1D6E2, "α": 0x1D6FC}  # where italic letters begin
ODD = {"h": 0x210E, "∂": 0x1D715, "ϵ": 0x1D716, "ϑ": 0x1D717, "ϕ": 0x1D719}
SCRIPT = 0x1D49C


def italic(letter: str) -> int:
    """What a browser shows for a one-letter ``<mi>``."""
    first = max((start for start in FIRST if start <= letter), key=ord)
    return ODD.get(letter) or FIRST[first] + ord(letter) - ord(first)


def characters() -> set[int]:
    """Everything that an equation of the book may show."""
    letters = string.ascii_letters
    plain = {ord(c) for c in letters + GREEK + string.digits + SYMBOLS + " "}
    slanted = {italic(c) for c in letters + GREEK + "∂"}
    script = {SCRIPT + i for i in range(26)}
    return plain | slanted | script | {ord(c) for c in "ℬℰℱℋℐℒℳℛ"}


def use_primes_of_superscripts(font: TTFont) -> None:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("font", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "book" / "static" / "math.css")
    arguments = parser.parse_args()
    font = TTFont(arguments.font, recalcTimestamp=False)  # the same bytes each time
    use_primes_of_superscripts(font)
    drop_tall_delimiters(font)
    subsetter = subset.Subsetter(subset.Options(layout_features=[], notdef_outline=True, hinting=False))
    subsetter.populate(unicodes=characters())
    subsetter.subset(font)
    for record in font["name"].names:
        if record.nameID in (1, 3, 4, 6, 16):
            record.string = "BookMath"
    font.flavor = "woff2"
    made = io.BytesIO()
    font.save(made)
    data = base64.b64encode(made.getvalue()).decode()
    note = f"/* A part of {arguments.font.name}, changed and renamed as its licence asks: tools/make/math_font.py */"
    face = f'@font-face {{ font-family: "Book Math"; src: url("data:font/woff2;base64,{data}"); }}'
    arguments.out.write_text(f"{note}\n{face}\n", encoding="utf-8")
    print(f"{arguments.out}: {len(data) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
