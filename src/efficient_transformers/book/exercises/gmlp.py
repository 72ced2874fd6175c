"""The exercises of Chapter 5, gMLP."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from ...layers.gmlp import SpatialGatingUnit
from .checking import WrongAnswerError, close, dependence, drawn, exercise, expect, expect_equal, show_leaks
from .numbers import QUESTIONS, Numbers, Question, one_number
from .trained import SEQ_LEN, Answer, against, fresh, probe, reads, result, trained


@exercise("5.1", takes="weight, x")
def repair(answer: Any) -> str:
    """A causal product with normalized tokens: ``answer(weight, x)``."""
    T = 9
    weight, x = drawn(0, T, T), drawn(0, 2, T, 8)
    expected = weight.tril() @ F.layer_norm(x, x.shape[2:])
    got = answer(weight, x)
    expect(isinstance(got, Tensor) and got.shape == x.shape, f"expected a tensor of the shape {tuple(x.shape)}")
    if close(got, expected):
        return (
            f"output 0 knew {T - 1} tokens of its future, through a mean and a variance for each channel: a leak needs "
            "no matrix"
        )
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
        "nothing looks ahead, but the diagonal is cut too: a token may read itself": weight.tril(-1)
        @ F.layer_norm(x, x.shape[2:]),
    }
    expect_equal("your output", got, expected, mistakes)
    raise AssertionError("an output that is right has returned above")


@exercise("5.2", takes="kernel")
def dense_from_kernel(answer: Any) -> str:
    """The matrix of a causal Toeplitz gate: ``answer(kernel)``."""
    n = 5
    kernel = torch.arange(1.0, n + 1)
    t, s = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    wrapped = kernel[(t - s) % n]
    expected = wrapped.tril()
    expect_equal(
        "your matrix",
        answer(kernel),
        expected,
        {
            "your matrix reads the future: the weight of the distance j = t - s belongs j places below the diagonal, "
            "yours stands above it": expected.T,
            "your matrix is symmetric: kernel[|t - s|] reads as far ahead as back, and above the diagonal is the "
            "future; cut it with tril": kernel[(t - s).abs()],
            "your index is below 0 in the past, where it reads from the end: row t has kernel[t - s]": kernel[
                (s - t) % n
            ].tril(),
            "clamp makes every distance below 0 a 0, so that all the future gets kernel[0]: cut it with tril": kernel[
                (t - s).clamp(min=0)
            ],
            "your matrix wraps around: the first rows read the end of the sequence, which is their future": wrapped,
            "your kernel runs the wrong way: its first number is for the distance 0, the diagonal": kernel.flip(0)[
                (t - s) % n
            ].tril(),
            "your kernel lies along the diagonal: row t has kernel[0] there, and kernel[j] j places to the left": (
                torch.diag(kernel)
            ),
        },
    )
    n = 64
    return f"at the {n} characters of this chapter's models, {n} numbers stand for a matrix of {n * n:,}"


def gate_channels(D: int) -> Numbers:
    """The channels inside for one number of channels."""
    n = 10
    costs = (
        f"with F = {{given:g}} the gate takes {{scaled:,.0f}} multiply-adds for {n} tokens, attention with D = {D} "
        f"takes {2 * n * n * D:,}"
    )
    hints = {
        2 * D: "W multiplies half of the F channels, and attention takes two products",
        8 * D: "attention has two products of n × n × D, not four",
        D: "count the second product of attention, and that half of the F channels pass by",
    }
    mistakes = ((count, f"{costs}: {hint}") for count, hint in hints.items())
    return one_number(f"what you return for D = {D}", 4 * D, costs, *mistakes, scale=n * n / 2)


QUESTIONS["5.3"] = Question(("At which F, with D = 16?",), gate_channels(16), lambda D: 4 * D)


@exercise("5.3", takes="D")
def equal_cost(answer: Any) -> str:
    """Channels inside at which a gate costs what attention does: ``answer(D)``."""
    for D in (16, 32):
        gate_channels(D).judge(answer(D))
    return (
        "our models have just these 4 D channels, and two blocks for each layer: used whole, their matrices cost twice "
        "what attention does"
    )


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
    w = w if without == "tril" else w.tril()
    f = z2 @ w.T if without == "tokens" else w @ z2
    f = f if without == "bias" else f + (bias[:T] if without == "positions" else bias[:T, None])
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
    "positions": "the bias goes along the channels; it has one number for each position: bias[:T, None]",
    "tokens": "W mixes channels; it stands on the left, W @ Z, where it mixes tokens",
}


@exercise("5.4", takes="x, up, down, weight, bias")
def whole_block(answer: Any) -> str:
    """A causal block from a blank: ``answer(x, up, down, weight, bias)``."""
    g, n, T, D, width = torch.Generator().manual_seed(0), 8, 5, 4, 10  # T = width / 2
    up, down = torch.randn(width, D, generator=g), torch.randn(D, width // 2, generator=g)
    weight, bias = torch.randn(n, n, generator=g), torch.randn(n, generator=g)
    x = torch.randn(2, T, D, generator=g)
    given = (x, up, down, weight, bias)
    mistakes = {reason: block(*given, without=what) for what, reason in BLOCK_MISTAKES.items()}
    reads = partial(dependence, lambda tokens: answer(tokens, *given[1:]), x)
    expect_equal("your block's output", answer(*given), block(*given), mistakes, reads=reads)
    return "that is a whole dense gMLP: blocks like it between an embedding and a norm, no softmax and no positions"


@exercise("5.5", takes="gate, past, z")
def piece_by_piece(answer: Any) -> str:
    """A gate that reads on where it stopped: ``answer(gate, past, z)`` gives the output and what to remember."""
    gate = SpatialGatingUnit(8, 9, causal=True, weight="dense")
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
            cut_late = gate.weight[start:end, :end].tril() @ mixed[:, :end] + gate.bias[start:end, None]
            mistakes = {
                f"tril cuts after the rows were chosen, at the diagonal of this piece, so that token {start} reads "
                "token 0 alone: cut the whole W first, or use tril(S)": (passed * cut_late).detach(),
                f"from token {start} on you start again at position 0: rows, columns and bias count from the start of "
                "the sequence": (passed * first).detach(),
                f"the bias of token {start} is that of position 0": (passed * late).detach(),
            }
        blind = gate.weight[start:end, :end] @ mixed[:, :end] + gate.bias[start:end, None]
        ahead = "tokens of one piece see each other's future: row t stops at column t"
        raw = gate.weight[start:end, :end].tril(start) @ z[:, :end, 4:] + gate.bias[start:end, None]
        unnormalized = "W multiplies Z2 as it came: the gate normalizes it first, gate.norm, then mixes, then remembers"
        mistakes |= {
            ahead: (z[:, start:end, :4] * blind).detach(),
            unnormalized: (z[:, start:end, :4] * raw).detach(),
        }
        if close(output, mistakes[ahead]) and not close(mistakes[ahead], whole[:, start:end]):
            seen = dependence(lambda tokens, past=past: answer(gate, past, tokens)[0].detach(), z[:, start:end])  # type: ignore[misc]
            show_leaks(f"your gate, {where}", seen)
        expect_equal(f"your output for {where}", output, whole[:, start:end], mistakes)
        expect(isinstance(kept, Tensor), f"what you remember is a {type(kept).__name__}; expected a tensor")
        forgot = f"after {end} tokens you remember {kept.shape[1] if kept.dim() == 3 else kept.dim()}; expected all"
        expect(kept.dim() == 3 and kept.shape[1] == end, f"{forgot} {end}: a later token may read any of them")
        as_it_came = {"you remember Z2 as it came; a later token reads it normalized": z[:, :end, 4:]}
        expect_equal("what you remember", kept, mixed[:, :end], as_it_came)
        past, start = kept.detach(), end
    return (
        "it remembers F / 2 numbers for each token, 2 D in our models, as many as the keys and values of attention, "
        "and there are two blocks for each layer"
    )


@exercise("5.6", takes="model, corpus, config")
def four_numbers(answer: Answer) -> str:
    """A gMLP whose gates have four numbers each, trained."""
    T, w, blocks = 12, 4, 4
    make = partial(fresh, "gmlp", n_layers=blocks, weight="toeplitz")
    model, start = probe(answer, make).model, cast(Any, make())
    distance = torch.arange(T)[:, None] - torch.arange(T)
    for i, (block, before) in enumerate(zip(model.body, start.body, strict=True)):
        seen = reads(block.gate, T, block.up.out_features) > 0
        far = int(distance[seen].max())
        found = f"the gate of block {i} reads {far} characters back; expected {w - 1}, which with its own are {w}"
        far_weights, unmoved = block.gate.weight[w:], torch.equal(block.gate.weight[w:], before.gate.weight[w:])
        reason = ": weights that are set to 0 once learn again; stop their gradients too, in every block"
        if unmoved:
            reason = (
                ": their gradients are stopped, but the weights keep the values that they start with; set them to 0"
            )
        expect(far == w - 1, found + reason * (far == T - 1 and bool(far_weights.any())))
        every = torch.equal(seen, (distance >= 0) & (distance < w))
        expect(every, f"the gate of block {i} reads {far} characters back, but skips some of those between")
    changed, usual = result(answer, make), trained(make)
    dense = trained(partial(make, weight="dense"))
    return (
        f"{blocks * w} numbers mix the tokens of the whole model, and it ends {against(changed, usual)} than with "
        f"{blocks * SEQ_LEN}, at {changed:.3f}. Dense matrices, with {blocks * SEQ_LEN**2:,}, end at {dense:.3f}"
    )
