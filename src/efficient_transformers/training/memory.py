"""What a model and its training would take, before anything is allocated."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Any

import torch

from ..checks import require
from ..layers.family import parameter_count
from ..models import build_model, find_family
from .execution import Execution, on_gpu
from .loop import TrainingConfig

FLOAT = 4  # bytes
COPIES = 4  # of each parameter in training: itself, its gradient, two averages of Adam
BEYOND = 2**61  # parameters that PyTorch cannot count, since it counts bytes
PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q")


def readable(size: int, unit: str = "B") -> str:
    """A number of bytes, or of what ``unit`` says, as people say it."""
    place = min(max(0, (len(str(size)) - 1) // 3), len(PREFIXES) - 1)
    return f"{float(Fraction(size, 1000**place)):.3g} {PREFIXES[place]}{unit}".rstrip()


def available() -> int:
    """The memory of the machine, or of the GPU that a run would use, in bytes."""
    if on_gpu():
        return int(torch.cuda.get_device_properties(0).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def sharers() -> tuple[int, int]:
    """The processes of a run, and how many of them share one memory: on a GPU each has its own."""
    world, here = (int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    return world, 1 if on_gpu() else here


def count_parameters(config: dict[str, Any], few: int = 8) -> int:
    """The parameters of the model that :func:`build_model` makes of ``config``, found without allocating them.

    Where they are beyond what PyTorch can count, a number that they exceed: of the embedding, and of the positions
    where each is learned by itself.

    Raises:
        TypeError, ValueError: as :func:`build_model` does.
    """

    def count(n_layers: int | None) -> int:
        try:
            with torch.device("meta"):
                return parameter_count(build_model(**{**config, "n_layers": n_layers}))
        except (RuntimeError, OverflowError, TypeError) as error:
            if isinstance(error, TypeError) and "Overflow" not in str(error):
                raise
            learned = 1 if find_family(config["name"])[1].reads_beyond_training else config.get("max_seq_len", 1)
            return max(BEYOND, config["vocab_size"] * config.get("d_model", 1), learned)

    n_layers = config.get("n_layers")
    if not isinstance(n_layers, int) or n_layers <= few:
        return count(n_layers)
    try:
        most = count(few)
        layers = most - count(few - 1)
    except ValueError:  # a model that has its number of layers from elsewhere says so
        return count(n_layers)
    return most + (n_layers - few) * layers


def check_training(config: dict[str, Any], training: TrainingConfig, execution: Execution) -> None:
    """Raise ValueError if model and optimizer, or the tokens and logits of a piece of a batch, cannot fit.

    What counts is all that the processes keep in one memory: a GPU's, or the machine's that they share.
    """
    count, (world, sharing) = count_parameters(config), sharers()
    more = " or more" if count >= BEYOND else ""
    parts = world if execution.shard else 1
    size = count * FLOAT * COPIES * sharing // parts
    require_memory(f"a model of {readable(count, '')} parameters{more} and its optimizer", size)
    rows = -(-training.batch_size // (world * execution.accumulation)) * sharing
    size = rows * training.seq_len * config["vocab_size"] * FLOAT
    require_memory(f"{rows} sequences of {training.seq_len} tokens", size)
    starts = training.eval_batches * training.batch_size * 8
    require_memory(f"{training.eval_batches} evaluation batches", starts)


def require_memory(what: str, size: int) -> None:
    """Raise ValueError if ``size`` bytes are more than there are."""
    room = available()
    require(size <= room, f"the memory for {what}", readable(size), f"at most the machine's {readable(room)}")
