"""Faster forms of what the layers compute, for ordinary tensors on the CPU: the same numbers in less time.

What is notable:
- a layer reads as its equation, and names its fast form in one line, ``@on_cpu(...)``;
- ``PAIRS`` lists every plain form with its fast one, and one test compares them all;
- this is the one place that asks where a tensor lives, or who is watching: a compiler, a tracer, a transform;
- a derivative is right or an error: what is written out by hand can itself be differentiated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.autograd.function import FunctionCtx

__all__ = ["is_plain", "on_cpu", "tiles", "values"]

Form = Callable[..., Tensor]

PAIRS: dict[str, tuple[Form, Form]] = {}  # the plain form and the fast one, by name


def on_cpu(
    fast: Callable[..., Tensor], where: Callable[..., bool] = lambda *_: True
) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Compute the decorated function by ``fast`` if all its tensors are ordinary ones on the CPU.

    Args:
        fast: takes the same arguments, in their order.
        where: whether it can take these, which are ordinary.
    """

    def decorate(plain: Form) -> Form:
        PAIRS[plain.__name__] = plain, fast

        @functools.wraps(plain)
        def chosen(*arguments: Any) -> Tensor:
            tensors = (x for x in arguments if isinstance(x, Tensor))
            return (fast if all(map(is_plain, tensors)) and where(*arguments) else plain)(*arguments)

        return chosen

    return decorate


def is_plain(x: Tensor) -> bool:
    """Whether ``x`` is an ordinary tensor on the CPU: not one of a compiler, a transform or a batch of derivatives.

    Where it is, values can be looked at without a synchronization, and forms that are tuned for the CPU pay off.
    """
    return (
        x.device.type == "cpu"
        and not torch.compiler.is_compiling()  # nor exporting
        and type(x) in (Tensor, nn.Parameter)
        and not is_transforming(x)
        and forward_ad.unpack_dual(x).tangent is None  # type: ignore[no-untyped-call]
    )


def is_transforming(x: Tensor) -> bool:
    """Whether ``torch.func`` is at work, or ``x`` is a batch of derivatives, as ``autograd.grad`` makes them.

    Where PyTorch does not tell, plain forms are right either way.
    """
    try:
        functorch = torch._C._functorch
        return functorch.peek_interpreter_stack() is not None or functorch.is_legacy_batchedtensor(x)
    except AttributeError:
        return True


def values(x: Tensor) -> list[Any]:
    """The numbers of a tensor, or none of them where looking would wait for a device or stop a compiler."""
    return x.flatten().tolist() if is_plain(x) else []


def is_known_before(position: int, start: int) -> bool:
    """Whether a position is at or before another, as far as that is known without a look at a device."""
    return isinstance(start, int) and position <= start


def has_shape(x: Tensor, expected: tuple[int, ...]) -> bool:
    """Whether a tensor has a shape, as far as it is known: an exported program leaves lengths open."""
    return all(not isinstance(b, int) or a == b for a, b in zip(x.shape, expected, strict=True))


# Rotary positions


@functools.lru_cache(maxsize=64)  # layers and steps at the same positions use the same factors
@torch.inference_mode(mode=False)  # which may be used in training later
def turns(T: int, K: int, start: int, step: int, dtype: torch.dtype) -> Tensor:
    r"""The complex factors :math:`e^{\mathrm{i} t \theta_i}`, ``[T, K/2]``."""
    channels = torch.arange(0, K, 2, dtype=dtype, device="cpu")  # whatever the caller's default device is
    theta = 10000.0 ** (-channels / K)  # (K/2,)
    angle = (start + step * torch.arange(T, device="cpu"))[:, None] * theta  # (T, K/2)
    return torch.polar(torch.ones_like(angle), angle)


def rotate_complex(x: Tensor, start: int, step: int) -> Tensor:
    r"""Rotary positions by one complex product, whose factors all layers share.

    Two neighboring channels are viewed, without a copy, as :math:`a + \mathrm{i} b`. Times
    :math:`\cos\alpha + \mathrm{i} \sin\alpha` that is the turned pair, :math:`a \cos\alpha - b \sin\alpha` and
    :math:`a \sin\alpha + b \cos\alpha`: one pass over memory in the place of several.
    """
    T, K = x.shape[-2:]
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], K // 2, 2))  # (..., T, K/2)
    return torch.view_as_real(pairs * turns(T, K, start, step, x.dtype)).flatten(-2)  # (..., T, K)


def fits_registers(x: Tensor, start: int, step: int) -> bool:
    """Whether neighboring channels can be viewed as complex numbers, and each token fills whole vector registers.

    Where it does not, the last pairs are rounded in another way, which would depend on how a sequence is cut.
    """
    offsets = (*x.stride()[:-1], x.storage_offset())
    viewed = x.shape[-1] % 8 == 0 and x.stride(-1) == 1 and not any(n % 2 for n in offsets)
    return viewed and x.dtype in (torch.float32, torch.float64) and isinstance(start, int)


# Squared ReLU


class SquaredReLUFunction(torch.autograd.Function):
    r"""The activation, and its derivative :math:`2 \max(x, 0)`; autograd's own would pass over memory twice more."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return F.relu(x).square_()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.addcmul(gradient.new_zeros(()), gradient, F.relu(x), value=2)


def squared_relu(x: Tensor) -> Tensor:
    """The activation, with its derivative written out."""
    return SquaredReLUFunction.apply(x)  # type: ignore[no-untyped-call]


# The depthwise convolution


def channels_last_conv(x: Tensor, kernel: Tensor, bias: Tensor | None, dilation: int) -> Tensor:
    """The convolution by ``conv2d``, which reads ``[batch, seq, channels]`` as it lies in memory, without a copy.

    ``conv1d`` wants each channel's tokens side by side. To ``conv2d`` a sequence is an image of height 1, whose
    channels may be side by side.
    """
    x = x.mT.unsqueeze(2)  # (B, D, 1, past+T)
    y = F.conv2d(x, kernel.unsqueeze(2), bias, dilation=(1, dilation), groups=len(kernel))
    return y.squeeze(2).mT  # (B, T, D)


# Products with a triangle

TILE = 64  # tokens; with smaller tiles, less of the matrix is wasted on zeros and more time on calls


def tiles(start: int, end: int) -> list[tuple[slice, slice]]:
    """Rows and columns of the tiles that cover a lower triangle: squares, and triangles on the diagonal.

    The middle cuts a triangle into a square of nothing but weights and two smaller triangles, which are cut again.
    """
    if end - start <= TILE:
        return [(slice(start, end), slice(start, end))]
    middle = (start + end) // 2
    square = (slice(middle, end), slice(start, middle))
    return [*tiles(start, middle), square, *tiles(middle, end)]


class TriangularProduct(torch.autograd.Function):
    r"""The product with a matrix's lower triangle, tile by tile; ``beta=0`` where a tile is the first to write.

    :math:`y = W x`. With the gradient :math:`g` of :math:`y`, that of :math:`x` is :math:`W^\top g`, and that of
    :math:`W` the lower triangle of :math:`g x^\top`, summed over the batch: the same tiles serve all three.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, weight: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(weight, x)
        B, T = x.shape[:2]
        y = torch.empty_like(x)
        for rows, columns in tiles(0, T):
            tile = weight[rows, columns].tril() if rows == columns else weight[rows, columns]
            y[:, rows].baddbmm_(tile.expand(B, -1, -1), x[:, columns], beta=min(columns.start, 1))
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        weight, x = ctx.saved_tensors
        B, T = x.shape[:2]
        if torch.is_grad_enabled() or not is_plain(gradient):  # to be differentiated, or one of a batch: whole products
            return (gradient @ x.mT).sum(0).tril(), weight.tril().mT @ gradient
        to_weight, to_x = torch.empty_like(weight), torch.empty_like(x)
        for rows, columns in tiles(0, T):
            tile = weight[rows, columns].tril() if rows == columns else weight[rows, columns]
            to_x[:, columns].baddbmm_(tile.mT.expand(B, -1, -1), gradient[:, rows], beta=int(rows != columns))
            to_weight[columns, rows] = 0
            to_weight[rows, columns].addbmm_(gradient[:, rows], x[:, columns].mT, beta=0)
            if rows == columns:
                to_weight[rows, columns].tril_()
        return to_weight, to_x


def tiled_product(weight: Tensor, x: Tensor) -> Tensor:
    """The causal product in tiles: 0.62 of the whole matrix's multiply-adds at 256 tokens, half of them in the end."""
    lower = torch.is_autocast_enabled("cpu") and x.dtype != torch.float64  # which autocast leaves as it is
    kind = torch.get_autocast_dtype("cpu") if lower else x.dtype
    return TriangularProduct.apply(weight.to(kind), x.to(kind))  # type: ignore[no-untyped-call]


def unfolded(kernel: Tensor, T: int) -> Tensor:
    """A Toeplitz matrix as a view, which ``torch.export`` does not know with a length left open."""
    return kernel.unfold(0, T, 1).flip(1)  # (T, T): row t is what a window at t sees, read backward
