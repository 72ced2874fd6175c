"""The exercises of Chapter 1, the baseline Transformer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...layers.attention import MultiHeadAttention, causal_mask, rotate
from ...layers.family import parameter_count
from ...layers.leaks import leak_map
from ...models.language_model import build_model
from .checking import close, dependence, drawn, exercise, expect, expect_equal, no_leak
from .numbers import QUESTIONS, Numbers, Question, one_number
from .trained import SEQ_LEN, Answer, against, fresh, probe, reads, result, same_function, text, trained


@exercise("1.1", takes="q, k, v")
def mask(answer: Callable[[Tensor, Tensor, Tensor], Tensor]) -> str:
    """Attention without a leak."""
    K = 3  # not 4, whose root is also its half
    q, k, v = torch.randn(3, 2, 3, 6, K, generator=torch.Generator().manual_seed(0))
    scores = q @ k.mT / q.shape[-1] ** 0.5  # (2, 3, T, T)
    future = ~causal_mask(6, 6)

    def attend(scores: Tensor, hidden: Tensor) -> Tensor:
        return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v

    mistakes = {
        "the weights of a row no longer sum to 1: the future is gone from the numerator of (1.1), but is still in its "
        "denominator, so that later keys change your outputs": scores.softmax(-1).tril() @ v,
        "a score of 0 is not a weight of 0: exp(0) is 1, so the future keeps its share; its score must be -inf": (
            scores.masked_fill(future, 0.0).softmax(-1) @ v
        ),
        "each token sees its future and not its past: the mask is the wrong way round": attend(
            scores, torch.ones(6, 6, dtype=torch.bool).tril(-1)
        ),
        "the products are not divided by the root of K": attend(scores * K**0.5, future),
    }
    got, reads = answer(q, k, v), partial(dependence, lambda x: answer(x, x, x), drawn(0, 1, 6, 4))
    hides_itself = isinstance(got, Tensor) and got.shape == v.shape and bool(got[..., 0, :].isnan().all())
    nothing = "token 0 sees nothing, not even itself, so its weights are 0/0: the sum in (1.1) ends at t"
    expect(not hides_itself, nothing)
    right = attend(scores, future)
    if getattr(got, "shape", None) == v.shape and not any(close(got, known) for known in (right, *mistakes.values())):
        no_leak("your attention", reads())
    expect_equal("your output", got, right, mistakes)
    far = torch.cat([k[..., :-1, :], 1e4 * q[..., :1, :]], dim=-2)  # token 0 would read the last key and no other
    late = attend(q @ far.mT / q.shape[-1] ** 0.5, future)
    expect(
        close(answer(q, far, v)[..., :-1, :], late[..., :-1, :]),
        "the sums are right, but the future is still in the softmax: a later key with a large product rounds all other "
        "weights to 0, and dividing them by their sum is 0/0; set the score to -inf before the softmax",
    )
    low = torch.cat([-1e6 * q[..., :1, :], k[..., 1:, :]], dim=-2)  # the one key that token 0 sees is far below all
    expect(
        close(answer(q, low, v)[..., :1, :], v[..., :1, :]),
        "a low score is not a weight of 0: where what a token may see scores lower still, the future gets the weight; "
        "its score must be -inf",
    )
    no_leak("your attention", reads())
    left = (q @ far.mT / K**0.5).softmax(-1)[..., 0, 0].max().item()  # of token 0's weight, with the mask too late
    return (
        "no output knows its future. With the mask after the softmax, one large key at the end takes the weight that "
        f"token 0 gives itself: {left:.2g} of it is left where yours is 1"
    )


@exercise("1.2", takes="x")
def order(answer: Callable[[Tensor], Tensor]) -> str:
    """A sequence in another order that the last output does not notice."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 10, 32, generator=generator)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        blind, rotary = MultiHeadAttention(32, 4, rotary=False), MultiHeadAttention(32, 4)
    changed = answer(x.clone())
    expect(isinstance(changed, Tensor) and changed.shape == x.shape, f"expected x, changed: a tensor {tuple(x.shape)}")
    expect((changed - x).abs().max().item() > 0.1, "this is x as it was; change more")
    apart = torch.cdist(changed[0], x[0]) > 1e-4  # (10, 10)
    if (apart.all(0) | apart.all(1)).any():  # a token of one is not among those of the other
        alike = [close(changed.sort(dim).values, x.sort(dim).values) for dim in (1, 2)]
        between = "channels moved between tokens, so that other vectors are summed; move whole tokens"
        within = "channels moved within their tokens, so that these are other vectors; move whole tokens"
        other = "these are other vectors, and their sum is another; only their order is free"
        expect(False, between if alike[0] else within if alike[1] else other)
    last = "the last token asks, and its query is another one now; change only what it looks at"
    expect(close(changed[:, -1], x[:, -1]), last)
    with torch.no_grad():
        before, after = blind(x)[:, -1], blind(changed)[:, -1]
        turned = (rotary(changed) - rotary(x))[:, -1].abs().max().item()
    expect(turned > 1e-4, "attention with turned queries and keys does not notice either; change the order")
    elsewhere = int((changed != x).any(-1).sum())
    same = (after - before).abs().max().item()
    return (
        f"{elsewhere} of 10 tokens stand elsewhere, and the last output moves by {same:.0e}, which is rounding. With "
        f"queries and keys turned by their positions it moves by {turned:.2f}"
    )


def cache_numbers(L: int, H: int, D: int, T: int) -> Numbers:
    """The count in one case."""
    right = 2 * L * D * T
    case = f"for {L} layers, {H} heads, {D} channels and {T} tokens you count {{given:g}}"
    reasons = {
        L * D * T: "a key and a value are kept",
        3 * L * D * T: "queries are asked once and not kept",
        2 * D * T: "each layer keeps its own",
        2 * L * D: "every token is kept",
        8 * L * D * T: "you count bytes, 4 for each number; give the numbers",
        2 * L * H * D * T: "the heads share the D channels among them, D / H each",
        2 * L * D * T // H: "each head has D / H channels, and there are H of them",
        L * H * T * T: "the weights of attention are not kept, only keys and values",
    }
    mistakes = ((count, f"{case}: {words}") for count, words in reasons.items())
    return one_number("your count", right, f"{case}: which numbers does one layer keep of one token?", *mistakes)


ASKED = "How many, with 3 layers, 5 heads, 10 channels and 7 tokens?"
QUESTIONS["1.3"] = Question((ASKED,), cache_numbers(3, 5, 10, 7), lambda L, H, D, T: 2 * L * D * T)


@exercise("1.3", takes="L, H, D, T")
def cache_size(answer: Callable[[int, int, int, int], int]) -> str:
    """The numbers in a cache."""
    for L, H, D, T in ((3, 5, 10, 7), (1, 2, 12, 7), (2, 3, 6, 30)):
        cache_numbers(L, H, D, T).judge(answer(L, H, D, T))
    model = build_model("transformer", vocab_size=len(text().vocabulary))
    weights, token = parameter_count(model), answer(4, 4, 128, 1)
    return (
        f"this chapter's model, with 4 layers of 128 channels, keeps {token:,} numbers for each character: after "
        f"{-(-weights // token)} of them its cache is larger than the model"
    )


@exercise("1.4", takes="T, w")
def window(answer: Callable[[int, int], Tensor]) -> str:
    """The mask of a window."""
    for T, w in ((9, 3), (9, 1), (5, 8)):
        distance = torch.arange(T)[:, None] - torch.arange(T)  # (T, T)
        got = answer(T, w)
        expect(isinstance(got, Tensor), f"your mask is a {type(got).__name__}; expected a tensor")
        expect(got.dtype == torch.bool, f"your mask has the type {got.dtype}; expected torch.bool, True where seen")
        expect(got.shape == (T, T), f"your mask has the shape {tuple(got.shape)}; expected {(T, T)}")
        expected = (distance >= 0) & (distance < w)
        mistakes = {
            "True stands where a token is hidden; expected True where it is seen": ~expected,
            "your rows are keys and your columns queries; turn the mask over": expected.T,
            "your window holds w + 1 tokens: the token itself is one of the w": (distance >= 0) & (distance <= w),
            "your window holds w - 1 tokens: the token itself is one of the w": (distance >= 0) & (distance < w - 1),
            "your mask has no lower edge: w changes nothing": distance >= 0,
            "your window reaches into the future, w - 1 tokens far": distance.abs() < w,
        }
        for reason, wrong in mistakes.items():
            expect(not (torch.equal(got, wrong) and not torch.equal(wrong, expected)), f"{reason} (T = {T}, w = {w})")
        future = (got & (distance < 0)).nonzero().tolist()
        expect(not future, f"token {future and future[0][0]} sees token {future and future[0][1]}, which is its future")
        expect_equal(f"the mask for T = {T}, w = {w}", got.float(), expected.float())
    layers, w, T = 4, 8, 1000
    share = answer(T, w).sum().item() / (T * (T + 1) / 2)
    return (
        f"of {T:,} characters a window of {w} compares {share:.1%} of the pairs that full attention does, and {layers} "
        f"such layers still see {layers * (w - 1) + 1} characters"
    )


@exercise("1.5", takes="d_model, n_heads")
def one_key(answer: Callable[[int, int], Any]) -> str:
    """Attention whose heads share one key and one value."""
    D, H = 24, 3
    K = D // H
    made = "your answer is one module; expected what makes it: a class, or a function of d_model and n_heads"
    expect(not isinstance(answer, nn.Module), made)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module, reference = answer(D, H), MultiHeadAttention(D, H)
        x = torch.randn(2, 7, D)
    expect(
        isinstance(module, nn.Module), f"answer(d_model, n_heads) is a {type(module).__name__}; expected an nn.Module"
    )
    shapes = {"query": (D, D), "key": (K, D), "value": (K, D), "output": (D, D)}
    for name, shape in shapes.items():
        linear = getattr(module, name, None)
        expect(isinstance(linear, nn.Linear), f"your module has no nn.Linear called {name}")
        found = tuple(linear.weight.shape)  # type: ignore[union-attr]
        every = f": one {name} for all heads has K = D / H = {K} channels" if found == (D, D) != shape else ""
        expect(found == shape, f"{name}.weight has the shape {found}; expected {shape}{every}")
        expect(linear.bias is None, f"{name} has a bias; expected none")  # type: ignore[union-attr]
    with torch.no_grad():
        for name in shapes:
            weight = getattr(module, name).weight
            getattr(reference, name).weight.copy_(weight if weight.shape[0] == D else weight.repeat(H, 1))
        q, k, v = (reference.split(z) for z in reference.project(x))  # (B, H, T, K)
        unmixed = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        mistakes = {
            "your queries and keys are not turned, or both along the heads, which cancels: rotate takes (..., T, K)": (
                reference.attend(q, k, v)
            ),
            "your queries are turned and your keys are not": reference.attend(rotate(q), k, v),
            "your keys are turned and your queries are not": reference.attend(q, rotate(k), v),
            "your values are turned too; only queries and keys have positions": reference.attend(
                rotate(q), rotate(k), rotate(v)
            ),
            "your queries are turned along the heads; rotate takes (..., T, K), so split into (B, H, T, K) first": (
                reference.attend(rotate(q.transpose(1, 2)).transpose(1, 2), rotate(k), v)
            ),
            "your heads stand side by side, but no output matrix mixes them": unmixed.transpose(1, 2).flatten(2),
        }
        got = module(x)
        if getattr(got, "shape", None) == x.shape and not close(got, reference(x)):
            module.d_model = D
            no_leak("your layer", leak_map(module, 7))
        expect_equal("your layer's output", got, reference(x), mistakes)
    numbers, usual = parameter_count(module), parameter_count(reference)
    return (
        f"the cache shrinks to 1/{H}, and the matrices shrink too, though nobody asked: {numbers:,} numbers where "
        f"{usual:,} were"
    )


class Narrow(nn.Module):
    """An attention whose tokens see themselves and the ``w - 1`` before."""

    def __init__(self, attention: MultiHeadAttention, w: int) -> None:
        super().__init__()
        self.attention, self.w = attention, w

    def forward(self, x: Tensor, cache: None = None) -> Tensor:
        q, k, v = self.attention.heads(x)  # (B, H, T, K) each
        seen = causal_mask(x.shape[1], x.shape[1]).triu(1 - self.w)
        y = F.scaled_dot_product_attention(q, k, v, seen)
        return self.attention.output(y.transpose(1, 2).flatten(2))


@exercise("1.6", takes="model, corpus, config")
def how_far(answer: Answer) -> str:
    """A Transformer whose layers see four characters, trained."""
    T, w, make = 12, 4, partial(fresh, "transformer", n_layers=2)
    model, _, start = probe(answer, make)
    distance = torch.arange(T)[:, None] - torch.arange(T)
    for i, layer in enumerate(model.body):
        seen = reads(layer.attention, T, model.d_model) > 0
        far = int(distance[seen].max())
        where = f"in layer {i} a character sees"
        expect(not (seen & (distance < 0)).any(), f"{where} its future: the mask keeps 0 to {w - 1} characters back")
        expect(far != T - 1, f"{where} the whole text before it: change the attention of every layer")
        expect(far == w - 1, f"{where} {far} characters back; expected {w - 1}, which with itself are {w}")
        every = torch.equal(seen, (distance >= 0) & (distance < w))
        expect(every, f"{where} {far} characters back, but not all of those between")
    narrowed: Any = make()
    for layer in narrowed.body:
        layer.attention = Narrow(layer.attention, w)
    expect(
        same_function(model, narrowed),
        f"your layers see {w} characters, but are not the attention that they were: keep scores / √K, their softmax, "
        "rotation, values and output matrix",
    )
    kept = all(any(torch.equal(was, now) for now in start.values()) for was in make().state_dict().values())
    expect(
        kept,
        "the layers see what they should, but train from weights of their own: beside the model as it was that is a "
        "second change. Take its weights over, as `load_state_dict` does",
    )
    changed, usual = result(answer, make), trained(make)
    short = ": so early, far characters cost more than they bring" if changed < usual else ""
    return (
        f"with {w} characters in sight the model ends {against(changed, usual)} than with all {SEQ_LEN}, at "
        f"{changed:.3f}{short}"
    )
