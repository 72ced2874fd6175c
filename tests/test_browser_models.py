"""The models that a reader's browser runs, in a browser, beside PyTorch: logits, attention, gates, texts, bad files."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import browser
import numpy as np
import pytest
import torch
from helpers import randomize
from playwright.sync_api import Error, sync_playwright

from efficient_transformers import LanguageModel, build_model, load_corpus, pretrained, pretrained_names, saving
from efficient_transformers.attention import Attention
from efficient_transformers.gmlp import SpatialGatingUnit
from efficient_transformers.runs import load

STATIC = Path(__file__).resolve().parent.parent / "book" / "static"
pytestmark = pytest.mark.skipif(browser.find() is None, reason="no Chromium or Chrome on the PATH")

VOCAB, MAX_LEN, T = 11, 40, 31
DEEP = "1@1 1@2 1@6 1@2 1@1"
CASES = {
    "transformer": {},
    "transformer rotary=False": {"rotary": False},
    "primer-ez": {},
    "primer-ez sharing=none": {"sharing": "none"},
    "primer-ez sharing=all": {"sharing": "all", "bias": True},
    "primer-ez bias": {"bias": True, "dilation": 3, "init": "random"},
    "primer-ez kernel_size=1": {"kernel_size": 1, "sharing": "none", "bias": True},
    "primer-ez kernel_size=4": {"kernel_size": 4, "dilation": 2},
    **{f"primer-ez convolve={subset!r}": {"convolve": subset} for subset in ("", "q", "k", "v", "qk", "qv", "kv")},
    **{f"primer-ez {f}": {"activation": f} for f in ("relu", "gelu", "swiglu")},
    "primer": {},
    "primer sharing=heads": {"sharing": "heads", "kernel_size": 5},
    "primer sharing=all": {"sharing": "all", "kernel_size": 2},
    "hourglass": {},
    "hourglass linear": {"hierarchy": "1@1 1@3 1@1", "shortening": "linear", "up_sampling": "linear"},
    "hourglass attention": {"hierarchy": DEEP, "shortening": "attention", "up_sampling": "attention"},
    "hourglass attention and linear": {
        "hierarchy": DEEP,
        "shortening": "attention",
        "pooling": "linear",
        "up_sampling": "attention",
        "expansion": "linear",
        "layer": "primer-ez",
    },
    "hourglass average and attention": {"hierarchy": "0@1 1@5 0@1", "up_sampling": "attention"},
    "hourglass factor 1": {"hierarchy": "1@1 1@1 1@1", "shortening": "attention", "up_sampling": "linear"},
    **{
        f"gmlp {gate} {weight}": {"gate": gate, "weight": weight, "positions": gate == "whole"}
        for gate in ("split", "whole", "additive", "linear")
        for weight in ("dense", "toeplitz")
    },
    "gmlp transform": {"weight": "toeplitz", "fft": True},
    "amlp": {},
    "amlp toeplitz": {"weight": "toeplitz", "gate": "whole", "positions": True},
}

# In the page: a model is made of a config and the bytes of its weights; large arrays come back as bytes.
HELPERS = """
window.library = efficient_transformers();
window.bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer;
window.pack = array => {
  const b = new Uint8Array(Float32Array.from(array).buffer);
  let text = "";
  for (let i = 0; i < b.length; i += 8192) text += String.fromCharCode(...b.subarray(i, i + 8192));
  return btoa(text);
};
window.make = (config, weights) => {
  window.model = library.build_model(config, library.read_safetensors(bytes(weights)));
};
window.read = (tokens, pieces) => {
  const seen = {}, cache = new library.Cache((layer, what, position, values) => {
    (seen[`${layer.name} ${what}`] ??= []).push([...values]);
  });
  const logits = [];
  for (let i = 0; i < tokens.length; ) {
    const n = pieces.length ? pieces.shift() : tokens.length - i;
    logits.push(...model.forward(tokens.slice(i, i += n), cache));
  }
  return { logits: pack(logits), seen };
};
undefined;
"""


@pytest.fixture(scope="module")
def page():
    with sync_playwright() as playwright:
        chromium = browser.launch(playwright)
        tab = chromium.new_page()
        tab.add_script_tag(path=STATIC / "models.js")
        tab.evaluate(HELPERS)
        yield tab
        chromium.close()


def folder_of(model, folder):
    """What a folder holds that the model was saved in, as the page gets it: the config, and the weights in base64."""
    model.save_pretrained(folder)
    return contents(folder)


def contents(folder):
    config = json.loads((folder / saving.CONFIG).read_text())
    return [config, base64.b64encode((folder / saving.WEIGHTS).read_bytes()).decode()]


def unpack(text, *shape):
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), dtype=np.float32).copy()).view(*shape)


def make(page, folder):
    page.evaluate("([config, weights]) => make(config, weights)", folder)


def read(page, tokens, pieces=()):
    """Logits [T, V], and what was seen: by layer and kind, the numbers of each position."""
    found = page.evaluate("([tokens, pieces]) => read(tokens, pieces)", [tokens.tolist(), list(pieces)])
    return unpack(found["logits"], len(tokens), -1), found["seen"]


def small_model(case):
    options = CASES[case]
    sizes = {"vocab_size": VOCAB, "d_model": 16, "n_heads": 2, "max_seq_len": MAX_LEN}
    n_layers = None if "hierarchy" in options else 3
    return randomize(build_model(case.split()[0], n_layers=n_layers, **sizes, **options))


@torch.no_grad()
def seen_by_pytorch(model, tokens, monkeypatch):
    """Logits [T, V], and by layer and kind the numbers [position, ...] that the browser's model is watched for."""
    seen, names = {}, {module: name for name, module in model.named_modules()}
    attend, forward = Attention.attend, SpatialGatingUnit.forward

    def watched_attend(self, q, k, v, **rest):
        weights = self.weights(q, k)[0]  # (H, n, m)
        seen[f"{names[self]} attention"] = weights.transpose(0, 1)
        return attend(self, q, k, v, **rest)

    def watched_gate(self, z, cache=None, mask=None, attended=None):
        mixed = self.norm(z.chunk(2, dim=-1)[1] if self.kind == "split" else z)
        f = self.mix(mixed) + self.bias[: z.shape[1], None] + (0 if attended is None else attended)
        seen[f"{names[self]} row"] = self.rows(torch.arange(z.shape[1]), z.shape[1])
        seen[f"{names[self]} gate"] = f[0]
        return forward(self, z, cache, mask, attended)

    with monkeypatch.context() as patch:
        patch.setattr(Attention, "attend", watched_attend)
        patch.setattr(SpatialGatingUnit, "forward", watched_gate)
        logits = model(tokens[None])[0]
    return logits, seen


def assert_seen(found, expected):
    """What a position does not see is left out by the browser, and 0 in PyTorch."""
    assert found.keys() == expected.keys()
    for name, rows in expected.items():
        assert len(found[name]) == len(rows), name
        for values, row in zip(found[name], rows, strict=True):
            values = torch.tensor(values).view(*row.shape[:-1], -1)
            n = values.shape[-1]
            assert (values - row[..., :n]).abs().max() <= 1e-4, name
            assert (row[..., n:] == 0).all(), name


@pytest.mark.parametrize("case", CASES)
def test_every_model_computes_what_pytorch_does(page, case, tmp_path, monkeypatch):
    model, tokens = small_model(case), torch.randint(VOCAB, (T,))
    expected, seen = seen_by_pytorch(model, tokens, monkeypatch)
    make(page, folder_of(model, tmp_path))
    whole, found = read(page, tokens)
    assert (whole - expected).abs().max() <= 1e-4
    assert_seen(found, seen)
    for pieces in ([1] * T, [2, 5, 1, 1, 9, 4]):
        cached, found = read(page, tokens, pieces)
        assert (cached - whole).abs().max() <= 1e-5
        assert_seen(found, seen)


def test_cases_hold_every_option(page):
    """What a model may be made with, but for sizes, is tried above."""
    for name in ("transformer", "primer-ez", "primer", "hourglass", "gmlp"):
        config = build_model(name, vocab_size=VOCAB).config
        tried = {option for case, options in CASES.items() if case.split()[0] in (name, "amlp") for option in options}
        sizes = {"name", "vocab_size", "d_model", "n_layers", "n_heads", "d_ff", "max_seq_len", "dropout"}
        assert set(config) - sizes - {"d_attention"} <= tried


@pytest.mark.parametrize("case", ["gmlp split dense", "amlp", "primer-ez"])
def test_weights_as_they_ship(page, case, tmp_path, monkeypatch):
    """In float16, a causal matrix as its lower triangle."""
    model, tokens = small_model(case), torch.randint(VOCAB, (T,))
    packed = pretrained.pack(model.state_dict())
    saving.write(tmp_path, {**model.config, saving.VOCABULARY: "0" * 64}, packed)
    model.load_state_dict(pretrained.unpack(packed))
    make(page, contents(tmp_path))
    assert (read(page, tokens)[0] - model(tokens[None])[0]).abs().max() <= 1e-4


def test_every_float16(page):
    bits = np.arange(2**16, dtype=np.uint16)
    numbers = bits.view(np.float16)
    bits = bits[np.isfinite(numbers)]
    header = json.dumps({"x": {"dtype": "F16", "shape": [len(bits)], "data_offsets": [0, 2 * len(bits)]}}).encode()
    file = len(header).to_bytes(8, "little") + header + bits.tobytes()
    found = page.evaluate(
        "text => pack(library.read_safetensors(bytes(text)).get('x').data)", base64.b64encode(file).decode()
    )
    assert torch.equal(unpack(found, -1), torch.from_numpy(bits.view(np.float16).astype(np.float32)))


@pytest.mark.parametrize("name", pretrained_names())
def test_a_model_that_ships(page, name):
    """Ten texts at every position; then the longest greedy text, whose every token is PyTorch's to within 1e-3."""
    model, vocabulary = load(name)
    text = load_corpus("shakespeare-with-test", vocabulary=vocabulary).validation.long()
    make(page, contents(pretrained.SHIPPED / name))
    for start in torch.linspace(0, len(text) - 200, 10).long():
        tokens = text[start : start + 128]
        with torch.no_grad():
            expected = model(tokens[None])[0]
        found = page.evaluate("tokens => pack(model.forward(tokens))", tokens.tolist())
        assert (unpack(found, len(tokens), -1) - expected).abs().max() <= 1e-4
    written = page.evaluate(
        """tokens => {
            const cache = new library.Cache();
            for (let unread = tokens; tokens.length < model.max_seq_len; ) {
                const logits = model.forward(unread, cache).slice(-model.vocab_size);
                tokens.push(...(unread = [library.draw(logits, 0)]));
            }
            return tokens;
        }""",
        vocabulary.encode("To be").tolist(),
    )
    tokens = torch.tensor(written)
    with torch.no_grad():
        logits = model(tokens[None])[0, 4:-1]
    chosen = logits.gather(1, tokens[5:, None])[:, 0]
    assert (logits.amax(1) - chosen).max() <= 1e-3


def test_draws(page):
    """As often as their probabilities say, of the likeliest only, the same for the same seed."""
    counts = page.evaluate("""() => {
        const logits = Float32Array.of(1, 3, 2, -1), counts = [0, 0, 0, 0], random = library.generator(3);
        for (let i = 0; i < 20000; i++) counts[library.draw(logits, 0.5, 3, random)]++;
        return counts;
    }""")
    expected = torch.softmax(torch.tensor([1.0, 3.0, 2.0, -torch.inf]) / 0.5, 0)
    assert (torch.tensor(counts) / 20000 - expected).abs().max() <= 0.01
    assert page.evaluate("[library.draw([0, 5, 5], 0), library.draw([0, 5, 6], 1, 1, Math.random)]") == [1, 2]
    same = "[7, 7, 8].map(seed => Array.from({ length: 9 }, library.generator(seed)))"
    first, again, other = page.evaluate(same)
    assert first == again != other


def refused(page, config, weights):
    with pytest.raises(Error) as error:
        make(page, [config, weights])
    return str(error.value)


def test_bad_files_are_refused_with_a_sentence(page, tmp_path):
    model = build_model("gmlp", vocab_size=VOCAB, d_model=16, n_layers=2, max_seq_len=MAX_LEN)
    config, weights = folder_of(model, tmp_path)
    raw = base64.b64decode(weights)

    def encode(data):
        return base64.b64encode(data).decode()

    for changed, said in (
        ({"format": 1}, "the format of config.json is 1; expected 2; save the model again"),
        ({"name": "mamba"}, "the model's name is “mamba”; expected one of “transformer”, “primer-ez”"),
        ({"tying": False}, "an option is “tying”; expected one of"),
        ({"gate": "open"}, "gate is “open”; expected one of “split”"),
        ({"n_layers": 10**9}, "n_layers is 1000000000; expected at most"),
        ({"n_layers": 1}, "the rest of model.safetensors is"),
        ({"n_layers": 3}, "the tensor body.2.gate.norm.weight is null; expected to be in model.safetensors"),
        ({"d_model": 32}, "the shape of body.0.norm.weight is [16]; expected [32]"),
        ({"d_model": "16"}, "d_model is “16”; expected an int of at least 1"),
        ({"name": "hourglass", "hierarchy": "1@1 1@2"}, "expected one"),
    ):
        assert said in refused(page, {**config, **changed}, weights)
    for data, said in (
        (b"", "it has 0 bytes; expected a safetensors file"),
        (b"PK\x03\x04 a zip file, say", "it ends before its header does"),
        (b"\x02" + 7 * b"\0" + b"{;", "its header is not JSON"),
        (raw[:-4], "is cut off"),
    ):
        assert said in refused(page, config, encode(data))
    double = raw.replace(b'"F32"', b'"F64"', 1)
    assert "expected one of “F16”, “F32”" in refused(page, config, encode(double))


def test_bad_texts_are_refused_with_a_sentence(page, tmp_path):
    model = build_model("transformer", vocab_size=VOCAB, d_model=16, n_layers=1, max_seq_len=8)
    make(page, folder_of(model, tmp_path))
    for tokens, said in (
        ([], "the text is “”; expected at least one character"),
        ([1] * 9, "the length of the text is 9; expected at most 8 characters, the context of this model"),
        ([1, VOCAB], "a token is 11; expected 0 to 10, the vocabulary"),
    ):
        with pytest.raises(Error, match="expected") as error:
            page.evaluate("tokens => model.forward(tokens).length", tokens)
        assert said in str(error.value)
    with pytest.raises(Error, match="a character is “☃”; expected one of this model's 3 characters: abc"):
        page.evaluate("new library.Vocabulary({ characters: 'abc' }).encode('☃')")
    with pytest.raises(Error, match="vocabulary.json is 3; expected an object"):
        page.evaluate("new library.Vocabulary(3)")
    assert page.evaluate("new library.Vocabulary({ tokens: 'bytes' }).encode('é')") == [0xC3, 0xA9]
    with pytest.raises(Error, match="the cache is “another model's”"):
        page.evaluate("""() => {
            const cache = new library.Cache();
            cache.owner = {};
            model.forward([1], cache);
        }""")


def test_the_script_is_small():
    size = sum(len(gzip.compress((STATIC / name).read_bytes())) for name in ("models.js",))
    assert size <= 14_000
