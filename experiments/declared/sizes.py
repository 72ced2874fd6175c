"""Sizes with equal parameters, or equal multiply-adds: found by counting, not by hand.

A causal W of gMLP counts as its lower triangle, which is all that is ever read.
"""

from __future__ import annotations

import functools
from typing import Any

from variants import without_weights

from efficient_transformers import LanguageModel, SpatialGatingUnit, build_model
from efficient_transformers.layers.family import parameter_count
from efficient_transformers.studies.cost import effective_parameters, multiply_adds

VOCABULARY = 79  # characters of the plays; a test compares it with the corpus
D_MODEL = {"0.2M": 64, "0.8M": 128, "3M": 256}  # of every family; the baseline has four layers of four heads
N_BLOCKS = 8  # of gMLP, as many as its matrices leave room for
STEP = 8  # hidden channels come in multiples of it, which vector registers like


def on_paper(model: str, seq_len: int, options: dict[str, Any], vocab_size: int = VOCABULARY) -> LanguageModel:
    """A model whose weights take no memory, to count with."""
    with without_weights():
        return build_model(model, vocab_size=vocab_size, **({"max_seq_len": seq_len} | options))


def count(model: LanguageModel, matrices: bool = True) -> int:
    """The parameters of a model, with or without the spatial matrices of gMLP and their biases."""
    gates = [module for module in model.modules() if isinstance(module, SpatialGatingUnit)]
    spatial = sum(effective_parameters(gate) - parameter_count(gate.norm) for gate in gates)
    return effective_parameters(model) - (0 if matrices else spatial)


def baseline(size: str) -> dict[str, Any]:
    """The options of the baseline of a size."""
    return {"d_model": D_MODEL[size], "n_layers": 4}


@functools.cache
def gmlp(
    size: str, seq_len: int, model: str = "gmlp", weight: str = "dense", matrices: bool = True, **options: Any
) -> dict[str, Any]:
    """The options of a gMLP, or ``"amlp"``, with the baseline's parameters.

    It has eight blocks, or as many as leave each at least ``2 * d_model`` hidden channels; the channels make the
    number of parameters right.

    Args:
        size: which baseline.
        seq_len: the context, which is the size of W.
        model: ``"gmlp"`` or ``"amlp"``.
        weight: as for gMLP.
        matrices: whether W and its bias count as parameters.
        **options: further ones of the family.
    """
    wanted = count(on_paper("transformer", seq_len, baseline(size)))
    d_model = D_MODEL[size]
    for n_layers in range(N_BLOCKS, 0, -1):
        fixed = {"d_model": d_model, "n_layers": n_layers, "weight": weight, **options}
        narrow, wide = (
            count(on_paper(model, seq_len, fixed | {"d_ff": d_ff}), matrices) for d_ff in (STEP, 2 * STEP)
        )  # linear in d_ff
        d_ff = STEP + STEP * round((wanted - narrow) / (wide - narrow))
        if d_ff >= 2 * d_model:
            return fixed | {"d_ff": d_ff}
    raise ValueError(f"size is {size!r}; expected room for one block of gMLP at a context of {seq_len}")


def hourglass(size: str, seq_len: int, factor: int = 4, equal: str = "parameters", **options: Any) -> dict[str, Any]:
    """The options of an hourglass, one layer before and one after, with the baseline's parameters or multiply-adds."""
    if equal == "parameters":
        return {"d_model": D_MODEL[size], "hierarchy": f"1@1 2@{factor} 1@1", **options}
    wanted = multiply_adds(on_paper("transformer", seq_len, baseline(size)), seq_len)

    def with_inside(n: int) -> dict[str, Any]:
        return {"d_model": D_MODEL[size], "hierarchy": f"1@1 {n}@{factor} 1@1", **options}

    few, more = (multiply_adds(on_paper("hourglass", seq_len, with_inside(n)), seq_len) for n in (1, 2))  # linear in n
    return with_inside(1 + round((wanted - few) / (more - few)))


def row(size: str, name: str, model: str, options: dict[str, Any], seq_len: int) -> str:
    """A line of the table in README.md."""
    made = on_paper(model, seq_len, options)
    assert made.config is not None
    layers = made.config.get("hierarchy") or made.config["n_layers"]
    numbers = (count(made), count(made, matrices=False), round(multiply_adds(made, seq_len)))
    cells = [size, name, str(made.d_model), str(layers), str(made.config["d_ff"]), *(f"{n:,}" for n in numbers)]
    return "| " + " | ".join(cells) + " |"
