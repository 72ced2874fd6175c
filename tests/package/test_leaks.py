"""The check for leaks on models that others wrote, honest and not; and leaks that hide from random tokens."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from torch import nn
from x_transformers import Decoder, Encoder, TransformerWrapper

from efficient_transformers import (
    GMLPBlock,
    LanguageModel,
    LeakError,
    Stack,
    check_leaks,
    initialize,
    leak_map,
    load_corpus,
)

V, T = 40, 16
SIZES = {"vocab_size": V, "hidden_size": 16, "num_hidden_layers": 2}
GPT2 = transformers.GPT2Config(vocab_size=V, n_positions=2 * T, n_embd=16, n_layer=2, n_head=2, bos_token_id=0)
LLAMA = transformers.LlamaConfig(**SIZES, intermediate_size=32, num_attention_heads=2, max_position_embeddings=2 * T)
MAMBA = transformers.MambaConfig(**SIZES, state_size=4)


def others(kind):
    """A model of x-transformers: Decoder is causal, Encoder is not."""
    return TransformerWrapper(num_tokens=V, max_seq_len=2 * T, attn_layers=kind(dim=16, depth=1, heads=2))


def gmlp(causal):
    """gMLP, without a mask as in labml's annotated implementation, or with it."""
    model = LanguageModel(Stack([GMLPBlock(16, 32, 2 * T, causal=causal)]), vocab_size=V, d_model=16, max_seq_len=2 * T)
    initialize(model.body)
    return model


class Attention(nn.Module):
    """One head; its mask lets a query see so many tokens after its own."""

    def __init__(self, ahead):
        super().__init__()
        self.embedding, self.project, self.output = nn.Embedding(V, 16), nn.Linear(16, 48), nn.Linear(16, V)
        self.ahead = ahead

    def forward(self, tokens):
        q, k, v = self.project(self.embedding(tokens)).chunk(3, -1)
        mask = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril(self.ahead)
        return self.output(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)), None


HONEST = {
    "GPT-2": lambda: transformers.GPT2LMHeadModel(GPT2),
    "Llama": lambda: transformers.LlamaForCausalLM(LLAMA),
    "Mamba": lambda: transformers.MambaForCausalLM(MAMBA),
    "x-transformers": lambda: others(Decoder),
    "gMLP": lambda: gmlp(True),
    "a head": lambda: Attention(0),
}
LEAKING = {
    "x-transformers, an encoder": lambda: others(Encoder),
    "gMLP without a mask": lambda: gmlp(False),
    "a mask that is off by one": lambda: Attention(1),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_model_passes(name):
    torch.manual_seed(0)
    model = HONEST[name]()
    remarks = check_leaks(model, T, V, text=torch.randint(V, (200,)))
    assert all(remark.startswith(("It does not read", "It computes in less than float64")) for remark in remarks)
    assert leak_map(model, 6).triu(1).count_nonzero() == 0


@pytest.mark.parametrize("name", LEAKING)
def test_a_leaking_model_is_refused(name):
    torch.manual_seed(0)
    model = LEAKING[name]()
    with pytest.raises(LeakError, match="output 0 changes with token 1;") as leak:
        check_leaks(model, T, V)
    assert leak.value.reads.triu(1).any()
    assert leak_map(model, 6).triu(1).any()


class After(Attention):
    """Tells its output after one pair of tokens the next one."""

    def __init__(self, vocab_size, pair):
        super().__init__(0)
        self.embedding, self.output, self.pair = nn.Embedding(vocab_size, 16), nn.Linear(16, vocab_size), pair

    def forward(self, tokens):
        logits, _ = super().forward(tokens)
        follows = (tokens[:, :-1] == self.pair[0]) & (tokens[:, 1:] == self.pair[1])
        after = nn.functional.pad(follows[:, :-1], (1, 1))[..., None]  # (B, T, 1)
        told = nn.functional.one_hot(tokens.roll(-1, 1), logits.shape[2])
        return logits + 0.1 * after * told


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("shakespeare-with-test")


@pytest.mark.parametrize("pair", ["e ", ".\n", "zz"])
def test_a_leak_after_one_pair_of_the_text_is_found(corpus, pair):
    size, pair = len(corpus.vocabulary), corpus.vocabulary.encode(pair).tolist()
    torch.manual_seed(0)
    model = After(size, pair)
    with pytest.raises(LeakError, match="changes with"):
        check_leaks(model, 64, size, text=corpus.train)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (torch.zeros(8, dtype=torch.int64), "text is .* expected an int64 tensor of at least 16 token ids"),
        (torch.full((99,), V), "text is 'from 40 to 40'; expected token ids from 0 to 39"),
        ("a text", "text is 'a text'"),
    ],
)
def test_a_text_that_is_none(text, said):
    with pytest.raises(ValueError, match=said):
        check_leaks(Attention(0), T, V, text=text)


def test_one_output_alone_is_no_leak_but_another_shape():
    """As nanoGPT's without targets."""
    model = Attention(0)
    model.register_forward_hook(lambda module, args, output: output[0][:, -1:])
    with pytest.raises(ValueError, match=r"the output of the model is \[1, 1, 40\]; expected logits \[1, 16, 40\]"):
        check_leaks(model, T, V)


def test_a_model_of_one_length_is_asked_at_that():
    """With a text, too, whose pairs stand in less."""

    class Fixed(Attention):
        def forward(self, tokens):
            return super().forward(tokens)[0].reshape(len(tokens), T, V)

    remarks = check_leaks(Fixed(0), T, V, text=torch.randint(V, (200,)))
    assert [remark[:24] for remark in remarks] == [f"It does not read {n} tokens"[:24] for n in (8, 15, 32)]


@pytest.mark.parametrize("ahead", [0, 1])
def test_the_page_has_this_test(monkeypatch, ahead):
    page = (Path(__file__).parents[2] / "book" / "test-for-leaks.md").read_text(encoding="utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    monkeypatch.setitem(sys.modules, "my_model", SimpleNamespace(MyModel=lambda vocab_size: Attention(ahead)))
    exec(code.replace("100", str(V)), names := {})
    if ahead == 0:
        return names["test_no_output_reads_a_later_token"]()
    with pytest.raises(LeakError) as leak:
        names["test_no_output_reads_a_later_token"]()
    assert str(leak.value) == " ".join(page.split("LeakError: ")[1].split("```")[0].split())
