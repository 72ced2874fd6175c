"""In the library `transformers`: the same numbers, its `generate` and `Trainer`, and its folders."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace

import pytest
import torch
import transformers
from helpers import assert_equal_up_to, loss_of, randomize

from efficient_transformers import (
    Cache,
    CausalDepthwiseConv,
    LanguageModel,
    MultiHeadAttention,
    build_model,
    model_names,
    swap_rotary_pairing,
)

hf = importlib.import_module("efficient_transformers.hf")
llama = importlib.import_module("transformers.models.llama.modeling_llama")
mamba2 = importlib.import_module("transformers.models.mamba2.modeling_mamba2")
qwen3_next = importlib.import_module("transformers.models.qwen3_next.modeling_qwen3_next")  # has Gated DeltaNet

VOCAB = 11
DECODING = {"greedy": {}, "beams": {"num_beams": 4}}
LLAMAS = {"query.weight": "q_proj.weight", "key.weight": "k_proj.weight"}
LLAMAS |= {"value.weight": "v_proj.weight", "output.weight": "o_proj.weight"}
every_model = pytest.mark.parametrize("name", model_names())


def small(name):
    """A model with two heads, whose weights are far from their special initial values."""
    n_layers = None if name == "hourglass" else 2
    return randomize(build_model(name, vocab_size=VOCAB, d_model=8, n_layers=n_layers, n_heads=2, max_seq_len=32), 0.5)


def some_tokens(batch=2, length=7):
    return torch.randint(VOCAB, (batch, length))


@every_model
def test_logits_and_folders_are_the_packages(name, tmp_path):
    model, tokens = small(name), some_tokens()
    hf.wrap(model).save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(loaded) is hf.BookForCausalLM
    assert_equal_up_to(1e-6, loaded(tokens).logits, model(tokens))
    assert loaded.model.config == model.config
    assert loaded.num_parameters() == sum(p.numel() for p in model.parameters())  # the tied matrix is there once


@pytest.mark.slow
@every_model
@pytest.mark.parametrize("how", DECODING)
def test_generation_with_a_cache_is_that_without(name, how):
    model, tokens = hf.wrap(small(name)), some_tokens()
    options = {"max_new_tokens": 9, "do_sample": False, **DECODING[how]}
    found = [model.generate(tokens, use_cache=use_cache, **options) for use_cache in (True, False)]
    assert torch.equal(*found)
    if how == "greedy":
        assert torch.equal(found[0], model.model.generate(tokens, 9, temperature=0))


def test_generation_goes_on_with_the_cache_it_gave():
    model, tokens = hf.wrap(small("hourglass")), some_tokens()
    first = model.generate(tokens, max_new_tokens=4, do_sample=False, return_dict_in_generate=True)
    assert first.cache.get_seq_length() == 10  # the last token has not been read
    more = model.generate(first.sequences, max_new_tokens=5, do_sample=False, cache=first.cache)
    assert torch.equal(more, model.generate(tokens, max_new_tokens=9, do_sample=False))


@every_model
def test_the_auto_classes_make_every_model(name):
    config = transformers.AutoConfig.for_model("efficient_transformers", name=name, vocab_size=VOCAB, hidden_size=16)
    assert (config.d_model, config.max_position_embeddings) == (16, 256)
    torch.manual_seed(0)
    made = transformers.AutoModelForCausalLM.from_config(config)
    torch.manual_seed(0)
    model = build_model(name, vocab_size=VOCAB, d_model=16)
    assert made.model.config == model.config
    for found, expected in zip(made.parameters(), model.parameters(), strict=True):  # transformers left them alone
        assert torch.equal(found, expected)


def test_the_loss_is_that_of_the_next_token():
    model, tokens = small("primer-ez"), some_tokens()
    torch.testing.assert_close(hf.wrap(model)(tokens, labels=tokens).loss, loss_of(model, tokens))


def test_padding_at_the_end_of_a_row_changes_no_loss():
    model, tokens = hf.wrap(small("hourglass")), some_tokens(1)
    expected = model(tokens[:, :5], labels=tokens[:, :5]).loss
    mask = torch.tensor([[1, 1, 1, 1, 1, 0, 0]])
    padded = model(tokens, attention_mask=mask, labels=tokens.masked_fill(mask == 0, -100)).loss
    torch.testing.assert_close(padded, expected)


def test_padding_that_would_be_read_is_refused():
    model, tokens = hf.wrap(small("transformer")), some_tokens()
    left = torch.tensor([[0, 1, 1, 1, 1, 1, 1], [1] * 7])
    with pytest.raises(ValueError, match="expected ones, and zeros at the end of rows alone"):
        model(tokens, attention_mask=left, labels=tokens)
    for mask in (left, left.flip(1)):
        with pytest.raises(ValueError, match=r"(?s)attention_mask is .*expected ones: prompts of equal length"):
            model.generate(tokens, attention_mask=mask, max_new_tokens=1)
    with pytest.raises(ValueError, match="use_cache is True; expected False beside labels"):
        model(tokens, labels=tokens, use_cache=True)


def test_a_folder_that_lacks_weights_is_refused(tmp_path):
    model = hf.wrap(small("primer-ez"))
    state = model.state_dict()
    del state["model.body.1.attention.conv_k.weight"]
    model.save_pretrained(tmp_path, state_dict=state)
    with pytest.raises(ValueError, match=r"what the folder lacks of CausalDepthwiseConv.* is \['weight'\]"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)


def test_what_a_model_does_not_have_is_refused():
    with pytest.raises(TypeError, match=r"option is 'sharing'; expected one of .*'gmlp'"):
        hf.BookConfig("gmlp", sharing="none")
    with pytest.raises(TypeError, match=r"model is .*expected an instance of LanguageModel"):
        hf.wrap(torch.nn.Linear(2, 2))
    model = small("transformer")
    model.config = None
    with pytest.raises(ValueError, match="expected a model made by build_model"):
        hf.wrap(model)


def test_a_resized_vocabulary_is_the_models_own(tmp_path):
    model = hf.wrap(small("gmlp"))
    model.resize_token_embeddings(VOCAB + 2)
    assert model(torch.tensor([[VOCAB + 1]])).logits.shape == (1, 1, VOCAB + 2)
    model.model.save_pretrained(tmp_path)
    loaded = LanguageModel.from_pretrained(tmp_path)
    assert loaded.config == model.model.config
    for found, expected in zip(loaded.parameters(), model.model.parameters(), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.slow
def test_trainer_trains(tmp_path):
    data = [{"input_ids": row, "labels": row} for row in torch.arange(9).repeat(8, 1)]
    settings = transformers.TrainingArguments(
        tmp_path,
        max_steps=20,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        learning_rate=0.03,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    config = hf.BookConfig("primer-ez", vocab_size=VOCAB, d_model=8, n_layers=1, n_heads=2)
    trainer = transformers.Trainer(hf.BookForCausalLM(config), settings, train_dataset=data, eval_dataset=data)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 20
    assert losses[-1] < losses[0] / 2
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint-20")
    tokens = torch.stack([row["labels"] for row in data])
    assert trainer.evaluate()["eval_loss"] == pytest.approx(loss_of(loaded.model, tokens).item(), abs=1e-5)


@pytest.mark.parametrize("seq_len", [1, 9])
def test_llamas_attention_is_ours_with_its_pairing(seq_len):
    ours, x = randomize(MultiHeadAttention(16, 2)), torch.randn(2, seq_len, 16)
    config = transformers.LlamaConfig(hidden_size=16, num_attention_heads=2, attn_implementation="sdpa")
    turns = llama.LlamaRotaryEmbedding(config)(x, torch.arange(seq_len)[None])
    state = swap_rotary_pairing(ours.state_dict(), 8, to="halves")
    llamas = llama.LlamaAttention(config, layer_idx=0)
    llamas.load_state_dict({LLAMAS[name]: tensor for name, tensor in state.items()})
    y, _ = llamas(x, turns)
    assert_equal_up_to(1e-6, y, ours(x))
    back = swap_rotary_pairing(llamas.state_dict(), 8, to="neighbors", projections=("q_proj", "k_proj"))
    for name, tensor in ours.state_dict().items():
        assert torch.equal(back[LLAMAS[name]], tensor)
    llamas.load_state_dict({LLAMAS[name]: tensor for name, tensor in ours.state_dict().items()})
    assert seq_len == 1 or not torch.allclose(llamas(x, turns)[0], y, atol=1e-3)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("module", [qwen3_next, mamba2])
def test_gated_deltanet_and_mamba_run_this_convolution(module, bias):
    conv, x = randomize(CausalDepthwiseConv(6, kernel_size=4, bias=bias)), torch.randn(2, 9, 6)
    kernel = conv.weight.flip(2).squeeze(0)  # theirs begins with the oldest token
    shift = conv.bias.flatten() if bias else None
    assert_equal_up_to(1e-6, module.causal_conv1d_fn(x.mT, kernel, shift).mT, conv(x))
    cache, state = Cache(2), torch.zeros(2, 6, 3)
    for token in x.split(1, dim=1):
        theirs = module.causal_conv1d_update(token.mT, state, kernel, shift)
        assert_equal_up_to(1e-6, theirs.mT, conv(token, cache))


@pytest.mark.parametrize("version", [None, "5.9.1"])
def test_without_a_transformers_that_is_new_enough_one_sentence_says_what_to_install(monkeypatch, version):
    monkeypatch.setitem(sys.modules, "transformers", version and SimpleNamespace(__version__=version))
    monkeypatch.delitem(sys.modules, "efficient_transformers.hf")
    found = version or "not installed"
    with pytest.raises(ImportError, match=rf"^transformers is {found}; expected 5.24 or later: pip install '\S+'$"):
        importlib.import_module("efficient_transformers.hf")
