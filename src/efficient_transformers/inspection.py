"""Questions to a layer, answered by running it: what it depends on, what shapes it makes, what memory it needs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any
from weakref import finalize

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .checks import require, require_int
from .hourglass import AttentionBasedShortening, AttentionBasedUpSampling, Hourglass
from .transformer import MultiHeadAttention, Stack, TransformerLayer


@torch.enable_grad()
def leak_map(module: nn.Module, seq_len: int, seed: int = 0) -> Tensor:
    r"""Which inputs each output depends on: the largest :math:`|\partial y_t / \partial x_s|`, by autograd.

    The maximum is over the channels of :math:`x_s` and over a few random inputs; :math:`y_t` is a random
    projection of the output's channels. Where there is no path from :math:`s` to :math:`t`, the value is exactly
    0; a causal module has zeros above the diagonal. The weights are perturbed a little, so that one that starts
    at zero hides no path.

    Args:
        module: ``[batch, seq, d_model]`` to ``[batch, seq, ...]``, with an attribute ``d_model``; a language model,
            which is a module with an ``embedding``, is entered behind it.
        seq_len: length of the random inputs.
        seed: of the inputs and the projection.

    Returns:
        float64 ``[seq, seq]``: row :math:`t` for the output, column :math:`s` for the input.

    Raises:
        ValueError: if ``seq_len < 1``.
    """
    require_int("seq_len", seq_len, at_least=1)
    exact = copy.deepcopy(module).double().cpu().eval()
    function: Callable[[Tensor], Tensor] = exact
    if hasattr(exact, "embedding"):
        function = nn.Sequential(exact.body, exact.norm)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in exact.parameters():
            p.add_(torch.randn(p.shape, generator=generator, dtype=torch.float64), alpha=0.01)
    shape: tuple[int, ...] = (8, seq_len, exact.d_model)  # type: ignore[assignment]
    x = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)  # (B, T, D)
    y = function(x).flatten(2)  # (B, T, ...)
    y = y @ torch.randn(y.shape[2], generator=generator, dtype=torch.float64)  # (B, T)
    rows = [torch.autograd.grad(y[:, t].sum(), x, retain_graph=True)[0] for t in range(seq_len)]
    return torch.stack([row.abs().amax(dim=(0, 2)) for row in rows])


def receptive_field(module: nn.Module, seq_len: int) -> int:
    """How many tokens the last of ``seq_len`` outputs depends on, from the earliest to the last one.

    Args and errors as for :func:`leak_map`.
    """
    seen = leak_map(module, seq_len)[-1].nonzero()
    return seq_len - int(seen.min()) if len(seen) else 0


@dataclass(frozen=True)
class ShapeTrace:
    """The rows of :func:`shape_trace`: name, class, input shapes, output shape and own parameters of each module."""

    rows: list[tuple[str, str, str, str, int]]
    header = ("module", "class", "input", "output", "parameters")

    def __str__(self) -> str:
        table = [self.header, *[tuple(map(str, row)) for row in self.rows]]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in table]
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__


@torch.no_grad()
def shape_trace(module: nn.Module, *inputs: Any) -> ShapeTrace:
    """The shapes in a real forward pass of ``module(*inputs)``, by hooks: one row per call of a submodule.

    Args:
        module: any module.
        *inputs: what it is called with.

    Returns:
        A table that prints itself; parameters are those of the submodule alone, without its children's.
    """
    rows: list[tuple[str, str, str, str, int]] = []

    def shape(value: Any) -> str:
        tensors = [value] if isinstance(value, Tensor) else value if isinstance(value, (tuple, list)) else []
        return " ".join(str(list(t.shape)) for t in tensors if isinstance(t, Tensor))

    def hook(name: str) -> Callable[..., None]:
        def record(m: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            own = sum(p.numel() for p in m.parameters(recurse=False))
            rows.append((name or "(all)", type(m).__name__, shape(args), shape(output), own))

        return record

    handles = [m.register_forward_hook(hook(name)) for name, m in module.named_modules()]
    try:
        module(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return ShapeTrace(rows)


class LiveMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, counts the bytes of the tensors that operations make, and uncounts them when they die."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known: set[int] = set()  # addresses of storages, those that were there before included
        self.now = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        self.known.update(t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor))
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.untyped_storage()._cdata not in self.known:
                storage = tensor.untyped_storage()
                self.known.add(storage._cdata)
                self.now += storage.nbytes()
                finalize(storage, self.forget, storage._cdata, storage.nbytes())
        self.peak = max(self.peak, self.now)
        return result

    def forget(self, address: int, size: int) -> None:
        """Called when a counted storage dies."""
        self.known.discard(address)
        self.now -= size


def peak_memory(function: Callable[[], object]) -> int:
    """The most bytes of new tensors that are alive at once while ``function()`` runs, its backward pass included.

    Tensors that were there before are not counted, nor is what a kernel allocates and frees inside; so the result
    is the same on every machine that dispatches to the same kernels.
    """
    with LiveMemory() as memory:
        function()
    return memory.peak


@dataclass(frozen=True)
class Cost:
    """What a model costs per token: see :func:`cost_model`."""

    multiply_adds: float
    activation_bytes: float
    parameters: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, share: float) -> Cost:
        return Cost(*(share * a for a in astuple(self)))


def cost_model(body: Any, seq_len: int) -> Cost:
    r"""What a body costs per token of a sequence, in closed form: nothing is run.

    A layer at length :math:`T`, with matrices of :math:`M` numbers in all, takes :math:`M + 2TD` multiply-adds per
    token: each weight once, and scores and mixture against :math:`T` keys, which a kernel computes whole, masked
    or not. Autograd keeps :math:`9D + D_\mathrm{ff}` numbers of it per token: input and output of both norms, query,
    key and value, the heads' result and its copy, the hidden channels. A level that is shortened by :math:`k` costs
    :math:`1/k` of that per token, at length :math:`T/k`; resampling adds its own.

    Args:
        body: a :class:`Stack` of baseline layers or an :class:`Hourglass` of them.
        seq_len: length of the sequence, :math:`T`.

    Returns:
        Multiply-adds of a forward pass, bytes of float32 kept for the backward pass, and parameters used, all per
        token; a parameter that is used once for :math:`k` tokens counts :math:`1/k`.

    Raises:
        TypeError: for another kind of body.
    """
    require_int("seq_len", seq_len, at_least=1)
    if isinstance(body, Stack):
        return sum((layer_cost(layer, seq_len) for layer in body), Cost(0, 0, 0))
    require(isinstance(body, Hourglass), "body", type(body).__name__, "a Stack or an Hourglass", TypeError)
    windows = (seq_len - 1) // body.shorten.factor + 1
    share = windows / seq_len
    outside = cost_model(body.before, seq_len) + cost_model(body.after, seq_len)
    inside = cost_model(body.inside, windows) * share
    norms = Cost(0, 4 * body.d_model, 2 * body.d_model) * (1 + share)
    return (
        outside
        + inside
        + norms
        + shortening_cost(body.shorten, windows, share)
        + up_sampling_cost(body.up_sample, windows, share)
    )


def numbers(*modules: nn.Module) -> int:
    """The parameters of some modules."""
    return sum(p.numel() for module in modules for p in module.parameters())


def layer_cost(layer: Any, seq_len: int) -> Cost:
    """Per token, for one layer of the baseline."""
    baseline = isinstance(layer, TransformerLayer) and type(layer.attention) is MultiHeadAttention
    require(baseline, "a layer", type(layer).__name__, "a TransformerLayer with MultiHeadAttention", TypeError)
    D, matrices = layer.d_model, numbers(layer) - numbers(layer.norm1, layer.norm2)
    kept = 9 * D + layer.feed_forward.up.out_features
    return Cost(matrices + 2 * seq_len * D, 4 * kept, numbers(layer))


def shortening_cost(shorten: Any, windows: int, share: float) -> Cost:
    """Per token of the longer sequence; linear pooling keeps the windows, attention what a layer's blocks keep."""
    if isinstance(shorten, AttentionBasedShortening):
        D, F = shorten.pool.d_model, shorten.feed_forward.up.out_features
        once, per_window = numbers(shorten.attention.key, shorten.attention.value), numbers(shorten)
        per_window -= once + numbers(shorten.pool, shorten.norm1, shorten.norm2)
        kept = 3 * D + share * (7 * D + F)
        block = Cost(once + share * per_window + 2 * windows * D, 4 * kept, once + share * per_window + share * 4 * D)
        return block + shortening_cost(shorten.pool, windows, share)
    matrix = numbers(shorten)
    return Cost(share * matrix, 4 * shorten.d_model if matrix else 0, share * matrix)


def up_sampling_cost(up_sample: Any, windows: int, share: float) -> Cost:
    """Per token of the longer sequence; linear up-sampling keeps the windows, attention what a layer's blocks keep."""
    if isinstance(up_sample, AttentionBasedUpSampling):
        D, F = up_sample.up_sample.d_model, up_sample.feed_forward.up.out_features
        per_window, once = numbers(up_sample.attention.key, up_sample.attention.value), numbers(up_sample)
        once -= per_window + numbers(up_sample.up_sample, up_sample.norm1, up_sample.norm2)
        kept = 7 * D + F + share * 3 * D
        block = Cost(once + share * per_window + 2 * windows * D, 4 * kept, once + share * per_window + 4 * D)
        return block + up_sampling_cost(up_sample.up_sample, windows, share)
    matrix = numbers(up_sample)
    return Cost(share * matrix, share * 4 * up_sample.d_model if matrix else 0, share * matrix)
