"""Study 2: nanoGPT's recipe for a CPU on Tiny Shakespeare, and what makes this book's baseline end lower with it."""

from __future__ import annotations

from typing import Any

from efficient_transformers.studies.protocol import Entry, Study

from .head_to_head import COUNTED, families, pairs
from .sizes import baseline

# Its README: 2,000 iterations of 12 × 64 characters, rate 0.001 after 100 of warm-up, four layers, four heads, 128
# channels, no dropout. There is no test text: like the recipe, the study reports validation, on all that there is.
RECIPE: dict[str, Any] = {
    "steps": 2000,
    "batch_size": 12,
    "seq_len": 64,
    "warmup_steps": 100,
    "corpus": "tiny-shakespeare",
    "scored": "validation",
    "protocol": 2,
}
ITS_RATE = 1e-3
CHANGES: dict[str, dict[str, Any]] = {
    "learned positions": {"positions": "learned"},
    "GELU": {"activation": "gelu"},
    "GPT's start": {"init": "gpt"},
    "all three": {"positions": "learned", "activation": "gelu", "init": "gpt"},
}
# Declared after those four were seen: all three cost more than twice what they cost one by one;
# the second pair of "two changes at once" after those runs, too.
TWO: dict[str, dict[str, Any]] = {"learned positions, GPT's start": {"positions": "learned", "init": "gpt"}}
# Declared after those: GELU costs nothing alone and much beside both; is it the start, as its bend at 0 suggests?
GELU_BESIDE: dict[str, dict[str, Any]] = {
    "GELU, GPT's start": {"activation": "gelu", "init": "gpt"},
    "learned positions, GELU": {"positions": "learned", "activation": "gelu"},
}

FAMILIES = {name: of for name, of in families("0.8M", 64).items() if name in COUNTED}
AT_ITS_RATE = tuple(
    Entry(name=name, model=model, options=options, rate=ITS_RATE, **RECIPE)
    for name, (model, options) in FAMILIES.items()
)
CHANGED = tuple(
    Entry(name=name, model="changed-baseline", options=baseline("0.8M") | options, rate=ITS_RATE, **RECIPE)
    for name, options in (CHANGES | TWO | GELU_BESIDE).items()
)
TUNED = tuple(Entry(name=name, model=model, options=options, **RECIPE) for name, (model, options) in FAMILIES.items())

ANCHOR = Study(
    "nanogpt-recipe",
    "What does each family reach with nanoGPT's recipe for a CPU?",
    AT_ITS_RATE + CHANGED + TUNED,
    {
        "families, its rate": pairs(AT_ITS_RATE, *((name, "Baseline") for name in COUNTED[1:])),
        "families, tuned": pairs(TUNED, *((name, "Baseline") for name in COUNTED[1:])),
        "one change at a time": pairs(AT_ITS_RATE + CHANGED, *((name, "Baseline") for name in CHANGES)),
        "two changes at once": pairs(
            AT_ITS_RATE + CHANGED, *((name, "Baseline") for name in TWO), *(("all three", name) for name in TWO)
        ),
        "GELU beside one change": pairs(
            CHANGED, ("GELU, GPT's start", "GPT's start"), ("learned positions, GELU", "learned positions")
        ),
    },
)
