"""What a family of models declares, so that :func:`build_model` can make one: its options, and its layers.

What is notable:
- the fields of a family are its options, with their types and defaults; making one checks them;
- a further family is one more module that declares one, and one more entry in ``models.FAMILIES``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor, nn

from ..support.checks import require_int, require_probability
from .cache import Cache


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes that all families have, as :func:`build_model` explains them.

    Raises:
        TypeError: for a size that is not an int.
        ValueError: for one below 1, or a dropout that is not a probability.
    """

    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int
    max_seq_len: int
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("d_model", "n_layers", "n_heads", "d_ff", "max_seq_len"):
            require_int(name, getattr(self, name), at_least=1)
        require_probability("dropout", self.dropout)


@dataclass(frozen=True, kw_only=True)
class Family(ABC):
    """A family of models; a subclass adds its options as fields, and says how a layer is made."""

    default_layers: ClassVar[int] = 4
    reads_beyond_training: ClassVar[bool] = True
    """Whether a model can read more tokens than it was trained on; false where each position is learned by itself."""

    def settle(self, n_layers: int | None) -> tuple[Self, int]:
        """The family with its open options settled, and its number of layers, ``n_layers`` unless that is None."""
        return self, self.default_layers if n_layers is None else n_layers

    @abstractmethod
    def make_layer(self, sizes: Sizes) -> nn.Module:
        """One layer, ``[batch, seq, d_model]`` to the same shape, called with ``(x, cache)``."""

    def make_body(self, sizes: Sizes) -> nn.Module:
        """All layers, ``[batch, seq, d_model]`` to the same shape, called with ``(x, cache)``."""
        return Stack([self.make_layer(sizes) for _ in range(sizes.n_layers)])


def parameter_count(*modules: nn.Module) -> int:
    """The parameters of some modules, in numbers."""
    return sum(p.numel() for module in modules for p in module.parameters())


class Stack(nn.ModuleList):
    """Layers one after the other, each called with ``(x, cache)``."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        for layer in self:
            x = layer(x, cache)
        return x
