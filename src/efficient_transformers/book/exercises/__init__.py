"""The checks of the exercises, a module for each chapter: :func:`check` says whether an answer is right, or why not."""

# ruff: noqa: F401 - a chapter's module registers its checks
from . import gmlp, head_to_head, hourglass, primer_ez, transformer, variations, your_own
from .checking import CHECKS, check

__all__ = ["CHECKS", "check"]
