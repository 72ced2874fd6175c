"""The one place where bad input is turned into an error that says what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .cache import Cache


def require(condition: bool, argument: str, value: Any, expected: str, error: type[Exception] = ValueError) -> None:
    """Raise ``error`` unless ``condition`` holds, naming the argument, its value and what was expected."""
    if not condition:
        raise error(f"{argument} is {value!r}; expected {expected}")


def require_int(argument: str, value: Any, at_least: int) -> None:
    """Raise TypeError unless ``value`` is an int, and ValueError if it is below ``at_least``."""
    is_int = isinstance(value, int) and not isinstance(value, bool)
    require(is_int, argument, value, f"an int of at least {at_least}", TypeError)
    require(value >= at_least, argument, value, f"an int of at least {at_least}")


def require_known(argument: str, value: Any, known: Iterable[str]) -> None:
    """Raise ValueError unless ``value`` is one of the ``known`` names, and list them."""
    names = list(known)
    require(value in names, argument, value, "one of " + ", ".join(map(repr, names)))


def check_tokens(tokens: torch.Tensor, vocab_size: int, max_seq_len: int, cache: Cache | None = None) -> None:
    """Raise unless ``tokens`` is int64 ``[batch, seq]``, in the vocabulary, not empty and not too long."""
    require(isinstance(tokens, torch.Tensor), "tokens", tokens, "a tensor", TypeError)
    require(tokens.dtype == torch.int64, "tokens.dtype", tokens.dtype, "torch.int64 token ids", TypeError)
    shape, read = tuple(tokens.shape), 0
    require(len(shape) == 2 and min(shape) > 0, "tokens.shape", shape, "[batch, seq], neither of them 0")
    if cache is not None:
        cache.check_batch(shape[0])
        read = cache.tokens_read
    require(
        read + shape[1] <= max_seq_len,
        "the sequence length",
        read + shape[1],
        f"at most max_seq_len={max_seq_len} tokens, those in the cache included",
    )
    if not torch.compiler.is_compiling():  # looking at values would cut a compiled graph in two
        low, high = int(tokens.min()), int(tokens.max())
        worst = low if low < 0 else high
        require(0 <= worst < vocab_size, "a token", worst, f"0 to {vocab_size - 1}, the vocabulary")
