"""The exercises of Chapter 3, Primer's variations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ...layers.attention import rotate
from ...layers.convolution import CausalDepthwiseConv
from .checking import as_number, close, convolved, dependence, exercise, expect, expect_equal, show_leaks
from .numbers import QUESTIONS, Numbers, Question, one_number
from .trained import Answer, expect_change, fresh, probe, result, trained


@exercise("3.1", takes="x, kernels")
def one_kernel_per_head(answer: Any) -> str:
    H, K, W = 4, 6, 3
    x, kernels = torch.randn(2, 10, H * K), torch.randn(H, W)
    own = kernels.repeat_interleave(K, dim=0)  # (D, W)
    back = range(W)
    mistakes = {
        "your channels take their kernels in turn: channel c has kernel c mod H. The channels of a head lie side by "
        "side, so channels 0 to K − 1 have kernel 0 (`repeat_interleave`, where `repeat` deals them out)": convolved(
            x, kernels.repeat(K, 1), back
        ),
        "your kernel is the wrong way round: column 0 belongs to the current token, the last column to the earliest": (
            convolved(x, own.flip(1), back)
        ),
        f"your convolution sees {W - 1} tokens of the future: put the zeros before the first token, not after the "
        "last one": convolved(x, own, [-b for b in back]),
        "your convolution is right for one kernel, but every head has the first one": convolved(
            x, kernels[:1].expand(H * K, W), back
        ),
        "the end wraps round to the start: `roll` brings the last tokens before the first, which is a leak; shift with "
        "zeros": torch.stack([own[:, j] * x.roll(j, 1) for j in back]).sum(0),
    }
    reads = partial(dependence, lambda tokens: answer(tokens, kernels), x)
    right = convolved(x, own, back)
    expect_equal("your output [sequence, token, channel]", answer(x, kernels), right, mistakes, reads=reads)
    return f"{kernels.numel()} numbers mix {H * K} channels, where a kernel for each channel has {H * K * W}"


@exercise("3.2")
def a_notch(answer: Any) -> str:
    expected = "expected two weights and a dilation, like ([1.0, 0.0], 1)"
    expect(isinstance(answer, tuple | list) and len(answer) == 2, f"your answer is {answer!r}; {expected}")
    weight, dilation = answer
    expect(isinstance(weight, tuple | list) and len(weight) == 2, f"the weights are {weight!r}; {expected}")
    is_count = isinstance(dilation, int) and dilation >= 1
    expect(is_count, f"the dilation is {dilation!r}; expected a number of tokens, 1 or more")
    now, before = (as_number("a weight", w) for w in weight)
    flipped = "a constant comes out upside down: 1 becomes -1. Its height is kept, its sign is not"
    expect(not math.isclose(now + before, -1, abs_tol=1e-6), flipped)
    scaled = f"a constant 1 comes out as {now + before:g}, the sum of the weights; expected 1"
    expect(math.isclose(now + before, 1, abs_tol=1e-6), scaled)
    turn = 2 * math.pi * dilation / 4
    left = math.hypot(now + before * math.cos(turn), before * math.sin(turn))
    steps = "one token" if dilation == 1 else f"{dilation} tokens"
    why = f"of the wave with a cycle of four tokens, {left:.2f} of its height is left; expected 0."
    where = "opposite" if dilation % 4 == 2 else "the same" if dilation % 4 == 0 else "neither the same nor opposite"
    expect(left < 1e-6, f"{why} At a distance of {steps} this wave is {where}; you need equal shares of opposites")
    fast = abs(now + before * math.cos(math.pi * dilation))  # what is left of a cycle of two tokens
    return (
        f"a constant stays and the cycle of four is gone. Of a cycle of two, which is faster still, {fast:.0%} is "
        f"left: {steps} back it is the same again"
    )


def reach(W: int, dilations: Sequence[int]) -> Numbers:
    """How many tokens in one case."""
    right, weights = 1 + (W - 1) * sum(dilations), W * sum(dilations)
    case = f"for W = {W} and dilations {list(dilations)} you say {{given:g}}."
    first = "W weights reach back W − 1 steps: the first one belongs to the current token"
    apart = "With dilation δ a step goes δ tokens back; δ − 1 are those that it leaps over"
    largest = "The convolutions follow each other, so what they reach back adds up; the largest alone is too little"
    follow = "Follow the earliest token that an output depends on, back through each convolution"
    return one_number(
        "what you return",
        right,
        f"{case} {follow}",
        (right - 1, f"{case} You count the steps back; the current token counts too"),
        (weights, f"{case} {first}"),
        (1 + weights, f"{case} {first}"),
        (1 + (W - 1) * max(dilations, default=0), f"{case} {largest}"),
        (1 + (W - 1) * sum(d - 1 for d in dilations), f"{case} {apart}"),
    )


ASKED = "How many, with width 3 and dilations 1, 3 and 3?"
QUESTIONS["3.3"] = Question((ASKED,), reach(3, [1, 3, 3]), lambda W, dilations: 1 + (W - 1) * sum(dilations))


@exercise("3.3", takes="W, dilations")
def how_far_back(answer: Any) -> str:
    for W, dilations in ((3, [1, 3, 3]), (3, [1]), (2, [3, 1]), (5, [])):
        reach(W, dilations).judge(answer(W, dilations))
    doubled = [2**i for i in range(10)]
    return (
        f"double the dilation each time, and {len(doubled)} convolutions of width 3, 30 weights, reach over "
        f"{answer(3, doubled):,} tokens"
    )


def attend(projected: Tensor, rotary: bool) -> Tensor:
    q, k, v = projected
    q, k = (rotate(q), rotate(k)) if rotary else (q, k)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@exercise("3.4")
def which_bias_matters(answer: Any) -> str:
    expected = 'two strings of the letters q, k and v, like ("q", "qkv"); expected first without rotation, then with it'
    good = isinstance(answer, tuple | list) and len(answer) == 2 and all(isinstance(a, str) for a in answer)
    expect(good and set("".join(answer)) <= set("qkv"), f"your answer is {answer!r}; it should be {expected}")
    reasons = {
        "q": "q's bias meets every key: it adds a · k_s to the score, and k_s differs from key to key",
        "k": "with rotation, k's bias is turned by the position of its key, so q_t · R b differs from key to key",
        "v": "the weights of a row sum to one, so v's bias reaches the output whole",
    }
    generator = torch.Generator().manual_seed(0)
    x, biases = torch.randn(3, 1, 9, 8, generator=generator), torch.randn(3, 8, generator=generator)  # q, k, v
    for said, rotary in zip(answer, (False, True), strict=True):
        when = "with rotation" if rotary else "without rotation"
        whole = attend(x + biases[:, None, None], rotary)
        for i, name in enumerate("qkv"):
            fewer = biases.clone()
            fewer[i] = 0
            change = (attend(x + fewer[:, None, None], rotary) - whole).abs().max().item()
            if name in said:
                moved = f"{when}, leaving out {name}'s bias changes an output by up to {change:.2f}: {reasons[name]}"
                expect(change < 1e-4, moved)
            else:
                missed = f"{when}, {name}'s bias can be left out too: it adds q_t · b to all scores of row t alike, and"
                expect(change > 1e-4, f"{missed} a softmax does not notice what all have in common")
    learned = biases.clone().requires_grad_()
    attend(x + learned[:, None, None], rotary=False).square().sum().backward()  # type: ignore[no-untyped-call]
    assert learned.grad is not None
    q, k, v = learned.grad.abs().amax(1).tolist()
    return (
        f"so training cannot move it either. Without rotation the gradient of k's bias is {k:.0e}, which is rounding, "
        f"of q's {q:.2f} and of v's {v:.2f}"
    )


class Called(TorchFunctionMode):
    """The names of PyTorch's functions that run inside."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.__name__)
        return func(*args, **(kwargs or {}))


@exercise("3.5", takes="x, weight")
def by_frequencies(answer: Any) -> str:
    T, W, D = 9, 3, 2
    n = T + W - 1  # odd, which irfft has to be told
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, T, D, generator=generator, requires_grad=True)
    weight = torch.randn(D, W, generator=generator)
    with Called() as called:
        got = answer(x, weight)
    right = convolved(x, weight, range(W)).detach()
    tail = f"your output has {n} tokens, those of the longer transform: keep the first T = {T}"
    expect(getattr(got, "shape", None) != (1, n, D), tail)
    whole = convolved(F.pad(x, (0, 0, 0, W - 1)), weight, range(W))
    crop = f"you keep the last T of {n} tokens, where output 0 is that of token {W - 1}: keep the first T"
    expect(not close(got, whole[:, -T:]), crop)
    waves = torch.fft.rfft(x.detach(), n, dim=1) * torch.fft.rfft(weight.T, n, dim=0)
    without = f"without its length irfft assumes an even one, {n - 1}: give it n = {n} too"
    expect(not close(got, torch.fft.irfft(waves, dim=1)[:, :T]), without)
    if isinstance(got, Tensor) and got.shape == right.shape and got.grad_fn is not None:
        leak = reads(got, x)
        if future := int((leak.triu(1) > 1e-6).sum()):
            show_leaks("your convolution", leak.where(leak > 1e-6, 0))
            backward = (torch.flip(weight, [1]) - weight).abs().max() > 0 and bool((leak.tril(-1) <= 1e-6).all())
            reason = (
                "it runs backward. A complex conjugate turns time round: multiply by the transform itself"
                if backward
                else f"a transform of length {T} treats the text as a circle, so that its end wraps round to its "
                f"beginning. Give both transforms the length T + W − 1 = {n}"
            )
            tokens = (leak[0] > 1e-6).nonzero().flatten().tolist()
            expect(
                False, f"your convolution sees the future in {future} places: output 0 reads tokens {tokens}; {reason}"
            )
    mistakes = {
        "your kernel is the wrong way round: column 0 belongs to the current token": convolved(
            x, weight.flip(1), range(W)
        ).detach(),
    }
    expect_equal("your output [sequence, token, channel]", got, right, mistakes)
    by_waves = any("fft" in name for name in called.names)
    expect(by_waves, "the numbers are right, but no transform made them: take x and the kernel apart with rfft")
    ahead = reads(got, x).triu(1).max().item() if got.grad_fn is not None else 0.0
    return (
        f"up to rounding, which knows no direction: an output changes by up to {ahead:.0e} for a change of 1 in its "
        "future"
    )


def moved(model: Mapping[str, Tensor], start: nn.Module) -> tuple[float, float]:
    """By how much parameters differ from those of the start: the largest change of a kernel, the least of another."""
    names = {f"{name}.weight" for name, m in start.named_modules() if isinstance(m, CausalDepthwiseConv)}
    changes = {name: (model[name] - p).abs().max().item() for name, p in start.named_parameters()}
    return max(changes[n] for n in names), min(change for n, change in changes.items() if n not in names)


@exercise("3.6", takes="model, corpus, config")
def kernels_that_never_learn(answer: Answer) -> str:
    """Primer EZ, whose kernels stay as they start, trained."""
    make = partial(fresh, "primer-ez", n_layers=2)
    model, _, first = probe(answer, make)
    start = make()
    expect(
        dict(model.named_parameters()).keys() == dict(start.named_parameters()).keys(),
        "the model has other parameters than before: leave its kernels where they are, and keep them from learning",
    )
    set_anew, _ = moved(first, start)
    kept = f"a kernel's weight is set to another one, {set_anew:.3f} away, before the training: keep them as they start"
    expect(set_anew == 0, kept)
    kernels, rest = moved(dict(model.named_parameters()), start)
    late = "freeze the kernels of all layers before the training, with requires_grad_(False)"
    expect(kernels == 0, f"a kernel's weight has moved by {kernels:.3f}: {late}")
    expect(rest > 0, "more than the kernels is frozen: everything else is to learn")
    expect_change(model, make, lambda _: None, [])
    changed, usual = result(answer, make), trained(make)
    without = trained(partial(make, convolve=""))
    share = "so what they bring is learned"
    if usual < changed < without:
        share = f"so {(without - changed) / (without - usual):.0%} of what the convolutions bring needs no learning"
    elif changed <= usual < without:
        share = "so what the convolutions bring needs no learning"
    return (
        f"kernels that never learn end at {changed:.3f}, kernels that do at {usual:.3f}, and without any the model "
        f"ends at {without:.3f}: {share}"
    )


def reads(y: Tensor, x: Tensor) -> Tensor:
    """How much each output ``[1, T, D]`` depends on each token of ``x``: a leak map ``[T, T]``."""
    slope: Callable[[int], Tensor] = lambda t: torch.autograd.grad(y[0, t].sum(), x, retain_graph=True)[0]  # noqa: E731
    return torch.stack([slope(t)[0].abs().amax(-1) for t in range(y.shape[1])])
