"""Saving and loading: a folder restores the exact model, and a folder that cannot says why."""

import os
import random
import time
from pathlib import Path

import pytest
import torch
from helpers import TEXT, edit_config
from safetensors.torch import save_file

from efficient_transformers import (
    ByteVocabulary,
    LanguageModel,
    Stack,
    Vocabulary,
    build_model,
    load,
    model_names,
    save,
)
from efficient_transformers.training.runs import trained_at

SIZES = {"vocab_size": 9, "d_model": 8, "n_layers": 2, "n_heads": 2, "d_ff": 12, "max_seq_len": 20, "dropout": 0.25}
OPTIONS = {
    "primer-ez": {
        "activation": "swiglu",
        "convolve": "qv",
        "kernel_size": 5,
        "sharing": "none",
        "dilation": 2,
        "bias": True,
        "init": "random",
    },
    "primer": {"kernel_size": 2, "sharing": "all"},
    "hourglass": {
        "hierarchy": "1@1 0@2 1@1",
        "shortening": "attention",
        "up_sampling": "attention",
        "pooling": "linear",
        "expansion": "linear",
        "layer": "primer-ez",
    },
    "gmlp": {"gate": "linear", "weight": "toeplitz", "fft": True, "d_attention": 5, "positions": True},
    "amlp": {"gate": "additive"},
    "transformer": {"rotary": False},
}

every_model = pytest.mark.parametrize("name", model_names())


def some_model(name="transformer"):
    model = build_model(name, **SIZES, **OPTIONS.get(name, {}))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p))
    return model


@pytest.fixture
def saved(tmp_path):
    """A folder with a small model."""
    some_model().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@every_model
def test_a_folder_restores_the_exact_model(tmp_path, name):
    model = some_model(name)
    model.save_pretrained(str(tmp_path / "model"))
    torch.manual_seed(99)  # nothing may be left to chance
    restored = LanguageModel.from_pretrained(tmp_path / "model")
    assert type(restored) is LanguageModel
    assert str(restored) == str(model)
    assert restored.config == model.config
    expected, state = model.state_dict(), restored.state_dict()
    assert state.keys() == expected.keys()
    for key, value in expected.items():
        assert state[key].dtype == value.dtype
        assert torch.equal(state[key], value)
    tokens = torch.randint(9, (3, 20))
    assert torch.equal(restored(tokens), model.eval()(tokens))


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_a_save_that_is_cut_short_never_loads_as_another_model(tmp_path, monkeypatch, file):
    some_model("primer-ez").save_pretrained(tmp_path)
    other = build_model("primer-ez", **SIZES)  # of the same shapes, but for the activation
    replace = Path.replace

    def fail(path, target):
        if target.name == file:
            raise OSError("the disk is full")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk is full"):
        other.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"config\.json"):
        LanguageModel.from_pretrained(tmp_path)
    monkeypatch.undo()
    other.save_pretrained(tmp_path)
    assert LanguageModel.from_pretrained(tmp_path).config == other.config


def test_a_save_that_cannot_be_written_leaves_what_was_there(saved, monkeypatch):
    before, files = LanguageModel.from_pretrained(saved), sorted(saved.iterdir())

    def fail(*_, **__):
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(OSError, match="disk is full"):
        some_model("primer-ez").save_pretrained(saved)
    after = LanguageModel.from_pretrained(saved)
    assert after.config == before.config
    assert torch.equal(after.embedding.weight, before.embedding.weight)
    assert sorted(saved.iterdir()) == files


def test_a_loaded_model_does_not_change_when_its_folder_does(saved):
    model = LanguageModel.from_pretrained(saved)
    before = model.embedding.weight.clone()
    some_model().save_pretrained(saved)
    assert torch.equal(model.embedding.weight, before)


DAMAGES = {  # what is done to a folder, and what the error says then
    "no config": (lambda f: (f / "config.json").unlink(), r"folder is .*model'; expected a folder with config\.json"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), r"folder is .*; expected a folder with model\.safe"),
    "no JSON": (lambda f: (f / "config.json").write_text('{"name": '), r"config\.json is not JSON"),
    "a list": (lambda f: (f / "config.json").write_text("[1]"), r"config\.json is \[1\]; expected an object"),
    "no bytes": (lambda f: os.truncate(f / "model.safetensors", 0), r"model\.safetensors does not hold weights"),
    "half": (lambda f: os.truncate(f / "model.safetensors", 4000), r"model\.safetensors does not hold weights"),
    "no format": (lambda f: edit_config(f, format=None), r"the format of .*config\.json is None; expected 3"),
    "an older format": (lambda f: edit_config(f, format=2), r"the format of .*config\.json is 2; expected 3; version"),
    "wider": (lambda f: edit_config(f, d_ff=13), r"model\.safetensors.*config\.json"),
    "fewer layers": (lambda f: edit_config(f, n_layers=1), r"model\.safetensors.*config\.json"),
    "another model": (lambda f: edit_config(f, name="primer-ez"), r"does not describe a model: option is 'rotary'"),
    "a folder of transformers": (lambda f: edit_config(f, model_type="gpt2"), "model_type"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_refused(saved, damage):
    DAMAGES[damage][0](saved)
    with pytest.raises(ValueError, match=DAMAGES[damage][1]):
        LanguageModel.from_pretrained(saved)


@pytest.mark.parametrize(
    ("old", "new"), [('"1@1 2@4 1@1"', '"1@1 2@5 1@1"'), ('"max_seq_len": 20', '"max_seq_len": 24')]
)
def test_a_config_that_is_not_the_saved_one_is_refused(tmp_path, old, new):
    build_model("hourglass", **{**SIZES, "n_layers": None}, hierarchy="1@1 2@4 1@1").save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    text = file.read_text()
    file.write_text(text.replace("  ", "\t"))  # says the same
    LanguageModel.from_pretrained(tmp_path)
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=r"the sha256 of what .*config\.json says is '\w+'; expected \w+, as it was"):
        LanguageModel.from_pretrained(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("tries", [100, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_byte_that_changed_in_any_file_is_refused_or_changes_nothing(tmp_path, monkeypatch, command, tries):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    Path("fox.txt").write_text(TEXT)
    line = "train hourglass --corpus fox.txt --steps 2 --d-model 4 --n-heads 2 --batch-size 2 --seq-len 8 --out model"
    assert command(*line.split(), "--n-layers", "3", "--eval-batches", "1")[0] == 0
    folder, tokens = Path("model"), torch.arange(20)[None]

    def read():
        model, vocabulary = load(folder)
        with torch.no_grad():
            return str(model), model.config, vocabulary, trained_at(folder), model(tokens).tolist()

    expected, draw, refused = read(), random.Random(0), 0
    files = {file: file.read_bytes() for file in sorted(folder.iterdir())}
    for number in range(tries):
        file = list(files)[number % len(files)]
        damaged = bytearray(files[file])
        damaged[draw.randrange(len(damaged))] ^= draw.randrange(1, 256)
        file.write_bytes(damaged)
        try:
            assert read() == expected, (file, damaged)
        except (ValueError, TypeError):
            refused += 1
        file.write_bytes(files[file])
    assert refused > 0.3 * tries


def test_weights_without_a_checksum_are_read(saved):
    state = LanguageModel.from_pretrained(saved).state_dict()
    save_file(state, saved / "model.safetensors")  # as before, or by others
    restored = LanguageModel.from_pretrained(saved).state_dict()
    assert all(map(torch.equal, restored.values(), state.values()))


def test_a_checksum_is_of_any_type_of_numbers(tmp_path):
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        model = some_model().to(dtype)
        model.save_pretrained(tmp_path)
        assert torch.equal(LanguageModel.from_pretrained(tmp_path).embedding.weight, model.embedding.weight)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("transformer", {"n_layers": 10**9}),
        ("transformer", {"n_layers": "2"}),
        ("transformer", {"d_model": 10**12}),
        ("hourglass", {"hierarchy": "500000000@1 1@2 500000000@1", "n_layers": None}),
        ("gmlp", {"max_seq_len": 60_000}),
    ],
    ids=str,
)
def test_nothing_is_built_before_a_config_is_known_to_fit_the_weights(tmp_path, name, changes):
    some_model(name).save_pretrained(tmp_path)
    edit_config(tmp_path, **changes)
    before = time.perf_counter()
    with pytest.raises(ValueError, match=r"config\.json"):
        LanguageModel.from_pretrained(tmp_path)
    assert time.perf_counter() - before < 5


def test_a_folder_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="folder is 'runs/typo'; expected a folder that save_pretrained wrote, or one"):
        LanguageModel.from_pretrained("runs/typo")


def test_a_model_and_its_vocabulary_come_back_together(tmp_path):
    vocabulary = ByteVocabulary()
    model = build_model("primer-ez", **{**SIZES, "vocab_size": len(vocabulary)}).eval()
    save(str(tmp_path / "made" / "model"), model, vocabulary)
    restored, found = load(str(tmp_path / "made" / "model"))
    tokens = torch.randint(len(vocabulary), (1, 5))
    assert torch.equal(restored(tokens), model(tokens))
    assert found == vocabulary
    assert load("primer-ez")[1].decode(torch.tensor([1])), "one that ships, by its name"


def test_a_vocabulary_of_another_size_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="the size of the vocabulary is 3; expected 9, as the model has"):
        save(tmp_path / "model", some_model(), Vocabulary("abc"))
    assert not (tmp_path / "model").exists()
    with pytest.raises(ValueError, match="expected a model made by build_model"):
        save(tmp_path / "model", LanguageModel(Stack([]), vocab_size=3, d_model=8, max_seq_len=4), Vocabulary("abc"))
