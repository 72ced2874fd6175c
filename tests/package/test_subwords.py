"""Byte pairs: they are what the rule says, give back every text, and are saved with a model."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

import pytest
import torch
from helpers import SIZES, TEXT
from hypothesis import given
from hypothesis import strategies as st

import efficient_transformers.training.corpus as corpora
from efficient_transformers import BytePairVocabulary, ByteVocabulary, load_corpus
from efficient_transformers.training.corpus import load_text
from efficient_transformers.training.evaluation import sizes_of
from efficient_transformers.training.runs import load, read_vocabulary
from efficient_transformers.training.vocabulary import whole_words

pytestmark = pytest.mark.slow

MADE = BytePairVocabulary.make([TEXT * 3 + "Grüße, Jürgen ❤\n" * 9], 300)
EVERYTHING = st.text() | st.text(" \n\r\tab'é☃_1")  # any characters, and those at which words end


@given(EVERYTHING)
def test_every_text_is_what_its_tokens_say(text):
    tokens = MADE.encode(text)
    assert MADE.decode(tokens) == text
    assert tokens.dtype == torch.int64
    assert sizes_of(tokens, MADE) == (len(text), len(text.encode()))


@given(EVERYTHING, st.integers(1, 9))
def test_a_text_in_pieces_that_end_where_words_do_has_the_same_tokens(text, size):
    pieces = list(whole_words(text[i : i + size] for i in range(0, len(text), size)))
    assert "".join(pieces) == text
    found = [token for piece in pieces for token in MADE.encode(piece).tolist()]
    assert found == MADE.encode(text).tolist()


def test_a_merge_that_gives_a_known_token_is_no_new_one():
    vocabulary = BytePairVocabulary([(97, 98), (256, 99), (98, 99), (97, 258)])
    assert vocabulary.pieces[256:] == (b"ab", b"abc", b"bc")
    assert len(vocabulary) == 259


def test_a_text_without_more_pairs_has_fewer_tokens():
    assert BytePairVocabulary.make(["ab ab"], 1000).pieces[256:] == (b"ab", b" ab")


@pytest.mark.parametrize(
    ("merges", "error", "message"),
    [
        ([(97, 256)], ValueError, r"a merge is \(97, 256\); expected tokens from 0 to 255, which are known by then"),
        ([(97,)], TypeError, r"a merge is \(97,\); expected two tokens"),
        ([("a", "b")], TypeError, "expected two tokens"),
    ],
)
def test_bad_merges_are_refused(merges, error, message):
    with pytest.raises(error, match=message):
        BytePairVocabulary(merges)


def test_bad_tokens_and_half_a_character_are_refused():
    with pytest.raises(ValueError, match=f"a token is 300; expected 0 to {len(MADE) - 1}, the vocabulary"):
        MADE.decode(torch.tensor([300]))
    with pytest.raises(ValueError, match="surrogates not allowed"):
        MADE.encode("a\ud800")
    with pytest.raises(ValueError, match="subwords is 256; expected an int of at least 257"):
        BytePairVocabulary.make([TEXT], 256)
    assert MADE.decode(MADE.encode("❤")[:1]) in ("\ufffd", "❤")


def test_a_vocabulary_is_its_merges():
    again = BytePairVocabulary(json.loads(json.dumps(MADE.described()))["merges"])
    assert again == MADE
    assert again.identity == MADE.identity
    assert torch.equal(again.encode(TEXT), MADE.encode(TEXT))
    fewer = BytePairVocabulary(MADE.merges[:-1])
    assert fewer != MADE
    assert fewer.identity != MADE.identity != ByteVocabulary().identity


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ModuleNotFoundError, match="tokenizers is not installed; expected it: pip install tokenizers"):
        BytePairVocabulary.make([TEXT], 300)
    vocabulary = BytePairVocabulary([(97, 98)])
    assert vocabulary.decode(torch.tensor([256, 99])) == "abc"
    with pytest.raises(ModuleNotFoundError, match="pip install tokenizers"):
        vocabulary.encode("abc")


# In a corpus


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("EFFICIENT_TRANSFORMERS_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fox.txt").write_text(TEXT + "Grüße ❤\r\n" * 30 + "zebras " * 40, newline="")
    return tmp_path


def test_a_file_is_cut_by_its_bytes_and_pairs_are_made_on_what_is_trained_on(place):
    content = (place / "fox.txt").read_bytes()
    corpus = load_corpus(place / "fox.txt", subwords=300)
    sides = [b"".join(corpus.vocabulary.pieces[t] for t in part.tolist()) for part in (corpus.train, corpus.validation)]
    assert b"".join(sides) == content
    assert len(sides[0]) <= len(content) * 9 // 10 < len(sides[0]) + 20
    seen = content[: len(content) * 9 // 10].decode(errors="ignore")
    assert corpus.vocabulary == BytePairVocabulary.make([seen], 300)
    assert not [piece for piece in corpus.vocabulary.pieces[256:] if b"zebra" in piece and b"zebra" not in sides[0]]
    again = load_corpus(place / "fox.txt", vocabulary=corpus.vocabulary)
    assert torch.equal(again.train.long(), corpus.train.long())
    assert torch.equal(again.validation.long(), corpus.validation.long())
    assert again.checksum() == corpus.checksum()
    assert torch.equal(
        load_text(place / "fox.txt", corpus.vocabulary).long(), torch.cat([again.train, again.validation])
    )


def test_the_plays_have_pairs_of_the_plays_to_train_on(monkeypatch):
    texts = [TEXT, "zebras " * 40, "Grüße ❤\n"]
    monkeypatch.setattr(corpora, "_shakespeare", lambda with_test: texts)
    corpus = load_corpus("shakespeare-with-test", subwords=280)
    assert corpus.vocabulary == BytePairVocabulary.make(texts[:1], 280)
    assert [corpus.vocabulary.decode(part) for part in (corpus.train, corpus.validation, corpus.test)] == texts


def test_what_does_not_go_together_is_refused(place):
    with pytest.raises(ValueError, match="subwords is 300; expected None with tokens, or with a vocabulary"):
        load_corpus("fox.txt", subwords=300, tokens="bytes")
    with pytest.raises(ValueError, match="tokens is 'bytes'; expected None: subwords, which the vocabulary is of"):
        load_corpus("fox.txt", tokens="bytes", vocabulary=MADE)
    with pytest.raises(ValueError, match="subwords is 256; expected an int of at least 257"):
        load_corpus("fox.txt", subwords=256)


# On the command line


def test_a_model_of_subwords_is_trained_saved_gone_on_with_and_scored(command, place, on_the_cpu):
    train = ["train", "primer-ez", "--corpus", "fox.txt", *SIZES, "--subwords", 300]
    code, out, err = command(*train, "--steps", 3, "--out", "model")
    assert (code, err) == (0, "")
    model, vocabulary = load(Path("model"))
    assert (model.vocab_size, vocabulary.unit) == (len(vocabulary), "subwords")
    assert set(json.loads(Path("model/vocabulary.json").read_text())) == {"tokens", "merges"}
    assert command("generate", "model", "--prompt", "né ☃", "--seed", 1, "--max-new-tokens", 5)[1].startswith("né ☃")
    code, out, err = command("evaluate", "model", "--corpus", "fox.txt")
    content = Path("fox.txt").read_bytes()
    tokens, characters, size = (int(n.replace(",", "")) for n in re.findall(r"(\S+) (?:tokens|characters|bytes)", out))
    encoded = vocabulary.encode(content.decode())
    assert tokens == len(encoded) - 1
    assert size == len(content) - len(vocabulary.pieces[encoded[0]])
    assert characters == len(content.decode()) - len(vocabulary.pieces[encoded[0]])
    nats, bits = map(float, re.search(r"(\S+) nats, (\S+) bits per byte", out).groups())
    assert bits == pytest.approx(nats / math.log(2), abs=1e-3)
    assert command("train", "--init", "model", "--corpus", "fox.txt", *SIZES[6:], "--steps", 2, "--out", "more")[0] == 0
    assert read_vocabulary(Path("more")) == vocabulary
    assert command("train", "--init", "model", "--corpus", "fox.txt", "--subwords", 300)[0] == 2
