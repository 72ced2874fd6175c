"""The exercises of Chapter 5, gMLP."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...layers.gmlp import SpatialGatingUnit
from .checking import WrongAnswerError, close, compare, dependence, drawn, exercise, expect, show_leaks


@exercise("5.1")
def repair(answer: Any) -> None:
    """A causal product with normalized tokens: ``answer(weight, x)``."""
    T = 9
    weight, x = drawn(0, T, T), drawn(0, 2, T, 8)
    expected = weight.tril() @ F.layer_norm(x, x.shape[2:])
    got = answer(weight, x)
    expect(isinstance(got, Tensor) and got.shape == x.shape, f"expected a tensor of the shape {tuple(x.shape)}")
    if close(got, expected):
        return
    found = dependence(lambda tokens: answer(weight, tokens), x)
    future = found.triu(1)
    if future.any():
        show_leaks("your function", found)
        along = close(got, weight.tril() @ F.layer_norm(x.mT, (T,)).mT)
        why = (
            "the norm still goes along the sequence, so that every position knows the mean of all tokens"
            if along
            else "the matrix is not cut at its diagonal"
            if close(got, weight @ F.layer_norm(x, x.shape[2:]))
            else "something mixes all tokens"
        )
        t = int(future.any(1).nonzero()[0])
        raise WrongAnswerError(f"output {t} changes with {int((future[t] > 0).sum())} tokens of its future: {why}")
    mistakes = {
        "nothing looks ahead, but the tokens are not normalized any more: the norm is to go over the channels": (
            weight.tril() @ x
        ),
        "nothing looks ahead, but you normalize what comes out: the norm is for what the matrix reads": F.layer_norm(
            weight.tril() @ x, x.shape[2:]
        ),
    }
    compare("your output", got, expected, mistakes)


@exercise("5.2")
def dense_from_kernel(answer: Any) -> None:
    """The matrix of a causal Toeplitz gate: ``answer(kernel)``."""
    n = 5
    kernel = torch.arange(1.0, n + 1)
    t, s = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    wrapped = kernel[(t - s) % n]
    expected = wrapped.tril()
    compare(
        "your matrix",
        answer(kernel),
        expected,
        {
            "your matrix reads the future: the weight of the distance j = t - s belongs j places below the diagonal, "
            "yours stands above it": expected.T,
            "your matrix wraps around: the first rows read the end of the sequence, which is their future": wrapped,
            "your kernel runs the wrong way: its first number is for the distance 0, the diagonal": kernel.flip(0)[
                (t - s) % n
            ].tril(),
        },
    )


@exercise("5.3")
def equal_cost(answer: Any) -> None:
    """Channels inside at which a gate costs what attention does: ``answer(D)``."""
    for D in (16, 32):
        F_, n = answer(D), 10
        expect(isinstance(F_, int | float), f"your answer for D = {D} is a {type(F_).__name__}; expected a number")
        gate, attention = n * n * F_ / 2, 2 * n * n * D
        hint = ""
        if F_ == 2 * D:
            hint = ": W multiplies half of the F channels, and attention takes two products"
        if F_ == 8 * D:
            hint = ": attention has two products of n × n × D, not four"
        if F_ == D:
            hint = ": count the second product of attention, and that half of the F channels pass by"
        values = f"{gate:,.0f} multiply-adds for {n} tokens, attention with D = {D} takes {attention:,}"
        expect(gate == attention, f"with F = {F_:g} the gate takes {values}{hint}")


def block(x: Tensor, up: Tensor, down: Tensor, weight: Tensor, bias: Tensor, without: str = "") -> Tensor:
    """(5.2) without learned scales in its norms, and with one thing left out or wrong."""
    T, D = x.shape[1:]
    z = (x if without == "norm" else F.layer_norm(x, (D,))) @ up.T
    z = z if without == "GELU" else F.gelu(z)
    z1, z2 = z.chunk(2, dim=-1)
    if without == "order":
        z1, z2 = z2, z1
    z2 = z2 if without == "inner norm" else F.layer_norm(z2, z2.shape[-1:])
    w = weight[:T, :T]
    f = (w if without == "tril" else w.tril()) @ z2
    f = f if without == "bias" else f + bias[:T, None]
    y = (z1 * f) @ down.T
    return y if without == "residual" else x + y


BLOCK_MISTAKES = {
    "residual": "the input is not added at the end: a block adds to the stream",
    "tril": "W is used whole, so that your block sees the future: cut it at the diagonal with tril",
    "GELU": "the GELU between the projection and the gate is missing",
    "norm": "the input is not normalized before the first projection; only the branch is, not the stream",
    "inner norm": "the half that W mixes is not normalized",
    "order": "the halves are exchanged: the first passes, the second is mixed",
    "bias": "the bias of the gate is missing",
}


@exercise("5.4")
def whole_block(answer: Any) -> None:
    """A causal block from a blank: ``answer(x, up, down, weight, bias)``."""
    g, n, T, D, width = torch.Generator().manual_seed(0), 8, 6, 4, 10
    up, down = torch.randn(width, D, generator=g), torch.randn(D, width // 2, generator=g)
    weight, bias = torch.randn(n, n, generator=g), torch.randn(n, generator=g)
    x = torch.randn(2, T, D, generator=g)
    given = (x, up, down, weight, bias)
    mistakes = {reason: block(*given, without=what) for what, reason in BLOCK_MISTAKES.items()}
    reads = partial(dependence, lambda tokens: answer(tokens, *given[1:]), x)
    compare("your block's output", answer(*given), block(*given), mistakes, reads=reads)


@exercise("5.5")
def piece_by_piece(answer: Any) -> None:
    """A gate that reads on where it stopped: ``answer(gate, past, z)`` gives the output and what to remember."""
    gate = SpatialGatingUnit(8, 9, causal=True)
    with torch.no_grad():
        gate.weight.copy_(drawn(0, 9, 9))
        gate.bias.copy_(drawn(0, 9))
    z = drawn(0, 2, 9, 8)
    whole, mixed = gate(z).detach(), gate.norm(z.chunk(2, dim=-1)[1]).detach()
    past, start = torch.zeros(2, 0, 4), 0
    for length in (4, 1, 3, 1):
        end = start + length
        found = answer(gate, past, z[:, start:end])
        pair = isinstance(found, tuple) and len(found) == 2
        expect(pair, "expected two tensors: the output for the new tokens, and what to remember")
        output, kept = found
        where = f"tokens {start} to {end - 1}" if length > 1 else f"token {start}"
        mistakes = {}
        if start:
            first = gate.weight[:length, :length].tril() @ mixed[:, start:end] + gate.bias[:length, None]
            late = gate.weight[start:end, :end].tril(start) @ mixed[:, :end] + gate.bias[:length, None]
            passed = z[:, start:end, :4]
            mistakes = {
                f"from token {start} on you start again at position 0: rows, columns and bias count from the start of "
                "the sequence": (passed * first).detach(),
                f"the bias of token {start} is that of position 0": (passed * late).detach(),
            }
        blind = gate.weight[start:end, :end] @ mixed[:, :end] + gate.bias[start:end, None]
        ahead = "tokens of one piece see each other's future: row t stops at column t"
        mistakes |= {ahead: (z[:, start:end, :4] * blind).detach()}
        told = isinstance(output, Tensor) and output.shape == z[:, start:end, :4].shape
        if told and close(output.detach(), mistakes[ahead]) and not close(mistakes[ahead], whole[:, start:end]):
            seen = dependence(lambda tokens, past=past: answer(gate, past, tokens)[0].detach(), z[:, start:end])  # type: ignore[misc]
            show_leaks(f"your gate, {where}", seen)
        compare(f"your output for {where}", output, whole[:, start:end], mistakes)
        expect(isinstance(kept, Tensor), f"what you remember is a {type(kept).__name__}; expected a tensor")
        forgot = f"after {end} tokens you remember {kept.shape[1] if kept.dim() == 3 else kept.dim()}; expected all"
        expect(kept.dim() == 3 and kept.shape[1] == end, f"{forgot} {end}: a later token may read any of them")
        raw = {"you remember Z2 as it came; a later token reads it normalized": z[:, :end, 4:]}
        compare("what you remember", kept, mixed[:, :end], raw)
        past, start = kept.detach(), end
