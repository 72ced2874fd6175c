"""The loss of a model on a text: two scorers, which predict each character with enough before it.

Use :func:`evaluate` for the loss of a whole text, of any length; :func:`score` to compare models, on a sample that is
the same for every model and every context.

What is notable:
- windows of one context overlap by half, and each scores its second half: no character is predicted from little;
- a sample is made of whole blocks of 1,024 targets, spread evenly over the text;
- neighboring characters are alike, blocks much less: the standard error of a score is that of the blocks' means.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..models.generation import eval_mode
from ..support.checks import require, require_int
from .logs import bar
from .vocabulary import Vocabulary, require_tokens

BLOCK = 1024  # targets
TOKENS = 4096  # that are read together


@torch.no_grad()
def evaluate(
    model: nn.Module,
    tokens: Tensor,
    *,
    seq_len: int,
    at_least: int | None = None,
    batch_size: int = 16,
    show_progress: bool = False,
) -> float:
    r"""The mean cross-entropy of ``model`` on a text, in nats per token.

    Windows of T = ``seq_len`` tokens are read, one every ⌈T/2⌉ tokens; each scores the targets that the window
    before it did not, so that every target has at least ⌊T/2⌋ tokens before it. The first window scores all of its
    targets, which have what the text has before them; the first token of a text, which has nothing, is the only one
    that is never predicted. The last window ends where the text ends.

    Args:
        model: int64 ``[batch, seq]`` to logits ``[batch, seq, vocab]``; its train or eval mode is the same afterwards.
        tokens: the text, integers ``[length]``; a part of a :class:`Corpus`, for example.
        seq_len: tokens that the model reads at once.
        at_least: score about so many targets, never fewer unless the text has fewer, in windows that are spread
            evenly over the text, its first and last included; None scores the whole text.
        batch_size: windows that are read together; the result does not depend on it, but for rounding.
        show_progress: draw a progress bar, if the output is a terminal or a notebook.

    Raises:
        TypeError: if a number is not an int, or the text not a tensor of integers.
        ValueError: if a number is less than 1, or the text has fewer than two tokens or another shape.
    """
    for name, value in (("seq_len", seq_len), ("batch_size", batch_size)):
        require_int(name, value, at_least=1)
    require_tokens("tokens", tokens)
    require(len(tokens) > 1, "tokens.shape", tuple(tokens.shape), "at least two tokens, [length]")
    starts, fresh = overlapping_windows(len(tokens), seq_len, at_least)
    device = next(model.parameters(), tokens).device
    rows = torch.arange(min(seq_len, len(tokens) - 1) + 1)  # (T+1,)
    total = torch.zeros((), dtype=torch.float64)
    with eval_mode(model):
        for first in bar(range(0, len(starts), batch_size), show=show_progress, unit="batch"):
            start, new = starts[first : first + batch_size], fresh[first : first + batch_size]
            text = tokens[start[:, None] + rows].long().to(device)  # (B, T+1)
            logits = model(text[:, :-1]).float()  # (B, T, V)
            losses = F.cross_entropy(logits.transpose(1, 2), text[:, 1:], reduction="none")  # (B, T)
            scored = rows[1:] > (len(rows) - 1 - new)[:, None]  # (B, T), the last `new` targets of each window
            total += losses.cpu().double()[scored].sum()
    return total.item() / int(fresh.sum())


def overlapping_windows(length: int, seq_len: int, at_least: int | None = None) -> tuple[Tensor, Tensor]:
    """Where each window starts, and how many of its last targets are scored: two int64 ``[windows]``."""
    targets = length - 1
    if targets <= seq_len:
        return torch.tensor([0]), torch.tensor([targets])
    stride = (seq_len + 1) // 2
    ends = torch.arange(seq_len, targets + stride, stride).clamp(max=targets)  # of each window, the last target
    fresh = ends.diff(prepend=torch.tensor([0]))
    if at_least is not None:
        require_int("at_least", at_least, at_least=1)
        count = min(len(ends), 2 + max(0, -(-(at_least - int(fresh[0] + fresh[-1])) // stride)))
        chosen = torch.linspace(0, len(ends) - 1, count, dtype=torch.float64).round().long()
        ends, fresh = ends[chosen], fresh[chosen]
    return ends - seq_len, fresh


def sizes_of(text: torch.Tensor, vocabulary: Vocabulary) -> tuple[int, int]:
    """The characters and the UTF-8 bytes of a text in tokens."""
    found = torch.zeros(len(vocabulary), dtype=torch.int64)
    for start in range(0, len(text), 2**22):
        found += torch.bincount(text[start : start + 2**22].long(), minlength=len(vocabulary))
    characters, size = (found @ vocabulary.sizes).tolist()
    return characters, size


@dataclass(frozen=True)
class Score:
    """What :func:`score` found.

    Args:
        blocks: the mean loss of each block, in nats per token.
        targets: predicted tokens, of all blocks together.
    """

    blocks: list[float]
    targets: int

    @property
    def loss(self) -> float:
        """The mean loss, in nats per token."""
        return sum(self.blocks) / len(self.blocks)


def block_starts(length: int, at_least: int, seq_len: int) -> Tensor:
    """The first target of each block, int64 ``[blocks]``, spread evenly over a text of ``length`` tokens.

    They depend on ``seq_len`` only above a context of two blocks, which needs more text before its first target.

    Raises:
        TypeError: if a number is not an int.
        ValueError: if half the context does not divide a block, or the text has fewer targets than ``at_least``.
    """
    require_int("seq_len", seq_len, at_least=2)
    require_int("at_least", at_least, at_least=1)
    fits = seq_len % 2 == 0 and BLOCK % (seq_len // 2) == 0
    require(fits, "seq_len", seq_len, f"an even number whose half divides {BLOCK}")
    first, count = max(BLOCK, seq_len // 2) + 1, -(-at_least // BLOCK)  # the first target has half a context before it
    last = length - BLOCK
    room = max(0, (last - first) // BLOCK + 1)
    require(count <= room, "at_least", at_least, f"at most {room * BLOCK:,} targets, which the text has room for")
    return torch.linspace(first, last, count, dtype=torch.float64).long()


@torch.no_grad()
def score(model: nn.Module, tokens: Tensor, *, seq_len: int, at_least: int) -> Score:
    r"""The mean cross-entropy of ``model`` on at least ``at_least`` tokens of a text, in nats per token.

    A block of 1,024 targets is cut into pieces of T/2 targets, T being ``seq_len``; each is predicted by a window of
    T tokens that ends with it, of which the first half is only read.

    Args:
        model: int64 ``[batch, seq]`` to logits ``[batch, seq, vocab]``; its mode is the same afterwards.
        tokens: the text, integers ``[length]``.
        seq_len: the model's context; half of it divides 1,024.
        at_least: targets, rounded up to whole blocks.

    Raises:
        TypeError, ValueError: as for :func:`block_starts`, and for a text that is not integers ``[length]``.
    """
    half = seq_len // 2
    require_tokens("tokens", tokens)
    pieces = block_starts(len(tokens), at_least, seq_len)[:, None] + torch.arange(0, BLOCK, half)  # (blocks, pieces)
    starts = pieces.flatten() - half - 1  # the first token that is read; the first target is one after `half` more
    device = next(model.parameters(), tokens).device
    losses = []
    with eval_mode(model):
        for chunk in torch.split(starts, max(1, TOKENS // seq_len)):
            rows = tokens[chunk[:, None] + torch.arange(seq_len + 1)].long().to(device)  # (B, T+1)
            logits = model(rows[:, :-1])[:, half:].float()  # (B, T/2, V)
            each = F.cross_entropy(logits.flatten(0, 1), rows[:, half + 1 :].flatten(), reduction="none")
            losses.append(each.view(len(chunk), half).cpu().double().mean(1))  # not every device has float64
    blocks = torch.cat(losses).view(pieces.shape).mean(1)
    return Score(blocks.tolist(), BLOCK * len(blocks))
