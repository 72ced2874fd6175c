"""The decoding cache: what each layer must remember to go on reading where it stopped.

What is notable:
- One class serves every layer. A layer is its own key, so layers need no numbers and nest freely.
- Two kinds of memory are enough: everything so far (attention's keys and values), and the last few inputs
  (a convolution's window).
- Buffers double when they are full, so a token costs the same however many came before it.
- A model's step that was interrupted is noticed by the next one: its cache is right, or it says that it is not.
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from ..support.checks import require, require_int


class Cache:
    r"""Memory of a model, or of one layer, between the pieces of a sequence.

    Pass the same cache with each piece, in order; the outputs are those of the whole sequence. Contents are
    detached: a cache is for decoding, not for training.

    A model's step that is interrupted, by Ctrl-C for example, makes the cache refuse the next one. A layer, stack or
    hourglass that is used without a model does not know where a step begins: its caller throws the cache away.

    The buffers of a :class:`.StaticCache` never grow.

    Args:
        batch_size: the number of sequences that are read side by side.

    Raises:
        TypeError: if the size is not an int.
        ValueError: when a piece with another batch size arrives, or another model, or after an interrupted step; and
            for a layer that stands at two places of a model, whose memories would be one.
    """

    def __init__(self, batch_size: int) -> None:
        require_int("batch_size", batch_size, at_least=1)
        self.batch_size = batch_size
        self._owner: nn.Module | None = None
        self._unfinished = False
        self._length: dict[nn.Module, int] = {}
        self._phase: dict[nn.Module, int] = {}
        self._buffers: dict[nn.Module, list[Tensor]] = {}
        self._window: dict[nn.Module, Tensor] = {}
        self._counted: set[tuple[str, nn.Module]] = set()  # what has been counted in a model's step

    # What a language model does around a step

    @property
    def tokens_read(self) -> int:
        """The tokens that the model which owns the cache has read."""
        return 0 if self._owner is None else int(self.length(self._owner))

    def check_batch(self, batch_size: int) -> None:
        """Raise ValueError if ``batch_size`` is not the one that the cache was made for."""
        expected = f"{self.batch_size}, the batch size of the cache"
        require(batch_size == self.batch_size, "the batch size", batch_size, expected)

    def begin(self, model: nn.Module, tokens: Tensor) -> None:
        """Start a step of ``model``, which reads ``tokens``, ``[batch, seq]``.

        Raises:
            ValueError: if the cache is another model's, or its last step did not end.
        """
        if self._owner is not None and self._owner is not model:
            raise ValueError("the cache is one that another model has used; expected one for this model")
        if self._unfinished:
            raise ValueError(
                "the cache is one whose last step was interrupted, so that some layers have read more than others; "
                "expected a new one, or a clone() from before that step"
            )
        self._owner, self._unfinished = model, True
        self._counted.clear()

    def end(self, model: nn.Module, tokens: Tensor) -> None:
        """End the step of ``model``, which has read ``tokens``, ``[batch, seq]``."""
        self.advance(model, tokens.shape[1])
        self._unfinished = False

    # What a layer does within it

    def length(self, layer: nn.Module) -> int:
        """The number of positions that ``layer`` has appended or counted."""
        return self._length.get(layer, 0)

    def tokens_of(self, layer: nn.Module) -> int:
        """The same, to be compared with a size."""
        return self.length(layer)

    def check_once(self, what: str, layer: nn.Module) -> None:
        """Raise ValueError if ``layer`` has counted so in this step of a model before."""
        expected = "one that reads once in a step: a cache knows layers, and not their places"
        new = not self._unfinished or (what, layer) not in self._counted
        require(new, "a layer", type(layer).__name__, expected)
        self._counted.add((what, layer))  # without a model nobody knows where a step begins, and all may count

    def advance(self, layer: nn.Module, n: int) -> int:
        """Count ``n`` more positions of ``layer``; return how many there were before."""
        self.check_once("positions", layer)
        start = self.length(layer)
        self._length[layer] = start + n
        return start

    def phase(self, layer: nn.Module, n: int, period: int) -> int:
        """Count ``n`` more positions modulo ``period``; return where in its period ``layer`` was before."""
        self.check_once("phase", layer)
        start = self._phase.get(layer, 0)
        self._phase[layer] = (start + n) % period
        return start

    def append(self, layer: nn.Module, *new: Tensor) -> list[Tensor]:
        """Append each ``[batch, heads, seq, channels]`` along ``seq``; return all positions so far."""
        self.check_batch(new[0].shape[0])
        start = self.advance(layer, new[0].shape[2])
        end = start + new[0].shape[2]
        buffers = self._buffers.get(layer, [x[:, :, :0].detach() for x in new])
        if end > buffers[0].shape[2]:
            room = [x.new_empty(*x.shape[:2], max(2 * start, end, 16), x.shape[3]) for x in new]
            for larger, old in zip(room, buffers, strict=True):
                larger[:, :, :start] = old[:, :, :start]
            buffers = room
        for buffer, x in zip(buffers, new, strict=True):
            buffer[:, :, start:end] = x.detach()
        self._buffers[layer] = buffers
        return [buffer[:, :, :end] for buffer in buffers]

    def with_past(self, layer: nn.Module, x: Tensor, n: int) -> Tensor:
        """Put the last ``n`` inputs of ``layer``, zeros at the start, before ``x``: ``[batch, n + seq, channels]``."""
        self.check_batch(x.shape[0])
        self.check_once("window", layer)
        past = self._window.get(layer, x.new_zeros(x.shape[0], n, x.shape[2]))
        x = torch.cat([past, x], dim=1)  # (B, n + T, C)
        self._window[layer] = x[:, x.shape[1] - n :].detach().clone(memory_format=torch.contiguous_format)
        return x

    # Copies

    def clone(self) -> Self:
        """A cache that goes on from here by itself; it belongs to the same model."""
        new = self.empty()
        new._owner, new._unfinished = self._owner, self._unfinished
        new._length, new._phase = dict(self._length), dict(self._phase)  # of numbers, which are never changed in place
        new._buffers = {layer: [x.clone() for x in tensors] for layer, tensors in self._buffers.items()}
        new._window = {layer: x.clone() for layer, x in self._window.items()}
        return new

    def __copy__(self) -> Self:
        return self.clone()  # one that shared its counts would be wrong, and so would the original

    def __deepcopy__(self, memo: object) -> Self:
        return self.clone()  # a copy of the layers, which are the keys, would find nothing in it

    def empty(self) -> Self:
        """A cache of this kind that has read nothing."""
        return type(self)(self.batch_size)
