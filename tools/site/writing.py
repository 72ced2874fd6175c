"""On the landing page: two models that write, side by side: first what they wrote when the page was built.

What is notable:
- the models that ship write the recorded text here, from one seed, so that it is never older than their weights; a
  character's tint is its surprise, as on *Write with it*;
- on a press, static/landing.js loads the models and the scripts of *Write with it*, which go on from the same text.
"""

from __future__ import annotations

from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path

import torch
import torch.nn.functional as F

from efficient_transformers import generate
from efficient_transformers.training.runs import load
from tools.site import models

PROMPT = "ROMEO:\n"
NEW = 240  # characters: with the prompt they fit into what the models read at once
SEED, TEMPERATURE, TOP_K = 1, 0.8, 20  # the last two as on the page Write with it
MOST = 6  # nats of surprise that have the full tint, as in model-page.js
PAIR = {"transformer": "reads with attention", "gmlp": "reads with a learned matrix"}


@cache
def written(name: str) -> tuple[str, list[float]]:
    """What a model wrote after the prompt, the prompt included, and the surprise of each character but the first."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a token is too little work for more
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model, vocabulary = load(Path(name))
        prompt = vocabulary.encode(PROMPT)[None]  # (1, T)
        tokens = generate(model, prompt, NEW, temperature=TEMPERATURE, top_k=TOP_K, seed=SEED)
        surprise = F.cross_entropy(model(tokens[:, :-1])[0], tokens[0, 1:], reduction="none")
    torch.set_num_threads(threads)
    return vocabulary.decode(tokens[0]), surprise.tolist()


def tinted(name: str) -> str:
    """The text in spans, one for neighbors of one shade; what is hardly surprising has none."""
    text, surprise = written(name)
    shades = [round(10 * min(1.0, nats / MOST)) for nats in (0.0, *surprise)]
    made = []
    for shade, group in groupby(zip(shades, text, strict=True), key=lambda pair: pair[0]):
        inside = escape("".join(c for _, c in group))
        made.append(f'<span style="--shade:{shade / 10:g}">{inside}</span>' if shade else inside)
    return "".join(made)


def panel(name: str) -> str:
    title = models.TITLES[name]
    return (
        f'<div class="models-panel" data-model="{name}"><p class="models-name"><strong>{title}</strong>'
        f'<small>{PAIR[name]}</small></p><div class="models-text" role="group" tabindex="0" '
        f'aria-label="What {title} wrote">{tinted(name)}</div></div>'
    )


def strip() -> str:
    """Both panels, and the button that lets them write on."""
    size = sum(models.weights_of(name).stat().st_size for name in PAIR) / 1e6
    return (
        f'<div class="models" id="two-write-here" data-weights="../_static/{models.FOLDER}/" '
        f'data-scripts="{" ".join(f"../_static/{script}" for script in models.SCRIPTS)}" '
        f'data-seed="{SEED}" data-temperature="{TEMPERATURE}" data-k="{TOP_K}">'
        f'<div class="models-panels two">{"".join(map(panel, PAIR))}</div>'
        '<div class="models-row"><button type="button" class="models-button">Write on</button>'
        f'<p class="models-status" role="status">Both began with {escape(PROMPT.strip())} and the same seed when this '
        f"page was built. A press loads them, {size:.1f} MB, and they go on in this browser.</p></div>"
        '<p class="models-error" role="alert"></p>'
        '<p class="models-legend">expected <i aria-hidden="true"></i> surprising to the model that wrote it. '
        '<a href="write-with-it.html">Choose models and a beginning of your own</a></p></div>'
    )
