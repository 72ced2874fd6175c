"""The exercises of Chapter 4, Hourglass."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .checking import WrongAnswerError, close, compare, drawn, exercise, expect, show_leaks


def draw_leaks(windows: list[int], k: int) -> None:
    """The leak map of an up-sampling that gives token t the window ``windows[t]``."""
    T = len(windows)
    seen = torch.stack([(torch.arange(T) == t) | (torch.arange(T) <= w * k) for t, w in enumerate(windows)])
    show_leaks("your up-sampling", seen.double())


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
                draw_leaks(known, k)
            ahead = w * k - wrong
            reason = (
                f"that window ends at token {w * k}, so the token sees {ahead} of its future"
                if ahead > 0
                else f"that is honest but stale, since window {wrong // k} ends at token {wrong // k * k}"
            )
            expect(False, f"{what} gives token {wrong} the vector of window {w} (T = {T}, k = {k}): {reason}")
    compare(what, got, expected)


@exercise("4.1")
def repair_up_sampling(answer: Callable[[Tensor, Tensor, int], Any]) -> None:
    """A function of x (B, T, D), short (B, n, D) and k."""
    for T, k in ((8, 4), (7, 3), (12, 4), (1, 2)):
        x, short = drawn(4, 2, T, 8), drawn(4, 2, (T - 1) // k + 1, 9)[..., 1:]
        try:
            got = answer(x, short, k)
        except RuntimeError as error:
            sizes = f"x has T = {T} tokens and short n = {short.shape[1]} vectors (k = {k})"
            raise WrongAnswerError(
                f"your code stopped: {sizes}, so they cannot be added as they are: choose one vector of short for each "
                f"token, {T} in all, and add those ({error})"
            ) from error
        check_windows("your up-sampling", got, x, short, k)


@exercise("4.2")
def how_stale(answer: Callable[[int], Any]) -> None:
    """A function of t: how long ago the innermost window ended."""
    ages = [answer(t) for t in range(40)]
    broken = next((t for t, age in enumerate(ages) if not isinstance(age, int)), None)
    expect(broken is None, f"for t = {broken} you say {ages[broken or 0]!r}; expected a whole number of tokens, an int")
    for period, reason in (
        (4, "that is the age of the window of the level between, which ends at multiples of 4"),
        (2, "2 counts windows of the level between, which are 4 tokens apart"),
        (6, "factors of nested levels multiply: the innermost windows are 4 · 2 tokens apart"),
    ):
        expect(ages != [t % period for t in range(40)], reason)
    expect(ages != [t % 8 + 1 for t in range(40)], "one too many: a window that ends at token t itself is 0 tokens old")
    t = next((t for t in range(40) if ages[t] != t % 8), None)
    if t is not None:
        ends = t // 8 * 8
        expect(
            False,
            f"for t = {t} you say {ages[t]}; the innermost window that it reads ends at token {ends}, {t - ends} ago",
        )


@exercise("4.3")
def break_even(answer: Callable[[int], Any]) -> None:
    """A function of D: the length at which attention costs as much as the matrices."""
    for D in (32, 64, 128):
        got = float(answer(D))
        expect(got != 12 * D, "12D is where one of the two costs T·D alone; attention has both, scores and mixture")
        expect(got != 3 * D, "3D is where 4·T·D equals the matrices; attention takes 2·T·D multiply-adds")
        expect(got != 2 * D, "2D counts attention's own four matrices alone; the feed-forward network has 8D² more")
        attention = 2 * got * D
        sides = f"at T = {got:g} and D = {D} attention takes {attention:,.0f} multiply-adds, the matrices {12 * D**2:,}"
        expect(attention == 12 * D**2, sides)


@exercise("4.4")
def max_shortening(answer: Callable[[Tensor, int], Any]) -> None:
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
        compare(f"your shortening (T = {T}, k = {k})", got, right, mistakes)


@exercise("4.5")
def piece_by_piece(answer: Callable[[int], Callable[[Tensor, Tensor], Any]]) -> None:
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
                none = "which completes no window: read the last vector of before" if piece.shape[1] == 0 else "see why"
                expect(
                    False, f"your up-sampling stopped at a piece ({where}), {none} ({type(error).__name__}: {error})"
                )
            expect(isinstance(y, Tensor), f"your up-sampling gives a {type(y).__name__} for {where}; expected a tensor")
            shapes = f"your up-sampling gives {tuple(y.shape)} for {where}; expected {(2, length, 8)}"
            expect(y.shape == (2, length, 8), shapes)
            outputs.append(y)
            start = end
        check_windows(f"your up-sampling, in pieces of {cuts},", torch.cat(outputs, 1), x, short, k)
