"""The models that ship: each is what its card says, small enough, and found by its name; a damaged one is refused."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
import weights
from helpers import edit_config, mostly_long, randomize
from safetensors.torch import save_file

from efficient_transformers import (
    LanguageModel,
    build_model,
    load_corpus,
    pretrained_card,
    pretrained_names,
    pretrained_snapshots,
)
from efficient_transformers.models import pretrained, saving
from efficient_transformers.training.evaluation import score
from efficient_transformers.training.runs import load

NAMES = ["dense-gmlp", "gmlp", "hourglass", "primer-ez", "transformer"]

every_name = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A place with two small models, in the form of those that ship; of ``drawn`` there are snapshots."""
    model = build_model("dense-gmlp", vocab_size=9, d_model=8, n_layers=2, d_ff=12, max_seq_len=10)
    for name, files in {"small": [saving.WEIGHTS], "drawn": [saving.WEIGHTS, pretrained.SNAPSHOTS]}.items():
        folder = tmp_path / name
        saving.write(folder, model.config, pretrained.pack(model.state_dict()))
        if pretrained.SNAPSHOTS in files:
            save_file({"250/conv_q.weight": torch.zeros(3)}, folder / pretrained.SNAPSHOTS)
        card = {key: pretrained.sha256(folder / file) for key, file in pretrained.HASHED.items() if file in files}
        (folder / pretrained.CARD).write_text(json.dumps(card | {"model": model.config}))
    monkeypatch.setattr(pretrained, "SHIPPED", tmp_path)
    return model


def test_all_families_ship():
    assert pretrained_names() == NAMES == sorted(weights.RECIPES)


def test_a_gate_of_a_feed_forward_network_is_packed_whole():
    model = build_model("primer-ez", vocab_size=9, d_model=16, d_ff=24, activation="swiglu", n_heads=2, n_layers=1)
    state = randomize(model, 1.0).state_dict()
    found = pretrained.unpack(pretrained.pack(state))
    assert found.keys() == state.keys()
    for name, tensor in state.items():
        torch.testing.assert_close(found[name], tensor.half().float(), rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_long(NAMES, ["hourglass", "primer-ez"]))
def test_a_model_scores_its_recorded_loss(name):
    model, vocabulary = load(name)
    validation = load_corpus("shakespeare-with-test", vocabulary=vocabulary).validation
    loss = score(model, validation, seq_len=256, at_least=weights.TUNING_TARGETS).loss
    assert loss == pytest.approx(pretrained_card(name)["validation_loss"], abs=1e-3)


@every_name
def test_a_model_would_write_its_recorded_text(name):
    model, vocabulary = load(name)
    card = pretrained_card(name)
    prompt, text = card["greedy"]["prompt"], card["greedy"]["text"]
    assert text.startswith(prompt)
    assert len(text) == 256
    tokens = vocabulary.encode(text)
    with torch.no_grad():
        logits = model(tokens[None])[0, len(prompt) - 1 : -1]  # (written, V)
    chosen = logits.gather(1, tokens[len(prompt) :, None])[:, 0]
    assert (logits.amax(1) - chosen).max() <= 1e-3  # near-ties differ between machines


@pytest.mark.long  # the test text is looked at again here, by models that nobody changes
@every_name
def test_a_model_scores_its_recorded_loss_on_the_test_text(name):
    model, vocabulary = load(name)
    test = load_corpus("shakespeare-with-test", vocabulary=vocabulary).test
    loss = score(model, test, seq_len=256, at_least=weights.TEST_TARGETS).loss
    assert loss == pytest.approx(pretrained_card(name)["test_loss"], abs=1e-3)


@every_name
def test_a_card_describes_its_model(name):
    card, model = pretrained_card(name), LanguageModel.from_pretrained(name)
    assert card["model"] == model.config
    assert card["name"] == name
    assert (pretrained.SHIPPED / name / "README.md").read_text(encoding="utf-8") == weights.card_text(card)


@pytest.mark.parametrize("name", weights.WITH_SNAPSHOTS)
def test_snapshots_are_of_parameters_of_the_model(name):
    state = LanguageModel.from_pretrained(name).state_dict()
    snapshots = pretrained_snapshots(name)
    assert list(snapshots) == [250, 500, 1000, 2000, 4000]
    for parts in snapshots.values():
        assert parts
        assert all(state[key].shape == value.shape for key, value in parts.items())


def test_a_shipped_model_is_found_by_its_name_and_needs_half_the_room(shipped, tmp_path):
    model = LanguageModel.from_pretrained("small")
    tokens = torch.randint(9, (2, 10))
    torch.testing.assert_close(model(tokens), shipped.eval()(tokens), rtol=0, atol=2e-3)
    shipped.save_pretrained(tmp_path / "whole")
    sizes = [(tmp_path / name / saving.WEIGHTS).stat().st_size for name in ("small", "whole")]
    assert sizes[0] < 0.75 * sizes[1]  # the header of so small a file is much of it


FILES = {saving.WEIGHTS: LanguageModel.from_pretrained, pretrained.SNAPSHOTS: pretrained_snapshots}
every_file = pytest.mark.parametrize(("file", "ask"), FILES.items(), ids=FILES)


@every_file
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: data[:9]], ids=["bit", "cut"]
)
def test_a_damaged_file_is_refused_by_its_hash(shipped, tmp_path, file, ask, damage):
    path = tmp_path / "drawn" / file
    ask("drawn")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=rf"the sha256 of .*{file} is '[0-9a-f]{{64}}'; expected [0-9a-f]{{64}}"):
        ask("drawn")


def test_a_config_that_is_not_that_of_the_card_is_refused(shipped, tmp_path):
    edit_config(tmp_path / "small", d_attention=0)
    with pytest.raises(ValueError, match="the sha256 of"):  # of the weights, which a config is sealed in
        LanguageModel.from_pretrained("small")
    file = tmp_path / "drawn" / saving.CONFIG
    file.write_text(file.read_text().replace('"max_seq_len": 10', '"max_seq_len": 11'))
    with pytest.raises(ValueError, match=r"what .*config\.json says is .*'max_seq_len': 11.*, of its card"):
        LanguageModel.from_pretrained("drawn")


@every_file
def test_a_missing_file_is_named(shipped, tmp_path, file, ask):
    (tmp_path / "drawn" / file).unlink()
    with pytest.raises(ValueError, match=rf"folder is '.*drawn'; expected a folder with {file}"):
        ask("drawn")


def test_unknown_names_are_told_which_there_are(shipped, tmp_path):
    with pytest.raises(
        ValueError, match=r"folder is 'tiny'; expected a folder that save_pretrained wrote, or one of drawn, small"
    ):
        LanguageModel.from_pretrained("tiny")
    for ask in (pretrained_card, pretrained_snapshots, pretrained.read):
        with pytest.raises(ValueError, match=r"name is 'tiny'; expected one of 'drawn', 'small'"):
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
    assert ", ".join(NAMES) in err
