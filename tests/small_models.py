"""Every model of the book, and every option that changes what a device, a compiler or an exporter sees, in small."""

import pytest
import torch
from helpers import mostly_long, randomize
from torch import Tensor

from efficient_transformers import LanguageModel, build_model, model_names, parse_hierarchy

VOCAB, MAX_LEN = 11, 256
CASES = {
    **{name: (name, {}) for name in model_names()},
    "hourglass": ("hourglass", {"hierarchy": "1@1 1@2 1@1"}),
    "hourglass, linear and attention": (
        "hourglass",
        {"hierarchy": "1@1 1@3 1@1", "shortening": "linear", "up_sampling": "attention", "expansion": "linear"},
    ),
    "hourglass, attention and linear": (
        "hourglass",
        {"hierarchy": "0@1 1@3 0@1", "shortening": "attention", "pooling": "linear", "up_sampling": "linear"},
    ),
    "hourglass, three levels": ("hourglass", {"hierarchy": "0@1 1@2 1@4 1@2 0@1", "layer": "primer-ez"}),
    "primer-ez, SwiGLU": ("primer-ez", {"activation": "swiglu", "dilation": 2, "bias": True}),
    "gmlp, whole": ("gmlp", {"gate": "whole"}),
    "gmlp, transform": ("gmlp", {"fft": True, "gate": "additive", "positions": True}),
    "amlp, dense": ("amlp", {"weight": "dense"}),
}
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]

KINDS = ["transformer", "hourglass", "amlp"]  # attention, windows, a gate beside attention

every_model = pytest.mark.parametrize("case", model_names())
every_case = pytest.mark.parametrize("case", CASES)
every_family = pytest.mark.parametrize("case", mostly_long(CASES, KINDS))  # where compilation takes seconds
every_device = pytest.mark.parametrize("device", DEVICES)


def small_model(case: str, device: str = "cpu") -> LanguageModel:
    """Two layers, with weights far from their special initial values, so that nothing is equal by accident."""
    name, options = CASES[case]
    n_layers = None if "hierarchy" in options else 2
    sizes = {"vocab_size": VOCAB, "d_model": 16, "n_heads": 2, "max_seq_len": MAX_LEN}
    model = build_model(name, n_layers=n_layers, **sizes, **options)
    return randomize(model).to(device)


def some_tokens(batch: int, length: int, device: str = "cpu") -> Tensor:
    return torch.randint(VOCAB, (batch, length)).to(device)


def factors(case: str) -> list[int]:
    """How much shorter each level is than the one around it."""
    hierarchy = CASES[case][1].get("hierarchy", "1@1 0@1 1@1")
    return parse_hierarchy(hierarchy)[1]
