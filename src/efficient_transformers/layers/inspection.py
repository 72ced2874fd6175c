"""Questions to a layer, answered by running it: what it depends on, what shapes it makes, what memory it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import finalize

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..support.checks import require, require_module
from ..support.tables import aligned
from .leaks import leak_map


def receptive_field(module: nn.Module, seq_len: int) -> int:
    """How many tokens the last of ``seq_len`` outputs depends on, from the earliest to the last one.

    All of them after a product by :func:`fft_product`, whose rounding is everywhere. Args and errors as for
    :func:`leak_map`.
    """
    seen = leak_map(module, seq_len)[-1].nonzero()
    return seq_len - int(seen.min()) if len(seen) else 0


@dataclass(frozen=True)
class ShapeTrace:
    """The rows of :func:`shape_trace`: name, class, input shapes, output shape and own parameters of each module."""

    rows: list[tuple[str, str, str, str, int]]
    header = ("module", "class", "input", "output", "parameters")

    def __str__(self) -> str:
        return aligned([self.header, *self.rows])

    __repr__ = __str__


@torch.no_grad()
def shape_trace(module: nn.Module, *inputs: Any) -> ShapeTrace:
    """The shapes in a real forward pass of ``module(*inputs)``, by hooks: one row per call of a submodule.

    Args:
        module: any module.
        *inputs: what it is called with.

    Returns:
        A table that prints itself; parameters are those of the submodule alone, without those of its children that
        have rows of their own.

    Raises:
        TypeError: if ``module`` is not a module.
        ValueError: if there are no inputs.
    """
    require_module("module", module)
    require(len(inputs) > 0, "inputs", inputs, "what the module is called with")
    calls: list[tuple[str, nn.Module, str, str]] = []

    def shape(value: Any) -> str:
        tensors = [value] if isinstance(value, Tensor) else value if isinstance(value, (tuple, list)) else []
        return " ".join(str(list(t.shape)) for t in tensors if isinstance(t, Tensor))

    def hook(name: str) -> Callable[..., None]:
        def record(m: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            calls.append((name, m, shape(args), shape(output)))

        return record

    handles = [m.register_forward_hook(hook(name)) for name, m in module.named_modules()]
    try:
        module(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    own = dict.fromkeys([name for name, *_ in calls], 0)
    for parameter, p in module.named_parameters():
        path = parameter.split(".")
        prefixes = (".".join(path[:n]) for n in reversed(range(len(path))))
        own[next(prefix for prefix in prefixes if prefix in own)] += p.numel()
    return ShapeTrace([(name or "(all)", type(m).__name__, x, y, own[name]) for name, m, x, y in calls])


class LiveMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, counts the bytes of the tensors that operations make, and uncounts them when they die."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known: set[int] = set()  # addresses of living storages, those that were there before included
        self.now = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        for storage in storages((args, kwargs)):
            if storage._cdata not in self.known:
                self.known.add(storage._cdata)
                finalize(storage, self.known.discard, storage._cdata)  # another may come to lie at its address
        result = func(*args, **(kwargs or {}))
        for storage in storages(result):
            if storage._cdata not in self.known:
                self.known.add(storage._cdata)
                self.now += storage.nbytes()
                finalize(storage, self.forget, storage._cdata, storage.nbytes())
        self.peak = max(self.peak, self.now)
        return result

    def forget(self, address: int, size: int) -> None:
        """Called when a counted storage dies."""
        self.known.discard(address)
        self.now -= size


def storages(values: Any) -> list[torch.UntypedStorage]:
    """Where the tensors in nested values lie."""
    return [value.untyped_storage() for value in tree_leaves(values) if isinstance(value, Tensor)]


def peak_memory(function: Callable[[], object]) -> int:
    """The most bytes of new tensors that are alive at once while ``function()`` runs, its backward pass included.

    Tensors that were there before are not counted, nor is what a kernel allocates and frees inside; so the result
    is the same on every machine that dispatches to the same kernels. What a first call keeps for later ones, as the
    factors of rotary positions, counts in the first.
    """
    with LiveMemory() as memory:
        function()
    return memory.peak
