"""The decoding cache: what each layer must remember to go on reading where it stopped.

What is notable:
- One class serves every layer. A layer is its own key, so layers need no numbers and nest freely.
- Two kinds of memory are enough: everything so far (attention's keys and values), and the last few inputs
  (a convolution's window).
- Buffers double when they are full, so a token costs the same however many came before it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .checks import require, require_int


class Cache:
    """Memory of a model, or of one layer, between the pieces of a sequence.

    Pass the same cache with each piece, in order; the outputs are those of the whole sequence. Contents are
    detached: a cache is for decoding, not for training.

    Args:
        batch_size: the number of sequences that are read side by side; fixed for the life of the cache.

    Raises:
        ValueError: when a piece with another batch size arrives, or another model.
    """

    def __init__(self, batch_size: int) -> None:
        require_int("batch_size", batch_size, at_least=1)
        self.batch_size = batch_size
        self.tokens_read = 0  # by the language model that owns the cache
        self._owner: nn.Module | None = None
        self._length: dict[nn.Module, int] = {}
        self._buffers: dict[nn.Module, list[Tensor]] = {}
        self._window: dict[nn.Module, Tensor] = {}

    def check_batch(self, batch_size: int) -> None:
        """Raise ValueError if ``batch_size`` is not the one that the cache was made for."""
        require(
            batch_size == self.batch_size,
            "the batch size",
            batch_size,
            f"{self.batch_size}, the batch size of the cache",
        )

    def check_owner(self, model: nn.Module) -> None:
        """Raise ValueError if ``model`` is neither the first one that used the cache nor a part of it."""
        self._owner = self._owner or model
        part = model is self._owner or any(model is module for module in self._owner.modules())
        if not part:
            raise ValueError("the cache is one that another model has used; expected one for this model")

    def advance(self, layer: nn.Module, n: int) -> int:
        """Count ``n`` more positions of ``layer``; return how many there were before."""
        start = self.length(layer)
        self._length[layer] = start + n
        return start

    def length(self, layer: nn.Module) -> int:
        """The number of positions that ``layer`` has appended or counted."""
        return self._length.get(layer, 0)

    def append(self, layer: nn.Module, *new: Tensor) -> list[Tensor]:
        """Append each ``[batch, heads, seq, channels]`` along ``seq``; return all positions so far."""
        start, end = self.length(layer), self.length(layer) + new[0].shape[2]
        self.check_batch(new[0].shape[0])
        buffers = self._buffers.get(layer, [x[:, :, :0].detach() for x in new])
        if end > buffers[0].shape[2]:
            room = [x.new_empty(*x.shape[:2], max(2 * start, end, 16), x.shape[3]) for x in new]
            for larger, old in zip(room, buffers, strict=True):
                larger[:, :, :start] = old[:, :, :start]
            buffers = room
        for buffer, x in zip(buffers, new, strict=True):
            buffer[:, :, start:end] = x.detach()
        self._buffers[layer], self._length[layer] = buffers, end
        return [buffer[:, :, :end] for buffer in buffers]

    def with_past(self, layer: nn.Module, x: Tensor, n: int) -> Tensor:
        """Put the last ``n`` inputs of ``layer``, zeros at the start, before ``x``: ``[batch, n + seq, channels]``."""
        self.check_batch(x.shape[0])
        past = self._window.get(layer, x.new_zeros(x.shape[0], n, x.shape[2]))
        x = torch.cat([past, x], dim=1)  # (B, n + T, C)
        self._window[layer] = x[:, x.shape[1] - n :].detach()
        return x
