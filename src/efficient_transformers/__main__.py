"""The command line: ``python -m efficient_transformers train|generate``."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import torch
import tyro
from accelerate import PartialState

from .checks import require
from .corpus import Vocabulary, load_corpus
from .models import LanguageModel, build_model, find_family, model_names
from .training import Metrics, TrainingConfig
from .training import train as train_model

RUNS = Path("runs")


def train(
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(help=f"Which model: {', '.join(model_names())}.")],
    /,
    corpus: str = "shakespeare",
    out: Path | None = None,
    d_model: int = 128,
    n_layers: int | None = None,
    n_heads: int = 4,
    max_seq_len: int | None = None,
    dropout: float = 0.0,
    training: Annotated[TrainingConfig, tyro.conf.arg(name="")] = TrainingConfig(),  # noqa: B008, frozen
) -> None:
    """Train a model on text, print a sample and save a folder that `generate` reads.

    Args:
        corpus: "shakespeare", "tiny-shakespeare" or the path of a UTF-8 text file.
        out: the folder to write; by default a new one under runs/.
        d_model: channels of the residual stream.
        n_layers: number of layers; by default 4, or 8 blocks of gMLP.
        n_heads: attention heads per layer.
        max_seq_len: the longest text, in characters, that the model will read or write; by default 1024, or for
            gMLP, which learns each position by itself, the length that it is trained at.
        dropout: probability of dropping a channel.
        training: how to train.
    """
    out = out or RUNS / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    _, family, _ = find_family(name)
    require(not out.exists(), "out", str(out), "a folder that does not exist yet")
    if max_seq_len is None:
        max_seq_len = 1024 if family.reads_beyond_training else training.seq_len
    text = load_corpus(corpus)
    torch.manual_seed(training.seed)
    model = build_model(
        name,
        vocab_size=len(text.vocabulary),
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        max_seq_len=max_seq_len,
        dropout=dropout,
    )
    metrics, interrupted = Metrics(), False
    try:
        train_model(model, text, training, metrics=metrics)
    except KeyboardInterrupt:
        interrupted = True
    if PartialState().is_main_process:
        losses = [{k: v for k, v in record.items() if v == v} for record in metrics]  # no nan in JSON
        save(out, model, text.vocabulary, {"training": asdict(training), "corpus": corpus, "metrics": losses})
        print(f"{'Interrupted; saved' if interrupted else 'Saved'} {out}. More text from it:")
        print(f"    python -m efficient_transformers generate {out}")
        if not interrupted:
            prompt = "\n" if "\n" in text.vocabulary.characters else text.vocabulary.characters[0]
            print("\n" + sample(model, text.vocabulary, prompt, min(200, max_seq_len - 1), seed=training.seed))
    if interrupted:
        sys.exit(130)


def generate(
    folder: Annotated[Path, tyro.conf.Positional],
    /,
    prompt: str = "\n",
    max_new_tokens: int | None = None,
    temperature: float = 0.8,
    top_k: int | None = None,
    seed: int | None = None,
) -> None:
    """Continue a text with a model that `train` saved.

    Args:
        folder: what `train` wrote.
        prompt: the text to continue.
        max_new_tokens: characters to add; by default 400, or as many as the model can hold.
        temperature: 0 always takes the likeliest character; 1 draws from the model's distribution.
        top_k: draw from so many likeliest characters only.
        seed: of the draws; by default different each time.
    """
    file = folder / "vocabulary.json"
    require(file.is_file(), "folder", str(folder), "a folder that `train` saved, with vocabulary.json")
    vocabulary = Vocabulary(json.loads(file.read_text(encoding="utf-8"))["characters"])
    model = LanguageModel.from_pretrained(folder)
    room = max(1, min(400, model.max_seq_len - len(prompt)))
    new = room if max_new_tokens is None else max_new_tokens
    print(sample(model, vocabulary, prompt, new, temperature=temperature, top_k=top_k, seed=seed))


def sample(
    model: LanguageModel,
    vocabulary: Vocabulary,
    prompt: str,
    max_new_tokens: int,
    *,
    temperature: float = 0.8,
    top_k: int | None = None,
    seed: int | None = None,
) -> str:
    """The prompt and what the model makes of it."""
    tokens = vocabulary.encode(prompt)[None]  # (1, T)
    tokens = model.generate(tokens, max_new_tokens, temperature=temperature, top_k=top_k, seed=seed)
    return vocabulary.decode(tokens[0])


def save(out: Path, model: LanguageModel, vocabulary: Vocabulary, record: dict[str, object]) -> None:
    """Write everything into a temporary folder beside ``out``, then rename it: all of it, or nothing."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".saving-") as temporary:
        folder = Path(temporary) / out.name
        model.save_pretrained(folder)
        (folder / "vocabulary.json").write_text(json.dumps({"characters": vocabulary.characters}), encoding="utf-8")
        (folder / "training.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
        folder.rename(out)


def main() -> None:
    """Run the command line; bad input ends in one line on stderr and exit code 2."""
    try:
        tyro.extras.subcommand_cli_from_dict(
            {"train": train, "generate": generate}, prog="python -m efficient_transformers"
        )
    except (ValueError, TypeError, ModuleNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
