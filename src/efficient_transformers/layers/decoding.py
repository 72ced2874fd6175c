"""Caches for other ways to decode: for a search, which keeps several continuations, and for compiled steps.

What is notable:
- layers know nothing of them: what differs is behind the methods of :class:`Cache`;
- the counts of a static cache are tensors, which do what the layers do with an int: add, and be compared.
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from ..support.checks import require, require_int
from .cache import Cache
from .fast import values


class SearchCache(Cache):
    """A cache whose sequences can be multiplied and chosen between steps, as beam search does.

    Args:
        batch_size: the number of sequences that are read side by side.

    Raises:
        TypeError, ValueError: as for :class:`Cache`.
    """

    def expand(self, n: int) -> Self:
        """A cache for ``n`` continuations of each sequence, those of one sequence side by side.

        Raises:
            TypeError, ValueError: if ``n`` is not an int of at least 1.
        """
        require_int("n", n, at_least=1)
        return self.copy_rows(self.batch_size * n, lambda x: x.repeat_interleave(n, dim=0))

    def reorder(self, rows: Tensor) -> Self:
        """A cache whose sequence ``i`` is sequence ``rows[i]`` of this one; a row may be kept twice, or not at all.

        Args:
            rows: int64 ``[new batch size]``.

        Raises:
            TypeError: if ``rows`` is not an int64 tensor.
            ValueError: if it has another shape.
            IndexError: for a row that is not there.
        """
        kind = rows.dtype if isinstance(rows, Tensor) else type(rows).__name__
        require(kind == torch.int64, "rows", kind, "a torch.int64 tensor", TypeError)
        require(rows.dim() == 1 and len(rows) > 0, "rows.shape", tuple(rows.shape), "[new batch size], not 0")
        for row in values(rows):  # an empty cache has no tensor that would notice
            require(0 <= row < self.batch_size, "a row", row, f"0 to {self.batch_size - 1}", IndexError)
        return self.copy_rows(len(rows), lambda x: x.index_select(0, rows.to(x.device)))


class StaticCache(SearchCache):
    r"""A cache whose buffers have their full size from the start, so that each decoding step has the same shapes.

    A step under ``torch.compile(model, fullgraph=True, dynamic=False)`` is compiled once for each kind of step, and
    never again as the text grows. There is one kind, but for an hourglass, which has :math:`1 + \sum (k - 1)` with the
    factors :math:`k` of its levels: above eight, raise ``torch._dynamo.config.recompile_limit``. Read the prompt
    without compilation: the first piece makes the buffers.

    Args:
        batch_size: the number of sequences that are read side by side.
        max_seq_len: the most tokens that it can hold.

    Raises:
        TypeError, ValueError: as for :class:`Cache`.
    """

    def __init__(self, batch_size: int, max_seq_len: int) -> None:
        super().__init__(batch_size)
        require_int("max_seq_len", max_seq_len, at_least=1)
        self.max_seq_len, self.device = max_seq_len, torch.device("cpu")

    def empty(self, batch_size: int) -> Self:
        new = type(self)(batch_size, self.max_seq_len)
        new.device = self.device
        return new

    def begin(self, model: nn.Module, tokens: Tensor) -> None:
        n = self.tokens_of(model) + tokens.shape[1]
        expected = f"at most max_seq_len={self.max_seq_len} tokens, those in the cache included"
        require(n <= self.max_seq_len, "the sequence length", n, expected)
        super().begin(model, tokens)
        self.device = tokens.device

    def tokens_of(self, layer: nn.Module) -> int:
        """The positions of ``layer`` where they can be looked at; else 0, and PyTorch checks its indices itself."""
        return sum(values(torch.as_tensor(self.length(layer))))

    def advance(self, layer: nn.Module, n: int) -> int:
        self.check_once("positions", layer)
        start = self.length(layer)
        self._length[layer] = start + torch.full((), n, device=self.device)  # type: ignore[assignment]
        return start

    def append(self, layer: nn.Module, *new: Tensor) -> list[Tensor]:
        """Append each ``[batch, heads, seq, channels]``; return the buffers, zeros up to ``max_seq_len`` included."""
        self.check_batch(new[0].shape[0])
        places = self.advance(layer, new[0].shape[2]) + torch.arange(new[0].shape[2], device=new[0].device)
        buffers = self._buffers.get(layer) or [x.new_zeros(*x.shape[:2], self.max_seq_len, x.shape[3]) for x in new]
        self._buffers[layer] = [b.index_copy_(2, places, x.detach()) for b, x in zip(buffers, new, strict=True)]
        return buffers
