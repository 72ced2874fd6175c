"""What would make a comparison worthless, looked for before it starts: in any language model, by running it.

What is notable:
- a leak is found by changing tokens: an output that changes with a later token, or with another row, has read it;
- every place is asked at the trained length, many at twice that; in both modes, where they give other logits;
- weights are moved a little first, so that a matrix that starts at zero hides nothing.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from ..checks import require, require_module
from ..files import reason
from ..training.loop import parameter_groups
from .cost import effective_parameters, multiply_adds

EXACT = 1e-9  # of the largest logit: what rounding may do in float64, an FFT's included
ROUNDED = 1000.0  # times the spacing of a narrower kind of number, but at most a tenth
KNOWS, SURE = 0.1, 1.0  # nats: how far below and above ln V a loss at the start may lie
APART = 0.05  # the share by which costs may differ without a word
PLACES = 64  # that are asked where all would take long: beyond the trained length, and in a mode that changes nothing
ROWS = 16  # that are read together


def require_logits(what: str, model: nn.Module, tokens: Tensor, vocab_size: int) -> None:
    """Raise unless a model makes finite logits ``[batch, seq, vocab]`` of tokens.

    Args:
        what: the model is called, in messages.
        model: whatever was made.
        tokens: int64 ``[batch, seq]``.
        vocab_size: number of tokens.

    Raises:
        TypeError: if it is not a module, or its output not a tensor.
        ValueError: if it fails, with what it says, or its logits have another shape or are not finite.
    """
    require_module(what, model)
    expected = f"logits {[*tokens.shape, vocab_size]} of tokens {[*tokens.shape]}"
    try:
        with torch.no_grad():
            logits = model(tokens)
    except Exception as error:
        raise ValueError(f"{what} fails on tokens {[*tokens.shape]}: {type(error).__name__}: {error}") from error
    require(isinstance(logits, Tensor), f"the output of {what}", type(logits).__name__, expected, TypeError)
    require(logits.shape == (*tokens.shape, vocab_size), f"the output of {what}", [*logits.shape], expected)
    require(bool(logits.isfinite().all()), f"the output of {what}", "not finite", "finite logits before any training")


class LeakError(ValueError):
    """A model that reads what it is to predict, or another row.

    Args:
        message: where.
        reads: which token each output reads, bool ``[seq, seq]``, a row for each output; None for another row.
    """

    def __init__(self, message: str, reads: Tensor | None = None) -> None:
        super().__init__(message)
        self.reads = reads


class Narrowest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the narrowest kind of floating-point number that is computed within it: what rounding to expect."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype = torch.float64

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in tree_leaves(result):
            if isinstance(each, Tensor) and each.is_floating_point():
                self.dtype = max(self.dtype, each.dtype, key=lambda dtype: torch.finfo(dtype).eps)
        return result


class Probe:
    """A model as a function of tokens, in float64 where it can be, whose dropout is the same each time.

    Args:
        model: int64 ``[batch, seq]`` to logits ``[batch, seq, vocab]``; a copy of it is asked.
        vocab_size: number of tokens.
        seq_len: of a text that it reads.
        training: ask it in train mode.
    """

    def __init__(self, model: nn.Module, vocab_size: int, seq_len: int, *, training: bool) -> None:
        self.vocab_size, self.mode = vocab_size, "train" if training else "eval"
        self.random = torch.Generator().manual_seed(0)
        self.model = copy.deepcopy(model).cpu().train(training)
        with torch.no_grad():
            for p in self.model.parameters():
                p.add_(torch.randn(p.shape, generator=self.random).to(p.dtype), alpha=0.01)
        narrow, self.model = self.model, copy.deepcopy(self.model).double()
        tokens = torch.zeros(1, seq_len, dtype=torch.int64)
        try:
            with Narrowest() as found:
                self(tokens)
        except RuntimeError:  # a module that makes float32 constants of its own
            self.model = narrow
            with Narrowest() as found:
                self(tokens)
        self.exact = found.dtype == torch.float64
        self.tolerance = EXACT if self.exact else min(0.1, ROUNDED * torch.finfo(found.dtype).eps)

    def __call__(self, tokens: Tensor) -> Tensor:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            return self.model(tokens)

    def text(self, batch: int, seq_len: int) -> Tensor:
        """Random tokens, ``[batch, seq]``."""
        return torch.randint(self.vocab_size, (batch, seq_len), generator=self.random)

    def other(self, tokens: Tensor) -> Tensor:
        """A different token at each place."""
        return (tokens + torch.randint(1, self.vocab_size, tokens.shape, generator=self.random)) % self.vocab_size

    def moved(self, tokens: Tensor, original: Tensor) -> Tensor:
        """Which outputs are others than those of the original ``[1, seq]``: bool ``[batch, seq]``."""
        chunks = torch.split(tokens, ROWS)
        # Dropout is the same only in batches of one size.
        before = {rows: self(original.expand(rows, -1)) for rows in {len(chunk) for chunk in chunks}}
        return torch.cat([self.differs(self(chunk), before[len(chunk)]) for chunk in chunks])

    def differs(self, logits: Tensor, before: Tensor) -> Tensor:
        """Where logits ``[..., vocab]`` are not the same, up to rounding."""
        return (logits - before).abs().amax(-1) > self.tolerance * before.abs().max()

    def dependence(self, seq_len: int) -> Tensor:
        """Which token each output reads: bool ``[seq, seq]``, a row for each output."""
        tokens = self.text(1, seq_len)
        changed = torch.where(torch.eye(seq_len, dtype=torch.bool), self.other(tokens), tokens)  # (T, T)
        return self.moved(changed, tokens).T

    def refuse_memory(self, what: str, seq_len: int) -> None:
        """Raise ValueError if the same text, read twice, has other logits the second time."""
        tokens = self.text(2, seq_len)
        same = not self.differs(self(tokens), self(tokens)).any()
        expected = "those of the first time: a model keeps nothing from one call to the next"
        require(
            same, f"the logits of {what}, in {self.mode} mode, of the same text", "others the second time", expected
        )

    def refuse_mixing(self, what: str, seq_len: int) -> None:
        """Raise :class:`LeakError` if an output reads another row of the batch."""
        batch = self.text(4, seq_len)
        changed, before = self.other(batch), self(batch)
        for row in range(len(batch)):
            is_row = torch.arange(len(batch)) == row
            moved = self.differs(self(torch.where(is_row[:, None], changed, batch)), before)  # (4, T)
            if not moved[~is_row].any():
                continue
            raise LeakError(
                f"{what} leaks across the batch, in {self.mode} mode; expected rows that do not see each other"
            )

    def refuse_future(self, what: str, seq_len: int, places: Tensor) -> None:
        """Raise :class:`LeakError`, with the place, if an output before one of the places reads what begins there."""
        tokens = self.text(1, seq_len)
        changed = torch.where(torch.arange(seq_len) < places[:, None], tokens, self.other(tokens))  # (places, T)
        early = self.moved(changed, tokens) & (torch.arange(seq_len) < places[:, None])  # (places, T)
        if early.any():
            row, output = early.nonzero()[0].tolist()
            found = f"output {output} changes with token {int(places[row])} or a later one"
            where = f"{what} leaks at length {seq_len:,}, in {self.mode} mode"
            raise LeakError(f"{where}: {found}; expected outputs that read no later token", self.dependence(seq_len))


def evenly(seq_len: int, places: int) -> Tensor:
    """At most so many places of a text, evenly; never the first, before which there is no output."""
    return torch.tensor(sorted({round(place) for place in torch.linspace(1, seq_len - 1, places).tolist()}))


def check_leaks(model: nn.Module, seq_len: int, vocab_size: int, what: str = "the model") -> list[str]:
    """Remarks on what could not be asked.

    Args:
        model: int64 ``[batch, seq]`` to logits ``[batch, seq, vocab]``.
        seq_len: the trained length; half of it, one less and twice it are asked too.
        vocab_size: number of tokens.
        what: the model is called, in messages.

    Raises:
        LeakError: if an output reads a later token, or another row of the batch.
        ValueError: if it is another one in a longer text.
    """
    probe, other = (Probe(model, vocab_size, seq_len, training=training) for training in (False, True))
    remarks = [] if probe.exact else ["It computes in less than float64, in whose rounding a small leak can hide."]
    tokens = probe.text(2, seq_len)
    alike = not probe.differs(probe(tokens), other(tokens)).any()
    for each, places in ((other, seq_len), (probe, PLACES if alike else seq_len)):
        each.refuse_memory(what, seq_len)
        each.refuse_mixing(what, seq_len)
        each.refuse_future(what, seq_len, evenly(seq_len, places))
    tokens = probe.text(1, 2 * seq_len)
    whole = probe(tokens[:, :seq_len])
    for length in (seq_len // 2, seq_len - 1, 2 * seq_len):
        shared = min(length, seq_len)
        try:
            found = probe(tokens[:, :length])
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            remarks.append(f"It does not read {length:,} tokens: {reason(error)}.")
            continue
        if length > seq_len:
            probe.refuse_future(what, length, evenly(length, PLACES))
        same = not probe.differs(found[:, :shared], whole[:, :shared]).any()
        expected = f"those of {seq_len:,} tokens: while a text is written, nobody knows its length"
        require(same, f"the first {shared:,} outputs of {length:,} tokens of {what}", "others", expected)
    return remarks


def check_start(
    model: nn.Module, inputs: Tensor, targets: Tensor, vocab_size: int, what: str = "the model"
) -> list[str]:
    """A remark if the loss before training is not about ln V, that of a model that knows nothing.

    Raises:
        ValueError: if it lies below the entropy of the targets: how often each token occurs may be known beforehand,
            as the start of a bias, and nothing else.
    """
    with torch.no_grad():
        loss = F.cross_entropy(model(inputs).flatten(0, 1).float(), targets.flatten()).item()
    blank, shares = math.log(vocab_size), targets.flatten().bincount() / targets.numel()
    least = torch.special.entr(shares).sum().item()
    expected = f"at least {least:.3f}, that of a model that knows how often each token occurs, and nothing else"
    require(loss > least - EXACT, f"the loss of {what} before training", round(loss, 3), expected)
    beside = f"ln {vocab_size} = {blank:.2f}"
    if loss < blank - KNOWS:
        return [f"Its loss before training is {loss:.2f}, below {beside}: it starts with the frequencies of tokens."]
    return [f"Its loss before training is {loss:.2f}, far above {beside}."] if loss > blank + SURE else []


def undecayed(model: nn.Module) -> list[str]:
    """A remark if many numbers are in matrices that the recipe decays in an ``nn.Linear`` or ``nn.Embedding`` alone."""
    _, others = parameter_groups(model, 0.0)
    share = sum(p.numel() for p in others["params"] if p.ndim > 1) / sum(p.numel() for p in model.parameters())
    where = f"{share:.0%} of its parameters are matrices outside nn.Linear and nn.Embedding"
    return [f"{where}, and are not decayed."] if share > APART else []


def in_closed_form(model: nn.Module, seq_len: int) -> float | None:
    """Multiply-adds per token by the book's cost model; None for what has a layer that the book has not."""
    try:
        return multiply_adds(model, seq_len)  # type: ignore[arg-type]
    except (TypeError, AttributeError):
        return None


def multiply_adds_of(model: nn.Module, seq_len: int) -> float:
    """Per token of a forward pass of ``seq_len`` tokens: in closed form, or as matrix products of a run are counted."""
    if (known := in_closed_form(model, seq_len)) is not None:
        return known
    tokens = torch.zeros(1, seq_len, dtype=torch.int64)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        copy.deepcopy(model).cpu()(tokens)
    return counter.get_total_flops() / 2 / seq_len


def apart(what: str, ours: float, theirs: float) -> list[str]:
    """By how much two costs differ, if by more than 5 %."""
    if not theirs:
        return [f"{ours:,.0f} {what} against none"] if ours else []
    share = ours / theirs - 1
    return [f"{abs(share):.0%} {'more' if share > 0 else 'fewer'} {what}"] if abs(share) > APART else []


def is_smaller(model: nn.Module, other: nn.Module, seq_len: int) -> bool:
    """Whether a model has fewer parameters or takes fewer multiply-adds than another, as one of half the depth does."""
    fewer = effective_parameters(model) < effective_parameters(other)
    return fewer or multiply_adds_of(model, seq_len) < multiply_adds_of(other, seq_len)
