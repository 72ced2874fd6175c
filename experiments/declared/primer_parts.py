"""Study 3: which part of Primer brings how much, each at its own best rate."""

from __future__ import annotations

from typing import Any

from efficient_transformers.studies.protocol import Entry, Key, Pair, Study

from .head_to_head import MIDDLE, SHORT
from .sizes import baseline

SAME = baseline("0.8M")
SQUARED: dict[str, Any] = {"convolve": ""}
KERNEL_SUM = 0.5 + 2 * 0.5 / 3  # of the official start at width 3
SPREAD = 1 / 3  # of PyTorch's start, uniform within 1 / sqrt(3)

CORE: dict[str, tuple[str, dict[str, Any]]] = {
    "squared ReLU": ("primer-ez", SQUARED),
    "convolutions": ("primer-ez", {"activation": "relu"}),
    "SwiGLU and convolutions": ("primer-ez", {"activation": "swiglu"}),
}
SUBSETS: dict[str, tuple[str, dict[str, Any]]] = {
    " and ".join(subset): ("primer-ez", {"convolve": subset}) for subset in ("q", "k", "v", "qk", "qv", "kv")
}
WIDTHS: dict[str, tuple[str, dict[str, Any]]] = {
    f"width {n}": ("primer-ez", {"kernel_size": n}) for n in (1, 2, 5, 7)
} | {f"width {n}, same sum": ("started-kernels", {"kernel_size": n, "kernel_sum": KERNEL_SUM}) for n in (1, 2, 5, 7)}
# The random start with a bias, one factor at a time. Random and official kernels have about the same norm, 0.58 and
# 0.55; what differs is their sum, that channels start apart, and the bias.
STARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "random": ("primer-ez", {"init": "random"}),
    "random, random bias": ("primer-ez", {"init": "random", "bias": True}),
    "bias": ("primer-ez", {"bias": True}),
    "random bias": ("started-kernels", {"bias": True, "bias_noise": SPREAD}),
    "channels apart": ("started-kernels", {"noise": SPREAD}),
    "half the scale": ("started-kernels", {"scale": 0.5}),
}
PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "kernels per head": ("primer-ez", {"sharing": "none"}),
    "queries from keys": ("primer-part", {"shared_keys": True}),
    "Primer's norms": ("primer-part", {"norms": True}),
}
# Declared when the first runs of CORE had begun: what the study at one rate had besides, so that this one replaces it.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "one kernel for all": ("primer-ez", {"sharing": "all"}),
    "dilation 2": ("primer-ez", {"dilation": 2}),
    "GELU": ("primer-ez", {"activation": "gelu"}),
}
# Declared when all lists at 500 steps had been seen: Primer's norms come with a last matrix that is not zero.
NOT_ZERO: dict[str, tuple[str, dict[str, Any]]] = {"last matrix not zero": ("primer-part", {"last_zero": False})}


def entries(variants: dict[str, tuple[str, dict[str, Any]]], steps: int) -> tuple[Entry, ...]:
    """Variants at one budget."""
    return tuple(
        Entry(name=name, model=model, options=SAME | options, steps=steps, protocol=2)
        for name, (model, options) in variants.items()
    )


def key(name: str, steps: int) -> Key:
    """The key of one of the models of this study or of the first."""
    found = [e.key for e in (*SHORT, *MIDDLE, *OWN) if (e.name, e.steps) == (name, steps)]
    assert len(found) == 1, found
    return found[0]


def against(reference: str, steps: int, *names: str) -> tuple[Pair, ...]:
    """Each of the names against one."""
    return tuple((key(name, steps), key(reference, steps)) for name in names)


OWN = (
    entries(CORE, 500)
    + entries(CORE, 2000)
    + entries(SUBSETS, 500)
    + entries(WIDTHS, 500)
    + entries(STARTS, 500)
    + entries(PARTS, 500)
    + entries(OTHERS, 500)
    + entries(NOT_ZERO, 500)
)

PRIMER_PARTS = Study(
    "primer-parts",
    "Which part of Primer brings how much?",
    OWN,
    {
        **{
            f"parts, {steps:,} steps": (
                *against("Baseline", steps, "squared ReLU", "convolutions", "Primer EZ", "SwiGLU"),
                *against("SwiGLU", steps, "squared ReLU", "SwiGLU and convolutions"),
                *against("Primer EZ", steps, "SwiGLU and convolutions"),
            )
            for steps in (500, 2000)
        },
        "subsets": against("squared ReLU", 500, *SUBSETS, "Primer EZ"),
        "widths, one sum": against("Primer EZ", 500, *(f"width {n}, same sum" for n in (1, 2, 5, 7))),
        "widths, official starts": (
            *against("Primer EZ", 500, *(f"width {n}" for n in (1, 2, 5, 7))),
            *((key(f"width {n}, same sum", 500), key(f"width {n}", 500)) for n in (1, 2, 5, 7)),
        ),
        "starts": against("Primer EZ", 500, *STARTS),
        "full Primer": against("Primer EZ", 500, *PARTS, "Primer"),
        "others": against("Primer EZ", 500, *OTHERS),
        "norms or start": (
            *against("Primer EZ", 500, "last matrix not zero"),
            *against("last matrix not zero", 500, "Primer's norms"),
        ),
    },
    borrowed=SHORT + MIDDLE,
)
