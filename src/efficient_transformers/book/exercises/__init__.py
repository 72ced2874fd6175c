"""The checks of the exercises, a module for each chapter: :func:`check` says whether an answer is right, or why not."""

from . import gmlp, head_to_head, hourglass, primer_ez, trained, transformer, variations, your_own
from .checking import CHECKS, check
from .numbers import QUESTIONS

__all__ = [
    "CHECKS",
    "QUESTIONS",
    "check",
    "gmlp",
    "head_to_head",
    "hourglass",
    "primer_ez",
    "trained",
    "transformer",
    "variations",
    "your_own",
]
