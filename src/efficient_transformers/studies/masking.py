"""Masked characters: some are hidden, and a two-sided model tells what they were.

What is notable:
- the training loop is the one of next characters: only hidden places have a target;
- to score a text, each character is hidden once, in one of seven passes that hide a seventh each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..checks import require, require_probability
from ..training.corpus import NO_TARGET, Corpus


@dataclass(frozen=True, eq=False)
class MaskedCorpus(Corpus):
    """A corpus whose batches have hidden tokens; the token after the vocabulary's last stands for a hidden one.

    Args:
        share: how many of the tokens of a batch are hidden; each place of each row is drawn by itself.
    """

    share: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
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
