"""On the page *One token, all the way*: its settings, and the numbers that stand there before a model is loaded.

They are recorded when the page is built, by forward hooks on the package's model, and static/token-page.js draws them
as it draws those of a model that was loaded.
"""

from __future__ import annotations

import html
import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from efficient_transformers import LanguageModel, Vocabulary
from efficient_transformers.layers.attention import Attention
from efficient_transformers.training.runs import load
from tools.site import models

PAGE = "book/one-token"
SHOWN = ("transformer", "primer-ez", "hourglass", "gmlp")
MODEL, TEXT, PLACE, LAYER, HEAD = "transformer", "To be, or not to be", 18, 0, 0
TOP = 5  # characters that may come: as in token-steps.js


@torch.no_grad()
def recorded(model: LanguageModel, vocabulary: Vocabulary) -> dict[str, Any]:
    """The numbers of each step of the page's first setting; and the factors of the largest of the query, by channel."""
    taken: dict[str, Tensor] = {}
    given: dict[str, Tensor] = {}

    def keep(name: str, _: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        taken[name], given[name] = inputs[0][0, PLACE], output

    for name, module in model.named_modules():
        module.register_forward_hook(partial(keep, name))
    layer = f"body.{LAYER}"
    attention: Attention = model.get_submodule(f"{layer}.attention")  # type: ignore[assignment]
    logits = model(vocabulary.encode(TEXT)[None])[0, PLACE]
    gave = {name: output[0, PLACE] for name, output in given.items()}
    q, k, v = (attention.split(given[f"{layer}.attention.{name}"]) for name in ("query", "key", "value"))
    turned_q, turned_k = attention.turn(q, k, 0, 0)
    at = (0, HEAD, PLACE)
    scores = turned_q[at] @ turned_k[0, HEAD, : PLACE + 1].mT / q.shape[-1] ** 0.5
    weights = attention.weights(turned_q, turned_k)[at][: PLACE + 1]
    of_head = slice(HEAD * q.shape[-1], (HEAD + 1) * q.shape[-1])
    best = logits.topk(TOP)
    steps = {
        "embedding": {"E": taken["body"]},
        "stream": {"x": taken[layer]},
        "norm": {"LN(x)": gave[f"{layer}.norm1"]},
        "project": {"q": q[at], "k": k[at], "v": v[at]},
        "turn": {"q, turned": turned_q[at], "k, turned": turned_k[at]},
        "scores": {"q · k / √K": scores},
        "weights": {"a": weights},
        "head": {"y": taken[f"{layer}.attention.output"][of_head]},
        "attention": {"Attention": gave[f"{layer}.attention"]},
        "residual": {"h": taken[f"{layer}.norm2"]},
        "second-norm": {"LN(h)": gave[f"{layer}.norm2"]},
        "hidden": {"hidden": taken[f"{layer}.feed_forward.down"]},
        "feed-forward": {"FFN": gave[f"{layer}.feed_forward"]},
        "output": {"y": gave[layer]},
        "last-norm": {"LN(y)": gave["norm"]},
        "logits": {"logits": best.values},
    }
    characters, chances = [vocabulary.decode(c[None]) for c in best.indices], rounded(logits.softmax(0)[best.indices])
    more: dict[str, dict[str, list[Any]]] = {
        "scores": {"bars": list(TEXT[: PLACE + 1])},
        "weights": {"bars": list(TEXT[: PLACE + 1])},
        "logits": {"list": list(zip(characters, chances, strict=True))},
    }
    channel = attention.query.weight[of_head][q[at].abs().argmax()]
    return {
        "steps": [
            {"step": step, "label": label, "values": rounded(values), **more.get(step, {})}
            for step, numbers in steps.items()
            for label, values in numbers.items()
        ],
        "factors": [rounded(x) for x in torch.stack([gave[f"{layer}.norm1"], channel], 1)],
    }


def rounded(values: Tensor) -> list[float]:
    return [round(x, 6) for x in values.tolist()]


def settings() -> str:
    """What the script of the page begins with, as attributes."""
    model, vocabulary = load(Path(MODEL))
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
        "recorded": json.dumps(recorded(model, vocabulary), ensure_ascii=False),
    }
    return " ".join(f'data-{name}="{html.escape(str(value))}"' for name, value in given.items())
