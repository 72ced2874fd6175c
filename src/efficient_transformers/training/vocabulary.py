"""What a token is: a character, a byte, or a subword, made of bytes and of pairs that often stand side by side.

What is notable:
- of characters, a token is the place in the alphabet of its text; what is not in it is an error;
- of subwords, tokens 0 to 255 are the bytes, so that every text can be encoded, and is the same after decoding;
- their vocabulary is its list of merges, pairs of earlier tokens, and knows no library;
- a pair never spans two words, so that a text is encoded in pieces that end where a word does.

See :doc:`/book/your-own-text`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor

from ..support.checks import SHORT, require, require_instance, require_int

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["BytePairVocabulary", "ByteVocabulary", "Vocabulary"]

Unit = Literal["characters", "bytes"]
Kind = Literal["characters", "bytes", "subwords"]  # of a vocabulary: subwords are made of a text, and so have a number
POINTS = 0x110000  # of Unicode
WORD_ENDS = re.compile(r".*\w(?=[ \n])", re.DOTALL)  # as far as the last place where a word ends for certain
AT_ONCE = 2**16  # characters that are encoded together
# The character that the library writes for each byte, which is GPT-2's: what can be seen stands for itself.
SEEN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
UNSEEN = [byte for byte in range(256) if byte not in SEEN]
LETTERS = {byte: chr(byte) for byte in SEEN} | {byte: chr(256 + i) for i, byte in enumerate(UNSEEN)}
MOST = 2**20  # tokens; the library makes room for all before it reads a text


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
    unit: ClassVar[Kind] = "characters"

    def __post_init__(self) -> None:
        require(isinstance(self.characters, str), "characters", self.characters, "a string", TypeError)
        expected = "".join(sorted(set(self.characters)))
        require(self.characters == expected, "characters", self.characters, f"each once, sorted: {expected!r}")

    def __len__(self) -> int:
        return len(self.characters)

    @property
    def identity(self) -> str:
        """What tells this vocabulary from another, as text."""
        return self.characters

    def described(self) -> dict[str, Any]:
        """What a saved folder says of the vocabulary."""
        return {"characters": self.characters}

    def encode(self, text: str) -> Tensor:
        """The tokens of ``text``, int64 ``[seq]``: one for each character of it, byte or subword.

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

    unit: ClassVar[Kind] = "bytes"

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


def require_size(size: int) -> None:
    """Raise TypeError unless ``size`` is an int, and ValueError unless a vocabulary of byte pairs can have it."""
    require_int("subwords", size, at_least=257)
    require(size <= MOST, "subwords", size, f"at most {MOST:,}")


@dataclass(frozen=True, init=False)
class BytePairVocabulary(ByteVocabulary):
    """Bytes in UTF-8, and merges: each puts two tokens together, and is a token of its own if no other has its bytes.

    Words, with the space before them, are cut out first as GPT-2 does; merges are then applied to each in their order.

    Args:
        merges: pairs of tokens that are known by then, in the order in which they were found.

    Raises:
        TypeError: if they are not pairs of ints.
        ValueError: if a pair names a token that is not known yet.

    Source: Sennrich, Haddow and Birch, Neural Machine Translation of Rare Words with Subword Units, 2016; on bytes:
    Radford et al., Language Models are Unsupervised Multitask Learners, 2019, Section 2.2.
    """

    merges: tuple[tuple[int, int], ...]
    unit: ClassVar[Kind] = "subwords"

    def __init__(self, merges: Sequence[Sequence[int]]) -> None:
        super().__init__()
        for merge in merges:
            pair = isinstance(merge, list | tuple) and len(merge) == 2 and all(type(token) is int for token in merge)
            require(pair, "a merge", merge, "two tokens", TypeError)
        object.__setattr__(self, "merges", tuple((first, second) for first, second in merges))
        assert self.pieces  # which are made here, so that what is wrong is said at once

    @cached_property
    def pieces(self) -> tuple[bytes, ...]:
        """The bytes of each token."""
        made = {bytes([byte]): byte for byte in range(256)}  # in the order of the tokens
        pieces = list(made)
        for merge in self.merges:
            known = min(merge) >= 0 and max(merge) < len(pieces)
            require(known, "a merge", merge, f"tokens from 0 to {len(pieces) - 1}, which are known by then")
            both = pieces[merge[0]] + pieces[merge[1]]
            if made.setdefault(both, len(pieces)) == len(pieces):
                pieces.append(both)
        return tuple(pieces)

    @classmethod
    def make(cls, texts: Iterable[str], size: int) -> BytePairVocabulary:
        """The vocabulary of ``size`` tokens of a text: merges of the pair that is the most frequent, again and again.

        Args:
            texts: the text, in pieces that are cut where a word ends.
            size: tokens, the 256 bytes among them; fewer are made of a text that has no more pairs.

        Raises:
            ValueError: if ``size`` is less than 257, or more than ``MOST``.
            ModuleNotFoundError: if ``tokenizers`` is not installed.
        """
        require_size(size)
        library = _library()
        made = library.Tokenizer(library.models.BPE())
        made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = library.pre_tokenizers.ByteLevel.alphabet()
        trainer = library.trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
        made.train_from_iterator(texts, trainer)
        bytes_of = {letter: byte for byte, letter in LETTERS.items()}
        tokens = {bytes([byte]): byte for byte in range(256)}
        merges = []
        for pair in json.loads(made.to_str())["model"]["merges"]:
            first, second = (bytes(map(bytes_of.__getitem__, letters)) for letters in pair)
            merges.append((tokens[first], tokens[second]))
            tokens.setdefault(first + second, len(tokens))
        return cls(merges)

    @property
    def identity(self) -> str:
        """The merges as text, which tell this vocabulary from another."""
        return json.dumps(self.merges)

    def described(self) -> dict[str, Any]:
        """What a saved folder says of the vocabulary."""
        return {"tokens": "subwords", "merges": self.merges}

    def __len__(self) -> int:
        return len(self.pieces)

    def look_up(self, text: str) -> Tensor:
        """The tokens of ``text``, int32 ``[tokens]``.

        Raises:
            ValueError: for half of a surrogate pair, which is no text.
            ModuleNotFoundError: if ``tokenizers`` is not installed.
        """
        text.encode()  # what is no text is said here, by its place
        pieces = whole_words(text[i : i + AT_ONCE] for i in range(0, len(text), AT_ONCE))
        found = [torch.tensor(self.tokenizer.encode(piece).ids, dtype=torch.int32) for piece in pieces]
        return torch.cat(found) if found else torch.zeros(0, dtype=torch.int32)

    def decode(self, tokens: Tensor) -> str:
        """The text of ``[seq]`` tokens; what is not UTF-8, as at a cut, becomes U+FFFD. Errors as for characters."""
        require_tokens("tokens", tokens)
        for token in sorted(set(tokens.tolist())):
            require(0 <= token < len(self), "a token", token, f"0 to {len(self) - 1}, the vocabulary")
        return b"".join(self.pieces[token] for token in tokens.tolist()).decode(errors="replace")

    @cached_property
    def sizes(self) -> Tensor:
        """The characters that begin in each token, and its bytes, int64 ``[vocab, 2]``."""
        of_bytes = ByteVocabulary().sizes
        return torch.stack([of_bytes[list(piece)].sum(0) for piece in self.pieces])

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The library's."""
        library = _library()
        names = ["".join(LETTERS[byte] for byte in piece) for piece in self.pieces]
        merges = [(names[first], names[second]) for first, second in self.merges]
        made = library.Tokenizer(library.models.BPE({name: i for i, name in enumerate(names)}, merges))
        made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        return made


def _library() -> Any:
    """The package ``tokenizers``, whose Rust makes and applies merges."""
    try:
        import tokenizers  # heavy libraries are imported where they are used
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("tokenizers is not installed; expected it: pip install tokenizers") from error
    return tokenizers


def whole_words(pieces: Iterable[str]) -> Iterator[str]:
    """The same text in pieces that end where a word does: before a space or a line end that a letter stands before."""
    kept = ""
    for piece in pieces:
        kept += piece
        if found := WORD_ENDS.match(kept):
            yield found.group()
            kept = kept[found.end() :]
    if kept:
        yield kept
