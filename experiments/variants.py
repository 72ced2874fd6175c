"""Models that the studies need and the package has no name for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from efficient_transformers import LanguageModel, build_model

VARIANTS: dict[str, Callable[..., LanguageModel]] = {}


def build(name: str, **options: Any) -> LanguageModel:
    """A model of :data:`VARIANTS`, or of the package."""
    return VARIANTS[name](**options) if name in VARIANTS else build_model(name, **options)
