"""The exercises of Chapter 7, Your own: there is no right answer, but a variant must be honest, cached and as large."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from ...judging import screening
from ...layers.attention import MultiHeadAttention
from ...layers.cache import Cache
from ...layers.family import Stack, parameter_count
from ...layers.gmlp import SpatialGatingUnit
from ...layers.leaks import LeakError, Probe, check_leaks
from ...layers.resampling import Shortening
from ...layers.transformer import FeedForward, TransformerLayer
from ...models.language_model import LanguageModel, build_model, initialize
from .checking import exercise, expect, show_leaks
from .numbers import QUESTIONS, Question, one_number

V, T = 65, 64
LONG = 256  # tokens at which the work of windows is counted


def plain() -> LanguageModel:
    """The baseline of the exercises: two layers of 64 channels."""
    return build_model("transformer", vocab_size=V, d_model=64, n_layers=2)


def expect_honest(model: Any) -> None:
    """Raise WrongAnswerError, after the leak map, for a model that makes no logits, leaks, or decodes to others."""
    tokens = torch.randint(V, (2, T), generator=torch.Generator().manual_seed(0))
    try:
        check_leaks(model, T, V, "your model")
    except LeakError as leak:
        if leak.reads is not None:
            show_leaks("your variant", leak.reads.double())
        expect(False, str(leak))
    except (TypeError, ValueError) as error:
        expect(False, str(error))
    model = Probe(model, V, T, training=False).model  # a copy whose weights have moved: none is zero
    cache = Cache(2)
    try:
        pieces = [model(piece, cache) for piece in torch.split(tokens, [5, 1, 1, T - 7], dim=1)]
    except TypeError as error:
        expect(False, f"your model does not read piece by piece, model(tokens, cache): {error}")
    whole, read = model(tokens), torch.cat(pieces, dim=1)
    same = torch.isclose(read, whole, rtol=1e-4, atol=1e-4).all(2).all(0)  # (T,)
    where = f"read in pieces of 5, 1, 1 and {T - 7} tokens, output {int((~same).int().argmax())} is another"
    expect(bool(same.all()), f"{where}: does each layer get the cache?")


def expect_parts(model: nn.Module, *kinds: type[nn.Module]) -> None:
    """Raise WrongAnswerError unless the model has a module of each kind."""
    for kind in kinds:
        found = any(isinstance(module, kind) for module in model.modules())
        expect(found, f"your model has no {kind.__name__}")


@exercise("7.1", takes="vocab_size")
def take_turns(answer: Callable[[int], Any]) -> str:
    """A model in which attention and gMLP blocks take turns, as large as the baseline."""
    model = answer(V)
    expect_honest(model)
    expect_parts(model, MultiHeadAttention, SpatialGatingUnit)
    mixers = [m for m in model.modules() if isinstance(m, MultiHeadAttention | SpatialGatingUnit)]
    kinds = ["attention" if isinstance(mixer, MultiHeadAttention) else "gMLP block" for mixer in mixers]
    turns = all(kind != following for kind, following in pairwise(kinds))
    expect(turns, f"your layers are {', '.join(kinds)}, which do not take turns: no two alike stand together")
    size, usual = parameter_count(model), parameter_count(plain())
    sizes = f"your model has {size:,} parameters, the baseline {usual:,}; expected at most 5 % between them"
    expect(abs(size / usual - 1) <= 0.05, sizes)
    work = screening.multiply_adds_of(model, T) / screening.multiply_adds_of(plain(), T)
    return (
        f"honest, with a cache, and of the baseline's size up to {abs(size / usual - 1):.1%}. At {T} tokens it "
        f"takes {work:.2f} of its multiply-adds. Is it better? `compare` can say"
    )


@exercise("7.2", takes="vocab_size")
def spend_what_windows_save(answer: Callable[[int], Any]) -> str:
    """An hourglass of at least six layers that takes no more work than two plain ones."""
    model = answer(V)
    expect_honest(model)
    expect_parts(model, Shortening)
    width = getattr(model, "d_model", None)
    expect(width == 64, f"your model has {width} channels; expected 64")
    layers = sum(isinstance(module, TransformerLayer) for module in model.modules())
    expect(layers >= 6, f"your model has {layers} Transformer layers; expected at least 6")
    work, usual = screening.multiply_adds_of(model, LONG), screening.multiply_adds_of(plain(), LONG)
    spent = f"at {LONG} tokens your model takes {work:,.0f} multiply-adds per token, the baseline {usual:,.0f}"
    expect(work <= usual, f"{spent}; expected no more: which layers still read every token?")
    return (
        f"{layers} Transformer layers take {work / usual:.2f} of the work of two plain ones. Which learn more "
        "in a minute? `compare` can say"
    )


@exercise("7.3", takes="d_model")
def mix_by_yourself(answer: Callable[[int], Any]) -> str:
    """A module that mixes tokens without the attention and the gate of the package, in the place of the attention."""
    mixers = [answer(64) for _ in range(2)]
    expect(all(isinstance(mixer, nn.Module) for mixer in mixers), "your function returns no module")
    for kind in (MultiHeadAttention, SpatialGatingUnit):
        borrowed = any(isinstance(module, kind) for mixer in mixers for module in mixer.modules())
        expect(not borrowed, f"your module uses {kind.__name__}; expected another way to mix tokens")
    for mixer in mixers:
        ends = isinstance(getattr(mixer, "output", None), nn.Linear)
        expect(ends, "your module has no nn.Linear called output, with which a branch of the book's layers ends")
    body = Stack([TransformerLayer(mixer, FeedForward(64, 256, nn.ReLU()), 64) for mixer in mixers])
    initialize(body)
    model = LanguageModel(body, vocab_size=V, d_model=64, max_seq_len=2 * T)
    expect_honest(model)
    probe = Probe(model, V, T, training=False)
    reads = probe.dependence(probe.text(1, T))
    far = max(int(t - s) for t, s in reads.nonzero().tolist())
    expect(far > 0, "no output reads an earlier token: your module does not mix")
    size, attention = parameter_count(mixers[0]), parameter_count(MultiHeadAttention(64, 4))
    return (
        f"two layers of it read {far} tokens back, honestly and with a cache. It has {size:,} parameters where "
        f"attention has {attention:,}"
    )


def wide(seeds: int) -> float:
    """Half an interval over paired seeds of two questions, in their spread; quantiles as the exercise gives them."""
    return {3: 2.776, 5: 2.306}[seeds] / math.sqrt(seeds)


WIDER = one_number(
    "your answer",
    wide(3) / wide(5),
    "{given:g} is not it; expected the ratio of the two widths",
    (wide(5) / wide(3), "that is how wide five seeds are beside three: turn it over"),
    (math.sqrt(5 / 3), "that is the root of the numbers of seeds alone: the quantiles differ too"),
    (2.776 / 2.306, "those are the quantiles alone: each is divided by the root of its seeds"),
    (5 / 3, "seeds count by their root, and the quantiles differ too"),
    tolerance=0.006,
)
QUESTIONS["7.4"] = Question(("How many times as wide?",), WIDER, wide(3) / wide(5))


@exercise("7.4")
def wider(answer: Any) -> str:
    """Width of an interval of three seeds beside one of five."""
    WIDER.judge(answer)
    return (
        f"{wide(3) / wide(5):.2f} times. A lead that five seeds just tell apart has to be half as large again for three"
    )
