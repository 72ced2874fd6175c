"""What a model and its training would take, before anything is allocated."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Any

import torch

from .checks import require
from .execution import Execution
from .models import build_model
from .training import TrainingConfig

FLOAT = 4  # bytes
COPIES = 4  # of each parameter in training: itself, its gradient, two averages of Adam
PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q")


def readable(size: int, unit: str = "B") -> str:
    """A number of bytes, or of what ``unit`` says, as people say it."""
    place = min(max(0, (len(str(size)) - 1) // 3), len(PREFIXES) - 1)
    return f"{float(Fraction(size, 1000**place)):.3g} {PREFIXES[place]}{unit}".rstrip()


def available() -> int:
    """The memory of the machine, or of the GPU that a run would use, in bytes."""
    if torch.cuda.is_available() and os.environ.get("ACCELERATE_USE_CPU", "false").lower() not in ("1", "true"):
        return int(torch.cuda.get_device_properties(0).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def count_parameters(config: dict[str, Any], few: int = 8) -> int:
    """The parameters of the model that :func:`build_model` makes of ``config``, found without allocating them.

    Raises:
        TypeError, ValueError: as :func:`build_model` does.
        OverflowError: if a size is beyond what PyTorch can count.
    """

    def count(n_layers: int | None) -> int:
        try:
            with torch.device("meta"):
                return sum(p.numel() for p in build_model(**{**config, "n_layers": n_layers}).parameters())
        except (RuntimeError, OverflowError, TypeError) as error:
            if isinstance(error, TypeError) and "Overflow" not in str(error):
                raise
            asked = {name: value for name, value in config.items() if isinstance(value, int) and value >= 2**31}
            raise OverflowError(f"the sizes of the model are beyond what PyTorch can count: {asked}") from error

    n_layers = config.get("n_layers")
    if not isinstance(n_layers, int) or n_layers <= few:
        return count(n_layers)
    try:
        layers = count(few) - count(few - 1)
    except ValueError:  # a model that has its number of layers from elsewhere says so
        return count(n_layers)
    return count(few) + (n_layers - few) * layers


def check_training(config: dict[str, Any], training: TrainingConfig, execution: Execution) -> None:
    """Raise ValueError if model and optimizer, or the tokens and logits of a piece of a batch, cannot fit."""
    count = count_parameters(config)
    require_memory(f"a model of {readable(count, '')} parameters and its optimizer", count * FLOAT * COPIES)
    rows = -(-training.batch_size // execution.accumulation)
    size = rows * training.seq_len * config["vocab_size"] * FLOAT
    require_memory(f"{rows} sequences of {training.seq_len} tokens", size)
    starts = training.eval_batches * training.batch_size * 8
    require_memory(f"{training.eval_batches} evaluation batches", starts)


def require_memory(what: str, size: int) -> None:
    """Raise ValueError if ``size`` bytes are more than there are."""
    room = available()
    require(size <= room, f"the memory for {what}", readable(size), f"at most the machine's {readable(room)}")
