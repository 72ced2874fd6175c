"""The exercises of Chapter 4, Hourglass."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...layers.cache import Cache
from ...layers.resampling import Shortening
from .checking import WrongAnswerError, close, drawn, exercise, expect, expect_equal, show_leaks, stopped
from .numbers import QUESTIONS, Numbers, Question, one_number
from .trained import Answer, against, expect_change, fresh, probe, result, trained


def check_windows(what: str, got: Any, x: Tensor, short: Tensor, k: int) -> None:
    """Raise unless each token of ``got`` is its ``x`` plus the vector of window ⌊t/k⌋; say which one it got instead."""
    T, n = x.shape[1], short.shape[1]
    expected = x + short[:, torch.arange(T) // k]
    if isinstance(got, Tensor) and got.shape == expected.shape and not close(got, expected):
        expect(not close(got, expected - x), f"{what} lacks x: (4.4) adds the vectors to what entered the shortening")
        added = (got - x).detach()
        found = [next((w for w in range(n) if close(added[:, t], short[:, w])), None) for t in range(T)]
        known = [w for w in found if w is not None]
        wrong = next((t for t, w in enumerate(found) if w is not None and w != t // k), None)
        if wrong is not None:
            w = found[wrong]
            assert w is not None
            if len(known) == T:
                s = torch.arange(T)
                seen = torch.stack([(s == t) | (s <= w * k) for t, w in enumerate(known)])
                show_leaks("your up-sampling", seen.double())
            ahead = w * k - wrong
            reason = (
                f"that window ends at token {w * k}, so the token sees {ahead} of its future"
                if ahead > 0
                else f"that is honest but stale, since window {wrong // k} ends at token {wrong // k * k}"
            )
            expect(False, f"{what} gives token {wrong} the vector of window {w} (T = {T}, k = {k}): {reason}")
    expect_equal(what, got, expected)


@exercise("4.1", takes="x, short, k")
def repair_up_sampling(answer: Callable[[Tensor, Tensor, int], Any]) -> str:
    """A function of x (B, T, D), short (B, n, D) and k."""
    for T, k in ((8, 4), (7, 3), (12, 4), (1, 2)):
        x, short = drawn(4, 2, T, 8), drawn(4, 2, (T - 1) // k + 1, 9)[..., 1:]
        given = x.clone()
        try:
            got = answer(given, short, k)
        except RuntimeError as error:
            sizes = f"x has T = {T} tokens and short n = {short.shape[1]} vectors (k = {k})"
            raise WrongAnswerError(
                f"your code stopped: {sizes}, so they cannot be added as they are: choose one vector of short for each "
                f"token, {T} in all, and add those"
            ) from error
        check_windows("your up-sampling", got, x, short, k)
        in_place = "the sums are right, but you changed x in place, which belongs to the caller: make a new tensor"
        expect(torch.equal(given, x), in_place)
    T, k = 12, 4
    broken = (torch.arange(T) + k - 1) // k * k  # where the window ends that each token read
    ahead = int((broken > torch.arange(T)).sum())
    return (
        f"of {T} tokens, {ahead} had read a window that ends after them, all but those that end one themselves. "
        f"Honest, a token reads a window that is up to {k - 1} tokens old"
    )


STALE: list[tuple[Callable[[int], int], str]] = [  # what a wrong answer computes
    (lambda t: t % 4, "that is the age of the window of the level between, which ends at multiples of 4"),
    (lambda t: t % 2, "2 counts windows of the level between, which are 4 tokens apart"),
    (lambda t: t % 6, "factors of nested levels multiply: the innermost windows are 4 · 2 tokens apart"),
    (lambda t: t % 8 + 1, "one too many: a window that ends at token t itself is 0 tokens old"),
]


def age(t: int, *mistakes: tuple[float, str]) -> Numbers:
    """How old the innermost window is at one token."""
    ends = t // 8 * 8
    told = f"for t = {t} you say {{given:g}}; the innermost window that it reads ends at token {ends}, {t - ends} ago"
    return one_number("what you return", t - ends, told, *mistakes)


STALE_AT_23 = age(23, *((wrong(23), reason) for wrong, reason in STALE))  # where all mistakes differ
QUESTIONS["4.2"] = Question(("How many tokens before t = 23?",), STALE_AT_23, lambda t: t % 8)


@exercise("4.2", takes="t")
def how_stale(answer: Callable[[int], Any]) -> str:
    """A function of t: how long ago the innermost window ended."""
    ages = [answer(t) for t in range(40)]
    broken = next((t for t, age in enumerate(ages) if not isinstance(age, int)), None)
    expect(broken is None, f"for t = {broken} you say {ages[broken or 0]!r}; expected a whole number of tokens, an int")
    for wrong, reason in STALE:
        expect(ages != [wrong(t) for t in range(40)], reason)
    for t in range(40):
        age(t).judge(ages[t])
    return (
        f"on average the innermost layers know nothing of the last {sum(ages) / len(ages):g} tokens; the layers around "
        "them have read those"
    )


def even_length(D: int) -> Numbers:
    """The length for one number of channels."""
    sides = f"at T = {{given:g}} and D = {D} attention takes {{scaled:,.0f}} multiply-adds, the matrices {12 * D**2:,}"
    return one_number(
        f"what you return for D = {D}",
        6 * D,
        sides,
        (12 * D, "12D is where one of the two costs T·D alone; attention has both, scores and mixture"),
        (3 * D, "3D is where 4·T·D equals the matrices; attention takes 2·T·D multiply-adds"),
        (2 * D, "2D counts attention's own four matrices alone; the feed-forward network has 8D² more"),
        scale=2 * D,
    )


QUESTIONS["4.3"] = Question(("At which T, with D = 32?",), even_length(32), lambda D: 6 * D)


@exercise("4.3", takes="D")
def break_even(answer: Callable[[int], Any]) -> str:
    """A function of D: the length at which attention costs as much as the matrices."""
    for D in (32, 64, 128):
        even_length(D).judge(answer(D))
    D, T = 128, 128
    share = 2 * T * D / (2 * T * D + 12 * D**2)
    return (
        f"with {D} channels that is {answer(D):,} tokens. At the {T} of this chapter's models attention is {share:.0%} "
        "of a layer: what shortening saves there is matrices"
    )


@exercise("4.4", takes="x, k")
def max_shortening(answer: Callable[[Tensor, int], Any]) -> str:
    """A function of x (B, T, D) and k: the maximum of each window, (B, n, D)."""
    for T, k in ((8, 4), (9, 4), (11, 4), (7, 3), (1, 4)):
        x = drawn(4, 2, T, 3) - 2  # mostly negative: a zero is seen at once
        x[:, 0, 0] = -1e30  # and so is any other number before the text
        n = (T - 1) // k + 1
        shifted = F.pad(x, (0, 0, k - 1, k), value=-torch.inf)
        right = shifted[:, : n * k].reshape(2, n, k, 3).amax(2)
        unshifted = F.pad(x, (0, 0, 0, -T % k), value=-torch.inf).reshape(2, -1, k, 3).amax(2)
        zeros = F.pad(x, (0, 0, k - 1, k))[:, : n * k].reshape(2, n, k, 3).amax(2)
        cut = F.pad(shifted[:, :T], (0, 0, 0, -T % k), value=-torch.inf).reshape(2, -1, k, 3).amax(2)
        got = answer(x, k)
        pair = "your shortening gives a pair, the largest numbers and their places, as `max` does: take the first"
        expect(not isinstance(got, tuple), pair)
        expect(isinstance(got, Tensor), f"your shortening gives a {type(got).__name__}; expected a tensor")
        shapes = f"for T = {T} and k = {k} your shortening gives {tuple(got.shape)}; expected {tuple(right.shape)}, "
        expect(got.shape == right.shape, f"{shapes}a window for each of the tokens 0, k, 2k, … that there are")
        future = (
            f"your window j begins at token j·k instead of ending there: it shows its readers {k - 1} future tokens"
        )
        mistakes = {
            future: unshifted,
            "your zeros before the text take part: where all channels are negative, they win; pad with -inf": zeros,
            "your last window lacks its latest tokens: you cut the shifted sequence to its old length": cut,
        }
        if k > 1 and close(got, unshifted) and not close(unshifted, right):
            ends = torch.arange(T) // k * k + k - 1  # of the window that token t reads
            show_leaks("what your shortening lets tokens read", (torch.arange(T) <= ends[:, None]).double())
        first = (
            f"token 0 is alone in window 0 and has {x[0, 0, 0].item():.3g} there; you return {got[0, 0, 0].item():.3g}"
        )
        won = f"{first}, which stood before the text and won: only -inf loses against every number"
        is_padding = not any(close(got, wrong) for wrong in mistakes.values()) and bool(got[0, 0, 0] > x[0, 0, 0])
        expect(not is_padding, won)
        expect_equal(f"your shortening (T = {T}, k = {k})", got, right, mistakes)
    k = 4
    share = (drawn(4, 100) < 0).float().mean().item()
    return (
        f"zeros before the text would have won in {share:.0%} of the channels of window 0. Of a mean they take part "
        f"too: there token 0 counts a quarter"
    )


@exercise("4.5", takes="k")
def piece_by_piece(answer: Callable[[int], Callable[[Tensor, Tensor], Any]]) -> str:
    """A class of k, whose objects are called with pieces of x and the windows that they complete."""
    T, whole = 11, ([11], [4, 4, 3], [3, 1, 1, 4, 2], [2, 9], [1] * 11)
    for k, cuts in itertools.product((4, 3), whole):
        x, short = drawn(4, 2, T, 8), drawn(4, 2, (T - 1) // k + 1, 9)[..., 1:]
        up, start, outputs = answer(k), 0, []
        for length in cuts:
            end = start + length
            complete = slice(-(-start // k), (end - 1) // k + 1)
            piece = short[:, complete]
            where = f"tokens {start} to {end - 1}, pieces of {cuts}"
            try:
                y = up(x[:, start:end], piece)
            except (IndexError, RuntimeError) as error:
                none = ". This piece completes no window: its tokens read the last vector of an earlier piece"
                reason = f"at {where}, {stopped(error)}{none if piece.shape[1] == 0 else ''}"
                raise WrongAnswerError(reason) from error
            expect(isinstance(y, Tensor), f"your up-sampling gives a {type(y).__name__} for {where}; expected a tensor")
            shapes = (
                f"your up-sampling gives {tuple(y.shape)} for {where}; expected {(2, length, 8)}, a vector for each "
                f"token of the piece, which completes {piece.shape[1]} windows"
            )
            expect(y.shape == (2, length, 8), shapes)
            outputs.append(y)
            start = end
        check_windows(f"your up-sampling, in pieces of {cuts},", torch.cat(outputs, 1), x, short, k)
    tensors = [z for z in getattr(up, "__dict__", {}).values() if isinstance(z, Tensor)]
    kept = sum(z.numel() for z in tensors) // (2 * 8)
    T, D = 1000, 128
    memory = "from one vector" if kept <= 1 else f"though you keep {kept} vectors, of which the last is enough"
    return (
        f"in any pieces the same as at once, {memory}: {D} numbers in this chapter's models, after any text. A layer "
        f"of attention keeps {2 * T * D:,} after {T:,} tokens"
    )


class Taken(Shortening):
    """One token of each window instead of their mean, or something else of it."""

    def __init__(self, pool: Shortening, take: Callable[[Tensor], Tensor]) -> None:
        super().__init__(pool.d_model, pool.factor)
        self.take = take

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        return self.take(self.windows(x, cache))


class Late(nn.Module):
    """Every 4th token, from token 3 on."""

    factor = 4

    def forward(self, x: Tensor, cache: None = None) -> Tensor:
        return F.pad(x, (0, 0, 0, 3))[:, 3::4]


def taking(take: Callable[[Tensor], Tensor]) -> Callable[[Any], None]:
    """A change of an hourglass: what its shortening takes of windows ``[batch, windows, k, d_model]``."""

    def change(model: Any) -> None:
        model.body.shorten = Taken(model.body.shorten, take)

    return change


@exercise("4.6", takes="model, corpus, config")
def three_of_four(answer: Answer) -> str:
    """An hourglass whose shortening keeps the last token of each window, trained."""
    make = partial(fresh, "hourglass", hierarchy="1@1 2@4 1@1")

    def later(model: Any) -> None:
        model.body.shorten = Late()

    mistakes = [
        ("each token reads a window's first token, its oldest; expected the last", taking(lambda w: w[:, :, 0])),
        ("windows begin at the tokens 0, 4, 8, … and their last tokens are the future of their readers", later),
        ("it keeps the largest of each window, channel by channel", taking(lambda w: w.amax(2))),
        ("it keeps the sum of each window", taking(lambda w: w.sum(2))),
        ("it keeps a quarter of the last token", taking(lambda w: w[:, :, -1] / 4)),
    ]
    expect_change(probe(answer, make).model, make, taking(lambda w: w[:, :, -1]), mistakes)
    changed, usual = result(answer, make), trained(make)
    return (
        f"with three of four tokens thrown away before the middle the model ends {against(changed, usual)} than with "
        f"their mean, at {changed:.3f}. A layer of attention stands before: the token that is kept has read the others"
    )
