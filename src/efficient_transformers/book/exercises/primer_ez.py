"""The exercises of Chapter 2, Primer EZ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from ...layers.family import parameter_count
from ...support.checks import SHORT
from .checking import (
    WrongAnswerError,
    as_number,
    convolved,
    dependence,
    drawn,
    exercise,
    expect,
    expect_equal,
    show_leaks,
    stopped,
)
from .numbers import QUESTIONS, Field, Mistake, Numbers, Question
from .trained import Answer, against, expect_change, fresh, probe, result, trained

LETTERS = "the"


def convolution(x: Tensor, weight: Tensor) -> Tensor:
    """(2.2) for x ``[batch, seq, C]`` and weight ``[C, W]``, column 0 for the current token."""
    return convolved(x, weight, range(weight.shape[1]))


@exercise("2.1", takes="x, weight")
def repair(answer: Any) -> str:
    """A function of x and weight that computes (2.2)."""
    x, weight = drawn(0, 2, 9, 4), drawn(1, 4, 3)
    try:
        got = answer(x, weight)
    except RuntimeError as error:
        padded = "F.pad begins with the last dimension: (W - 1, 0) pads the channels, (0, 0, W - 1, 0) the tokens"
        raise WrongAnswerError(f"{stopped(error)}. {padded}") from error
    expect(isinstance(got, Tensor), f"your output is a {type(got).__name__}; expected a tensor")
    shapes = (
        f"your output has the shape {tuple(got.shape)}; expected {tuple(x.shape)}: one token for each that comes in"
    )
    expect(got.shape == x.shape, shapes)
    seen = dependence(lambda x: answer(x, weight), x)
    ahead = max((int(s - t) for t, s in seen.nonzero()), default=0)
    if ahead > 0:
        show_leaks("your convolution", seen)
    tokens = "1 token" if ahead == 1 else f"{ahead} tokens"
    expect(ahead == 0, f"your convolution sees {tokens} of the future: the red cells of its leak map. Pad on the left")
    reversed_ = convolution(x, weight.flip(1))
    mistakes = {
        "no future is seen any more, but the kernel is laid the wrong way round: weight[:, 0] meets the oldest token. "
        "conv1d lays the last entry of its kernel on the current token": reversed_,
        "no future is seen any more, but flip(0) gives each channel the kernel of another: the kernel runs along "
        "dimension 1": convolution(x, weight.flip(0, 1)),
    }
    expect_equal("your convolution's output", got, convolution(x, weight), mistakes)
    return (
        "each output reads its own token and what came before. The broken one needs no learning to cheat: with the "
        "weights 0, 1, 0 it returns the next token, which is the answer"
    )


TIMES = "with the factor {given:g}, the output is {scaled:g} times what it was"
FACTORS = Numbers(
    (
        Field("a factor", 1 / 2, f"ReLU: {TIMES}; ReLU(2x) = 2 ReLU(x)", scale=2),
        Field("a factor", 1 / 4, f"squared ReLU: {TIMES}; squaring squares the 2 as well: f(2x) = 4 f(x)", scale=4),
    ),
    (Mistake((1 / 4, 1 / 2), "the two numbers are swapped: ReLU comes first"),),
)
QUESTIONS["2.2"] = Question(("For ReLU", "For squared ReLU"), FACTORS, (1 / 2, 1 / 4))


@exercise("2.2")
def scaling(answer: Any) -> str:
    """Two factors: for ReLU, and for squared ReLU."""
    pair = isinstance(answer, Sequence) and len(answer) == 2
    expect(pair, f"the answer is {answer!r}; expected two numbers: (for ReLU, for squared ReLU)")
    FACTORS.judge(*answer)
    return (
        "no output notices, but the training does. With squared ReLU, doubling W1 and quartering W2 halves the "
        "gradient of W1 and makes that of W2 four times as large"
    )


def formula(weights: Sequence[float]) -> str:
    """What a kernel of three weights returns: ``x[t] - x[t-1]``."""
    terms = [
        f"{'-' if w < 0 else '+'} {'' if abs(w) == 1 else f'{abs(w):.3g} '}{x}"
        for w, x in zip(weights, ("x[t]", "x[t-1]", "x[t-2]"), strict=True)
        if w
    ]
    return " ".join(terms).removeprefix("+ ") or "0"


@exercise("2.3")
def differencer(answer: Any) -> str:
    """Two kernels of three weights: one takes differences, one adds up again."""
    expected = "expected two lists of three weights"
    is_pair = isinstance(answer, Sequence) and len(answer) == 2 and all(isinstance(w, Sequence) for w in answer)
    expect(is_pair, f"the answer is {answer!r}; {expected}")
    kernels = [[as_number("a weight", w) for w in weights] for weights in answer]
    sizes = [len(kernel) for kernel in kernels]
    expect(sizes == [3, 3], f"the answer has kernels of {sizes} weights; {expected}")
    first, second = kernels
    if first != [1, -1, 0]:
        returns = f"your first kernel returns {formula(first)}"
        scale = next((w for w in first if w), 1.0)
        shape = [w / scale for w in first]
        if first == [-1, 1, 0]:
            reason = "the difference with the wrong sign; its first weight belongs to the current token"
        elif first[::-1] in ([1, -1, 0], [-1, 1, 0]):
            reason = "it lies the wrong way round: its first weight belongs to the current token, its last to t - 2"
        elif shape == [1, 0, -1]:
            reason = "it looks two tokens back, not one"
        elif shape == [1, -1, 0]:
            reason = f"that is the difference times {scale:g}"
        elif abs(sum(first)) > 1e-6:
            reason = f"its weights add up to {sum(first):.3g}, so a constant does not vanish; subtract x[t-1] from x[t]"
        else:
            reason = "a difference of neighbors has two weights, of now and of one token back"
        expect(False, f"{returns}; expected x[t] - x[t-1]: {reason}")
    flat = torch.full((1, 6, 1), 5.0)
    steps = convolution(flat, torch.tensor([first]))
    back = convolution(steps, torch.tensor([second])).flatten().tolist()
    expect(
        second != [1, 0, 0],
        "the differences of 5, 5, 5 are 5, 0, 0, and your second kernel leaves them so: let it add up",
    )
    t = next((t for t in range(3) if abs(back[t] - 5) > 1e-4), None)
    if t is not None:
        shown = ", ".join(f"{value:.3g}" for value in back[:3])
        expect(
            False,
            f"of the differences 5, 0, 0 your second kernel makes {shown}; expected 5, 5, 5: at token {t} only the "
            f"weight of {t} back meets the 5, and yours is {second[t]:.3g}",
        )
    rest = ", ".join(f"{value:g}" for value in back[3:])
    return f"tokens 0 to 2 are the constant again, and tokens 3 to 5 are {rest}: the 5 has left the window of three"


@exercise("2.4")
def what_follows(answer: Any) -> str:
    """Kernels of queries and of keys, with which the last e looks at the character after an earlier `the`."""
    expected = "expected two of 3 letters by 3 weights"
    try:
        kernels = [torch.as_tensor(k, dtype=torch.float32) for k in answer]
    except (TypeError, ValueError) as error:
        raise WrongAnswerError(f"your answer is {SHORT.repr(answer)}; {expected}") from error
    shapes = [tuple(k.shape) for k in kernels]
    expect(shapes == [(3, 3), (3, 3)], f"the kernels have the shapes {shapes}; {expected}")
    scores = torch.zeros(0)
    for text in ("the cat the", "the sea the", "a tea the man the", "the hat the"):
        x = torch.tensor([[[float(c == letter) for letter in LETTERS] for c in text]])  # (1, T, 3)
        q, k = (convolution(x, kernel)[0] for kernel in kernels)
        parts = k * q[-1]  # (T, 3): what each letter adds to the score of each character with the last one
        scores = parts.sum(1)
        right = text.index("the") + 3
        top = [i for i in range(len(text)) if scores[i] == scores.max()]
        expect(bool(scores.max() > 0), f"in {text!r} no key has a score above 0: what is the query of the last e?")
        if top == [right]:
            continue
        place = next(i for i in top if i != right)
        why = [
            f"the {letter} gives {part:g}" for letter, part in zip(LETTERS, parts[place].tolist(), strict=True) if part
        ]
        found = f"in {text!r} the last e looks at {place} ({text[place]!r}), where {' and '.join(why)}"
        hint = f"; expected {right} alone, after `the`, which has {scores[right]:g}"
        if place == right - 1:
            hint = (
                ": one token too early. What the query has now and one token back, the key of the next character has "
                "one and two tokens back"
            )
        elif scores[right] == scores[place]:
            hint = f"; {right}, after `the`, has no more: match a second letter"
        expect(False, found + hint)
    after, best = scores[right].item(), scores[torch.arange(len(scores)) != right].max().item()
    return (
        f"also in 'the hat the', by {after:g} to {best:g}. This is an induction head, in one layer: plain attention "
        "needs two for it"
    )


@exercise("2.5", takes="piece, weight, past")
def with_memory(answer: Any) -> str:
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
        whole = convolution(x, weight)
        forgotten = torch.cat([convolution(piece, weight) for piece in pieces], dim=1)
        parts, last = [], None
        for piece in pieces:  # as if outputs were remembered
            y = convolution(piece if last is None else torch.cat([last, piece], dim=1), weight)[:, -piece.shape[1] :]
            parts.append(y)
            last = y if last is None else torch.cat([last, y], dim=1)
        mistakes = {
            f"with {cut}, each piece starts as if nothing had come before: is `past` used?": forgotten,
            f"with {cut}, you remember outputs; the convolution needs its earlier inputs": torch.cat(parts, dim=1),
            f"with {cut}, the kernel is laid the wrong way round: weight[:, 0] is for the current token": convolution(
                x, weight.flip(1)
            ),
        }
        expect_equal(f"the output, with {cut},", torch.cat(outputs, dim=1), whole, mistakes)
    read, D, layers, W = 1000, 128, 4, 3
    return (
        f"in this chapter's models the convolutions remember {layers * 3 * (W - 1) * D:,} numbers, after one character "
        f"or a million; attention has {layers * 2 * read * D:,} after {read:,}"
    )


class Shift(nn.Module):
    """The second half of the channels, ``n`` tokens late; zeros, or if ``wraps`` the other end, come in."""

    def __init__(self, n: int = 1, halves: tuple[int, ...] = (1,), *, wraps: bool = False) -> None:
        super().__init__()
        self.n, self.halves, self.wraps = n, halves, wraps

    def forward(self, x: Tensor) -> Tensor:
        parts, late = list(x.chunk(2, dim=-1)), torch.arange(x.shape[1]) - self.n
        inside = ((late >= 0) & (late < x.shape[1]))[:, None] | self.wraps
        for i in self.halves:
            parts[i] = parts[i][:, late % x.shape[1]] * inside
        return torch.cat(parts, dim=-1)


def shifting(
    *, norm: str = "norm1", first: bool = False, before: bool = False, **options: Any
) -> Callable[[Any], None]:
    """A change of a model: what comes from this norm of each layer, or the first alone, or enters it, is shifted."""

    def change(model: Any) -> None:
        for layer in model.body[:1] if first else model.body:
            steps = [getattr(layer, norm), Shift(**options)]
            setattr(layer, norm, nn.Sequential(*(reversed(steps) if before else steps)))

    return change


@exercise("2.6", takes="model, corpus, config")
def token_shift(answer: Answer) -> str:
    """A Transformer with half of its channels one token late in front of each attention, trained."""
    make = partial(fresh, "transformer", n_layers=2)
    mistakes = [
        ("its second half comes one token early, which is the future", shifting(n=-1)),
        ("`roll` brings the last token before the first, which is a leak: put zeros there", shifting(wraps=True)),
        (
            "you shift what enters the norm; attention reads what leaves it, so shift after the norm",
            shifting(before=True),
        ),
        ("the first half of the channels is late; expected the second", shifting(halves=(0,))),
        ("all channels are late; let the first half be", shifting(halves=(0, 1))),
        ("the shift stands in front of the feed-forward network", shifting(norm="norm2")),
        ("the first layer alone is changed", shifting(first=True)),
    ]
    expect_change(probe(answer, make).model, make, shifting(), mistakes)
    changed, usual = result(answer, make), trained(make)
    primer = partial(fresh, "primer-ez", n_layers=2, activation="relu")
    numbers = parameter_count(primer()) - parameter_count(primer(convolve=""))
    return (
        f"without one parameter more the model ends {against(changed, usual)} than it did, at {changed:.3f}. "
        f"Convolutions of Primer EZ instead, with {numbers:,} numbers, bring it to {trained(primer):.3f}"
    )
