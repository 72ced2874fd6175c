"""Things to touch: instruments in plain JavaScript, which compute what the package computes.

What is notable:
- the same scripts serve the site and a notebook's output, where an instrument carries all that it needs;
- without JavaScript a still and a sentence remain, and the guess and the bet, which need none, work as they are;
- tests compare what an instrument shows with what the package's layers compute.
"""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from ...judging.evidence import Comparison
from ...layers.attention import MultiHeadAttention
from ...layers.convolution import CausalDepthwiseConv
from ...models.generation import generate
from ...models.language_model import LanguageModel, build_model, initialize
from ...models.pretrained import pretrained_card, pretrained_snapshots
from ...support.checks import require, require_known
from ...training.corpus import load_corpus
from ...training.evaluation import evaluate
from ...training.loop import TrainingConfig, train
from ...training.runs import load
from ...training.vocabulary import Vocabulary
from ..explorer import png
from ..figures.maps import leak_maps
from ..figures.variations import waves

Mechanism = Literal["attention", "convolution", "hourglass", "gmlp"]
Strip = Literal["attention", "convolved", "gate"]
FOLDER = Path(__file__).parent
T = 24  # tokens in Leak Lab
TOUCH = "run this cell to touch it (on the site, allow scripts)"
MODEL_OF = {
    "attention": "transformer",
    "convolved": "primer-ez",
    "gate": "dense-gmlp",
}  # the shipped one that a strip shows
SIMPLE_HEAD, SIMPLE_BLOCK = (1, 1), 1  # layer and head, which reads where words begin; block, of near tokens


def script(name: str) -> str:
    """The script of an instrument, after what all of them share."""
    return "".join((FOLDER / f"{part}.js").read_text(encoding="utf-8") for part in ("instruments", name))


def whole(numbers: Tensor) -> tuple[str, float]:
    """Numbers as whole ones of 8 bits, in base64, and what to multiply them by."""
    scale = numbers.abs().max().item() / 127
    packed = (numbers / scale).round().to(torch.int8).contiguous()
    return base64.b64encode(packed.numpy().tobytes()).decode(), scale


def shipped(name: str) -> tuple[LanguageModel, Vocabulary]:
    """A model that ships, and its vocabulary; the reader's random numbers stay what they would have been."""
    with torch.random.fork_rng(devices=[]):
        return load(Path(name))


def shipped_states(name: str) -> dict[int, dict[str, Tensor]]:
    """The recorded weights of a model that ships, by training step; all of them at the end."""
    return {**pretrained_snapshots(name), pretrained_card(name)["steps"]: shipped(name)[0].state_dict()}


def picture(drawn: bytes, alt: str) -> str:
    """A PNG within the page."""
    return f'<img src="data:image/png;base64,{base64.b64encode(drawn).decode()}" alt="{escape(alt)}">'


def framed(name: str, title: str, question: str, inside: str, data: str = "") -> str:
    """An element with a frame and a heading, the name of the instrument and what it answers."""
    heading = f'<div class="heading"><strong>{title}</strong> {escape(question)}</div>'
    return f'<div class="instrument {name}" role="group" aria-label="{title}"{data}>{heading}{inside}</div>'


class Instrument(ABC):
    """What the instruments share: an element that holds a still, and the script that fills it."""

    name: ClassVar[str]
    question: ClassVar[str]

    @property
    @abstractmethod
    def sentence(self) -> str:
        """What the still shows."""

    @abstractmethod
    def still(self) -> str:
        """HTML for where no script runs."""

    @abstractmethod
    def data(self) -> Mapping[str, str]:
        """What the script reads, by the name of an attribute without its ``data-``."""

    def __repr__(self) -> str:
        return self.sentence

    def element(self, inside: str) -> str:
        """The element that the script fills, with what stands there where no script runs."""
        data = "".join(f' data-{key}="{escape(value)}"' for key, value in self.data().items())
        title = self.name.replace("-", " ").title()
        return framed(self.name, title, self.question, f"{inside}<p>{escape(self.sentence)}</p>", data)

    def _repr_html_(self) -> str:
        style = (FOLDER / "instruments.css").read_text(encoding="utf-8")
        return f"<style>{style}</style>{self.element(self.still())}<script>{script(self.name)}</script>"


class Guess:
    """Texts side by side, of which the reader chooses one; what is said of each choice opens without a script.

    Args:
        choices: by what a reader says who chooses it, a text and what they are told.
    """

    def __init__(self, choices: Mapping[str, tuple[str, str]]) -> None:
        self.choices = dict(choices)

    def __repr__(self) -> str:
        asked = [f"{text}\n{choice}?" for choice, (text, _) in self.choices.items()]
        answers = [f"{choice}? {told}" for choice, (_, told) in self.choices.items()]
        return "\n\n".join([*asked, "Choose, then read on.", "\n".join(answers)])  # nothing folds in plain text

    def _repr_html_(self) -> str:
        style = "".join((FOLDER / f"{part}.css").read_text(encoding="utf-8") for part in ("instruments", "guess"))
        texts = "".join(
            f'<div><pre>{escape(text)}</pre><details name="guess"><summary>{escape(choice)}</summary>'
            f"<p>{escape(told)}</p></details></div>"
            for choice, (text, told) in self.choices.items()
        )
        return f"<style>{style}</style>{framed('guess', 'A guess', 'Choose one, then read on.', texts)}"


class Cheating(MultiHeadAttention):  # its mask lets one token of the future through
    def attend(self, q: Tensor, k: Tensor, v: Tensor, **_: Any) -> Tensor:
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(1)
        return self.output(F.scaled_dot_product_attention(q, k, v, seen).transpose(1, 2).flatten(2))


def two_models_that_write() -> tuple[Guess, tuple[LanguageModel, LanguageModel], list[float]]:
    """A guess between a model that cheats, trained here, and an honest one, which ships; both, and their losses."""
    corpus, (honest, _) = load_corpus(), shipped("transformer")
    cheat = build_model("transformer", vocab_size=len(corpus.vocabulary))
    body: Any = cheat.body
    for layer in body:
        layer.attention = Cheating(128, 4)
    initialize(cheat)
    train(cheat, corpus, TrainingConfig(steps=60, batch_size=12, seq_len=64), show_progress=False)
    prompt = corpus.vocabulary.encode("MACBETH:\n")[None]
    texts, losses = [], []
    for model in (cheat, honest):
        tokens = generate(model, prompt, 160, temperature=0.7, seed=1, use_cache=False)
        texts.append(corpus.vocabulary.decode(tokens[0]))
        losses.append(evaluate(model, corpus.validation, seq_len=64, at_least=6144))
    yes = "Yes, {:.2f} against {:.2f}, and lower is better. It cheats.".format(*losses)
    guess = Guess(
        {
            "The first has the lower loss": (texts[0].replace("\n", "¶"), yes),
            "The second has the lower loss": (texts[1], "No. It is the honest one."),
        }
    )
    return guess, (cheat, honest), losses


class LeakLab(Instrument):
    """Which tokens each output depends on, for a mechanism and its mistakes, and what it remembers to write on.

    Args:
        mechanism: the one to begin with.
        fixed: whether it is the only one.

    Raises:
        ValueError: for an unknown mechanism.
    """

    name = "leak-lab"
    question = "Which tokens does an output read?"
    MISTAKES: ClassVar[dict[str, str]] = {
        "attention": "attention whose mask lets one token of the future through",
        "convolution": "a convolution of width 3 with one zero on its left instead of two",
        "hourglass": "an hourglass of factor 4 whose sequence is shifted by 2 instead of 3 tokens",
        "gmlp": "a gate whose matrix keeps one diagonal above the main one",
    }

    def __init__(self, mechanism: Mechanism = "hourglass", *, fixed: bool = False) -> None:
        require_known("mechanism", mechanism, get_args(Mechanism))
        self.mechanism, self.fixed = mechanism, fixed

    def depends(self) -> Tensor:
        """Which token (columns) each output (rows) reads at the first setting, which is a mistake: bool ``[T, T]``."""
        t, s = torch.arange(T)[:, None], torch.arange(T)
        if self.mechanism == "convolution":
            return (s - t).abs() <= 1
        if self.mechanism == "hourglass":
            return (t // 4 == (s + 2) // 4) | (s == t)
        return s <= t + 1

    @property
    def sentence(self) -> str:
        leaks = int(self.depends().triu(1).any(1).sum())
        mistake = self.MISTAKES[self.mechanism]
        return f"Leak Lab; {TOUCH}: {mistake} lets {leaks} of {T} outputs see their future."

    def still(self) -> str:
        return picture(png(leak_maps({self.mechanism: self.depends()}), 80), f"Leak map. {self.sentence}")

    def data(self) -> Mapping[str, str]:
        return {"mechanism": self.mechanism} | ({"fixed": ""} if self.fixed else {})


class KernelBench(Instrument):
    """What three weights do to a sequence: bars to drag, a pulse, a wave, the gain of each frequency."""

    name = "kernel-bench"
    question = "What do three weights do to a sequence?"

    @property
    def sentence(self) -> str:
        return (
            f"Kernel Bench; {TOUCH}: the weights 0.50, 0.17, 0.17 pass a constant at 0.83, a cycle of two"
            " at 0.50, and leave 0.37 of a wave with a cycle of 4 tokens."
        )

    def still(self) -> str:
        conv = CausalDepthwiseConv(1)  # it starts with these weights
        pairs = {}
        for name, f in (("constant", 0), ("a cycle in 4 tokens", 1 / 4), ("a cycle in 2 tokens", 1 / 2)):
            wave = torch.cos(2 * torch.pi * f * torch.arange(12))
            pairs[name] = wave, conv(wave.view(1, -1, 1)).detach().flatten()
        return picture(png(waves(pairs), 80), f"Three waves before and after the kernel. {self.sentence}")

    def data(self) -> Mapping[str, str]:
        return {}


class Bet:
    """Which of queries, keys and values to convolve: three buttons, each of which opens the same figure.

    It needs no script: the buttons are summaries, and the style sheet shows the figure once one of them is open. The
    figure has a row for each subset of the three, with a dot for each seed, and leaves numbers to the study.

    Args:
        subsets: the loss of each model minus that of one without convolutions, by the letters of what is convolved:
            ``"q"``, ``"kv"``.

    Raises:
        ValueError: unless there is one for each of the seven subsets.
    """

    TEXT: ClassVar[str] = "the hen the"
    NAMES: ClassVar[dict[str, str]] = {"q": "queries", "k": "keys", "v": "values"}
    SEES: ClassVar[dict[str, tuple[str, slice]]] = {  # what becomes three letters wide, and which letters of the text
        "q": ("what a head looks for", slice(8, 11)),
        "k": ("what it is compared with", slice(0, 3)),
        "v": ("what it fetches", slice(0, 3)),
    }
    SAYS: ClassVar[dict[str, str]] = {
        "q": "Queries alone bring little, if anything. A query of three letters still meets keys of one. "
        "The four sets that include values have the lowest losses, and stand at the top.",
        "k": "Keys alone bring a little. A key of three letters is met by queries of one, and the head still fetches "
        "one letter. Compare their row with that of values.",
        "v": "Of the three, values alone bring most. A training as short as this cannot tell "
        "whether they do as well as all three together.",
    }

    def __init__(self, subsets: Mapping[str, Comparison]) -> None:
        known = ["q", "k", "v", "qk", "qv", "kv", "qkv"]
        require(sorted(subsets) == sorted(known), "subsets", sorted(subsets), f"one comparison for each of {known}")
        self.rows = dict(sorted(subsets.items(), key=lambda item: item[1].mean))
        ends = [end for row in subsets.values() for end in (row.low, row.high, *row.values, 0.0)]
        self.left, self.width = min(ends), max(ends) - min(ends)

    def name(self, letters: str) -> str:
        """A subset in words."""
        return "all three" if len(letters) == 3 else " and ".join(self.NAMES[letter] for letter in letters)

    def __repr__(self) -> str:
        gains = (f"{self.name(letters)} {-1000 * found.mean:.0f}" for letters, found in self.rows.items())
        lower = "; ".join(gains).replace("-", "−")
        return f"Loss lower than without convolutions, in thousandths of a nat: {lower}."

    def place(self, loss: float) -> str:
        """Where a difference of losses stands on its row."""
        return f"{100 * (loss - self.left) / self.width:.1f}%"

    def button(self, letter: str) -> str:
        what, letters = self.SEES[letter]
        parts = (slice(letters.start), letters, slice(letters.stop, None))
        before, inside, after = (escape(self.TEXT[part]) for part in parts)
        return (
            f'<details class="{letter}" name="bet"><summary><span class="name">{self.NAMES[letter].capitalize()}</span>'
            f'<span class="text" aria-hidden="true">{before}<b>{inside}</b>{after}</span><span>{what}</span></summary>'
            f"<p>{self.SAYS[letter]}</p></details>"
        )

    def row(self, letters: str, found: Comparison) -> str:
        bar = f"left: {self.place(found.low)}; right: {100 - float(self.place(found.high)[:-1]):.1f}%"
        dots = "".join(f'<i style="left: {self.place(value)}"></i>' for value in found.values)
        sure = ' class="sure"' if found.told_apart else ""
        return (
            f'<div class="subset {letters}"><span>{self.name(letters)}</span><span class="axis">'
            f'<s style="left: {self.place(0)}"></s><u style="{bar}"></u>{dots}'
            f'<b{sure} style="left: {self.place(found.mean)}"></b></span></div>'
        )

    def _repr_html_(self) -> str:
        style = "".join((FOLDER / f"{part}.css").read_text(encoding="utf-8") for part in ("instruments", "bet"))
        rows = "".join(self.row(*item) for item in self.rows.items())
        inside = (
            f'<div class="choices">{"".join(map(self.button, self.NAMES))}</div>'
            f'<div class="drawn"><div role="img" aria-label="{escape(repr(self))}">{rows}'
            '<div class="subset"><span></span><span class="ends"><span>lower loss</span>'
            "<span>no convolution</span></span></div></div>"
            "<p>One row for each set that is convolved. A dot is one seed, the diamond their mean; it is "
            "filled if the interval around it does not touch the line of the model without convolutions.</p></div>"
        )
        return f"<style>{style}</style>{framed('bet', 'A bet', 'Which of the three would you convolve?', inside)}"


def shipped_kernels() -> dict[int, Tensor]:
    """Those of the shipped Primer EZ by training step, from the start to the end: ``[3, layers, K, W]``.

    The first axis is queries, keys, values.
    """
    states = shipped_states("primer-ez")
    names = [[n for n in next(iter(states.values())) if f"conv_{kind}.weight" in n] for kind in "qkv"]
    start = CausalDepthwiseConv(32).weight.detach()  # (1, K, W)
    steps = {0: {name: start for kind in names for name in kind}, **states}
    return {
        step: torch.stack([torch.cat([weights[name] for name in kind]) for kind in names])
        for step, weights in steps.items()
    }


class ReadingLamp(Instrument):
    """What each character of a line reads, shaded on the line itself: attention, convolved attention, a gate.

    The weights are those of the models that ship with the package.

    Args:
        *strips: which of the three; all of them by default.
        lines: lines of text to choose from, at most 64 characters each.
        simple: show one head and one block of trained models, and no weight as a number: a character and a line are all
            there is to choose, for readers to whom nothing else has been explained.

    Raises:
        ValueError: for an unknown strip, no line, or a line that is empty, too long, or has an unknown character.
    """

    name = "reading-lamp"
    question = "What does a character read?"

    def __init__(
        self,
        *strips: Strip,
        lines: Sequence[str] = ("To be, or not to be", "Once more unto the breach, dear"),
        simple: bool = False,
    ) -> None:
        self.strips: tuple[str, ...] = strips or get_args(Strip)
        for strip in self.strips:
            require_known("strips", strip, get_args(Strip))
        fits = len(lines) > 0 and all(0 < len(line) <= 64 for line in lines)
        require(fits, "lines", list(lines), "at least one line, of 1 to 64 characters each")
        self.lines, self.simple = list(lines), simple
        self.maps = {s: shipped_attention(MODEL_OF[s], *lines) for s in self.strips if s != "gate"}
        self.gates = shipped_gates(max(map(len, lines))) if "gate" in self.strips else {}
        if simple:
            layer, head = (slice(i, i + 1) for i in SIMPLE_HEAD)
            self.maps = {strip: [a[layer, head] for a in maps] for strip, maps in self.maps.items()}
            self.gates = {step: w[SIMPLE_BLOCK : SIMPLE_BLOCK + 1] for step, w in list(self.gates.items())[-1:]}

    def rows(self) -> dict[str, Tensor]:
        """What the last character of the first line reads first, by attention and by the gate: each ``[T]``."""
        n, found = len(self.lines[0]), dict[str, Tensor]()
        (layer, head), block = (SIMPLE_HEAD, SIMPLE_BLOCK) if self.simple else ((0, 0), 0)
        for strip, maps in list(self.maps.items())[:1]:
            found[f"layer {layer + 1}, head {head + 1} of the {MODEL_OF[strip]} that ships"] = maps[0][0, 0, -1]
        if self.gates:
            found[f"block {block + 1} of the {MODEL_OF['gate']} that ships"] = list(self.gates.values())[-1][
                0, n - 1, :n
            ]
        return found

    @property
    def sentence(self) -> str:
        parts: list[str] = []
        for what, row in self.rows().items():
            back = len(row) - 1 - int(row.abs().argmax())
            whose = "it" if parts else f"the last character of “{self.lines[0]}”"
            parts.append(f"in {what}, {whose} reads {f'the one {back} back' if back else 'itself'} most")
        alike = ", as in every line" if self.gates else ""
        return f"Reading Lamp; {TOUCH}: {'; '.join(parts)}{alike}."

    def still(self) -> str:
        lines = []
        for row in self.rows().values():
            shaded = (
                f'<span style="background: rgba(47, 111, 174, {0.6 * share:.2f})">{escape(c)}</span>'
                for c, share in zip(self.lines[0], (row.abs() / row.abs().max()).tolist(), strict=True)
            )
            lines.append(f'<p style="font: 20px monospace; white-space: pre-wrap">{"".join(shaded)}</p>')
        return "".join(lines)

    def data(self) -> Mapping[str, str]:
        data = {"strips": " ".join(self.strips), "lines": json.dumps(self.lines)}
        if self.simple:
            data["simple"] = ""
        for strip, maps in self.maps.items():  # each row by its largest weight; since it sums to 1, nothing is lost
            data[strip] = json.dumps([whole(lower(a / a.amax(-1, keepdim=True))) for a in maps])
        if self.gates:
            data["gate"] = json.dumps([[whole(w) for w in lower(matrices)] for matrices in self.gates.values()])
            data["steps"] = ",".join(map(str, self.gates))
        return data


def lower(matrices: Tensor) -> Tensor:
    """The lower triangles of matrices, row by row: ``[..., n, n]`` to ``[..., n (n + 1) / 2]``."""
    rows, columns = torch.tril_indices(*matrices.shape[-2:])
    return matrices[..., rows, columns]


@torch.no_grad()
def shipped_attention(name: str, *lines: str) -> list[Tensor]:
    """The attention weights of a model that ships on each line of text, ``[layers, heads, T, T]``."""
    (model, vocabulary), found = shipped(name), []
    body: Any = model.body
    for line in lines:
        x, maps = model.embedding(vocabulary.encode(line)[None]), []  # (1, T, D)
        for layer in body:
            maps.append(layer.attention.attention_map(layer.norm1(x))[0])
            x = layer(x)
        found.append(torch.stack(maps))
    return found


def shipped_gates(n: int) -> dict[int, Tensor]:
    """The dense gMLP's matrices, their first ``n`` rows and columns, by training step: ``[blocks, n, n]``."""
    return {
        step: torch.stack([w for name, w in weights.items() if name.endswith("gate.weight")])[:, :n, :n]
        for step, weights in shipped_states(MODEL_OF["gate"]).items()
    }
