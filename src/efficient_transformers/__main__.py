"""The command line: ``python -m efficient_transformers train|resume|generate|evaluate|compare``.

What is notable:
- a command is a function, and its parameters are its arguments: names, types, defaults and texts stand there alone;
- bad input, of whatever kind, ends in one line and exit code 2.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import math
import os
import re
import signal
import sys
import unicodedata
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NoReturn, get_args, get_origin

from .models.language_model import LanguageModel, find_family
from .models.saving import RUNS
from .support.checks import require, require_int, require_known
from .training.corpus import NAMES, Corpus, load_corpus, load_text
from .training.evaluation import evaluate as mean_loss
from .training.evaluation import sizes_of
from .training.execution import Execution, stop_on_signals
from .training.loop import Optimizer, TrainingConfig
from .training.runs import (
    CHECKPOINT,
    RECORD,
    TOKEN,
    RunPlan,
    begin,
    discard,
    load,
    read_vocabulary,
    require_room,
    train_in,
    trained_at,
)
from .training.vocabulary import Unit, Vocabulary

PROGRAM = "python -m efficient_transformers"
GROUPS = (TrainingConfig, Execution)  # parameters whose fields are options
YEAR = 365 * 24 * 60  # minutes
JOINERS = "\u200c\u200d"  # not seen, and needed: Persian, Indic scripts and emoji are written with them


def train(
    name: str | None = None,
    *,
    corpus: str = "shakespeare",
    tokens: Unit | None = None,
    out: Path | None = None,
    init: Path | None = None,
    d_model: int | None = None,
    n_layers: int | None = None,
    n_heads: int | None = None,
    max_seq_len: int | None = None,
    dropout: float | None = None,
    checkpoint_every: int = 1000,
    training: TrainingConfig,
    execution: Execution,
) -> None:
    """Train a model on text, print a sample and save a folder that `generate` reads.

    Args:
        name: which model: transformer, primer-ez, primer, hourglass, gmlp, primer-ez-shared, primer-ez-per-head,
            dense-gmlp, amlp.
        corpus: a name, "shakespeare", "shakespeare-with-test" or "tiny-shakespeare", or the path of a UTF-8 text file.
        tokens: what the model reads; by default characters.
        out: the folder to write; by default a new one under runs/.
        init: a folder that `train` saved, or the name of a model that ships; train it on, on this text.
        d_model: channels of the residual stream; by default 128.
        n_layers: number of layers; by default 4, or 8 blocks of gMLP.
        n_heads: attention heads per layer; by default 4.
        max_seq_len: the longest text, in tokens, that the model will read or write; by default 1024, or for
            gMLP, which learns each position by itself, the length that it is trained at.
        dropout: probability of dropping a channel; by default 0, or that of the model to train on.
        checkpoint_every: steps from one checkpoint to the next; `resume` goes on from the last.
        training: how to train.
        execution: how the machine carries it out.
    """
    require((name is None) == (init is not None), "name", name, "the name of a model, or none with --init")
    require_int("checkpoint_every", checkpoint_every, at_least=1)
    taken = out is not None and os.path.exists(out)
    require(not taken, "out", str(out), "a folder that does not exist yet")
    sizes = {"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads, "max_seq_len": max_seq_len}
    sizes = {size: value for size, value in sizes.items() if value is not None}
    vocabulary, saved = None, None
    if init is not None:
        for size, value in sizes.items():
            require(False, size, value, "none with --init: the model is as it was saved")
        saved, vocabulary = load(init)
    elif name is not None:
        _, family, _ = find_family(name)
        sizes.setdefault("max_seq_len", 1024 if family.reads_beyond_training else training.seq_len)
    text = load_corpus(corpus, tokens=tokens, vocabulary=vocabulary)
    if saved is not None:
        config = dict(saved.config or {})
    else:
        config = {"name": name, "vocab_size": len(text.vocabulary), **sizes}
    if dropout is not None:
        config["dropout"] = dropout
    plan = RunPlan(
        model=config,
        training=training,
        execution=execution,
        corpus=corpus,
        tokens=tokens,
        directory=os.getcwd(),
        init=None if init is None else str(init),
        checkpoint_every=checkpoint_every,
    )
    model = plan.build()
    plan = replace(plan, model=model.config or {})
    title = name or Path(str(init)).name
    chosen = out or RUNS / f"{title}-{datetime.now():%Y%m%d-%H%M%S}"
    with stop_on_signals() as stop:
        folder = begin(chosen, plan, text.vocabulary, fresh_name=out is None)
        try:
            run(folder, plan, text, model, stop)
        finally:
            discard(folder)  # only where nothing was trained
            if out is None:
                with contextlib.suppress(OSError):  # it is there and empty, or stays
                    RUNS.rmdir()


def resume(folder: Path) -> None:
    """Go on with a run of `train` that was interrupted, from its last good checkpoint.

    Args:
        folder: what `train` was writing.
    """
    plan = RunPlan.read(folder)
    done = (folder / RECORD).exists()
    if done:
        with contextlib.suppress(OSError):
            (folder / CHECKPOINT).unlink()  # there only where the run was killed between its record and this
    require(not done, "folder", str(folder), f"a run that is not at its end; {PROGRAM} train --init trains on")
    if (folder / CHECKPOINT).exists():
        plan = replace(plan, init=None)  # the checkpoint holds all weights; the folder of the first may be gone
    vocabulary = read_vocabulary(folder)
    text = load_corpus(plan.text(), tokens=plan.tokens, vocabulary=vocabulary)
    with stop_on_signals() as stop:
        run(folder, plan, text, plan.build(), stop)


def run(folder: Path, plan: RunPlan, corpus: Corpus, model: LanguageModel, stop: Any) -> None:
    """Train, say what came out, and leave with the exit code of the signal that ended it, if one did."""
    metrics = train_in(folder, plan, corpus, model, stop)
    done = metrics[-1]["step"] == plan.training.steps
    print(f"{'Saved' if done else 'Interrupted; saved'} {folder}. More text from it:")
    print(f"    {PROGRAM} generate {folder}")
    if not done:
        print(f"To go on with the training:\n    {PROGRAM} resume {folder}")
        sys.stdout.flush()
        sys.exit(128 + (stop.signal or signal.SIGTERM))
    characters = corpus.vocabulary.characters
    prompt = "\n" if "\n" in characters else characters[0]
    trained = LanguageModel.from_pretrained(folder)
    longest = min(200, trained.max_seq_len - 1)
    print("\n" + sample(trained, corpus.vocabulary, prompt, longest, seed=plan.training.seed))


def generate(
    folder: Path,
    *,
    prompt: str = "\n",
    max_new_tokens: int | None = None,
    temperature: float = 0.8,
    top_k: int | None = None,
    seed: int | None = None,
) -> None:
    """Continue a text with a model that `train` saved, or one that ships with the package.

    Args:
        folder: what `train` wrote, or the name of a model that ships, such as primer-ez.
        prompt: the text to continue.
        max_new_tokens: tokens to add, characters for most models; by default 400, or as many as the model can hold.
        temperature: 0 always takes the likeliest token; 1 draws from the model's distribution.
        top_k: draw from so many likeliest tokens only.
        seed: of the draws; by default different each time.
    """
    require(prompt != "", "prompt", prompt, "at least one character to begin with")
    model, vocabulary = load(folder)
    room = max(1, min(400, model.max_seq_len - len(vocabulary.encode(prompt))))
    new = room if max_new_tokens is None else max_new_tokens
    print(sample(model, vocabulary, prompt, new, temperature=temperature, top_k=top_k, seed=seed))


def evaluate(
    folder: Path,
    *,
    corpus: str,
    part: str | None = None,
    seq_len: int | None = None,
    batch_size: int = 16,
) -> None:
    """Print the loss of a saved model on the whole of a text, per character and per byte.

    Args:
        folder: what `train` wrote, or the name of a model that ships, such as primer-ez.
        corpus: the path of a UTF-8 text file, or one of the names that `train` knows.
        part: "train", "validation" or "test", with a name; a file is read as a whole.
        seq_len: tokens that the model reads at once, half of them before any that is scored; by default what it was
            trained at.
        batch_size: sequences that are read together.
    """
    model, vocabulary = load(folder)
    if corpus in NAMES:
        require_known("part", part, ("train", "validation", "test"))
        text = getattr(load_corpus(corpus, vocabulary=vocabulary), str(part))
        require(text is not None, "part", part, f"'train' or 'validation', the parts of {corpus!r}")
    else:
        require(part is None, "part", part, "none with a file, which is read as a whole")
        text = load_text(Path(corpus), vocabulary)
    if seq_len is None:
        seq_len = min(trained_at(folder) or model.max_seq_len, model.max_seq_len)
    require(seq_len <= model.max_seq_len, "seq_len", seq_len, f"at most max_seq_len={model.max_seq_len}")
    require_int("batch_size", batch_size, at_least=1)
    require_room("the tokens of a batch", batch_size * seq_len * TOKEN)
    loss = mean_loss(model, text, seq_len=seq_len, batch_size=batch_size, show_progress=True)
    characters, size = sizes_of(text[1:], vocabulary)
    print(f"{len(text) - 1:,} tokens, {characters:,} characters, {size:,} bytes")
    for unit, number in (("character", characters), ("byte", size)):
        nats = loss * (len(text) - 1) / number
        print(f"{nats:.4f} nats, {nats / math.log(2):.4f} bits per {unit}")


def compare(
    build: str,
    *,
    against: str = "transformer",
    minutes: float | None = None,
    steps: int | None = None,
    seeds: int | None = None,
    out: Path | None = None,
    corpus: str = "shakespeare-with-test",
    tokens: Unit = "characters",
    seq_len: int = 256,
    batch_size: int = 4,
    optimizer: Optimizer = "adamw",
) -> None:
    """Judge a model of yours against a baseline; the file that you name is executed.

    Args:
        build: file.py:function, a function that makes a torch.nn.Module from a vocabulary size, or the name of a model.
        against: the baseline, likewise.
        minutes: that it may take, 30 where no steps are given; fewer minutes are fewer steps and seeds.
        steps: of each run at equal steps, in place of minutes: then it takes as long as it takes.
        seeds: how many, where steps are given, from 2 to 5; by default the 3 that a verdict takes.
        out: the folder for plan, records, figure and card, by default a new one under runs/; with one that is there,
            the comparison goes on.
        corpus: a name that `train` knows, or the path of a UTF-8 text file.
        tokens: what both sides read.
        seq_len: tokens of a sequence.
        batch_size: sequences of a step.
        optimizer: of both sides; "muon" takes the matrices inside the layers, and AdamW the rest.
    """
    from .judging import compare as judging  # brings what no other command needs

    expected = f"at most {YEAR:,}, a year; or steps, which take as long as they take"
    require(minutes is None or not minutes > YEAR, "minutes", minutes, expected)
    judgment = judging.compare(
        build,
        against,
        minutes=minutes,
        steps=steps,
        seeds=seeds,
        out=out,
        corpus=corpus,
        tokens=tokens,
        seq_len=seq_len,
        batch_size=batch_size,
        optimizer=optimizer,
    )
    print(f"\n{judgment}")


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
    """The prompt and what the model makes of it, as :func:`printable` has it."""
    tokens = vocabulary.encode(prompt)[None]  # (1, T)
    tokens = model.generate(tokens, max_new_tokens, temperature=temperature, top_k=top_k, seed=seed)
    return printable(vocabulary.decode(tokens[0]))


def printable(text: str) -> str:
    """The text with what a terminal would obey and nobody see spelled out, but for line ends, tabs and ``JOINERS``.

    These are control characters and the invisible ones of Unicode's format category: marks that turn the direction
    of what follows, spaces without width.
    """
    kept = "\n\t" + JOINERS
    return "".join(repr(c)[1:-1] if unicodedata.category(c) in ("Cc", "Cf") and c not in kept else c for c in text)


class Parser(argparse.ArgumentParser):
    """One that leaves it to :func:`main` to say what is wrong, in one line."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; {self.prog} --help lists what there is")


def parse(arguments: list[str]) -> Callable[[], None]:
    """What the command line asks for.

    Raises:
        ValueError: for a command, an argument or a value that there is not.
    """
    commands = {command.__name__: command for command in (train, resume, generate, evaluate, compare)}
    parser = Parser(prog=PROGRAM, formatter_class=argparse.RawTextHelpFormatter)
    listed = "\n".join(f"{name:10}{summary(command)}" for name, command in commands.items())
    parser.add_argument("command", choices=commands, help=listed)
    command = commands[parser.parse_args(arguments[:1]).command]
    parser = Parser(prog=f"{PROGRAM} {command.__name__}", description=summary(command), allow_abbrev=False)
    add_arguments(parser, command)
    values = vars(parser.parse_intermixed_args(arguments[1:]))  # the name of a model may stand after the options
    return lambda: fill(command, values)


def summary(command: Callable[..., None]) -> str:
    """The first line of its docstring."""
    return (inspect.getdoc(command) or "").partition("\n")[0]


def add_arguments(parser: argparse.ArgumentParser, described: Callable[..., Any]) -> None:
    """An argument for each parameter of a command, or field of a dataclass, with its name, type, default and text."""
    section = (inspect.getdoc(described) or "").partition("Args:\n")[2].partition("\n\n")[0]
    texts = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE))
    for name, parameter in inspect.signature(described, eval_str=True).parameters.items():
        kind, default, text = parameter.annotation, parameter.default, texts.get(name, "")
        kind = get_args(kind)[0] if NoneType in get_args(kind) else kind
        if kind in GROUPS:
            add_arguments(parser, kind)
            continue
        if inspect.isfunction(described) and parameter.kind is not parameter.KEYWORD_ONLY:
            parser.add_argument(name, nargs="?" if default is None else None, type=kind, help=text)
            continue
        options: dict[str, Any] = {"required": True} if default is parameter.empty else {"default": default}
        if options.get("default") is not None:
            text += " (default: %(default)r)"
        if kind is bool:
            options["action"] = argparse.BooleanOptionalAction
        elif get_origin(kind) is Literal:
            options["choices"] = get_args(kind)
        else:
            options |= {"type": kind, "metavar": kind.__name__.upper()}
        parser.add_argument(f"--{name.replace('_', '-')}", help=text, **options)


def fill(described: Callable[..., Any], values: dict[str, Any]) -> Any:
    """Call a command, or make a dataclass, with those of ``values`` that it takes."""
    parameters = inspect.signature(described, eval_str=True).parameters
    kinds = {name: parameter.annotation for name, parameter in parameters.items()}
    return described(**{name: fill(kind, values) if kind in GROUPS else values[name] for name, kind in kinds.items()})


def main() -> None:
    """Run the command line; bad input ends in one short message on stderr and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a run that went well does not fail for a letter
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
            parse(sys.argv[1:])()
        sys.stdout.flush()  # so that a closed pipe is noticed here
    except BrokenPipeError:
        fail("the output was closed before everything was written")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        drop_what_cannot_be_written()
        sys.exit(130)
    except (ValueError, TypeError, ImportError, OSError, ArithmeticError, MemoryError, RuntimeError) as error:
        fail(str(error) or type(error).__name__)  # a RuntimeError is PyTorch's, above all out of memory


def fail(message: str) -> None:
    """Say what is wrong, once and in one line, and leave."""
    print(f"error: {' '.join(message.split())}"[:1000], file=sys.stderr)
    drop_what_cannot_be_written()
    sys.exit(2)


def drop_what_cannot_be_written() -> None:
    """Else Python tries once more at its exit, prints a traceback and ends with 120."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):  # a full disk, a closed pipe, a closed stream
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    try:
        main()
    finally:  # from here on an impatient second Ctrl-C would print the traceback of whatever Python is putting away
        signal.signal(signal.SIGINT, signal.SIG_IGN)
