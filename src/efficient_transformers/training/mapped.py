"""Text that outgrows memory: encoded once, in pieces, into a file of tokens that is mapped and never loaded.

What is notable:
- what stands beside the file of tokens says what text it was made from, so that the second start does not read it;
- at each start tokens are compared with their CRC-32, 0.03 s for 100 MB: damaged ones are made again;
- the pages of a mapped file belong to the system, which drops them when memory is needed.

See :doc:`/book/scaling-out`.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from ..support.checks import require
from ..support.files import locked, remove_partial, replacing, shortened, write_text
from .vocabulary import POINTS, ByteVocabulary, Kind, Unit, Vocabulary, points, whole_words

__all__ = ["MappedText", "data_folder", "map_text"]

DATA_VARIABLE = "EFFICIENT_TRANSFORMERS_DATA"  # a folder that is looked in before anything is downloaded
PIECE = 2**20  # characters or bytes that are encoded at once


@dataclass(frozen=True)
class MappedText:
    """A text as tokens in a mapped file: integers ``[length]``, and what they stand for."""

    tokens: Tensor
    vocabulary: Vocabulary


def map_text(path: Path, unit: Kind = "characters", vocabulary: Vocabulary | None = None) -> MappedText:
    """Encode a UTF-8 file of any size, unless that was done before, and map its tokens.

    The tokens go to the folder ``tokens`` of the data folder, which :func:`data_folder` names, with a JSON file that
    holds the size, the date and the SHA-256 of the text, and the CRC-32 of the tokens. A text of the same size and date
    is not read again; its tokens are, once, and damaged ones are made again.

    Args:
        path: the text.
        unit: what a token is; bytes need no vocabulary.
        vocabulary: of the characters; None makes one of those that occur. That of subwords is needed.

    Raises:
        ValueError: if the vocabulary is missing or not of that unit, the file is not UTF-8, or it holds a character
            that the vocabulary lacks.
        OSError: if it cannot be read, or the tokens cannot be written.
    """
    require_unit(unit, vocabulary)
    require(unit != "subwords" or vocabulary is not None, "vocabulary", vocabulary, "that of the subwords")
    path, status = path.resolve(), path.stat()
    vocabulary = ByteVocabulary() if unit == "bytes" else vocabulary
    given = None if vocabulary is None else vocabulary.identity
    folder = data_folder() / "tokens"
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(repr((str(path), unit, given)).encode("utf-8", "surrogatepass")).hexdigest()
    tokens, about = (folder / f"{shortened(path.stem, 80)}-{digest[:16]}.{kind}" for kind in ("tokens", "json"))
    made_from = {"text": str(path), "bytes": status.st_size, "date": status.st_mtime_ns, "unit": unit}
    with locked(folder / ".lock"):  # processes that start together encode once
        known = read_about(about, tokens)
        if known is None or any(known[key] != value for key, value in made_from.items()):
            remove_partial(folder)
            known = {**made_from, **write_tokens(path, tokens, unit, vocabulary)}
            write_text(about, json.dumps(known))
    if vocabulary is None:
        vocabulary = Vocabulary(str(known["characters"]))
    dtype = getattr(torch, str(known["dtype"]))
    return MappedText(torch.from_file(str(tokens), size=int(str(known["length"])), dtype=dtype), vocabulary)


def require_unit(unit: Kind, vocabulary: Vocabulary | None) -> None:
    """Raise ValueError if a vocabulary is given, and its tokens are not what ``unit`` says."""
    if vocabulary is not None:
        known = repr(vocabulary.unit) if vocabulary.unit in get_args(Unit) else "None: subwords"
        require(vocabulary.unit == unit, "tokens", unit, f"{known}, which the vocabulary is of")


def read_about(about: Path, tokens: Path) -> dict[str, object] | None:
    """What stands beside a file of tokens, if both are whole."""
    try:
        known = json.loads(about.read_text(encoding="utf-8"))
        size = known["length"] * getattr(torch, known["dtype"]).itemsize
        whole = tokens.stat().st_size == size and crc32_of(tokens) == known["crc32"]
        return known if whole and {"text", "bytes", "date", "unit"} <= set(known) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def crc32_of(file: Path) -> int:
    """The CRC-32 of a file, which finds what a disk or a copy damages, and costs half of what a SHA-256 does."""
    found = 0
    with file.open("rb") as opened:
        while piece := opened.read(PIECE):
            found = zlib.crc32(piece, found)
    return found


def write_tokens(path: Path, tokens: Path, unit: Kind, vocabulary: Vocabulary | None) -> dict[str, object]:
    """Encode the text into a file, piece by piece, and say what is in it."""
    if vocabulary is None:
        seen = torch.zeros(POINTS, dtype=torch.bool)
        for piece in text_pieces(path, unit):
            seen[points(piece)] = True
        vocabulary = Vocabulary("".join(map(chr, seen.nonzero().flatten().tolist())))
    size = len(vocabulary)
    dtype = torch.uint8 if size <= 2**8 else torch.int16 if size <= 2**15 else torch.int32
    length, line = 0, 1
    with path.open("rb") as text:
        digest = hashlib.file_digest(text, "sha256")
    with replacing(tokens) as temporary, temporary.open("wb") as file:
        for piece in text_pieces(path, unit):
            try:
                found = vocabulary.look_up(piece, line)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error
            length += len(found)
            line += piece.count("\n")
            file.write(found.to(dtype).numpy().tobytes())
    characters = vocabulary.characters if unit == "characters" else ""
    name = str(dtype).removeprefix("torch.")
    made = {"length": length, "dtype": name, "crc32": crc32_of(tokens), "characters": characters}
    return {**made, "sha256": digest.hexdigest()}


def text_pieces(path: Path, unit: Kind) -> Iterator[str]:
    """A UTF-8 file in pieces, those of subwords cut where a word ends.

    To bytes and subwords nothing is changed. As characters, a byte-order mark at the start is none of them, and a line
    ends in one, ``\\n``, whatever the system that it was written on.

    Raises:
        ValueError: if it is not UTF-8.
    """
    try:
        encoding, newline = ("utf-8-sig", None) if unit == "characters" else ("utf-8", "")
        with path.open(encoding=encoding, newline=newline) as file:
            pieces = iter(lambda: file.read(PIECE), "")
            yield from whole_words(pieces) if unit == "subwords" else pieces
    except UnicodeDecodeError as error:
        raise ValueError(f"the corpus is {str(path)!r}; expected UTF-8 text, but {error}") from error


def data_folder() -> Path:
    """Where downloads and tokens go: the folder in ``EFFICIENT_TRANSFORMERS_DATA``, or the user's folder for caches."""
    if folder := os.environ.get(DATA_VARIABLE):
        return Path(folder)
    import pooch  # heavy libraries are imported where they are used

    return Path(pooch.os_cache("efficient-transformers"))
