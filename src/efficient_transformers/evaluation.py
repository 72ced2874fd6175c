"""The loss of a model on a text of any length, each character predicted with enough before it.

What is notable:
- windows of one context overlap by half, and each scores its second half: no character is predicted from little;
- a sample takes some of these windows, spread evenly over the text: the same ones for every model.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .checks import require, require_int
from .tokens import Vocabulary


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
        TypeError: if a number is not an int.
        ValueError: if a number is less than 1, or the text has fewer than two tokens.
    """
    from tqdm.auto import tqdm  # heavy libraries are imported where they are used

    for name, value in (("seq_len", seq_len), ("batch_size", batch_size)):
        require_int(name, value, at_least=1)
    require(tokens.dim() == 1 and len(tokens) > 1, "tokens.shape", tuple(tokens.shape), "at least two tokens, [length]")
    starts, fresh = overlapping_windows(len(tokens), seq_len, at_least)
    device = next(model.parameters()).device
    rows = torch.arange(min(seq_len, len(tokens) - 1) + 1)  # (T+1,)
    total = torch.zeros((), dtype=torch.float64)
    was_training = model.training
    model.eval()
    try:
        for first in tqdm(range(0, len(starts), batch_size), unit="batch", disable=None if show_progress else True):
            start, new = starts[first : first + batch_size], fresh[first : first + batch_size]
            text = tokens[start[:, None] + rows].long().to(device)  # (B, T+1)
            logits = model(text[:, :-1]).float()  # (B, T, V)
            losses = F.cross_entropy(logits.transpose(1, 2), text[:, 1:], reduction="none")  # (B, T)
            scored = rows[1:] > (len(rows) - 1 - new)[:, None]  # (B, T), the last `new` targets of each window
            total += losses.cpu().double()[scored].sum()
    finally:
        model.train(was_training)
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
    if vocabulary.unit == "bytes":
        continuing = int(found[0x80:0xC0].sum())  # bytes that a character starts with are all the others
        return len(text) - continuing, len(text)
    sizes = torch.tensor([len(c.encode()) for c in vocabulary.characters])
    return len(text), int((found * sizes).sum())
