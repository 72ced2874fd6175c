"""A cache for compiled steps.

What is notable:
- layers know nothing of it: what differs is behind the methods of :class:`Cache`;
- its counts are tensors, which do what the layers do with an int: add, and be compared.
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from ..support.checks import require, require_int
from .cache import Cache
from .fast import values


class StaticCache(Cache):
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

    def empty(self) -> Self:
        new = type(self)(self.batch_size, self.max_seq_len)
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
