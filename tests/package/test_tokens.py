"""Text that outgrows memory: encoded once, mapped, never loaded; and the two texts of Wikipedia."""

import hashlib
import json
import math
import os
import subprocess
import sys
import time
import zipfile

import pytest
import torch

import efficient_transformers.training.corpus as corpora
import efficient_transformers.training.mapped as mapping
from efficient_transformers import ByteVocabulary, Vocabulary, load_corpus
from efficient_transformers.support.files import PARTIAL
from efficient_transformers.training.corpus import load_text

pytestmark = pytest.mark.slow

TEXT = "Grüße, Jürgen ❤\nthe quick brown fox. " * 50


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder for texts and one for data; every file is large, and pieces are small."""
    monkeypatch.setenv("EFFICIENT_TRANSFORMERS_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(corpora, "MAPPED_FROM", 1)
    monkeypatch.setattr(mapping, "PIECE", 7)
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


@pytest.fixture
def encoded(monkeypatch):
    """How often a text was encoded."""
    calls, original = [], mapping.write_tokens
    monkeypatch.setattr(mapping, "write_tokens", lambda *a: (calls.append(a), original(*a))[1])
    return calls


@pytest.mark.parametrize("unit", ["characters", "bytes"])
def test_a_mapped_text_is_the_text(place, monkeypatch, unit):
    mapped = load_corpus(place / "text.txt", tokens=unit)
    monkeypatch.setattr(corpora, "MAPPED_FROM", 2**24)
    loaded = load_corpus(place / "text.txt", tokens=unit)
    assert mapped.vocabulary == loaded.vocabulary
    assert mapped.train.dtype == torch.uint8
    assert torch.equal(mapped.train.long(), loaded.train)
    assert torch.equal(mapped.validation.long(), loaded.validation)
    assert mapped.vocabulary.decode(torch.cat([mapped.train, mapped.validation])) == TEXT
    assert mapped.checksum() == loaded.checksum()
    batches = [corpus.batch(3, 16, torch.Generator().manual_seed(1)) for corpus in (mapped, loaded)]
    assert all(map(torch.equal, *batches))
    assert batches[0][0].dtype == torch.int64


def test_a_text_is_encoded_once(place, encoded):
    first, second = load_corpus(place / "text.txt"), load_corpus(place / "text.txt")
    assert len(encoded) == 1
    assert torch.equal(first.train, second.train)
    (about,) = (place / "data" / "tokens").glob("*.json")
    known = json.loads(about.read_text())
    assert known["sha256"] == hashlib.sha256(TEXT.encode()).hexdigest()
    assert known["length"] == len(TEXT)
    load_corpus(place / "text.txt", tokens="bytes")
    assert len(encoded) == 2


def test_a_text_that_changed_is_encoded_again(place, encoded):
    before = load_corpus(place / "text.txt")
    (place / "text.txt").write_text(TEXT.upper())
    after = load_corpus(place / "text.txt")
    assert len(encoded) == 2
    assert after.vocabulary.decode(after.train[:10]) == TEXT.upper()[:10]
    assert before.vocabulary.decode(before.train[:10]) == TEXT[:10]  # what is mapped stays as it was
    assert len(list((place / "data" / "tokens").iterdir())) == 3  # tokens, what is known of them, the lock


DAMAGES = {
    "cut": lambda file: os.truncate(file, 10),
    "gone": lambda file: file.unlink(),
    "a bit": lambda file: file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:]),
    "what is known of them": lambda file: file.with_suffix(".json").write_text("{"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_tokens_are_made_again(place, encoded, damage):
    load_corpus(place / "text.txt")
    (file,) = (place / "data" / "tokens").glob("*.tokens")
    DAMAGES[damage](file)
    corpus = load_corpus(place / "text.txt")
    assert len(encoded) == 2
    assert corpus.vocabulary.decode(corpus.train) == TEXT[: len(TEXT) * 9 // 10]


def test_an_interrupted_encoding_leaves_nothing_that_is_taken_for_tokens(place, monkeypatch):
    def interrupted(path, unit):
        yield "half"
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(mapping, "text_pieces", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load_corpus(place / "text.txt", tokens="bytes")
    assert [path.name for path in (place / "data" / "tokens").iterdir()] == [".lock"]


def test_many_characters_have_wider_tokens(place):
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 300))) * 2
    (place / "text.txt").write_text(text)
    corpus = load_corpus(place / "text.txt")
    assert corpus.train.dtype == torch.int16
    assert corpus.vocabulary.decode(torch.cat([corpus.train, corpus.validation])) == text


def test_a_given_vocabulary_encodes_and_an_unknown_character_is_named_with_its_line(place):
    vocabulary = Vocabulary("".join(sorted(set(TEXT + "xyzß"))))
    assert load_corpus(place / "text.txt", vocabulary=vocabulary).vocabulary == vocabulary
    assert vocabulary.decode(load_text(place / "text.txt", vocabulary)) == TEXT
    before = list((place / "data" / "tokens").glob("*"))
    (place / "text.txt").write_text("the fox\n" * 30 + "the é")
    message = r"text\.txt: a character is 'é', in line 31; expected one of the vocabulary's"
    with pytest.raises(ValueError, match=message):
        load_corpus(place / "text.txt", vocabulary=vocabulary)
    assert list((place / "data" / "tokens").glob("*")) == before


def test_a_vocabulary_of_another_unit_than_the_tokens_is_refused(place):
    characters = load_corpus(place / "text.txt").vocabulary
    with pytest.raises(ValueError, match="tokens is 'bytes'; expected 'characters', which the vocabulary is of"):
        load_corpus(place / "text.txt", tokens="bytes", vocabulary=characters)
    with pytest.raises(ValueError, match="tokens is 'characters'; expected 'bytes', which the vocabulary is of"):
        load_corpus(place / "text.txt", tokens="characters", vocabulary=ByteVocabulary())
    with pytest.raises(ValueError, match="the corpus is 'enwik8'; expected a text of characters"):
        load_corpus("enwik8", vocabulary=characters)
    with pytest.raises(ValueError, match="tokens is 'characters'; expected 'bytes', for 'enwik8'"):
        load_corpus("enwik8", tokens="characters")


@pytest.mark.parametrize("mapped_from", [1, 2**24])
def test_a_model_of_bytes_reads_the_bytes_of_the_file_and_one_of_characters_lines(place, monkeypatch, mapped_from):
    monkeypatch.setattr(corpora, "MAPPED_FROM", mapped_from)
    written = b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode()
    (place / "text.txt").write_bytes(written)
    for given in ({"tokens": "bytes"}, {"vocabulary": ByteVocabulary()}):
        corpus = load_corpus(place / "text.txt", **given)
        assert bytes(torch.cat([corpus.train, corpus.validation]).tolist()) == written
    if mapped_from == 1:
        (about,) = (place / "data" / "tokens").glob("*.json")
        assert json.loads(about.read_text())["sha256"] == hashlib.sha256(written).hexdigest()
    corpus = load_corpus(place / "text.txt")
    assert corpus.vocabulary.decode(torch.cat([corpus.train, corpus.validation])) == TEXT


def test_a_large_file_that_is_not_utf8_is_refused(place):
    (place / "text.txt").write_bytes("naïve".encode("latin-1") * 9)
    with pytest.raises(ValueError, match=r"text\.txt.*UTF-8"):
        load_corpus(place / "text.txt")


def test_bytes_encode_every_text():
    vocabulary = ByteVocabulary()
    assert len(vocabulary) == 256
    assert vocabulary.decode(vocabulary.encode("日本 ß")) == "日本 ß"
    assert vocabulary.decode(vocabulary.encode("日")[:2]) == "\ufffd"
    with pytest.raises(ValueError, match="a token is 256; expected 0 to 255"):
        vocabulary.decode(torch.tensor([256]))


# Wikipedia


@pytest.fixture
def wikipedia(place, monkeypatch):
    """A text of eight thousand bytes in place of the archives; and what was downloaded."""
    text = place / "short"
    text.write_bytes(b"abc xyz " * 1000)
    archive = place / "archive.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for name in ("enwik8", "text8"):
            opened.write(text, name)
    md5 = hashlib.md5(text.read_bytes()).hexdigest()
    (place / "data").mkdir()
    downloads = []
    monkeypatch.setattr(corpora, "_download", lambda url, sha256, file: (downloads.append((url, file)), archive)[1])
    known = {name: (url, sha256, md5) for name, (url, sha256, _) in corpora.WIKIPEDIA.items()}
    monkeypatch.setattr(corpora, "WIKIPEDIA", known)
    return downloads


def test_wikipedia_is_split_in_the_usual_way_and_downloaded_once(wikipedia, place):
    for _ in range(2):
        enwik8, text8 = load_corpus("enwik8"), load_corpus("text8")
        for corpus in (enwik8, text8):
            sizes = [len(part) for part in (corpus.train, corpus.validation, corpus.test)]
            assert sizes == [7200, 400, 400]
        assert enwik8.vocabulary == ByteVocabulary()
        assert text8.vocabulary.characters == " abcxyz"
        assert text8.vocabulary.decode(text8.test[:8]) == "abc xyz "
    (place / "data" / f"{PARTIAL}enwik8-x").write_bytes(b"half")  # of a process that was killed
    (place / "data" / "enwik8").unlink()
    load_corpus("enwik8")
    assert {path.name for path in (place / "data").iterdir()} == {"enwik8", "text8", "tokens", ".lock"}
    assert wikipedia.pop() == wikipedia[0]
    assert wikipedia == [
        ("http://mattmahoney.net/dc/enwik8.zip", "enwik8.zip"),
        ("http://mattmahoney.net/dc/text8.zip", "text8.zip"),
    ]
    (place / "data" / "text8").write_text("another text")
    with pytest.raises(ValueError, match=r"the md5 of .*text8 is"):
        load_corpus("text8")


# Memory and time

MEASURE = """
import sys, threading, time
from pathlib import Path

most, stop = 0, threading.Event()

def watch():
    global most
    while not stop.wait(0.01):
        lines = Path("/proc/self/status").read_text().splitlines()
        most = max(most, next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1000)  # MB

import torch
torch.set_num_threads(1)
from efficient_transformers import TrainingConfig, build_model, load_corpus, train
tiny = lambda vocabulary: build_model("primer-ez", vocab_size=len(vocabulary), d_model=8, n_layers=1, n_heads=2)
config = TrainingConfig(steps=3, batch_size=4, seq_len=64, eval_every=3, eval_batches=2)
small = load_corpus(sys.argv[2])
train(tiny(small.vocabulary), small, config, show_progress=False)  # what training takes without the data
watcher = threading.Thread(target=watch)
watcher.start()
time.sleep(0.1)
before, started = most, time.perf_counter()
corpus = load_corpus(sys.argv[1])
seconds = time.perf_counter() - started
train(tiny(corpus.vocabulary), corpus, config, show_progress=False)
stop.set()
watcher.join()
print(most - before, seconds, len(corpus.train))
"""


def measured(large, small, data):
    """MB of memory of its own for data, seconds to the first batch, characters to train on."""
    environment = {**os.environ, "EFFICIENT_TRANSFORMERS_DATA": str(data), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-c", MEASURE, str(large), str(small)]
    result = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return [float(number) for number in result.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="RssAnon is Linux's")
def test_a_large_text_takes_little_memory_and_starts_at_once_the_second_time(tmp_path):
    large, small = tmp_path / "large.txt", tmp_path / "small.txt"
    small.write_text(TEXT)
    line = "the quick brown fox jumps over the lazy dog, Jürgen\n"
    size = 0
    with large.open("w", encoding="utf-8") as file:
        while size < 100_000_000:
            size += file.write(line * 100_000)
    begun = time.perf_counter()
    first = measured(large, small, tmp_path / "data")
    lasted = time.perf_counter() - begun
    second = measured(large, small, tmp_path / "data")
    for memory, _, characters in (first, second):
        assert memory < 100
        assert characters == math.floor(0.9 * size)
    assert second[1] < 2
    assert second[1] < first[1] < lasted
