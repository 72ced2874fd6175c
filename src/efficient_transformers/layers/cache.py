"""The decoding cache: what each layer must remember to go on reading where it stopped.

What is notable:
- One class serves every layer. A layer is its own key, so layers need no numbers and nest freely.
- Two kinds of memory are enough: everything so far (attention's keys and values), and the last few inputs
  (a convolution's window).
- Buffers double when they are full, so a token costs the same however many came before it; or they have their full
  size from the start, and the counts of positions are tensors, so that every step of a decoder has the same shapes.
- A model's step that was interrupted is noticed by the next one: its cache is right, or it says that it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ..checks import is_plain, require, require_int


class Cache:
    r"""Memory of a model, or of one layer, between the pieces of a sequence.

    Pass the same cache with each piece, in order; the outputs are those of the whole sequence. Contents are
    detached: a cache is for decoding, not for training.

    A model's step that is interrupted, by Ctrl-C for example, makes the cache refuse the next one. A layer, stack or
    hourglass that is used without a model does not know where a step begins: its caller throws the cache away.

    With ``max_seq_len`` the cache is *static*: all buffers have their full size, so that a decoding step under
    ``torch.compile(model, fullgraph=True, dynamic=False)`` is compiled once for each kind of step, and never again as
    the text grows. There is one kind, but for an hourglass, which has :math:`1 + \sum (k - 1)` with the factors
    :math:`k` of its levels: above eight, raise ``torch._dynamo.config.recompile_limit``. Read the prompt without
    compilation: the first piece makes the buffers.

    Args:
        batch_size: the number of sequences that are read side by side.
        max_seq_len: of a static cache, the most tokens that it can hold; None for one that grows.

    Raises:
        TypeError: if a size is not an int.
        ValueError: when a piece with another batch size arrives, or another model, or after an interrupted step.
    """

    def __init__(self, batch_size: int, max_seq_len: int | None = None) -> None:
        require_int("batch_size", batch_size, at_least=1)
        if max_seq_len is not None:
            require_int("max_seq_len", max_seq_len, at_least=1)
        self.batch_size, self.max_seq_len = batch_size, max_seq_len
        self._owner: nn.Module | None = None
        self._unfinished = False
        self._length: dict[nn.Module, int | Tensor] = {}  # tensors in a static cache
        self._phase: dict[nn.Module, int] = {}
        self._buffers: dict[nn.Module, list[Tensor]] = {}
        self._window: dict[nn.Module, Tensor] = {}

    # What a language model does around a step

    @property
    def tokens_read(self) -> int:
        """The tokens that the model which owns the cache has read."""
        return 0 if self._owner is None else int(self.length(self._owner))

    def check_batch(self, batch_size: int) -> None:
        """Raise ValueError if ``batch_size`` is not the one that the cache was made for."""
        expected = f"{self.batch_size}, the batch size of the cache"
        require(batch_size == self.batch_size, "the batch size", batch_size, expected)

    def begin(self, model: nn.Module) -> None:
        """Start a step of ``model``; raise ValueError if the cache is another's or its last step did not end."""
        if self._owner is not None and self._owner is not model:
            raise ValueError("the cache is one that another model has used; expected one for this model")
        if self._unfinished:
            raise ValueError(
                "the cache is one whose last step was interrupted, so that some layers have read more than others; "
                "expected a new one, or a clone() from before that step"
            )
        self._owner, self._unfinished = model, True

    def end(self, model: nn.Module, tokens: Tensor) -> None:
        """End the step of ``model``, which has read ``tokens``, ``[batch, seq]``."""
        self.advance(model, tokens.shape[1], tokens.device)
        self._unfinished = False

    # What a layer does within it

    def length(self, layer: nn.Module) -> int | Tensor:
        """The number of positions that ``layer`` has appended or counted: an int, or if static a tensor."""
        return self._length.get(layer, 0)

    def advance(self, layer: nn.Module, n: int, device: torch.device | None = None) -> int | Tensor:
        """Count ``n`` more positions of ``layer``; return how many there were before."""
        start = self.length(layer)
        static = self.max_seq_len is not None
        self._length[layer] = torch.as_tensor(start, device=device) + n if static else start + n
        return start

    def phase(self, layer: nn.Module, n: int, period: int) -> int:
        """Count ``n`` more positions modulo ``period``; return where in its period ``layer`` was before."""
        start = self._phase.get(layer, 0)
        self._phase[layer] = (start + n) % period
        return start

    def append(self, layer: nn.Module, *new: Tensor) -> list[Tensor]:
        """Append each ``[batch, heads, seq, channels]`` along ``seq``; return all positions so far.

        Those of a static cache are followed by zeros up to ``max_seq_len``.
        """
        self.check_batch(new[0].shape[0])
        start = self.advance(layer, new[0].shape[2], new[0].device)
        if self.max_seq_len is not None:
            return self._write(layer, new, start, self.max_seq_len)
        end = self._length[layer]
        assert isinstance(start, int) and isinstance(end, int), "only a static cache counts with tensors"  # noqa: PT018
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

    def _write(self, layer: nn.Module, new: Sequence[Tensor], start: int | Tensor, room: int) -> list[Tensor]:
        """Write into buffers of full size, from the place ``start`` on, which need not be known to the program."""
        places = start + torch.arange(new[0].shape[2], device=new[0].device)
        buffers = self._buffers.get(layer) or [x.new_zeros(*x.shape[:2], room, x.shape[3]) for x in new]
        self._buffers[layer] = [b.index_copy_(2, places, x.detach()) for b, x in zip(buffers, new, strict=True)]
        return buffers

    def with_past(self, layer: nn.Module, x: Tensor, n: int) -> Tensor:
        """Put the last ``n`` inputs of ``layer``, zeros at the start, before ``x``: ``[batch, n + seq, channels]``."""
        self.check_batch(x.shape[0])
        past = self._window.get(layer, x.new_zeros(x.shape[0], n, x.shape[2]))
        x = torch.cat([past, x], dim=1)  # (B, n + T, C)
        self._window[layer] = x[:, x.shape[1] - n :].detach().clone(memory_format=torch.contiguous_format)
        return x

    # What a search does between steps

    def clone(self) -> Cache:
        """A cache that goes on from here by itself; it belongs to the same model."""
        return self._copy(self.batch_size, torch.clone)

    def expand(self, n: int) -> Cache:
        """A cache for ``n`` continuations of each sequence, those of one sequence side by side.

        Raises:
            TypeError, ValueError: if ``n`` is not an int of at least 1.
        """
        require_int("n", n, at_least=1)
        return self._copy(self.batch_size * n, lambda x: x.repeat_interleave(n, dim=0))

    def reorder(self, rows: Tensor) -> Cache:
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
        if is_plain(rows):  # an empty cache has no tensor that would notice
            for row in rows.tolist():
                require(0 <= row < self.batch_size, "a row", row, f"0 to {self.batch_size - 1}", IndexError)
        return self._copy(len(rows), lambda x: x.index_select(0, rows.to(x.device)))

    def __deepcopy__(self, memo: object) -> Cache:
        return self.clone()  # a copy of the layers, which are the keys, would find nothing in it

    def _copy(self, batch_size: int, rows: Callable[[Tensor], Tensor]) -> Cache:
        new = Cache(batch_size, self.max_seq_len)
        new._owner, new._unfinished = self._owner, self._unfinished
        new._length, new._phase = dict(self._length), dict(self._phase)  # of numbers, which are never changed in place
        new._buffers = {layer: [rows(x) for x in tensors] for layer, tensors in self._buffers.items()}
        new._window = {layer: rows(x) for layer, x in self._window.items()}
        return new
