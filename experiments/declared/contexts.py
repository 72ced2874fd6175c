"""Study 5: how gMLP and its gates do as the context grows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from efficient_transformers.studies.protocol import Entry, Study
from efficient_transformers.studies.records import load_seconds

from .head_to_head import SHORT, families, pairs
from .sizes import baseline
from .times import timed_seconds

# The seven from "split, b = 0" on are what a reader asked for who wanted to undo Chapter 5; no run of this study had
# been made by then, and no loss been looked at when the comparisons were parted into their lists.
# Three quarters of the channels where nothing is split, so that the projections have the same parameters.
WHOLE: dict[str, Any] = {"d_ff": 384}
DENSE = {"weight": "dense"}
GATES: dict[str, tuple[str, dict[str, Any]]] = {
    "baseline": ("transformer", baseline("0.8M")),
    "split": ("gmlp", DENSE),
    "whole": ("gmlp", WHOLE | DENSE | {"gate": "whole"}),
    "additive": ("gmlp", WHOLE | DENSE | {"gate": "additive"}),
    "linear": ("gmlp", WHOLE | DENSE | {"gate": "linear"}),
    "split, Toeplitz": ("gmlp", {"weight": "toeplitz"}),
    "whole, Toeplitz": ("gmlp", WHOLE | {"gate": "whole", "weight": "toeplitz"}),
    "split, positions": ("gmlp", DENSE | {"positions": True}),
    "split, b = 0": ("changed-gates", DENSE | {"bias": 0.0}),
    "split, 8 near": ("changed-gates", DENSE | {"near": 8}),
    "split, Toeplitz, 8 near": ("changed-gates", {"near": 8, "weight": "toeplitz"}),
    "Primer EZ": ("primer-ez", baseline("0.8M")),
    "split, Toeplitz, positions": ("gmlp", {"weight": "toeplitz", "positions": True}),
    "baseline, learned positions": ("changed-baseline", baseline("0.8M") | {"positions": "learned"}),
    "baseline, no positions": ("transformer", baseline("0.8M") | {"rotary": False}),
    # Declared when all others had been seen, for a reader who asked whether the order hangs on the gate's start.
    "split, Toeplitz, b = 0": ("changed-gates", {"bias": 0.0, "weight": "toeplitz"}),
    "split, 8 near, b = 0": ("changed-gates", DENSE | {"bias": 0.0, "near": 8}),
    "SwiGLU and convolutions": ("primer-ez", baseline("0.8M") | {"activation": "swiglu"}),
    # Declared last, when one seed or three of each had been seen in 300 steps at one rate.
    "split, W within 0.01": ("changed-gates", DENSE | {"within": 0.01}),
    "split, W within 0.1": ("changed-gates", DENSE | {"within": 0.1}),
    "split, last matrix not zero": ("changed-gates", DENSE | {"last_zero": False}),
    "split, last matrix not zero, W within 0.1": ("changed-gates", DENSE | {"last_zero": False, "within": 0.1}),
    # Declared when those four had been seen: is it gates alone that the zeros cost?
    "baseline, last matrix not zero": ("changed-baseline", baseline("0.8M") | {"init": "last not zero"}),
}
GATE_ENTRIES = tuple(
    Entry(
        name=name,
        model=model,
        options={"d_model": 128} | options,
        steps=500,
        seq_len=64,
        batch_size=16,
        protocol=2,
    )
    for name, (model, options) in GATES.items()
)


def two_layers(gate: str, timed: str) -> Entry:
    """Two plain layers with the steps that they make, on a quiet machine, while a gMLP makes its own.

    Two measurements say how many, each within one run: a gMLP beside the baseline, and two layers beside its four.
    """
    (plain,) = (entry for entry in GATE_ENTRIES if entry.name == "baseline")
    two = replace(plain, name=f"2 layers in the time of {gate}", options=plain.options | {"n_layers": 2}, size="0.4M")
    gates = load_seconds("gates")
    ratio = timed_seconds(plain) / timed_seconds(two) * gates[timed] / gates["baseline"]
    return replace(two, steps=10 * round(plain.steps * ratio / 10))


# Declared when all gates had been seen, for a reader who asked what a shallow Transformer does in their time.
SHALLOW = two_layers("split", "dense gMLP"), two_layers("split, Toeplitz", "gMLP")
GATE_STUDY = Study(
    "gate-kinds",
    "Which gate, at its own best rate?",
    GATE_ENTRIES + SHALLOW,
    {
        "gates": pairs(
            GATE_ENTRIES,
            ("split", "whole"),
            ("whole", "additive"),
            ("additive", "linear"),
            ("split, b = 0", "split"),
        ),
        "positions for attention": pairs(
            GATE_ENTRIES,
            ("baseline, no positions", "baseline"),
            ("baseline, learned positions", "baseline"),
            ("baseline, learned positions", "baseline, no positions"),
        ),
        "other gMLPs": pairs(
            GATE_ENTRIES,
            ("whole, Toeplitz", "whole"),
            ("split, positions", "split"),
            ("split, Toeplitz, positions", "split, Toeplitz"),
        ),
        # Is it one row for all positions that helps, or the want of weights far away?
        "matrices": pairs(
            GATE_ENTRIES,
            ("split, Toeplitz", "split"),
            ("split, 8 near", "split"),
            ("split, Toeplitz, 8 near", "split, 8 near"),
            ("split, Toeplitz, 8 near", "split, Toeplitz"),
        ),
        "attention": pairs(
            GATE_ENTRIES,
            ("split", "baseline"),
            ("split, Toeplitz", "baseline"),
            ("Primer EZ", "baseline"),
            ("split", "Primer EZ"),
            ("split, Toeplitz", "Primer EZ"),
        ),
        "shut at the start": pairs(
            GATE_ENTRIES,
            ("split, Toeplitz, b = 0", "split, Toeplitz"),
            ("split, Toeplitz, b = 0", "split, b = 0"),
            ("split, 8 near, b = 0", "split, b = 0"),
            ("split, 8 near, b = 0", "split, Toeplitz, b = 0"),
        ),
        "starts": pairs(
            GATE_ENTRIES,
            ("split, W within 0.01", "split"),
            ("split, W within 0.1", "split"),
            ("split, last matrix not zero", "split"),
            ("split, last matrix not zero, W within 0.1", "split, W within 0.1"),
        ),
        "zeros at the end": pairs(
            GATE_ENTRIES,
            ("baseline, last matrix not zero", "baseline"),
            ("split, last matrix not zero", "baseline, last matrix not zero"),
        ),
        "two layers, equal time": pairs(
            GATE_ENTRIES + SHALLOW,
            ("split", "2 layers in the time of split"),
            ("split, Toeplitz", "2 layers in the time of split, Toeplitz"),
        ),
        "the best attention": pairs(
            GATE_ENTRIES,
            ("split", "SwiGLU and convolutions"),
            ("split, Toeplitz", "SwiGLU and convolutions"),
        ),
    },
)

# Dense matrices are not counted as parameters here: where the context is long, they alone would have more than a model
# may. Declared for 2,000 steps first, and for 500 before any run of it: that is what 64 and 256 characters have. Of the
# pairs at 64 four had been seen by then, in GATE_STUDY, and of those at 256 two, in the first study.
NAMES = ("Baseline", "Primer EZ", "gMLP, W not counted", "gMLP Toeplitz", "aMLP, W not counted")
AT_64 = {  # the names of the same models in GATES
    "Baseline": "baseline",
    "gMLP, W not counted": "split",
    "gMLP Toeplitz": "split, Toeplitz",
}
SHOWN = (
    ("Primer EZ", "Baseline"),
    ("gMLP, W not counted", "Baseline"),
    ("gMLP Toeplitz", "Baseline"),
    ("gMLP Toeplitz", "gMLP, W not counted"),
    ("aMLP, W not counted", "gMLP, W not counted"),
    ("aMLP, W not counted", "Primer EZ"),
)


def entry(name: str, context: int) -> Entry:
    """One of the models at a context, 1,024 tokens per step."""
    model, options = families("0.8M", context)[name]
    return Entry(
        name=name,
        model=model,
        options=options,
        steps=500,
        seq_len=context,
        batch_size=1024 // context,
        protocol=2,
    )


AMLP = (entry("aMLP, W not counted", 64),)
LONG_CONTEXT = tuple(entry(name, 1024) for name in NAMES)
# Declared when all others had been seen, and at 64 characters both forms with b = 0.
SHUT = tuple(
    replace(of, name=f"{of.name}, b = 0", model="changed-gates", options=of.options | {"bias": 0.0})
    for of in (entry(name, 256) for name in ("gMLP, W not counted", "gMLP Toeplitz"))
)
CONTEXTS = Study(
    "contexts",
    "How long does gMLP lead?",
    AMLP + LONG_CONTEXT + SHUT,
    {
        "context 64": pairs(GATE_ENTRIES + AMLP, *((AT_64.get(a, a), AT_64.get(b, b)) for a, b in SHOWN)),
        "context 256": pairs(SHORT, *SHOWN),
        "context 1,024": pairs(LONG_CONTEXT, *SHOWN),
        "shut at the start": pairs(
            SHORT + SHUT,
            ("gMLP, W not counted, b = 0", "gMLP, W not counted"),
            ("gMLP Toeplitz, b = 0", "gMLP Toeplitz"),
            ("gMLP, W not counted, b = 0", "Baseline"),
        ),
    },
    borrowed=SHORT + GATE_ENTRIES,
)

# The paper's own setting: two-sided, 15 % of the characters hidden. Matrices are not counted as parameters.
MASKED: dict[str, dict[str, Any]] = {
    "attention, rotary": {"kind": "attention", "n_layers": 4},
    "attention, learned positions": {"kind": "attention", "n_layers": 4, "positions": "learned"},
    "attention, no positions": {"kind": "attention", "n_layers": 4, "positions": "none"},
    "gMLP": {"kind": "gmlp", "n_layers": 8, "d_ff": 512},
    "gMLP Toeplitz": {"kind": "gmlp", "n_layers": 8, "d_ff": 512, "weight": "toeplitz"},
    **{
        f"gMLP Toeplitz, {gate}": {"kind": "gmlp", "n_layers": 8, "d_ff": 384, "weight": "toeplitz", "gate": gate}
        for gate in ("whole", "additive", "linear")
    },
    "aMLP": {"kind": "gmlp", "n_layers": 8, "d_ff": 328, "d_attention": 64},
}


# The gates were declared with dense matrices, at 256 and at 64 characters, and not run: in 1,000 steps a dense gMLP
# hardly begins to learn, as the others of this list had shown. A Toeplitz one does.
MASKED_ENTRIES = tuple(
    Entry(name=name, model="two-sided", options={"d_model": 128} | options, steps=1000, task="masked", protocol=2)
    for name, options in MASKED.items()
)
MASKED_STUDY = Study(
    "masked",
    "And where both sides are seen, and hidden characters are to be told?",
    MASKED_ENTRIES,
    {
        "families": pairs(
            MASKED_ENTRIES,
            ("gMLP", "attention, rotary"),
            ("gMLP", "attention, learned positions"),
            ("gMLP Toeplitz", "gMLP"),
            ("aMLP", "gMLP"),
            ("aMLP", "attention, rotary"),
            ("attention, no positions", "attention, rotary"),
        ),
        "gates": pairs(
            MASKED_ENTRIES,
            ("gMLP Toeplitz", "gMLP Toeplitz, whole"),
            ("gMLP Toeplitz, whole", "gMLP Toeplitz, additive"),
            ("gMLP Toeplitz, additive", "gMLP Toeplitz, linear"),
        ),
    },
)
