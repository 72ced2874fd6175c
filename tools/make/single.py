"""`make single`: each family as one file that imports PyTorch alone, put together from the chapters' own cells.

What is notable:
- a definition stands in a file as its chapter has it; names of the package, which later chapters import, give way to
  those of the chapter that derives them;
- written here are the order, what builds the model of a family, and the text, which chapters take from the package;
- the files are committed, and a test holds them to the chapters.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.notebooks import chapters

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "single"
BASELINE = ("01-transformer", "turn_pairs", "PlainAttention", "PlainFeedForward", "PlainLayer")
MODEL = ("01-transformer", "PlainLanguageModel", "initialize")
TRAINING = ("01-transformer", "next_token_loss", "rate", "validation_loss", "learn")
PARTS: dict[str, list[tuple[str, ...]]] = {  # a chapter, and what the file takes from it, in this order
    "transformer": [BASELINE, MODEL],
    "primer_ez": [
        BASELINE,
        ("02-primer-ez", "squared_relu", "SquaredReLU", "causal_depthwise_conv", "start_kernel", "CausalConv"),
        ("02-primer-ez", "EZAttention"),
        MODEL,
    ],
    "hourglass": [
        BASELINE,
        ("04-hourglass", "count_windows", "windows", "MeanShortening", "CopyUpSampling", "PlainHourglass"),
        ("04-hourglass", "stack"),
        MODEL,
    ],
    "gmlp": [("05-gmlp", "SplitGate", "PlainBlock", "full", "ToeplitzGate", "DenseGMLP")],
}
BUILDS = {
    "transformer": """
        layers = [PlainLayer(PlainAttention(128, 4), PlainFeedForward(128, 512, nn.ReLU()), 128) for _ in range(4)]
        body = nn.Sequential(*layers)
        initialize(body)
        return PlainLanguageModel(body, vocab_size, 128)""",
    "primer_ez": """
        layers = [PlainLayer(EZAttention(128, 4), PlainFeedForward(128, 512, SquaredReLU()), 128) for _ in range(4)]
        body = nn.Sequential(*layers)
        initialize(body)
        return PlainLanguageModel(body, vocab_size, 128)""",
    "hourglass": """
        body = PlainHourglass(
            before=stack(1), shorten=MeanShortening(4), inside=stack(2), up_sample=CopyUpSampling(4), after=stack(1),
            d_model=128,
        )
        initialize(body)
        return PlainLanguageModel(body, vocab_size, 128)""",
    "gmlp": """
        model = DenseGMLP(vocab_size)
        for block in model.body:  # one weight for each distance
            block.gate = ToeplitzGate(512, 64)
        return model""",
}
OF_THE_PACKAGE = {  # and the chapters' own
    "rotate": "turn_pairs",
    "Stack([": "nn.Sequential(*[",
    "MultiHeadAttention": "PlainAttention",
    "TransformerLayer": "PlainLayer",
    "FeedForward(": "PlainFeedForward(",
}
HEAD = '''"""{title} in one file: layers, model, text, training, sampling. Equations are numbered as in the book.

    python {name}.py a-text.txt

Put together by `make single` from the cells of Chapter {chapter} of Efficient Transformers, Annotated.
"""

import math
import statistics
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
'''
TEXT = '''
class Corpus:
    """A text by characters: nine tenths to train on, the rest for validation."""

    def __init__(self, text):
        self.vocabulary, self.characters = self, sorted(set(text))
        tokens = self.encode(text)                                          # (N,)
        self.train, self.validation = tokens.tensor_split([9 * len(tokens) // 10])

    def encode(self, text):
        number = {c: i for i, c in enumerate(self.characters)}
        return torch.tensor([number[c] for c in text])

    def decode(self, tokens):
        return "".join(self.characters[i] for i in tokens)

    def batch(self, batch_size, seq_len, generator, validation=False):
        tokens = self.validation if validation else self.train
        starts = torch.randint(len(tokens) - seq_len, (batch_size, 1), generator=generator)
        rows = tokens[starts + torch.arange(seq_len + 1)]                   # (B, T + 1)
        return rows[:, :-1], rows[:, 1:]

    def validation_batches(self, count, *shape):
        generator = torch.Generator().manual_seed(0)
        return [self.batch(*shape, generator, validation=True) for _ in range(count)]
'''
MAIN = """
if __name__ == "__main__":
    corpus = Corpus(Path(sys.argv[1]).read_text(encoding="utf-8"))
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    torch.manual_seed(0)
    model = build(len(corpus.characters))
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters; 500 steps take about a minute")
    for step, loss in learn(model, steps, look_at=range(0, steps, 100)).items():
        print(f"step {step:4}: validation loss {loss:.3f}")
    print(write_on(model, corpus.decode(corpus.validation[:20]), 300))
"""
WRITING = {"gmlp": "model(tokens[:, -64:])"}  # it reads no more than it was made for


def definition(chapter: str, name: str) -> str:
    """The source of a definition in a chapter's cells, the first of its name."""
    for cell in chapters.cells(chapter):
        for node in cell.definitions():
            if node.name == name:
                lines = cell.node.source.splitlines()
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                return "\n".join(lines[first - 1 : node.end_lineno])
    raise ValueError(f"name is {name!r}; expected a definition of {chapter}")


def own(source: str) -> str:
    """With the chapters' names in the place of the package's."""
    for theirs, ours in OF_THE_PACKAGE.items():
        source = re.sub(rf"(?<![\w.]){re.escape(theirs)}" + r"\b" * theirs[-1].isalnum(), ours, source)
    return source


def made(name: str) -> str:
    """The text of a family's file."""
    number, title = chapters.title(max(chapter for chapter, *_ in PARTS[name]))
    parts = [HEAD.format(title=title, name=name, chapter=number)]
    parts += [own(definition(chapter, part)) + "\n" for chapter, *wanted in PARTS[name] for part in wanted]
    build = BUILDS[name].replace("\n    ", "\n")
    parts.append(f'def build(vocab_size):\n    """The model of the book: about 0.8 million parameters."""{build}\n')
    parts.append(TEXT.lstrip("\n"))
    chapter, *wanted = TRAINING
    parts += [definition(chapter, part) + "\n" for part in wanted]
    writing = definition("01-transformer", "write_on")
    parts.append(writing.replace("model(tokens)", WRITING.get(name, "model(tokens)")) + "\n")
    return "\n\n".join(parts) + "\n" + MAIN


def main() -> None:
    for name in PARTS:
        (FOLDER / f"{name}.py").write_text(made(name), encoding="utf-8")


if __name__ == "__main__":
    main()
