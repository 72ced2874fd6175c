"""Text as subwords: bytes, and pairs of tokens that often stand side by side, made into tokens of their own.

What is notable:
- tokens 0 to 255 are the bytes, so that every text can be encoded, and is the same after decoding;
- a vocabulary is its list of merges, pairs of earlier tokens, and knows no library;
- a pair never spans two words, so that a text may be cut where a word ends, and its tokens stay what they were.

See :doc:`/book/scaling-out`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from ..checks import require, require_int
from .tokens import ByteVocabulary, Kind, require_tokens, whole_words

if TYPE_CHECKING:
    from tokenizers import Tokenizer

AT_ONCE = 2**16  # characters that are encoded together
# The character that the library writes for each byte, which is GPT-2's: what can be seen stands for itself.
SEEN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
UNSEEN = [byte for byte in range(256) if byte not in SEEN]
LETTERS = {byte: chr(byte) for byte in SEEN} | {byte: chr(256 + i) for i, byte in enumerate(UNSEEN)}


MOST = 2**20  # tokens; the library makes room for all before it reads a text


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

    def look_up(self, text: str, first_line: int = 1) -> Tensor:
        """The tokens of a piece of text that ends where a word does, int32 ``[tokens]``; the line does not matter.

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


def beginning(pieces: Iterable[str], size: int) -> Iterator[str]:
    """The first ``size`` bytes of a text in pieces, less what is left of a character that is cut."""
    for piece in pieces:
        held = piece.encode()[:size]
        yield held.decode(errors="ignore")
        size -= len(held)
        if size <= 0:
            return
