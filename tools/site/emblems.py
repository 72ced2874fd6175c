"""On the landing page: an emblem for each chapter, drawn for its size, in the page's own colors.

What is notable:
- one motif each, which a reader of the chapter has met there: what the last token attends to, the squared ReLU, the
  three inputs of attention, eight tokens that become two, one weight for each distance, losses that fall, two verdicts;
- shapes have one of five classes, which landing.css colors: ``ink``, ``thin``, ``full`` and ``soft``.
"""

from __future__ import annotations

from math import exp

WIDTH, HEIGHT = 160, 100


def box(x: float, y: float, width: float, height: float, name: str, shade: float = 1) -> str:
    faint = f' opacity="{shade:.2f}"' if shade < 1 else ""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="2.5" class="{name}"{faint}/>'


def path(d: str, name: str, width: float = 2.5) -> str:
    return f'<path d="{d}" class="{name}" stroke-width="{width:g}"/>'


def attention() -> str:
    """Chapter 1: the last of eight tokens attends to those before it."""
    left = [9 + 18 * i for i in range(8)]
    weights = (1.2, 1.2, 5, 1.2, 2, 3.5, 1.5)
    own = left[-1] + 8
    arcs = [
        path(f"M{own} 76C{own} {(y := 76 - 0.6 * (own - x - 8)):g} {x + 8} {y:g} {x + 8} 76", "full", width)
        for x, width in zip(left, weights, strict=False)
    ]
    return "".join([*arcs, *(box(x, 78, 15, 15, "ink") for x in left[:-1]), box(left[-1], 78, 15, 15, "full solid")])


def squared_relu() -> str:
    """Chapter 2: the squared ReLU, over the plain one."""
    curve = " ".join(f"{74 + 9 * i:g} {84 - 1.1 * i * i:.1f}" for i in range(9))
    return (
        path("M10 84H150M74 94V8", "thin", 1.5)
        + path("M74 84L150 32", "ink", 2)
        + path(f"M10 84H74L{curve}", "full", 5)
    )


def three_inputs() -> str:
    """Chapter 3: of queries, keys and values, a convolution mixes the values."""
    rows = []
    for row, letter in enumerate("qkv"):
        y = 8 + 31 * row
        mixed = letter == "v"
        rows.append(f'<text x="16" y="{y + 17}">{letter}</text>')
        rows += [box(38 + 24 * i, y, 19, 22, "full solid" if mixed and i in (1, 2, 3) else "ink") for i in range(5)]
    return "".join(rows) + path("M62 97H129", "full", 3)


def hourglass() -> str:
    """Chapter 4: eight tokens become two, and eight again."""
    tokens = [box(9 + 18 * i, y, 15, 15, "ink") for y in (4, 81) for i in range(8)]
    waist = "M9 23H150L98 42H61ZM61 58H98L150 77H9Z"
    return "".join([path(waist, "soft", 0), *tokens, *(box(62 + 19 * i, 42, 16, 16, "full solid") for i in range(2))])


def toeplitz() -> str:
    """Chapter 5: a causal matrix with one weight for each distance."""
    weights, cell = (1, 0.75, 0.18, 0.55, 0.35, 0.12, 0.28, 0.1), 12
    return "".join(
        box(33 + cell * s, 2 + cell * t, cell - 1.5, cell - 1.5, "full solid", weights[t - s])
        if s <= t
        else box(33 + cell * s, 2 + cell * t, cell - 1.5, cell - 1.5, "soft", 0.5)
        for t in range(8)
        for s in range(8)
    )


def losses() -> str:
    """Chapter 6: the losses of five models fall, and end apart."""
    made = [path("M12 6V94H152", "thin", 1.5)]
    for end, slope in ((26, 34), (38, 30), (48, 27), (57, 24), (74, 20)):
        points = [(16 + 4 * i, end + 0 - (end + 2) * exp(-4 * i / slope)) for i in range(31)]
        best = end == 74
        line = " ".join(f"{x} {8 + y:.1f}" for x, y in points)
        x, y = points[-1]
        made.append(path(f"M{line}", "full" if best else "ink", 4.5 if best else 1.5))
        made.append(
            f'<circle cx="{x}" cy="{8 + y:.1f}" r="{6 if best else 3}" class="{"full solid" if best else "ink"}"/>'
        )
    return "".join(made)


def verdict() -> str:
    """Chapter 7: two differences from a baseline with their intervals, one sure and one not."""
    return (
        path("M110 4V96", "thin", 1.5)
        + path("M22 32H88", "full", 4)
        + '<circle cx="55" cy="32" r="9" class="full solid"/>'
        + path("M60 70H95M113 70H150", "ink", 3)
        + '<circle cx="104" cy="70" r="8" class="ink" stroke-width="3"/>'
    )


EMBLEMS = {
    "01-transformer": attention,
    "02-primer-ez": squared_relu,
    "03-primer-variations": three_inputs,
    "04-hourglass": hourglass,
    "05-gmlp": toeplitz,
    "06-head-to-head": losses,
    "07-your-own": verdict,
}


def emblem(name: str) -> str:
    """The emblem of a chapter, which says nothing that its card does not say.

    Raises:
        ValueError: for a chapter without one.
    """
    if name not in EMBLEMS:
        raise ValueError(f"{name} has no emblem; expected one in tools/site/emblems.py")
    return f'<svg class="emblem" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">{EMBLEMS[name]()}</svg>'
