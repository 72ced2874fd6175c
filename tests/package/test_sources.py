"""Source code as a text: the packages and files that it is of, what is left out, and what is refused."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

import pytest
import torch

import efficient_transformers.training.sources as sources
from efficient_transformers import load_corpus
from efficient_transformers.training.evaluation import sizes_of

pytestmark = pytest.mark.slow


def is_installed(name, version):
    try:
        return distribution(name).version == version
    except PackageNotFoundError:
        return False


ALL = {name: version for packages in sources.PACKAGES.values() for name, version in packages.items()}
installed = pytest.mark.skipif(
    not all(is_installed(*package) for package in ALL.items()), reason="needs the packages of the extra [size]"
)


@installed
def test_the_text_is_the_one_that_is_declared_and_is_written_once(tmp_path, monkeypatch):
    paths = sources.source_code(tmp_path)
    for part, path in paths.items():
        assert sources.digest(path.read_bytes()) == sources.SHA256[part]
    monkeypatch.setattr(sources, "sources", None)  # the packages may go
    assert sources.source_code(tmp_path) == paths
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".saving")] == []


class Package:
    def __init__(self, folder, version):
        self.version, self.files = version, [File(folder, path) for path in folder.rglob("*.py")]


class File:
    def __init__(self, folder, path):
        self.folder, self.path, self.suffix = folder, path, path.suffix

    def as_posix(self):
        return self.path.relative_to(self.folder).as_posix()

    def locate(self):
        return self.path


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Three packages of a few lines, their checksums, and a folder for data."""
    monkeypatch.setenv("EFFICIENT_TRANSFORMERS_DATA", str(tmp_path / "data"))
    packages = {}
    for number, (part, name) in enumerate((("train", "one"), ("validation", "two"), ("test", "three"))):
        folder = tmp_path / name / name
        (folder / "tests").mkdir(parents=True)
        (folder / "__init__.py").write_text("made by a build")
        (folder / "tests" / "test_it.py").write_text("a test")
        for letter in "ba":
            (folder / f"{letter}.py").write_bytes(
                f"{letter} = {number}  # é\r\n".encode() * (60 if part == "train" else 9)
            )
        packages[name] = Package(tmp_path / name, "1.0")
        monkeypatch.setitem(sources.PACKAGES, part, {name: "1.0"})
        times = 60 if part == "train" else 9
        text = f"a = {number}  # é\n" * times + "\n" + f"b = {number}  # é\n" * times
        monkeypatch.setitem(sources.SHA256, part, sources.digest(text.encode()))

    def find(name):
        if name not in packages:
            raise PackageNotFoundError(name)
        return packages[name]

    monkeypatch.setattr(sources, "distribution", find)
    return packages


def test_a_part_is_its_files_in_order_whatever_ends_their_lines(small):
    corpus = load_corpus("source-code")
    assert corpus.vocabulary.decode(corpus.test) == "a = 2  # é\n" * 9 + "\n" + "b = 2  # é\n" * 9
    as_bytes = load_corpus("source-code", tokens="bytes")
    assert as_bytes.vocabulary.decode(as_bytes.train).startswith("a = 0  # é\na = 0")


def test_pairs_are_made_on_what_is_trained_on_and_kept(small, monkeypatch):
    corpus = load_corpus("source-code", subwords=270)
    plain = load_corpus("source-code", tokens="bytes")
    for part in ("train", "validation", "test"):
        tokens, as_bytes = getattr(corpus, part), getattr(plain, part)
        assert sizes_of(tokens, corpus.vocabulary) == sizes_of(as_bytes, plain.vocabulary)
    monkeypatch.setattr(sources.BytePairVocabulary, "make", None)
    again = load_corpus("source-code", subwords=270)
    assert again.vocabulary == corpus.vocabulary
    assert torch.equal(again.train, corpus.train)
    monkeypatch.setitem(sources.SUBWORDS, 270, "1234")
    with pytest.raises(
        ValueError, match=r"the sha256 of the 270 subwords in .* is '\w+'; expected 1234, of tokenizers"
    ):
        load_corpus("source-code", subwords=270)


def test_another_version_is_one_sentence_that_says_what_to_install(small):
    small["two"].version = "1.1"
    with pytest.raises(
        ModuleNotFoundError, match=r"two is '1.1'; expected version 1.0: pip install --no-deps two==1.0"
    ):
        load_corpus("source-code")
    small["two"].version = "1.0"
    del small["three"]
    with pytest.raises(ModuleNotFoundError, match=r"three is None; expected version 1.0"):
        load_corpus("source-code")


def test_another_text_is_refused(small, monkeypatch):
    monkeypatch.setitem(sources.SHA256, "train", "1234")
    with pytest.raises(ValueError, match=r"the sha256 of one is '\w+'; expected 1234"):
        load_corpus("source-code")


def test_a_text_that_was_damaged_is_written_again(small, tmp_path):
    path = tmp_path / "data" / "source-code-test.txt"
    load_corpus("source-code")
    whole = path.read_bytes()
    path.write_bytes(whole[:5])
    load_corpus("source-code")
    assert path.read_bytes() == whole
