"""Study 5: how gMLP and its gates do as the context grows."""

from __future__ import annotations

from typing import Any

from efficient_transformers.protocol import Entry, Study

from .head_to_head import MIDDLE, families, pairs
from .sizes import baseline

# Where the context is long, dense matrices alone would have more parameters than a model may: they are not counted.
NAMES = ("Baseline", "Primer EZ", "gMLP, W not counted", "gMLP Toeplitz", "aMLP, W not counted")
SHOWN = (
    ("Primer EZ", "Baseline"),
    ("gMLP, W not counted", "Baseline"),
    ("gMLP Toeplitz", "Baseline"),
    ("gMLP Toeplitz", "gMLP, W not counted"),
    ("aMLP, W not counted", "gMLP, W not counted"),
    ("aMLP, W not counted", "Primer EZ"),
)


def entries(context: int, steps: int = 2000) -> tuple[Entry, ...]:
    """The five models at one context, 1,024 tokens per step."""
    known = families("0.8M", context)
    return tuple(
        Entry(
            name=name,
            model=known[name][0],
            options=known[name][1],
            steps=steps,
            seq_len=context,
            batch_size=1024 // context,
        )
        for name in NAMES
    )


SHORT_CONTEXT, LONG_CONTEXT = entries(64), entries(1024)
CONTEXTS = Study(
    "contexts",
    "How long does gMLP lead?",
    SHORT_CONTEXT + LONG_CONTEXT,
    {
        f"context {found[0].seq_len:,}": pairs(found, *SHOWN)
        for found in (SHORT_CONTEXT, tuple(e for e in MIDDLE if e.name in NAMES), LONG_CONTEXT)
    },
    borrowed=MIDDLE,
)

# Three quarters of the channels where nothing is split, so that the projections have the same parameters.
WHOLE: dict[str, Any] = {"d_ff": 384}
GATES: dict[str, tuple[str, dict[str, Any]]] = {
    "baseline": ("transformer", baseline("0.8M")),
    "split": ("gmlp", {}),
    "whole": ("gmlp", WHOLE | {"gate": "whole"}),
    "additive": ("gmlp", WHOLE | {"gate": "additive"}),
    "linear": ("gmlp", WHOLE | {"gate": "linear"}),
    "split, Toeplitz": ("gmlp", {"weight": "toeplitz"}),
    "whole, Toeplitz": ("gmlp", WHOLE | {"gate": "whole", "weight": "toeplitz"}),
    "split, positions": ("gmlp", {"positions": True}),
}
GATE_ENTRIES = tuple(
    Entry(
        name=name,
        model=model,
        options={"d_model": 128} | options,
        steps=500,
        seq_len=64,
        batch_size=16,
    )
    for name, (model, options) in GATES.items()
)
GATE_STUDY = Study(
    "gate-kinds",
    "Which gate, at its own best rate?",
    GATE_ENTRIES,
    {
        "gates": pairs(
            GATE_ENTRIES,
            ("split", "whole"),
            ("split", "additive"),
            ("split", "linear"),
            ("split", "split, Toeplitz"),
            ("split", "split, positions"),
            ("whole", "whole, Toeplitz"),
            ("split", "baseline"),
        )
    },
)
