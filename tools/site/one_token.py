"""On the page *One token, all the way*: its settings, and the numbers that stand there before a model is loaded.

What is notable:
- they are recorded when the page is built, by forward hooks on the package's model, and drawn as static/token-page.js
  draws them, so that a reader without JavaScript sees them too, and nothing moves when they come alive;
- of the steps of all models, which the page's text describes, those of the recorded model have numbers.
"""

from __future__ import annotations

import html
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from bs4 import BeautifulSoup
from torch import Tensor

from efficient_transformers import LanguageModel, Vocabulary
from efficient_transformers.layers.attention import Attention
from efficient_transformers.training.runs import load
from tools.site import models

PAGE = "book/one-token"
SHOWN = ("transformer", "primer-ez", "hourglass", "gmlp")
MODEL, TEXT, PLACE, LAYER, HEAD = "transformer", "To be, or not to be", 18, 0, 0
LEVELS, TOP, LARGEST = 6, 5, 4  # shades on each side of 0, characters that may come, terms: as in token-page.js
GLYPHS = {"\n": "↵", " ": "␣"}


class Numbers(NamedTuple):
    """Some numbers of a step; those with labels are bars, those with chances a list; one of them may be marked."""

    label: str
    values: list[float]
    labels: list[str] | None = None
    chances: list[float] | None = None
    marked: int | None = None


class Recorded(NamedTuple):
    """The numbers of each step; and the largest of the query as its factors, an input and a weight for each channel."""

    steps: dict[str, list[Numbers]]
    channel: int
    factors: list[tuple[float, float]]


@torch.no_grad()
def recorded(model: LanguageModel, vocabulary: Vocabulary) -> Recorded:
    """The numbers of each step of the page's first setting."""
    taken: dict[str, tuple[Any, ...]] = {}
    given: dict[str, Tensor] = {}
    names: dict[torch.nn.Module, str] = {}
    for name, module in model.named_modules():
        names[module] = name

        def keep(module: torch.nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
            taken[names[module]], given[names[module]] = inputs, output

        module.register_forward_hook(keep)
    layer: Any = model.body.get_submodule(str(LAYER))
    attention: Attention = layer.attention
    logits = model(vocabulary.encode(TEXT)[None])[0, PLACE]

    def gave(name: str) -> list[float]:
        return given[name][0, PLACE].tolist()

    def took(name: str) -> list[float]:
        return taken[name][0][0, PLACE].tolist()

    prefix = f"body.{LAYER}"
    q, k, v = (attention.split(given[f"{prefix}.attention.{name}"]) for name in ("query", "key", "value"))
    turned_q, turned_k = attention.turn(q, k, 0, 0)
    scores = (turned_q @ turned_k.mT)[0, HEAD, PLACE, : PLACE + 1] / q.shape[-1] ** 0.5
    weights = attention.weights(turned_q, turned_k)[0, HEAD, PLACE, : PLACE + 1]
    letters = [GLYPHS.get(c, c) for c in TEXT[: PLACE + 1]]
    of_head = slice(HEAD * q.shape[-1], (HEAD + 1) * q.shape[-1])
    best = logits.topk(TOP)
    channel = int(q[0, HEAD, PLACE].abs().argmax())
    factors = list(zip(gave(f"{prefix}.norm1"), attention.query.weight[of_head][channel].tolist(), strict=True))
    steps = defaultdict(list)
    for step, numbers in (
        ("embedding", Numbers("E", took("body"))),
        ("stream", Numbers("x", took(prefix))),
        ("norm", Numbers("LN(x)", gave(f"{prefix}.norm1"))),
        ("project", Numbers("q", q[0, HEAD, PLACE].tolist(), marked=channel)),
        ("project", Numbers("k", k[0, HEAD, PLACE].tolist())),
        ("project", Numbers("v", v[0, HEAD, PLACE].tolist())),
        ("turn", Numbers("q, turned", turned_q[0, HEAD, PLACE].tolist())),
        ("turn", Numbers("k, turned", turned_k[0, HEAD, PLACE].tolist())),
        ("scores", Numbers("q · k / √K", scores.tolist(), letters)),
        ("weights", Numbers("a", weights.tolist(), letters)),
        ("head", Numbers("y", took(f"{prefix}.attention.output")[of_head])),
        ("attention", Numbers("Attention", gave(f"{prefix}.attention"))),
        ("residual", Numbers("h", took(f"{prefix}.norm2"))),
        ("second-norm", Numbers("LN(h)", gave(f"{prefix}.norm2"))),
        ("hidden", Numbers("hidden", took(f"{prefix}.feed_forward.down"))),
        ("feed-forward", Numbers("FFN", gave(f"{prefix}.feed_forward"))),
        ("output", Numbers("y", gave(prefix))),
        ("last-norm", Numbers("LN(y)", gave("norm"))),
        (
            "logits",
            Numbers(
                "logits",
                best.values.tolist(),
                [vocabulary.decode(token[None]) for token in best.indices],
                logits.softmax(0)[best.indices].tolist(),
            ),
        ),
    ):
        steps[step].append(numbers)
    return Recorded(steps, channel, factors)


def shown(x: float, digits: int = 2) -> str:
    return f"{x:z.{digits}f}".replace("-", "−")  # no minus before a zero


def strip(values: list[float], marked: int | None) -> str:
    """Cells as strokes of a few shades, and the largest numbers below them."""
    n = len(values)
    columns = n if n <= 32 else 128
    most = max(map(abs, values))
    places: dict[str, str] = defaultdict(str)
    for i, x in enumerate(values):
        if level := int(LEVELS * abs(x) / most + 0.5):
            places[f"{'minus' if x < 0 else 'plus'} level-{level}"] += f"M{i % columns} {i // columns + 0.5}h1"
    paths = "".join(f'<path class="{name}" d="{moves}"></path>' for name, moves in places.items())
    taken: list[float] = []
    largest = ""
    for i in sorted(range(n), key=lambda i: -abs(values[i]))[:12]:
        at = (i % columns + 0.5) / columns
        if len(taken) < 3 and all(abs(at - other) > 0.16 for other in taken):
            taken.append(at)
            largest += f'<small style="left: {100 * min(0.95, max(0.05, at)):.1f}%">{shown(values[i])}</small>'
    mark = (
        ""
        if marked is None
        else f'<i class="token-mark" style="left: {100 * marked / n}%; width: {100 / n}%; height: 100%"></i>'
    )
    return (
        f'<div class="token-numbers"><div class="token-cells" style="--rows: {-(-n // columns)}">'
        f'<svg viewBox="0 0 {columns} {-(-n // columns)}" preserveAspectRatio="none" aria-hidden="true">{paths}</svg>'
        f'{mark}</div></div><div class="token-largest" aria-hidden="true">{largest}</div>'
    )


def bars(values: list[float], labels: list[str]) -> str:
    """Bars over characters, up and down from 0."""
    up, down = max(0.0, *values), max(0.0, *(-x for x in values))
    best = max(map(abs, values))
    made = "".join(
        f'<span><span class="token-bar"><i class="{"minus" if x < 0 else "plus"}" '
        f'style="--size: {abs(x) / (up + down):.3f}"></i>'
        f"{f'<small>{shown(x)}</small>' if abs(x) == best else ''}</span><b>{html.escape(label)}</b></span>"
        for x, label in zip(values, labels, strict=True)
    )
    style = f"--columns: {len(values)}; --up: {up / (up + down):.3f}; --down: {down / (up + down):.3f}"
    return f'<div class="token-numbers"><div class="token-bars" style="{style}">{made}</div></div>'


def top(numbers: Numbers) -> str:
    """Characters that may come, with logit and probability."""
    made = "".join(
        f'<div><b>{html.escape(GLYPHS.get(c, c))}</b><span><i style="--size: {p:.3f}"></i></span>'
        f"<small>{shown(x)} · {100 * p:.{1 if p < 0.0995 else 0}f}\N{NO-BREAK SPACE}%</small></div>"
        for x, c, p in zip(numbers.values, numbers.labels or (), numbers.chances or (), strict=True)
    )
    return f'<div class="token-numbers"><div class="token-list">{made}</div></div>'


def drawn(numbers: Numbers) -> str:
    if numbers.chances:
        picture = top(numbers)
    else:
        picture = bars(numbers.values, numbers.labels) if numbers.labels else strip(numbers.values, numbers.marked)
    return f'<div class="token-row"><span class="token-label">{numbers.label}</span><div>{picture}</div></div>'


def a_sum(channel: int, factors: list[tuple[float, float]]) -> str:
    """How a number of the query came about: its largest products, the others, and all together."""
    products = [x * weight for x, weight in factors]
    order = sorted(range(len(products)), key=lambda i: -abs(products[i]))
    top, others = order[:LARGEST], order[LARGEST:]
    most = max(abs(products[i]) for i in top)
    rows = "".join(
        f'<tr><th scope="row">channel {i}</th><td>{" × ".join(shown(y, 3) for y in factors[i])}</td>'
        f'<td>{shown(products[i], 3)}</td><td aria-hidden="true"><i class="{"minus" if products[i] < 0 else "plus"}" '
        f'style="--size: {abs(products[i]) / most:.3f}"></i></td></tr>'
        for i in top
    )
    rest, result = shown(sum(products[i] for i in others), 3), shown(sum(products), 3)
    rows += f'<tr><th scope="row">{len(others)} others</th><td></td><td>{rest}</td><td aria-hidden="true"></td></tr>'
    return (
        f'<div class="token-sum"><p class="token-sum-title" role="status">q, channel {channel}: '
        f'<strong>{result}</strong></p><p class="token-sum-how">{len(products)} products: each channel of the input × '
        f"a learned weight</p><table><tbody>{rows}</tbody></table>"
        f'<p class="token-sum-total">Together {result}</p></div>'
    )


def settings(model: LanguageModel) -> str:
    """What the script of the page begins with, as attributes."""
    config = model.config or {}
    n_layers = config["n_layers"]
    layers = ",".join(f"{layer + 1} of {n_layers}" for layer in range(n_layers))
    given = {
        "weights": f"../_static/{models.FOLDER}/",
        "model": MODEL,
        "text": TEXT,
        "place": PLACE,
        "layer": LAYER,
        "head": HEAD,
        "layers": layers,
        "heads": config["n_heads"],
    }
    return " ".join(f'data-{name}="{html.escape(str(value))}"' for name, value in given.items())


def fill(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Settings and the recorded numbers."""
    if pagename != PAGE:
        return
    model, vocabulary = load(Path(MODEL))
    steps, channel, factors = recorded(model, vocabulary)
    body = context["body"]
    for asked, given in (
        ("<!-- one token -->", settings(model)),
        ("<!-- models of one token -->", models.options(SHOWN)),
        ("<!-- a sum -->", a_sum(channel, factors)),
    ):
        body = body.replace(asked, given)
    page = BeautifulSoup(body, "html.parser")
    for element in page.select(".token-step"):
        step = next(name.removeprefix("step-") for name in element["class"] if name.startswith("step-"))
        if step in steps:
            pictures = "".join(map(drawn, steps[step]))
            element.append(BeautifulSoup(f'<div class="token-shown">{pictures}</div>', "html.parser"))
        else:
            element["class"] = " ".join(
                [*element.get_attribute_list("class"), "token-other"]
            )  # until another model is chosen
    context["body"] = str(page)
