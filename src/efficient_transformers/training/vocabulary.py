"""What a token is: a character, or a byte.

What is notable:
- of characters, a token is the place in the alphabet of its text; what is not in it is an error;
- of bytes there are 256, so that every text can be encoded.

See :doc:`/book/your-own-text`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ..support.checks import SHORT, require, require_instance

__all__ = ["ByteVocabulary", "Vocabulary"]

Unit = Literal["characters", "bytes"]
POINTS = 0x110000  # of Unicode


@dataclass(frozen=True)
class Vocabulary:
    """The characters of a corpus in code-point order; a character's token is its place.

    Args:
        characters: each character once, sorted.

    Raises:
        TypeError: if they are not a string.
        ValueError: if one stands twice, or they are not sorted.
    """

    characters: str
    unit: ClassVar[Unit] = "characters"

    def __post_init__(self) -> None:
        require(isinstance(self.characters, str), "characters", self.characters, "a string", TypeError)
        expected = "".join(sorted(set(self.characters)))
        require(self.characters == expected, "characters", self.characters, f"each once, sorted: {expected!r}")

    def __len__(self) -> int:
        return len(self.characters)

    def described(self) -> dict[str, Any]:
        """What a saved folder says of the vocabulary."""
        return {"characters": self.characters}

    def encode(self, text: str) -> Tensor:
        """The tokens of ``text``, int64 ``[seq]``: one for each character of it, or byte.

        Raises:
            TypeError: if it is not a string.
            ValueError: for a character that is not in the vocabulary, with the line it stands in.
        """
        require_instance("text", text, str)
        return self.look_up(text).long()

    def look_up(self, text: str) -> Tensor:
        """The tokens of ``text``, int32 ``[len(text)]``."""
        tokens = self.table[points(text)]
        if tokens.numel() and int(tokens.min()) < 0:
            place = int((tokens < 0).nonzero()[0])
            line = 1 + text.count("\n", 0, place)
            known = f"one of the vocabulary's {len(self)}: {SHORT.repr(self.characters)}"
            raise ValueError(f"a character is {text[place]!r}, in line {line}; expected {known}")
        return tokens

    def decode(self, tokens: Tensor) -> str:
        """The text of ``[seq]`` tokens.

        Raises:
            TypeError: if they are not a tensor of integers.
            ValueError: if they have another shape, or one is outside the vocabulary.
        """
        require_tokens("tokens", tokens)
        for token in sorted(set(tokens.tolist())):
            require(0 <= token < len(self), "a token", token, f"0 to {len(self) - 1}, the vocabulary")
        return "".join(self.characters[i] for i in tokens.tolist())

    @cached_property
    def sizes(self) -> Tensor:
        """The characters that begin in each token, and its UTF-8 bytes, int64 ``[vocab, 2]``."""
        return torch.tensor([[1, len(character.encode())] for character in self.characters])

    @cached_property
    def table(self) -> Tensor:
        """For each code point its token, int32; -1 for a character that the vocabulary lacks."""
        table = torch.full((POINTS,), -1, dtype=torch.int32)
        table[points(self.characters)] = torch.arange(len(self), dtype=torch.int32)
        return table


class ByteVocabulary(Vocabulary):
    """All 256 bytes; text stands in UTF-8, so that every text can be encoded, one character in up to four tokens."""

    unit: ClassVar[Unit] = "bytes"

    def __init__(self) -> None:
        super().__init__("".join(map(chr, range(256))))

    def described(self) -> dict[str, Any]:
        """What a saved folder says of the vocabulary."""
        return {"tokens": "bytes"}

    def look_up(self, text: str) -> Tensor:
        """The UTF-8 bytes of ``text``, int32 ``[bytes]``."""
        found = bytearray(text.encode())
        return torch.frombuffer(found, dtype=torch.uint8).int() if found else torch.zeros(0, dtype=torch.int32)

    def decode(self, tokens: Tensor) -> str:
        """The text of ``[seq]`` bytes; what is not UTF-8, as at a cut, becomes U+FFFD. Errors as for characters."""
        require_tokens("tokens", tokens)
        for token in sorted(set(tokens.tolist())):
            require(0 <= token < 256, "a token", token, "0 to 255, a byte")
        return bytes(tokens.tolist()).decode(errors="replace")

    @cached_property
    def sizes(self) -> Tensor:
        """The characters that begin in each byte, and 1, int64 ``[256, 2]``."""
        return torch.tensor([[int(not 0x80 <= byte < 0xC0), 1] for byte in range(256)])


def require_tokens(argument: str, value: Any) -> None:
    """Raise TypeError unless ``value`` is a tensor of integers, and ValueError unless it is ``[length]``."""
    require_instance(argument, value, Tensor)
    integers = not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)
    require(integers, f"{argument}.dtype", value.dtype, "a type of integers", TypeError)
    require(value.dim() == 1, f"{argument}.shape", tuple(value.shape), "[length]")


def points(text: str) -> Tensor:
    """The code points of ``text``, int64 ``[len(text)]``."""
    if not text:
        return torch.zeros(0, dtype=torch.int64)
    return torch.frombuffer(bytearray(text.encode("utf-32-le", "surrogatepass")), dtype=torch.int32).long()
