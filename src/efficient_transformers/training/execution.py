"""How the machine carries a training run out: precision, pieces of a batch, compilation, shards, and how it is stopped.

What is notable:
- none of it changes what is computed, but for rounding (and for the masks of dropout where there are many processes);
- ``fully_shard`` is PyTorch's own, so that sharding runs, and is tested, on CPU processes too;
- Ctrl-C and SIGTERM are requests: the loop that is asked ends its step, saves, and leaves.

See :doc:`/book/scaling-out`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
import torch.distributed as dist
from torch import nn

from ..layers.family import Stack
from ..support.checks import require, require_bool, require_int, require_known

__all__ = ["Execution", "Stop", "stop_on_signals"]

if TYPE_CHECKING:
    from accelerate import Accelerator

Precision = Literal["auto", "float32", "bfloat16"]


def on_gpu() -> bool:
    """Whether a run would use a GPU, asked before Accelerate has started."""
    if not torch.cuda.is_available():
        return False
    from accelerate.utils import parse_flag_from_env  # heavy libraries are imported where they are used

    return not parse_flag_from_env("ACCELERATE_USE_CPU")


@dataclass(frozen=True)
class Execution:
    """How a training run is carried out; the losses are those of the plain way, but for rounding.

    Args:
        accumulation: pieces that each process cuts its rows of a batch into; a step needs the memory of one piece.
        precision: of the matrix products; ``"auto"`` is bfloat16 on a GPU that has it, float32 elsewhere. A norm
            divides by the spread of its channels, and the rounding of products with it: with four channels, which may
            lie close together, logits of 0.6 can be 0.3 off, as they are if the weights alone are rounded.
        compile: compile the model first, which takes a minute and makes steps on a GPU faster.
        shard: spread parameters, gradients and the optimizer's state over the processes (FSDP) instead of keeping a
            copy in each (DDP).

    Raises:
        TypeError: if ``accumulation`` is not an int, or a switch is not a bool.
        ValueError: if ``accumulation`` is less than 1, or the precision is not known.
    """

    accumulation: int = 1
    precision: Precision = "auto"
    compile: bool = False
    shard: bool = False

    def __post_init__(self) -> None:
        require_int("accumulation", self.accumulation, at_least=1)
        require_known("precision", self.precision, get_args(Precision))
        require_bool("compile", self.compile)
        require_bool("shard", self.shard)

    def check_batch(self, batch_size: int, world: int) -> None:
        """Raise ValueError unless so many processes can share a batch, and each can cut its rows into pieces."""
        shares = f"a multiple of {world} processes"
        shares += f" times {self.accumulation} pieces" if self.accumulation > 1 else ""
        require(batch_size % (world * self.accumulation) == 0, "batch_size", batch_size, shares)

    def autocast(self, device: torch.device) -> torch.autocast:
        """The context in which a forward pass has this precision."""
        native = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        wanted = self.precision == "bfloat16" or (self.precision == "auto" and native)
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=wanted)

    def prepare(
        self, model: nn.Module, optimize: Callable[[nn.Module], torch.optim.Optimizer], accelerator: Accelerator
    ) -> tuple[nn.Module, Any]:
        """The model on its device, as a copy in each process or in shards, and the optimizer of what it is then."""
        if not self.shard:
            network, optimizer = accelerator.prepare(model, optimize(model))
            return network, optimizer
        require(accelerator.num_processes > 1, "shard", True, "False, with one process: start more, with torchrun")
        from torch.distributed.device_mesh import init_device_mesh  # heavy libraries are imported where they are used
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
        for stack in [module for module in model.modules() if isinstance(module, Stack)]:
            for layer in stack:  # moved to the device and cut one by one: no device needs room for all of them
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model, accelerator.prepare_optimizer(optimize(model))


def is_first() -> bool:
    """Whether this process speaks for all that were started together, asked before Accelerate has started.

    A ``RANK`` without a ``WORLD_SIZE`` is not a launcher's, and says nothing.
    """
    return "WORLD_SIZE" not in os.environ or os.environ.get("RANK", "0") == "0"


def processes() -> Accelerator:
    """Accelerate's view of the device and of all processes; the precision is :class:`Execution`'s business.

    Raises:
        ValueError: if the environment, where a launcher says who is who, holds something else than numbers, or if this
            process has an Accelerator of another precision.
    """
    from accelerate import Accelerator  # heavy libraries are imported where they are used
    from accelerate.state import AcceleratorState, is_initialized

    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        found = os.environ.get(name, "0")
        require(found.isdecimal(), f"{name} in the environment", found, "a number, as launchers set it, or nothing")
    if is_initialized():  # by the caller: all Accelerators of a process share one state
        found = AcceleratorState().mixed_precision
        require(found == "no", "mixed_precision of this process's Accelerator", found, "'no': see Execution.precision")
    return Accelerator(mixed_precision="no")


def unwrapped(network: nn.Module, accelerator: Accelerator) -> nn.Module:
    """The model under what :meth:`Execution.prepare` put around it."""
    return accelerator.unwrap_model(network, keep_fp32_wrapper=False)


class Agreement:
    """What all processes know of a step: the mean of their losses, and whether one of them was asked to stop.

    The processes talk through the CPU, where the loss is a number already.
    """

    def __init__(self) -> None:
        self.group: Any = dist.new_group(backend="gloo") if dist.is_initialized() else None

    def __call__(self, loss: float, asked: bool) -> tuple[float, bool]:
        if self.group is None:
            return loss, asked
        facts = torch.tensor([loss, float(asked)], dtype=torch.float64)
        dist.all_reduce(facts, group=self.group)
        mean, anybody = (facts / dist.get_world_size()).tolist()
        return mean, anybody > 0


class Stop:
    """Whether somebody asked to stop.

    Attributes:
        signal: the number of the first signal that asked; None while nobody has.
    """

    def __init__(self) -> None:
        self.signal: int | None = None

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """Ask, as the handler of a signal does. Asking again changes nothing: a save is not interrupted."""
        if self.signal is None and is_first():
            # os.write, since a handler may run in the middle of a print
            os.write(2, b"\nStopping after this step ...\n")
        self.signal = self.signal or number


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Turn SIGINT and SIGTERM into a request to stop, for the length of the block."""
    stop, before = Stop(), {}
    if threading.current_thread() is threading.main_thread():  # Python lets no other thread set handlers
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, stop.ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
