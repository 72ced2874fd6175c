"""The loss on a sample of a text that is the same for every model and every context, with what the sample leaves open.

What is notable:
- the sample is made of whole blocks of 1,024 targets: a model of any context is asked for the same characters;
- each target has at least half a context before it;
- neighboring characters are alike, blocks much less: the standard error is that of the blocks' means.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .checks import require, require_int

BLOCK = 1024  # targets
TOKENS = 4096  # that are read together


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

    @property
    def standard_error(self) -> float:
        """Of the loss, as if blocks were independent (:func:`.evidence.sampling_error`); 0 for a single block."""
        blocks = torch.tensor(self.blocks, dtype=torch.float64)
        return float(blocks.std() / len(blocks) ** 0.5) if len(blocks) > 1 else 0.0


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
        model: int64 ``[batch, seq]`` to logits ``[batch, seq, vocab]``; left in eval mode.
        tokens: the text, integers ``[length]``.
        seq_len: the model's context; half of it divides 1,024.
        at_least: targets, rounded up to whole blocks.

    Raises:
        TypeError, ValueError: as for :func:`block_starts`.
    """
    half = seq_len // 2
    pieces = block_starts(len(tokens), at_least, seq_len)[:, None] + torch.arange(0, BLOCK, half)  # (blocks, pieces)
    starts = pieces.flatten() - half - 1  # the first token that is read; the first target is one after `half` more
    device = next(model.parameters()).device
    model.eval()
    losses = []
    for chunk in torch.split(starts, max(1, TOKENS // seq_len)):
        rows = tokens[chunk[:, None] + torch.arange(seq_len + 1)].long().to(device)  # (B, T+1)
        logits = model(rows[:, :-1])[:, half:].float()  # (B, T/2, V)
        each = F.cross_entropy(logits.flatten(0, 1), rows[:, half + 1 :].flatten(), reduction="none")
        losses.append(each.view(len(chunk), half).double().mean(1).cpu())
    blocks = torch.cat(losses).view(pieces.shape).mean(1)
    return Score(blocks.tolist(), BLOCK * len(blocks))
