"""On the page What would it cost?: its fields, and a table that is right before a script has run.

What is notable:
- ``<!-- costs -->`` becomes both; static/cost-page.js computes the table anew for other sizes, with static/cost.js;
- the numbers of the table are the package's: what a reader without JavaScript sees is its cost model;
- each number carries its exact value in ``data``, since what is shown is rounded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from efficient_transformers import LanguageModel, build_model
from efficient_transformers.studies.cost import cache_bytes, cost_model, effective_parameters, multiply_adds

PAGE = "book/what-would-it-cost"
MARK = "<!-- costs -->"
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {  # what a row is called, and how its model is made
    "transformer": ("Transformer", "transformer", {}),
    "swiglu": ("SwiGLU", "primer-ez", {"convolve": "", "activation": "swiglu"}),
    "primer-ez": ("Primer EZ", "primer-ez", {}),
    "primer": ("full Primer", "primer", {}),
    "hourglass": ("Hourglass", "hourglass", {}),
    "gmlp": ("gMLP", "gmlp", {}),
    "dense-gmlp": ("dense gMLP", "dense-gmlp", {}),
    "amlp": ("aMLP", "amlp", {}),
}
BASELINE, CHOSEN = "transformer", "hourglass"
COLUMNS = {
    "parameters": "parameters",
    "multiply_adds": "multiply-adds per token",
    "activation_bytes": "kept for backward",
    "cache_bytes": "cache",
}


class Field(NamedTuple):
    """A size that a reader sets: what it is called, what it is at first, and the largest that is taken."""

    title: str
    value: int | None
    most: int


FIELDS = {
    "T": Field("Tokens T", 256, 1_000_000),
    "D": Field("Width D", 128, 65_536),
    "L": Field("Layers", 4, 1_000),
    "H": Field("Heads", 4, 1_024),
    "F": Field("Hidden channels", None, 1_000_000),
    "V": Field("Vocabulary", 79, 10_000_000),
}
SIZES = {name: field.value for name, field in FIELDS.items() if field.value is not None}
RESAMPLINGS = {
    "simplest": ("means and copies", {}),
    "linear": ("linear", {"shortening": "linear", "up_sampling": "linear"}),
    "attention": ("attention", {"shortening": "attention", "up_sampling": "attention"}),
}


def model_of(family: str, sizes: dict[str, int], **options: Any) -> LanguageModel:
    """The model of a row, without memory for its weights; gMLP has two blocks for each layer."""
    _, name, fixed = FAMILIES[family]
    layers = 2 * sizes["L"] if "mlp" in family else None if "hierarchy" in options else sizes["L"]
    with torch.device("meta"):
        return build_model(
            name,
            vocab_size=sizes["V"],
            d_model=sizes["D"],
            n_layers=layers,
            n_heads=sizes["H"],
            d_ff=sizes.get("F"),
            max_seq_len=sizes["T"],
            **fixed,
            **options,
        )


def costs_of(model: LanguageModel, T: int) -> dict[str, float]:
    """What the columns show."""
    return {
        "parameters": effective_parameters(model),
        "multiply_adds": multiply_adds(model, T),
        "activation_bytes": T * cost_model(model.body, T).activation_bytes,
        "cache_bytes": cache_bytes(model.body, T),
    }


def rounded(value: float, what: str) -> str:
    """Three digits and a unit, as cost-page.js writes them."""
    units = ("B", "kB", "MB", "GB", "TB", "PB") if what.endswith("bytes") else ("", "k", "M", "G", "T", "P")
    value, power = float(f"{value:.3g}"), 0
    while value >= 1000 and power < len(units) - 1:
        value, power = value / 1000, power + 1
    digits = f"{value:#.3g}".rstrip(".") if power else f"{value:g}"
    return f"{digits} {units[power]}" if units[0] else f"{digits}{units[power]}"


def ratio(value: float, baseline: float) -> str:
    share = value / baseline
    return f"× {share:.2f}" if share < 10 else f"× {share:,.0f}"


def control(name: str) -> str:
    field = FIELDS[name]
    value = 'placeholder="4 D"' if field.value is None else f'value="{field.value}"'
    return (
        f'<div class="field"><label>{field.title} <input type="number" name="{name}" min="1" max="{field.most}" '
        f'step="1" {value} aria-describedby="wrong-{name}"></label><p class="wrong" id="wrong-{name}"></p></div>'
    )


def controls() -> str:
    options = "".join(f'<option value="{name}">{title}</option>' for name, (title, _) in RESAMPLINGS.items())
    return (
        f'<div class="models-row sizes" role="group" aria-label="Sizes">{"".join(map(control, FIELDS))}</div>'
        '<div class="models-row sizes" role="group" aria-label="The hourglass, and starts">'
        '<div class="field hierarchy"><label>'
        'Hourglass as layers@factor <input type="text" name="hierarchy" list="hierarchies" spellcheck="false" '
        'autocomplete="off" aria-describedby="wrong-hierarchy"></label><p class="wrong" id="wrong-hierarchy"></p>'
        '<datalist id="hierarchies"><option value="1@1 2@2 1@1"></option><option value="1@1 6@8 1@1"></option>'
        '<option value="2@1 4@2 8@6 4@2 2@1"></option></datalist></div>'
        f'<label>Its resampling <select name="resampling">{options}</select></label>'
        '<span class="starts" role="group" aria-label="Start from">'
        '<button type="button" class="models-button" data-start="">The book’s sizes</button> '
        '<button type="button" class="models-button" data-start="T=1024&amp;D=768&amp;L=12&amp;H=12&amp;V=50257">'
        "GPT-2’s</button></span></div>"
    )


def row(family: str, costs: dict[str, dict[str, float]]) -> str:
    cells = "".join(
        f'<td data-what="{what}"><data value="{value:.17g}">{rounded(value, what)}</data> '
        f"<small>{ratio(value, costs[BASELINE][what])}</small></td>"
        for what, value in costs[family].items()
    )
    chosen = " checked" if family == CHOSEN else ""
    radio = f'<input type="radio" name="model" value="{family}"{chosen}>'
    return f'<tr data-model="{family}"><th scope="row"><label>{radio} {FAMILIES[family][0]}</label></th>{cells}</tr>'


def page() -> str:
    costs = {family: costs_of(model_of(family, SIZES), SIZES["T"]) for family in FAMILIES}
    heads = "".join(f'<th scope="col">{title}</th>' for title in COLUMNS.values())
    shows = "".join(f'<option value="{what}">{title}</option>' for what, title in COLUMNS.items())
    shows = shows.replace('value="multiply_adds"', 'value="multiply_adds" selected')
    return (
        f'<div class="models cost wide" id="what-would-it-cost-here">{controls()}'
        '<p class="said" aria-live="polite"></p><div class="both"><div class="pst-scrollable-table-container">'
        f'<table class="table cost-table"><thead><tr><th scope="col">model</th>{heads}</tr></thead>'
        f"<tbody>{''.join(row(family, costs) for family in FAMILIES)}</tbody></table></div>"
        f'<div class="grows"><label>Drawn against the tokens <select name="shows">{shows}</select></label>'
        '<div class="drawing"></div></div></div></div>'
    )


def fill(app: Any, docname: str, source: list[str]) -> None:
    if docname == PAGE:
        source[0] = source[0].replace(MARK, f"```{{raw}} html\n{page()}\n```")
