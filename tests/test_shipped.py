"""The models that ship: each is what its card says, small enough, and found by its name; a damaged one is refused."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest
import torch

from efficient_transformers import (
    LanguageModel,
    build_model,
    load_corpus,
    pretrained,
    pretrained_card,
    pretrained_names,
    pretrained_snapshots,
    saving,
)
from efficient_transformers.protocol import TUNING_TARGETS
from efficient_transformers.runs import load
from efficient_transformers.scoring import score

NAMES = ["gmlp", "gmlp-toeplitz", "hourglass", "primer-ez", "transformer"]

every_name = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A place with one small model, in the form of those that ship."""
    model = build_model("gmlp", vocab_size=9, d_model=8, n_layers=2, d_ff=12, max_seq_len=10)
    saving.write(tmp_path / "small", model.config, pretrained.pack(model.state_dict()))
    sha256 = hashlib.sha256((tmp_path / "small" / saving.WEIGHTS).read_bytes()).hexdigest()
    (tmp_path / "small" / pretrained.CARD).write_text(json.dumps({"sha256": sha256}))
    monkeypatch.setattr(pretrained, "SHIPPED", tmp_path)
    return model


def test_all_families_ship():
    assert pretrained_names() == NAMES


@pytest.mark.slow
@every_name
def test_a_model_scores_its_recorded_loss_and_would_write_its_recorded_text(name):
    model, vocabulary = load(name)
    card = pretrained_card(name)
    validation = load_corpus("shakespeare-with-test", vocabulary=vocabulary).validation
    assert score(model, validation, seq_len=256, at_least=TUNING_TARGETS).loss == pytest.approx(
        card["validation_loss"], abs=1e-3
    )
    prompt, text = card["greedy"]["prompt"], card["greedy"]["text"]
    assert text.startswith(prompt)
    assert len(text) == 256
    tokens = vocabulary.encode(text)
    with torch.no_grad():
        logits = model(tokens[None])[0, len(prompt) - 1 : -1]  # (written, V)
    chosen = logits.gather(1, tokens[len(prompt) :, None])[:, 0]
    assert (logits.amax(1) - chosen).max() <= 1e-3  # near-ties differ between machines


@every_name
def test_a_card_describes_its_model(name):
    card, model = pretrained_card(name), LanguageModel.from_pretrained(name)
    assert card["model"] == model.config
    assert card["name"] == name
    page = (pretrained.SHIPPED / name / "README.md").read_text()
    for key in ("validation_loss", "test_loss"):
        assert f"{card[key]:.4f}" in page
    for said in (card["sha256"], f"{card['learning_rate']:g}", f"{card['steps']:,}", card["licence"]):
        assert said in page


def test_the_weights_are_small():
    sizes = {f: f.stat().st_size / 1e6 for f in pretrained.SHIPPED.rglob("*") if f.is_file()}
    assert sum(sizes.values()) <= 16
    for file, size in sizes.items():
        if file.name == saving.WEIGHTS:
            assert size <= (2.2 if file.parent.name == "gmlp" else 1.8), file


@pytest.mark.parametrize("name", ["primer-ez", "gmlp"])
def test_snapshots_are_of_parameters_of_the_model(name):
    state = LanguageModel.from_pretrained(name).state_dict()
    snapshots = pretrained_snapshots(name)
    assert list(snapshots) == [250, 500, 1000, 2000, 4000]
    for parts in snapshots.values():
        assert parts
        assert all(state[key].shape == value.shape for key, value in parts.items())


def test_packing_loses_no_more_than_half_precision(shipped):
    state = shipped.state_dict()
    restored = pretrained.unpack(pretrained.pack(state))
    assert restored.keys() == state.keys()
    for key, value in state.items():
        seen = value.tril() if key.endswith("gate.weight") else value
        assert torch.equal(restored[key], seen.half().float())


def test_a_shipped_model_is_found_by_its_name_and_needs_half_the_room(shipped, tmp_path):
    model = LanguageModel.from_pretrained("small")
    tokens = torch.randint(9, (2, 10))
    torch.testing.assert_close(model(tokens), shipped.eval()(tokens), rtol=0, atol=2e-3)
    shipped.save_pretrained(tmp_path / "whole")
    sizes = [(tmp_path / name / saving.WEIGHTS).stat().st_size for name in ("small", "whole")]
    assert sizes[0] < 0.75 * sizes[1]  # the header of so small a file is much of it


def test_a_damaged_file_is_refused_by_its_hash(shipped, tmp_path):
    file = tmp_path / "small" / saving.WEIGHTS
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(
        ValueError, match=r"the sha256 of .*model\.safetensors is '[0-9a-f]{64}'; expected [0-9a-f]{64}"
    ):
        LanguageModel.from_pretrained("small")


def test_unknown_names_are_told_which_there_are(shipped, tmp_path):
    with pytest.raises(ValueError, match=r"folder is 'tiny'; expected a folder, one of small, or owner/name"):
        LanguageModel.from_pretrained("tiny")
    for ask in (pretrained_card, pretrained_snapshots, pretrained.read):
        with pytest.raises(ValueError, match=r"name is 'tiny'; expected one of 'small'"):
            ask("tiny")
    with pytest.raises(ValueError, match="name is 'small'"):
        pretrained_snapshots("small")  # of which nothing was kept


def test_a_folder_of_ones_own_with_such_a_name_is_meant_by_its_path(shipped, tmp_path, monkeypatch):
    shutil.copytree(tmp_path / "small", tmp_path / "here" / "small")
    (tmp_path / "here" / "small" / saving.WEIGHTS).write_bytes(b"damaged")
    monkeypatch.chdir(tmp_path / "here")
    LanguageModel.from_pretrained("small")
    with pytest.raises(ValueError, match="does not hold weights"):
        LanguageModel.from_pretrained("./small")


def test_the_command_line_writes_with_a_shipped_model(command):
    code, out, err = command("generate", "primer-ez", "--prompt", "To be", "--seed", "0", "--max-new-tokens", "20")
    assert (code, err) == (0, "")
    assert out.startswith("To be")
    assert len(out) == 26
    code, _, err = command("generate", "primer-typo")
    assert code == 2
    assert "primer-ez" in err
