"""Studies 27 to 29: what is left of a lead under Muon, and on top of what one would start from today.

A name without an optimizer is AdamW's, as in all other studies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from efficient_transformers.studies.protocol import Entry, Pair, Study

from .contexts import SHUT
from .controls import (
    MIXED,
    SAME,
    TOEPLITZ,
    TWO,
    against,
    entry,
    longer_values,
    older,
    shut_gate,
    squared,
)
from .head_to_head import MIDDLE, SHORT, SWIGLU
from .primer_parts import OWN as PARTS
from .sizes import hourglass

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Baseline": ("transformer", SAME),
    "Primer EZ": ("primer-ez", SAME),
    "convolutions": ("primer-ez", SAME | {"activation": "relu"}),
    "squared ReLU": ("primer-ez", SAME | {"convolve": ""}),
    "gMLP": ("gmlp", TOEPLITZ),
    "gMLP, b = 0": ("changed-gates", TOEPLITZ | {"bias": 0.0}),
    "SwiGLU": ("primer-ez", SAME | SWIGLU),
    "SwiGLU and convolutions": ("primer-ez", MIXED),
    "Primer": ("primer", SAME),
    "Hourglass": ("hourglass", hourglass("0.8M", 256)),
    "Baseline, 2 layers": ("transformer", SAME | {"n_layers": 2}),
    "v": ("primer-ez", SAME | {"convolve": "v"}),
}
# Pairs without the baseline.
BESIDE = (("Primer EZ", "convolutions"), ("Primer EZ", "squared ReLU"), ("gMLP, b = 0", "gMLP"))
IDEAS = ("squared ReLU", "convolutions", "Primer EZ", "SwiGLU", "v")

# Partners that no study has: two layers after as many steps, and convolutions alone after 2,000.
CONVOLUTIONS = entry("convolutions alone", *MODELS["convolutions"], 2000)
TWO_LONGER = replace(TWO, steps=2000)


def under_muon(steps: int) -> dict[str, Entry]:
    """All models by their names."""
    return {
        name: entry(f"{name}, Muon", *of, steps, optimizer="muon", size="0.4M" if "2 layers" in name else "0.8M")
        for name, of in MODELS.items()
    }


def partners(steps: int) -> dict[str, Entry]:
    """The same models under AdamW, by the same names."""
    if steps == 500:
        found = {name: older(SHORT, name) for name in ("Baseline", "Primer EZ", "SwiGLU", "Primer", "Hourglass")}
        found |= {name: older(PARTS, name, 500) for name in ("convolutions", "squared ReLU", "v")}
        found |= {"gMLP": older(SHORT, "gMLP Toeplitz"), "gMLP, b = 0": older(SHUT, "gMLP Toeplitz, b = 0")}
        found |= {"Baseline, 2 layers": TWO}
    else:
        found = {name: older(MIDDLE, name) for name in ("Baseline", "Primer EZ", "SwiGLU", "Primer", "Hourglass")}
        (values,), (alone,), (shut,) = (study.entries for study in (longer_values(), squared(), shut_gate()))
        found |= {"convolutions": CONVOLUTIONS, "squared ReLU": alone, "v": values}
        found |= {"gMLP": older(MIDDLE, "gMLP Toeplitz"), "gMLP, b = 0": shut, "Baseline, 2 layers": TWO_LONGER}
    return found | {"SwiGLU and convolutions": older(PARTS, "SwiGLU and convolutions", steps)}


def muon(steps: int) -> Study:
    """Study 27, at one length."""
    made, plain = under_muon(steps), partners(steps)
    return Study(
        "muon" if steps == 500 else f"muon-{steps}",
        f"Under Muon, which leads are left after {steps:,} steps, and are they smaller than under AdamW?",
        tuple(made.values()),
        {
            f"leads under Muon, {steps:,} steps": against(
                made["Baseline"], *(of for name, of in made.items() if name != "Baseline")
            ),
            f"parts under Muon, {steps:,} steps": tuple((made[ours].key, made[theirs].key) for ours, theirs in BESIDE),
            f"optimizers, {steps:,} steps": tuple((made[name].key, plain[name].key) for name in MODELS),
        },
        borrowed=tuple(plain.values()),
    )


def muon_rates() -> Study:
    """Of study 27: whether one rate does for both parts, and the other scale of Muon's steps."""
    known, changed = under_muon(500), ("muon, AdamW's rate halved", "muon, AdamW's rate doubled")
    made: list[Entry] = []
    pairs: list[Pair] = []
    for name in ("Baseline", "Primer EZ"):
        others = changed + (("muon, original",) if name == "Baseline" else ())
        own = [entry(f"{name}, {other.replace('m', 'M', 1)}", *MODELS[name], optimizer=other) for other in others]
        made += own
        pairs += against(known[name], *own)
    by_name = {of.name: of.key for of in made}
    halved, doubled = (
        (by_name[f"Primer EZ, {other}"], by_name[f"Baseline, {other}"])
        for other in ("Muon, AdamW's rate halved", "Muon, AdamW's rate doubled")
    )
    return Study(
        "muon-rates",
        "Does one rate do for Muon's part and for AdamW's, and how does Muon do with the other scale of its steps?",
        tuple(made),
        {
            "optimizers, rates and scale, 500 steps": tuple(pairs),
            "Primer EZ at other rates of AdamW's part": (halved, doubled),
        },
        borrowed=tuple(known.values()),
    )


def muon_partners() -> Study:
    """Of study 27: models that were not run under AdamW."""
    return Study(
        "muon-partners",
        "And under AdamW, the models of this study that no other has?",
        (TWO, CONVOLUTIONS, TWO_LONGER),
        {
            "partners under AdamW": (
                *against(SHORT[0], TWO),
                *against(MIDDLE[0], TWO_LONGER, CONVOLUTIONS),
                (older(MIDDLE, "Primer EZ").key, CONVOLUTIONS.key),
            )
        },
        borrowed=SHORT + MIDDLE,
    )


def modern(steps: int) -> Study:
    """Study 28, at one length."""
    made = {"Baseline": entry("Modern baseline", "modern", SAME, steps, optimizer="muon")}
    for name in IDEAS:
        options = {"activation": "squared-relu", "convolve": "qkv"} | MODELS[name][1]
        made[name] = entry(f"Modern, {name}", "modern", options, steps, optimizer="muon")
    known = under_muon(steps)
    return Study(
        "modern" if steps == 500 else f"modern-{steps}",
        f"With RMSNorm, normalized queries and keys, and Muon, which ideas still help after {steps:,} steps?",
        tuple(made.values()),
        {
            f"on a modern baseline, {steps:,} steps": (
                *against(made["Baseline"], *(of for name, of in made.items() if name != "Baseline")),
                (made["Primer EZ"].key, made["convolutions"].key),
            ),
            f"modern against plain, {steps:,} steps": tuple((of.key, known[name].key) for name, of in made.items()),
        },
        borrowed=tuple(known.values()),
    )


def longer() -> Study:
    """Study 29: a better optimizer may be no more than a longer training."""
    made = {
        (name, steps): entry(name, *MODELS[name], steps) for steps in (1000, 4000) for name in ("Baseline", "Primer EZ")
    }
    fast = {steps: under_muon(steps // 2) for steps in (1000, 4000)}
    return Study(
        "longer",
        "How many steps does AdamW take to Muon's loss, and which lead is left there?",
        tuple(made.values()),
        {
            "AdamW for longer": tuple((made["Primer EZ", n].key, made["Baseline", n].key) for n in (1000, 4000)),
            "optimizers, AdamW with twice the steps": tuple(
                (of.key, fast[steps][name].key) for (name, steps), of in made.items()
            ),
        },
        borrowed=tuple(of for each in fast.values() for of in each.values()),
    )
