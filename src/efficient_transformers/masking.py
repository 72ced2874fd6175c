"""Masked characters: some are hidden, and a two-sided model tells what they were.

What is notable:
- the training loop is the one of next characters: only hidden places have a target;
- to score a text, each character is hidden once, in one of seven passes that hide a seventh each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .checks import require, require_probability
from .corpus import NO_TARGET, Corpus
from .scoring import BLOCK, TOKENS, Score, block_starts

PASSES = 7  # so that a seventh is hidden at once, about the 15 % of training


@dataclass(frozen=True)
class MaskedCorpus(Corpus):
    """A corpus whose batches have hidden tokens; the token after the vocabulary's last stands for a hidden one.

    Args:
        share: how many of the tokens of a batch are hidden; each place of each row is drawn by itself.
    """

    share: float = 0.15

    def __post_init__(self) -> None:
        require_probability("share", self.share)
        require(self.share > 0, "share", self.share, "more than 0")

    def hide(self, text: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Inputs with hidden tokens, and targets only there, of int64 ``[batch, seq]``."""
        hidden = torch.rand(text.shape, generator=generator) < self.share
        hidden[0, 0] |= not hidden.any()  # a mean needs one
        return text.masked_fill(hidden, len(self.vocabulary)), text.masked_fill(~hidden, NO_TARGET)

    def batch(self, batch_size: int, seq_len: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A random training batch, hidden in part."""
        text, _ = super().batch(batch_size, seq_len, generator)
        return self.hide(text, generator)

    def validation_batches(self, n_batches: int, batch_size: int, seq_len: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Always the same batches, with the same hidden places."""
        generator = torch.Generator().manual_seed(0)
        for text, _ in super().validation_batches(n_batches, batch_size, seq_len):
            yield self.hide(text, generator)


def hide_tokens(corpus: Corpus) -> MaskedCorpus:
    """The same texts, to be trained on with hidden tokens."""
    return MaskedCorpus(corpus.name, corpus.vocabulary, corpus.train, corpus.validation, corpus.test)


@torch.no_grad()
def masked_score(model: nn.Module, tokens: Tensor, *, seq_len: int, at_least: int, mask_token: int) -> Score:
    """The mean cross-entropy of hidden tokens, in nats, on the blocks of :func:`score`.

    A block is read in windows of ``seq_len`` tokens. Their places are dealt out to seven passes at random, always in
    the same way, and each pass hides its places, so that each token is hidden, and predicted, exactly once.

    Args:
        model: int64 ``[batch, seq]`` to logits ``[batch, seq, vocab]``, where every place sees every other; left in
            eval mode.
        tokens: the text, integers ``[length]``.
        seq_len: the model's context, which divides 1,024.
        at_least: tokens to predict, rounded up to whole blocks.
        mask_token: what stands for a hidden token.

    Raises:
        TypeError, ValueError: as for :func:`block_starts`, and if ``seq_len`` does not divide 1,024.
    """
    starts = block_starts(len(tokens), at_least, seq_len)
    require(BLOCK % seq_len == 0, "seq_len", seq_len, f"a divisor of {BLOCK}")
    windows = (starts[:, None] + torch.arange(0, BLOCK, seq_len)).flatten()  # (N,)
    generator = torch.Generator().manual_seed(0)
    order = torch.rand(len(windows), seq_len, generator=generator).argsort(1) % PASSES  # (N, T), a pass for each place
    device = next(model.parameters()).device
    model.eval()
    losses = []
    rows_at_once = max(1, TOKENS // seq_len)
    for chunk, passes in zip(torch.split(windows, rows_at_once), torch.split(order, rows_at_once), strict=True):
        text = tokens[chunk[:, None] + torch.arange(seq_len)].long()  # (B, T)
        found = torch.zeros(text.shape)
        for number in range(PASSES):
            hidden = passes == number
            logits = model(text.masked_fill(hidden, mask_token).to(device)).float().cpu()  # (B, T, V)
            found[hidden] = F.cross_entropy(logits[hidden], text[hidden], reduction="none")
        losses.append(found.double().mean(1))
    blocks = torch.cat(losses).view(len(starts), -1).mean(1)
    return Score(blocks.tolist(), BLOCK * len(blocks))
