"""What each output of a model reads, found by running it: the check that a causal model is one.

What is notable:
- ``check_leaks`` changes tokens: an output that changes with a later token, or with another row, has read it;
- every place is asked at the trained length, many at twice that; in both modes, where they give other logits;
- of a text each pair of neighbors is asked as well, since a leak may open after a pair that random tokens seldom have;
- ``leak_map`` asks autograd instead, and so finds a path where the change is small;
- weights are moved a little first, so that a matrix that starts at zero hides nothing.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..support.checks import require, require_int, require_module
from ..support.files import reason

EXACT = 1e-9  # of the largest logit: what rounding may do in float64, an FFT's included
ROUNDED = 1000.0  # times the spacing of a narrower kind of number, but at most a tenth
PLACES = 64  # that are asked where all would take long: beyond the trained length, and in a mode that changes nothing
ROWS = 16  # that are read together
AROUND = 4  # tokens of a text up to a pair's second one, and as many after it
PAIRS = 4096  # that are asked at most


def logits_of(output: Any) -> Any:
    """The logits in what a model returns: alone, first in a tuple, or called so, as in ``transformers``."""
    output = getattr(output, "logits", output)
    return output[0] if isinstance(output, tuple) and output else output


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
            logits = logits_of(model(tokens))
    except Exception as error:
        raise ValueError(f"{what} fails on tokens {[*tokens.shape]}: {type(error).__name__}: {error}") from error
    require(isinstance(logits, Tensor), f"the output of {what}", type(logits).__name__, expected, TypeError)
    require(logits.shape == (*tokens.shape, vocab_size), f"the output of {what}", [*logits.shape], expected)
    require(bool(logits.isfinite().all()), f"the output of {what}", "not finite", "finite logits before any training")


def entered(model: nn.Module, batch: int, seq_len: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random rows ``[batch, seq, channels]`` in place of what the embedding of a model of token ids makes; its logits.

    Raises:
        ValueError: if none of its embeddings reads the tokens.
    """
    rows: list[Tensor] = []

    def enter(embedding: nn.Module, args: Any, output: Tensor) -> Tensor | None:
        if rows or output.shape[:2] != (batch, seq_len):  # positions have an embedding too
            return None
        rows.append(torch.randn(output.shape, generator=generator, dtype=torch.float64, requires_grad=True))
        return rows[0]

    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.register_forward_hook(enter)
    logits = logits_of(model(torch.zeros(batch, seq_len, dtype=torch.int64)))
    expected = "a layer with d_model, the number of its channels, or a model whose nn.Embedding reads token ids"
    require(bool(rows), "module", type(model).__name__, expected)
    return rows[0], logits


@torch.inference_mode(False)  # a caller who had turned gradients off gets them here
@torch.enable_grad()
def leak_map(module: nn.Module, seq_len: int, seed: int = 0) -> Tensor:
    r"""Which inputs each output depends on: the largest :math:`|\partial y_t / \partial x_s|`, by autograd.

    The maximum is over the channels of :math:`x_s` and over a few random inputs; :math:`y_t` is a random
    projection of the output's channels. Where there is no path from :math:`s` to :math:`t`, the value is exactly
    0; a causal module has zeros above the diagonal, but for a product by :func:`fft_product`, whose rounding is
    everywhere. The weights are perturbed a little, so that one that starts
    at zero hides no path.

    Args:
        module: ``[batch, seq, d_model]`` to ``[batch, seq, ...]``, with an attribute ``d_model``; or a model of token
            ids, which is entered after its embedding, and left after its norm where it is one of the book.
        seq_len: length of the random inputs.
        seed: of the inputs and the projection.

    Returns:
        float64 ``[seq, seq]``: row :math:`t` for the output, column :math:`s` for the input.

    Raises:
        TypeError: if ``module`` is not a module, or ``seq_len`` not an int.
        ValueError: if it has neither a ``d_model`` nor an embedding that reads tokens, or ``seq_len < 1``.

    The book builds it as ``influence``.
    """
    require_module("module", module)
    require_int("seq_len", seq_len, at_least=1)
    exact: Any = copy.deepcopy(module).double().cpu().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in exact.parameters():
            p.add_(torch.randn(p.shape, generator=generator, dtype=torch.float64), alpha=0.01)
    of_the_book = all(isinstance(getattr(exact, name, None), nn.Module) for name in ("embedding", "body", "norm"))
    has_embedding = any(isinstance(each, nn.Embedding) for each in exact.modules())
    if isinstance(getattr(exact, "d_model", None), int) and (of_the_book or not has_embedding):
        shape = (8, seq_len, exact.d_model)
        x = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)  # (B, T, D)
        y = exact.norm(exact.body(x)) if of_the_book else exact(x)
    else:
        x, y = entered(exact, 8, seq_len, generator)
    y = y.flatten(2)  # (B, T, ...)
    y = y @ torch.randn(y.shape[2], generator=generator, dtype=torch.float64).to(y.dtype)  # (B, T)
    rows = [torch.autograd.grad(y[:, t].sum(), x, retain_graph=True)[0] for t in range(seq_len)]
    return torch.stack([row.abs().amax(dim=(0, 2)) for row in rows])


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
            logits: Tensor = logits_of(self.model(tokens))
            return logits

    def unread(self, tokens: Tensor) -> str | None:
        """Why the model does not read these tokens; None if it does."""
        try:
            self(tokens)
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            return reason(error)
        return None

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

    def dependence(self, tokens: Tensor) -> Tensor:
        """Which of the tokens ``[1, seq]`` each output reads: bool ``[seq, seq]``, a row for each output."""
        changed = torch.where(torch.eye(tokens.shape[1], dtype=torch.bool), self.other(tokens), tokens)  # (T, T)
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

    def refuse_future(self, what: str, tokens: Tensor, places: Tensor) -> None:
        """Raise :class:`LeakError`, with the place, if an output before one of the places reads what begins there."""
        seq_len = tokens.shape[1]
        changed = torch.where(torch.arange(seq_len) < places[:, None], tokens, self.other(tokens))  # (places, T)
        early = self.moved(changed, tokens) & (torch.arange(seq_len) < places[:, None])  # (places, T)
        if early.any():
            row, output = early.nonzero()[0].tolist()
            place, reads = int(places[row]), self.dependence(tokens)
            later = reads[output, place:].nonzero()  # none, where only several tokens together tell it
            found = f"token {place + int(later[0])}" if len(later) else f"token {place} or a later one"
            where = f"{what} leaks at length {seq_len:,}, in {self.mode} mode"
            raise LeakError(
                f"{where}: output {output} changes with {found}; expected outputs that read no later token", reads
            )

    def refuse_pairs(self, what: str, text: Tensor) -> None:
        """Raise :class:`LeakError` if an output after a pair of neighbors in a text ``[tokens]`` reads what follows."""
        pairs = text[AROUND - 2 : -AROUND - 1] * self.vocab_size + text[AROUND - 1 : -AROUND]
        ordered, places = pairs.sort(stable=True)
        counts = torch.unique_consecutive(ordered, return_counts=True)[1]
        start = places[counts.cumsum(0) - counts]  # where each pair stands first
        start = start[torch.randperm(len(start), generator=self.random)[:PAIRS]]
        for chunk in torch.split(text[start[:, None] + torch.arange(2 * AROUND)], ROWS * ROWS):  # (pairs, 8)
            changed = torch.where(torch.arange(2 * AROUND) < AROUND, chunk, self.other(chunk))
            early = self.differs(self(changed), self(chunk))[:, :AROUND].any(1)
            if early.any():
                tokens = chunk[early][:1]
                pair = tokens[0, AROUND - 2 : AROUND].tolist()
                found = f"the output after the tokens {pair} changes with the next token or a later one"
                where = f"{what} leaks, in {self.mode} mode"
                raise LeakError(f"{where}: {found}; expected outputs that read no later token", self.dependence(tokens))


def evenly(seq_len: int, places: int) -> Tensor:
    """At most so many places of a text, evenly; never the first, before which there is no output."""
    return torch.tensor(sorted({round(place) for place in torch.linspace(1, seq_len - 1, places).tolist()}))


def check_leaks(
    model: nn.Module, seq_len: int, vocab_size: int, what: str = "the model", text: Tensor | None = None
) -> list[str]:
    """Whether a causal language model is one; remarks on what could not be asked.

    Args:
        model: int64 ``[batch, seq]`` to logits ``[batch, seq, vocab]``, alone, first in a tuple, or as ``.logits``.
        seq_len: the trained length; half of it, one less and twice it are asked too.
        vocab_size: number of tokens.
        what: the model is called, in messages.
        text: int64 ``[tokens]``; if given, it is read as well as random tokens, and up to 4,096 of its pairs of
            neighbors are asked, each among the eight tokens around it.

    Raises:
        LeakError: if an output reads a later token, or another row of the batch.
        TypeError, ValueError: if the logits are others in a longer text, or when the same text is read again; for
            arguments that are none of these.
    """
    require_module("model", model)
    require_int("seq_len", seq_len, at_least=2)
    require_int("vocab_size", vocab_size, at_least=2)
    least = max(seq_len, 2 * AROUND + 1)
    if text is not None:
        found = [text.dtype, *text.shape] if isinstance(text, Tensor) else text
        fits = isinstance(text, Tensor) and text.dtype == torch.int64 and text.ndim == 1 and len(text) >= least
        require(fits, "text", found, f"an int64 tensor of at least {least} token ids")
        lowest, highest = int(text.min()), int(text.max())
        expected = f"token ids from 0 to {vocab_size - 1}"
        require(lowest >= 0 and highest < vocab_size, "text", f"from {lowest} to {highest}", expected)
    require_logits(what, copy.deepcopy(model).cpu(), torch.zeros(1, seq_len, dtype=torch.int64), vocab_size)
    probe, other = (Probe(model, vocab_size, seq_len, training=training) for training in (False, True))
    remarks = [] if probe.exact else ["It computes in less than float64, in whose rounding a small leak can hide."]
    tokens = probe.text(2, seq_len)
    alike = not probe.differs(probe(tokens), other(tokens)).any()
    for each, places in ((other, seq_len), (probe, PLACES if alike else seq_len)):
        each.refuse_memory(what, seq_len)
        each.refuse_mixing(what, seq_len)
        windows = [each.text(1, seq_len)]
        if text is not None:
            begin = int(torch.randint(len(text) - seq_len + 1, (), generator=each.random))
            windows.append(text[None, begin : begin + seq_len])
        for number, window in enumerate(windows):  # each place in one of them
            each.refuse_future(what, window, evenly(seq_len, places)[number :: len(windows)])
        if text is not None and not (alike and each is probe) and not each.unread(text[None, : 2 * AROUND]):
            each.refuse_pairs(what, text)
    tokens = probe.text(1, 2 * seq_len)
    whole = probe(tokens[:, :seq_len])
    for length in sorted({*([2 * AROUND] if text is not None else []), seq_len // 2, seq_len - 1, 2 * seq_len}):
        shared = min(length, seq_len)
        if why := probe.unread(tokens[:, :length]):
            remarks.append(f"It does not read {length:,} tokens: {why}.")
            continue
        read = probe(tokens[:, :length])
        if length > seq_len:
            probe.refuse_future(what, tokens, evenly(length, PLACES))
        same = not probe.differs(read[:, :shared], whole[:, :shared]).any()
        expected = f"those of {seq_len:,} tokens: while a text is written, nobody knows its length"
        require(same, f"the first {shared:,} outputs of {length:,} tokens of {what}", "others", expected)
    return remarks
