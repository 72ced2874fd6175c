"""The models that a reader's browser runs, in a browser, beside PyTorch: logits, attention, gates, texts, bad files."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest
import torch
from axe import too_small, violations
from helpers import randomize
from playwright.sync_api import Error, expect
from polling import until

from efficient_transformers import build_model, load_corpus, pretrained_names
from efficient_transformers.layers.attention import Attention
from efficient_transformers.layers.gmlp import SpatialGatingUnit
from efficient_transformers.models import pretrained, saving
from efficient_transformers.training.runs import load
from tools.make import browser
from tools.site import models

STATIC = Path(__file__).parents[2] / "book" / "static"

VOCAB, MAX_LEN, T = 11, 40, 31
CASES = {  # each family, and what else is computed by another formula
    "transformer": {},
    "primer-ez": {"kernel_size": 4, "dilation": 2, "bias": True},
    "primer-ez shared": {"sharing": "all", "convolve": "qv", "activation": "gelu"},
    "primer-ez per head": {"sharing": "none", "activation": "swiglu"},
    "primer": {},
    "hourglass": {},
    "hourglass linear": {"hierarchy": "1@1 1@3 1@1", "shortening": "linear", "up_sampling": "linear"},
    "hourglass attention": {
        "hierarchy": "1@1 1@2 1@6 1@2 1@1",
        "shortening": "attention",
        "pooling": "linear",
        "up_sampling": "attention",
        "expansion": "linear",
        "layer": "primer-ez",
    },
    "gmlp dense": {"gate": "split", "weight": "dense"},
    "gmlp whole": {"gate": "whole", "positions": True},
    "gmlp additive": {"gate": "additive", "weight": "dense"},
    "gmlp linear": {"gate": "linear"},
    "amlp": {},
}

READ = """([tokens, pieces]) => {
    const seen = {}, cache = new library.Cache((layer, what, position, values) => {
        (seen[`${layer.name} ${what}`] ??= []).push([...values]);
    });
    const logits = [];
    for (let i = 0; i < tokens.length; ) {
        const n = pieces.length ? pieces.shift() : tokens.length - i;
        logits.push(...model.forward(tokens.slice(i, i += n), cache));
    }
    return { logits, seen };
}"""


@pytest.fixture(scope="module")
def page(chromium):
    tab = chromium.new_page()
    tab.add_script_tag(path=STATIC / "models.js")
    tab.evaluate("window.library = efficient_transformers(); undefined")
    return tab


def folder_of(model, folder):
    """What a folder holds that the model was saved in, as the page gets it: the config, and the weights in base64."""
    model.save_pretrained(folder)
    return contents(folder)


def contents(folder):
    config = json.loads((folder / saving.CONFIG).read_text())
    return [config, base64.b64encode((folder / saving.WEIGHTS).read_bytes()).decode()]


def make(page, folder):
    build = "library.build_model(config, library.read_safetensors(library.bytes_of(weights)))"
    page.evaluate(f"([config, weights]) => {{ window.model = {build}; }}", folder)


def read(page, tokens, pieces=()):
    """Logits [T, V], and what was seen: by layer and kind, the numbers of each position."""
    found = page.evaluate(READ, [tokens.tolist(), list(pieces)])
    return torch.tensor(found["logits"]).view(len(tokens), -1), found["seen"]


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
        return forward(self, z, cache, mask, attended=attended)

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


@pytest.mark.parametrize("name", pretrained_names())
def test_a_model_that_ships(page, name):
    """A text, at every position."""
    model, vocabulary = load(name)
    text = load_corpus("shakespeare-with-test", vocabulary=vocabulary).validation.long()
    make(page, contents(pretrained.SHIPPED / name))
    tokens = text[1000:1128]
    with torch.no_grad():
        expected = model(tokens[None])[0]
    assert (read(page, tokens)[0] - expected).abs().max() <= 1e-4


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


def refused(page, config, weights):
    with pytest.raises(Error) as error:
        make(page, [config, weights])
    return str(error.value)


def test_bad_files_are_refused_with_a_sentence(page, tmp_path):
    model = build_model("gmlp", vocab_size=VOCAB, d_model=16, n_layers=2, max_seq_len=MAX_LEN)
    config, weights = folder_of(model, tmp_path)
    raw = base64.b64decode(weights)
    for changed, said in (
        ({"format": 1}, "the format of config.json is 1; expected 3; save the model again"),
        ({"name": "mamba"}, "the model's name is “mamba”; expected one of"),
        ({"tying": False}, "an option is “tying”; expected one of"),
        ({"gate": "open"}, "gate is “open”; expected one of"),
        ({"n_layers": 10**9}, "n_layers is 1000000000; expected at most"),
        ({"n_layers": 3}, "the tensor body.2.gate.norm.weight is null; expected"),
        ({"d_model": 32}, "the shape of body.0.norm.weight is [16]; expected [32]"),
    ):
        assert said in refused(page, {**config, **changed}, weights)
    for data, said in (
        (b"", "it has 0 bytes; expected a safetensors file"),
        (b"\x02" + 7 * b"\0" + b"{;", "its header is not JSON"),
        (raw[:-4], "is cut off"),
    ):
        assert said in refused(page, config, base64.b64encode(data).decode())


def test_bad_texts_are_refused_with_a_sentence(page, tmp_path):
    model = build_model("transformer", vocab_size=VOCAB, d_model=16, n_layers=1, max_seq_len=8)
    make(page, folder_of(model, tmp_path))
    for tokens, said in (
        ([], "the text is “”; expected"),
        ([1] * 9, "the length of the text is 9; expected at most 8 characters"),
        ([1, VOCAB], "a token is 11; expected 0 to 10"),
    ):
        with pytest.raises(Error, match="expected") as error:
            page.evaluate("tokens => model.forward(tokens).length", tokens)
        assert said in str(error.value)
    with pytest.raises(Error, match="a character is “☃”; expected one of this model's 3 characters: abc"):
        page.evaluate("new library.Vocabulary({ characters: 'abc' }).encode('☃')")
    assert page.evaluate("new library.Vocabulary({ tokens: 'bytes' }).encode('é')") == [0xC3, 0xA9]


# The pages: a small model with a few characters, from a server and from the disk.

CHARACTERS = "\n !?" + "".join(map(chr, range(ord("a"), ord("z") + 1)))
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{kind}</title><style>* {{ box-sizing: border-box }} [hidden] {{ display: none !important }}
:root {{ --pst-color-text-base: #222; --pst-color-text-muted: #555; --pst-color-background: #fff;
  --pst-color-link: #00529b; --pst-color-border: #aaa; --pst-font-family-monospace: monospace; }}</style>
<link rel="icon" href="data:,"><link rel="stylesheet" href="static/models.css">
<script src="static/page.js"></script><script defer src="static/models.js"></script>
<script defer src="static/model-worker.js"></script><script defer src="static/model-parts.js"></script>
<script defer src="static/model-page.js"></script>
<main><h1>{kind}</h1>{body}</main></html>"""


def body_of(kind):
    """What the page of the book has there, with the models and the text of these tests."""
    text = (STATIC.parent / f"{kind}-with-it.md").read_text(encoding="utf-8")
    body = re.search(r"```\{raw\} html\n(<div.*?)```", text, re.DOTALL)[1]
    body = re.sub('data-text="[^"]*"', 'data-text="to be"', body.replace("../_static/", ""))
    return body.replace("<!-- shipped models -->", models.options())


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Both pages, three models that ship with them, and the folder of a reader."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "static").symlink_to(STATIC)
    (folder / "weights").mkdir()
    torch.manual_seed(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrained, "SHIPPED", folder / "shipped")
        for family in ("primer-ez", "hourglass", "amlp", "transformer"):
            own, sizes = family == "transformer", {"d_model": 16, "n_heads": 2, "n_layers": 3, "max_seq_len": 40}
            characters = "".join(map(chr, range(256))) if own else CHARACTERS
            model = randomize(build_model(family, vocab_size=len(characters), **sizes), 0.3)
            where = folder / ("own" if own else "shipped") / family
            state = model.state_dict() if own else pretrained.pack(model.state_dict())
            saving.write(where, {**model.config, saving.VOCABULARY: saving.fingerprint(characters)}, state)
            words = {"tokens": "bytes"} if own else {"characters": characters}
            (where / "vocabulary.json").write_text(json.dumps(words))
            if not own:
                (where / pretrained.CARD).write_text("{}")
                (folder / "weights" / f"{family}.js").write_text(models.as_script(where))
        for kind in ("write", "read"):
            (folder / f"{kind}.html").write_text(PAGE.format(kind=kind, body=body_of(kind)))
    return folder


@pytest.fixture(scope="module")
def home(site):
    with browser.served(site) as address:
        yield address


def settled(tab):
    """Wait until the page has done what it was asked."""
    tab.evaluate("async () => { const { app } = document.querySelector('.models'); await app.turn; }")


def press(tab, name):
    tab.get_by_role("button", name=name, exact=True).click()
    settled(tab)


def error_of(tab):
    """What went wrong, in words; an empty string for nothing."""
    return tab.locator(".models-error").inner_text()


def written(tab, n=0):
    return tab.evaluate(
        "n => document.querySelector('.models').app.writings[n].pieces.map(piece => piece.text).join('')", n
    )


def loaded_weights(tab):
    return [url for url in tab.asked if "/weights/" in url]


def test_write_with_it(visit, site):
    """Nothing loads before a click; two models write beside the page, the same again for the same seed."""
    tab = visit(f"{site.as_uri()}/write.html")  # the other tests ask a server
    tab.get_by_label("beside it").select_option("amlp")
    assert loaded_weights(tab) == []
    press(tab, "Step")
    assert len(loaded_weights(tab)) == 2
    assert error_of(tab) == tab.locator(".models-status").inner_text() == ""
    assert len(written(tab)) == len(written(tab, 1)) == len("to be") + 1
    for _ in range(3):
        press(tab, "Step")
    first = written(tab), written(tab, 1)
    press(tab, "Start over")
    assert written(tab) == "to be"
    for _ in range(4):
        press(tab, "Step")
    assert (written(tab), written(tab, 1)) == first
    assert "tokens per second" in tab.locator(".models-name").first.inner_text()
    assert tab.locator(".models-bars").first.get_attribute("aria-label").count("%") == 5
    assert "Wrote 4 characters" in tab.locator(".models-said").first.inner_text()
    tab.locator(".models-text span").first.click()
    expect(tab.locator(".models-said").first).to_contain_text("nothing came before it")


def test_it_writes_on_when_the_context_is_full_and_stops(visit, home):
    tab = visit(f"{home}/write.html")
    tab.get_by_role("button", name="Run").focus()
    tab.keyboard.press("Enter")
    until(lambda: tab.locator(".models-text span").count() > 90)
    tab.keyboard.press("Enter")
    settled(tab)
    assert tab.get_by_role("button", name="Run").count() == 1
    assert "it read its last 20 tokens again" in tab.locator(".models-said").inner_text()
    tab.locator(".models-text span").nth(3).click()  # forgotten, but not what was expected there
    expect(tab.locator(".models-bars")).to_have_attribute("aria-label", re.compile("%.*%"))
    n = len(written(tab))
    tab.wait_for_timeout(100)
    assert len(written(tab)) == n


@torch.no_grad()
@pytest.mark.parametrize("name", ["hourglass", "amlp"])
def test_read_with_it(visit, site, home, name, monkeypatch):
    """The strip behind a character and the map of the text are PyTorch's; a window is spread over its tokens."""
    folder, text = site / "shipped" / name, "to be or not to be"
    model = build_model(**saving.read_config(folder)).eval()
    model.load_state_dict(pretrained.unpack(saving.read_weights(folder, "cpu")))
    tokens = torch.tensor([CHARACTERS.index(c) for c in text])
    _, seen = seen_by_pytorch(model, tokens, monkeypatch)
    tab = visit(f"{home}/read.html#a={name}&b=primer-ez&text={text.replace(' ', '+')}")
    press(tab, "Read it")
    assert error_of(tab) == ""
    tab.get_by_role("slider").focus()
    tab.keyboard.press("End")
    tab.keyboard.press("ArrowLeft")
    settled(tab)
    place = len(text) - 2
    assert f"{place + 1} of {len(text)}, “b”" in tab.locator("output").last.inner_text()
    assert "gave it" in tab.locator(".models-said").first.inner_text()
    reads = tab.evaluate("""async () => {
        const [{ lamp }] = document.querySelector(".models").app.readings, strips = lamp.reads;
        for (const [index, read] of strips.entries()) {
            read.heads = read.heads.map(head => [...head]);
            read.map = [...(await lamp.slot.reader.ask("map", { index, head: 0 })).shades];
        }
        return strips;
    }""")
    assert [f"{read['name']} {read['what']}" for read in reads] == list(seen)
    for read in reads:
        rows = seen[f"{read['name']} {read['what']}"]
        rows = rows if rows.dim() == 3 else rows[:, None]  # (positions, heads, keys)
        step = read["span"]  # window j ends with token j * step
        last = rows[place // step].repeat_interleave(step, 1)[:, step - 1 : step + place]
        n = min(last.shape[1], len(read["heads"][0]))
        assert torch.allclose(torch.tensor(read["heads"])[:, :n], last[:, :n], atol=1e-4)
        if read["what"] != "gate":
            found = torch.tensor(read["map"]).view(len(text), -1)
            assert torch.allclose(found[place], torch.tensor(read["heads"][0]), atol=1e-6)
            assert not found.triu(1).any()
    tab.locator("canvas").first.click(position={"x": 5, "y": 3})
    settled(tab)
    assert "1 of" in tab.locator("output").last.inner_text()


def test_a_model_of_one_s_own(visit, site, home):
    """Chosen as files, it reads bytes; what is missing or wrong is said, and nothing is sent."""
    tab = visit(f"{home}/write.html")
    tab.locator("select").first.select_option("own")
    press(tab, "Run")
    assert error_of(tab) == "Drop your model’s folder first, or choose its three files."
    before, files = len(tab.asked), tab.get_by_label("or its files").first
    good = {file.name: file.read_bytes() for file in (site / "own" / "transformer").iterdir()}

    def give(contents):
        files.set_input_files([{"name": name, "mimeType": "", "buffer": data} for name, data in contents.items()])

    give({name: good[name] for name in ("config.json", "model.safetensors")})
    expect(tab.locator(".models-error")).to_contain_text("Missing: vocabulary.json")
    for name, content, said in (
        ("config.json", b"hello", "config.json is not JSON"),
        ("config.json", b"null", "config.json is null; expected an object"),
        ("model.safetensors", b"PK a zip", "model.safetensors does not hold weights"),
        ("vocabulary.json", b'{"characters": "abc"}', "The number of characters in vocabulary.json is 3; expected 256"),
        ("vocabulary.json", json.dumps({"characters": "".join(map(chr, range(1, 257)))}).encode(), "The sha256 of"),
        ("vocabulary.json", b'{"words": []}', "expected an object with characters or bytes"),
    ):
        give(good | {name: content})
        expect(tab.locator(".models-error")).to_contain_text(said)
    give(good)
    expect(tab.locator(".models-status")).to_contain_text("Your transformer is here")
    tab.locator("textarea").fill("né ☃")
    press(tab, "Step")
    assert error_of(tab) == ""
    assert written(tab).startswith("né ☃")
    surprise = tab.evaluate("document.querySelector('.models').app.writings[0].pieces.map(piece => piece.surprise)")
    assert surprise[0] is None
    assert all(x > 0 for x in surprise[1:])
    assert [url for url in tab.asked[before:] if not url.startswith("blob:")] == []


def test_files_may_be_dropped(visit, site, home):
    tab = visit(f"{home}/read.html#a=own")
    files = (site / "own" / "transformer").iterdir()
    contents = {file.name: base64.b64encode(file.read_bytes()).decode() for file in files}
    tab.evaluate(
        """contents => {
            const data = new DataTransfer(), bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
            for (const [name, text] of Object.entries(contents)) data.items.add(new File([bytes(text)], name));
            const event = new DragEvent("drop", { dataTransfer: data, cancelable: true });
            document.querySelector(".models-drop").dispatchEvent(event);
        }""",
        contents,
    )
    expect(tab.locator(".models-status")).to_contain_text("Your transformer is here")


def test_bad_input_on_the_pages(visit, home):
    tab = visit(f"{home}/write.html")
    for label, value, said in (
        ("your text", "", "The text is empty."),
        ("top-k", "0", "Top-k is “0”."),
        ("seed", "1.5", "The seed is “1.5”."),
    ):
        field = tab.get_by_label(label)
        good = field.input_value()
        field.fill(value)
        press(tab, "Step")
        assert said in error_of(tab)
        field.fill(good)
    press(tab, "Step")
    assert error_of(tab) == ""
    assert len(written(tab)) == 6


def test_unknown_characters_are_left_out_on_request(visit, home):
    tab = visit(f"{home}/read.html")
    tab.get_by_label("your line").fill("to 😀bé")
    press(tab, "Read it")
    assert "“😀”, “é” are not among the 30 characters of Primer EZ." in error_of(tab)
    tab.get_by_role("button", name="Leave out 😀 é and read").click()
    expect(tab.locator(".models-text span").nth(3)).to_be_attached()
    assert tab.get_by_label("your line").input_value() == "to b"
    assert error_of(tab) == ""


def test_weights_that_do_not_arrive(visit, home):
    tab = visit(f"{home}/write.html", errors_expected=True)
    tab.route("**/weights/*", lambda route: route.abort())
    press(tab, "Step")
    assert "The weights of primer-ez did not arrive. Is there a network?" in error_of(tab)
    tab.unroute("**/weights/*")
    press(tab, "Step")
    assert error_of(tab) == ""


@pytest.mark.parametrize("kind", ["write", "read"])
def test_the_pages_are_for_all(visit, home, kind):
    """axe, a phone's width, less motion; without JavaScript, the pages say what they need."""
    tab = visit(f"{home}/{kind}.html#b=hourglass", reduced_motion="reduce", viewport={"width": 390, "height": 800})
    press(tab, {"write": "Step", "read": "Read it"}[kind])
    assert violations(tab) == []
    assert tab.evaluate("document.scrollingElement.scrollWidth") <= 390
    assert too_small(tab) == []
    plain = visit(f"{home}/{kind}.html", java_script_enabled=False)
    assert "run in JavaScript, which this browser does not" in plain.locator("noscript").inner_text()
