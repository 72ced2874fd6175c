"""The exercises of Chapter 2, Primer EZ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...layers.inspection import leak_map
from .checking import compare, drawn, exercise, expect, show_leaks

LETTERS = "the"


def convolved(x: Tensor, weight: Tensor) -> Tensor:
    """(2.2) for x ``[batch, seq, C]`` and weight ``[C, W]``, column 0 for the current token."""
    padded = F.pad(x, (0, 0, weight.shape[1] - 1, 0)).mT  # (B, C, W-1+T)
    return F.conv1d(padded, weight.flip(1).unsqueeze(1), groups=len(weight)).mT


class Convolution(nn.Module):
    """A function of the reader as a module, for the leak map."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], weight: Tensor) -> None:
        super().__init__()
        self.function, self.d_model = function, len(weight)
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weight.to(x.dtype))


def leaks(function: Callable[[Tensor, Tensor], Tensor], weight: Tensor) -> int:
    """How many tokens of its future an output depends on at most; if any, the leak map is drawn."""
    seen = leak_map(Convolution(function, weight), 9)
    ahead = max((int(s - t) for t, s in seen.nonzero()), default=0)
    if ahead > 0:
        show_leaks("your convolution", seen)
    return ahead


@exercise("2.1")
def repair(answer: Any) -> None:
    """A function of x and weight that computes (2.2)."""
    x, weight = drawn(0, 2, 9, 4), drawn(1, 4, 3)
    got = answer(x, weight)
    shapes = (
        f"your output has the shape {tuple(got.shape)}; expected {tuple(x.shape)}: one token for each that comes in"
    )
    expect(got.shape == x.shape, shapes)
    ahead = leaks(answer, weight)
    tokens = "1 token" if ahead == 1 else f"{ahead} tokens"
    expect(ahead == 0, f"your convolution sees {tokens} of the future: the red cells of its leak map. Pad on the left")
    reversed_ = convolved(x, weight.flip(1))
    mistakes = {
        "no future is seen any more, but the kernel is laid the wrong way round: weight[:, 0] meets the oldest token. "
        "conv1d lays the last entry of its kernel on the current token": reversed_,
    }
    compare("your convolution's output", got, convolved(x, weight), mistakes)


@exercise("2.2")
def scaling(answer: Any) -> None:
    """Two factors: for ReLU, and for squared ReLU."""
    pair = isinstance(answer, Sequence) and len(answer) == 2
    expect(pair, f"the answer is {answer!r}; expected two numbers: (for ReLU, for squared ReLU)")
    relu, squared = (float(factor) for factor in answer)
    expect((relu, squared) != (0.25, 0.5), "the two numbers are swapped: ReLU comes first")
    expect(
        relu == 0.5,
        f"ReLU: with the factor {relu:g}, the output is {2 * relu:g} times what it was; ReLU(2x) = 2 ReLU(x)",
    )
    why = "squaring squares the 2 as well: f(2x) = 4 f(x)"
    expect(
        squared == 0.25,
        f"squared ReLU: with the factor {squared:g}, the output is {4 * squared:g} times what it was; {why}",
    )


@exercise("2.3")
def differencer(answer: Any) -> None:
    """Two kernels of three weights: one takes differences, one adds up again."""
    kernels = [torch.as_tensor(weights, dtype=torch.float32).flatten() for weights in answer]
    sizes = [len(kernel) for kernel in kernels]
    expect(sizes == [3, 3], f"the answer has kernels of {sizes} weights; expected two lists of three weights")
    difference, undo = (kernel[None] for kernel in kernels)
    squares = torch.arange(6.0).view(1, 6, 1) ** 2
    steps = squares.diff(dim=1)
    mistakes = {
        "your first kernel returns x[t-1] - x[t], the difference with the wrong sign: "
        "its first weight belongs to the current token": -steps,
        "your first kernel looks two tokens back, not one: it returns x[t] - x[t-2]": (
            convolved(squares, torch.tensor([[1.0, 0.0, -1.0]]))[:, 1:]
        ),
    }
    compare(
        "the difference of 0, 1, 4, 9, 16, 25 from token 1 on", convolved(squares, difference)[:, 1:], steps, mistakes
    )
    flat = torch.full((1, 6, 1), 5.0)
    back = convolved(convolved(flat, difference), undo)[:, :3]
    only_now = convolved(convolved(flat, difference), torch.tensor([[1.0, 0.0, 0.0]]))[:, :3]
    mistakes = {
        "the differences of 5, 5, 5 are 5, 0, 0, and your second kernel leaves them so: let it add up": only_now
    }
    compare("the constant 5, after both kernels, at tokens 0 to 2", back, flat[:, :3], mistakes)


def as_letters(text: str) -> Tensor:
    """``[1, seq, 3]``: which character is a t, an h, an e."""
    return torch.tensor([[[float(c == letter) for letter in LETTERS] for c in text]])


@exercise("2.4")
def what_follows(answer: Any) -> None:
    """Kernels of queries and of keys, with which the last e looks at the character after an earlier `the`."""
    kernels = [torch.as_tensor(k, dtype=torch.float32) for k in answer]
    shapes = [tuple(k.shape) for k in kernels]
    expect(shapes == [(3, 3), (3, 3)], f"the kernels have the shapes {shapes}; expected two of 3 letters by 3 weights")
    for text in ("the cat the", "the sea the", "a tea, the man the"):
        x = as_letters(text)
        q, k = (convolved(x, kernel)[0] for kernel in kernels)
        scores = k @ q[-1]
        first = text.index("the")
        top = [i for i in range(len(text)) if scores[i] == scores.max()]
        expect(bool(scores.max() > 0), f"in {text!r} no key has a score above 0: what is the query of the last e?")
        expect(
            first + 2 not in top,
            f"in {text!r} the last e looks at the e of the first `the`: one token too early. "
            "The key after it must carry the e of one token back",
        )
        named = ", ".join(f"{i} ({text[i]!r})" for i in top)
        expect(
            top == [first + 3], f"in {text!r} the highest score is at {named}; expected {first + 3} alone, after `the`"
        )


@exercise("2.5")
def with_memory(answer: Any) -> None:
    """A convolution that reads piece by piece: a function of piece, weight and past, to output and past."""
    for W, sizes in ((3, (1, 4, 7)), (4, (1, 1, 1, 2, 6)), (1, (5, 3))):
        x, weight = drawn(2, 2, sum(sizes), 4), drawn(3, 4, W)
        ends = list(accumulate(sizes))
        pieces = [x[:, end - size : end] for end, size in zip(ends, sizes, strict=True)]
        cut = f"pieces of {', '.join(map(str, sizes))} tokens and a kernel of width {W}"
        past, outputs = None, []
        for piece in pieces:
            result = answer(piece, weight, past)
            is_pair = isinstance(result, tuple) and len(result) == 2 and all(isinstance(r, Tensor) for r in result)
            expect(is_pair, f"your function returned a {type(result).__name__}; expected a pair: output, past")
            outputs.append(result[0])
            past = result[1]
            kept = past.shape[1] if past.dim() == 3 else -1
            why = "; with W = 1 this is [:, -0:], which is everything" if W == 1 and kept > 0 else ""
            right = (2, W - 1, 4)
            expect(
                tuple(past.shape) == right,
                f"with {cut}, the past that you return has the shape {tuple(past.shape)}; expected {right}, "
                f"the last {W - 1} inputs, those of earlier pieces included{why}",
            )
        whole = convolved(x, weight)
        forgotten = torch.cat([convolved(piece, weight) for piece in pieces], dim=1)
        parts, last = [], None
        for piece in pieces:  # as if outputs were remembered
            y = convolved(piece if last is None else torch.cat([last, piece], dim=1), weight)[:, -piece.shape[1] :]
            parts.append(y)
            last = y if last is None else torch.cat([last, y], dim=1)
        mistakes = {
            f"with {cut}, each piece starts as if nothing had come before: is `past` used?": forgotten,
            f"with {cut}, you remember outputs; the convolution needs its earlier inputs": torch.cat(parts, dim=1),
        }
        compare(f"the output, with {cut},", torch.cat(outputs, dim=1), whole, mistakes)
