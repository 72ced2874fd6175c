"""A training run in a folder of its own, from before its first step to its end.

What is notable:
- the folder says from the start what is trained, so that a run that was killed at any moment can be resumed;
- one process at a time trains in a folder: the lock on ``run.json`` ends with the process that holds it;
- what a reader of the folder sees is whole: each file is written beside its place and renamed.

See :doc:`/book/write-with-it`.
"""

from __future__ import annotations

import glob
import json
import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..layers.family import parameter_count
from ..models import saving
from ..models.language_model import LanguageModel, build_model
from ..models.pretrained import locate, pretrained_names
from ..support.checks import require
from ..support.files import PARTIAL, locked, reason, remove_partial, shortened, sync, write_text
from .checkpoint import Checkpoints
from .corpus import NAMES, Corpus
from .execution import Execution, Stop
from .logs import finite, json_lines
from .loop import Metrics, TrainingConfig, train
from .vocabulary import ByteVocabulary, Unit, Vocabulary

__all__ = ["load", "save"]

RUN, VOCABULARY, RECORD = "run.json", "vocabulary.json", "training.json"
METRICS, CHECKPOINT = "metrics.jsonl", "checkpoint.pt"
# Beyond these, layers take minutes to make, or PyTorch cannot count the bytes of a matrix.
LARGEST = {"n_layers": 1000, "d_model": 2**24, "vocab_size": 2**24, "max_seq_len": 2**28}
WEIGHT, TOKEN = 4, 8  # bytes


@dataclass(frozen=True)
class RunPlan:
    """What a folder's run does.

    Args:
        model: the arguments of :func:`build_model`; all of them in what is written.
        training: how to train.
        execution: how the machine carries it out.
        corpus: a name or a path for :func:`load_corpus`; a relative path starts in ``directory``.
        tokens: characters or bytes, as for :func:`load_corpus`.
        directory: where the run was started.
        init: the folder, or the model that ships, that the first weights come from; None starts from new ones.
        checkpoint_every: steps from one checkpoint to the next.
    """

    model: dict[str, Any]
    training: TrainingConfig
    execution: Execution
    corpus: str
    tokens: Unit | None
    directory: str
    init: str | None
    checkpoint_every: int

    @classmethod
    def read(cls, folder: Path) -> RunPlan:
        """The plan of a folder.

        Raises:
            ValueError: if there is none, it or the vocabulary is damaged, or another version wrote it.
        """
        file = folder / RUN
        require(file.is_file(), "folder", str(folder), f"a folder that `train` made, with {RUN}")
        found = read_json(file, "the plan of a run")
        begun = found.pop(saving.CHECKSUM, None)
        require(begun is not None, f"the sha256 in {file}", begun, "one; version 0.2.0 goes on with older runs")
        now = saving.seal({**found, VOCABULARY: read_vocabulary(folder).characters})
        require(now == begun, f"the sha256 of {file} and {VOCABULARY}", now, f"{begun}, as the run began")
        try:
            training, execution = TrainingConfig(**found.pop("training")), Execution(**found.pop("execution"))
            return cls(**found, training=training, execution=execution)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise ValueError(f"{file} is not the plan of a run: {error}") from error

    def text(self) -> str:
        """The name or the path of the text, which no longer depends on where it is asked for."""
        return self.corpus if self.corpus in NAMES else str(Path(self.directory) / self.corpus)

    def require_possible(self) -> None:
        """Raise ValueError for sizes that no run on this machine can have, before anything is allocated.

        Refused are sizes beyond ``LARGEST``, and weights, or the tokens of a batch, that alone are larger than the
        memory. What passes may still be too large: gradients, averages, activations and logits come on top.
        """
        for name, largest in LARGEST.items():
            size = self.model.get(name)
            require(not isinstance(size, int) or size <= largest, name, size, f"at most {largest}")
        with torch.device("meta"):
            require_room("the weights", parameter_count(build_model(**self.model)) * WEIGHT)
        of = self.training
        require_room("the tokens of a batch", of.batch_size * (of.seq_len + 1) * TOKEN)
        require_room("the places of the evaluation batches", of.eval_batches * of.batch_size * TOKEN)

    def build(self) -> LanguageModel:
        """The model with its first weights, if :meth:`require_possible` lets it pass."""
        self.require_possible()
        torch.manual_seed(self.training.seed)
        model = build_model(**self.model)
        if self.init is not None:
            init = self.init if self.init in pretrained_names() else Path(self.directory) / self.init
            model.load_state_dict(LanguageModel.from_pretrained(init).state_dict())
        return model


def require_room(what: str, size: int) -> None:
    """Raise ValueError if ``size`` bytes are more than the memory of the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    expected = f"at most {memory // 10**9:,} GB, the machine's memory"
    require(size <= memory, f"the memory for {what}", f"{-(-size // 10**9):,} GB", expected)


def read_json(file: Path, what: str) -> dict[str, Any]:
    """The object in a file of JSON; ValueError, with its name, if there is none."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is not JSON: {error}") from error
    require(isinstance(found, dict), str(file), found, f"an object, {what}")
    return dict(found)


def read_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary of a folder that `train` saved."""
    file = folder / VOCABULARY
    require(file.is_file(), "folder", str(folder), f"a folder that `train` saved, with {VOCABULARY}")
    found = read_json(file, "a vocabulary")
    if found.get("tokens") == "bytes":
        return ByteVocabulary()
    try:
        return Vocabulary(found["characters"])
    except (TypeError, ValueError, KeyError) as error:
        raise ValueError(f"{file} is not a vocabulary: {error}") from error


def trained_at(folder: Path) -> int | None:
    """The length of the sequences that the model of a folder was trained on; None where its config does not say."""
    return read_json(locate(folder) / saving.CONFIG, "a config").get(saving.TRAINED_AT)


def save(folder: str | Path, model: LanguageModel, vocabulary: Vocabulary) -> None:
    """Write a model and its vocabulary to a folder, as ``train`` in the shell does; :func:`load` reads both.

    Raises:
        ValueError: if :func:`build_model` did not make the model, or it has another number of tokens.
        OSError: if they cannot be written.
    """
    require(model.config is not None, "model", type(model).__name__, "a model made by build_model")
    fits = len(vocabulary) == model.vocab_size
    require(fits, "the size of the vocabulary", len(vocabulary), f"{model.vocab_size}, as the model has")
    config = {**(model.config or {}), saving.VOCABULARY: saving.fingerprint(vocabulary.characters)}
    saving.write(Path(folder), config, model.state_dict())
    write_text(Path(folder) / VOCABULARY, json.dumps(vocabulary.described()))


def load(folder: str | Path) -> tuple[LanguageModel, Vocabulary]:
    """A model, in eval mode, and its vocabulary.

    Args:
        folder: one that :func:`save`, or ``train`` in the shell, wrote; or one of :func:`pretrained_names`.

    Raises:
        ValueError: if there is no such folder, its vocabulary is missing or not its model's, or as
            :meth:`LanguageModel.from_pretrained` does.
    """
    names = ", ".join(pretrained_names())
    require(locate(folder).is_dir(), "folder", str(folder), f"a folder that `train` saved, or one of {names}")
    model, folder = LanguageModel.from_pretrained(folder), locate(folder)
    vocabulary = read_vocabulary(folder)
    expected = f"{model.vocab_size}, as its model has"
    require(len(vocabulary) == model.vocab_size, f"the size of the vocabulary of {folder}", len(vocabulary), expected)
    found = saving.fingerprint(vocabulary.characters)
    wanted = read_json(folder / saving.CONFIG, "a config").get(saving.VOCABULARY, found)
    require(found == wanted, f"the sha256 of the vocabulary of {folder}", found, f"{wanted}, as its model has")
    return model, vocabulary


def begin(out: Path, plan: RunPlan, vocabulary: Vocabulary, *, fresh_name: bool) -> Path:
    """Make the folder of a run: under another name, so that wherever it is seen, it says what is trained.

    Args:
        out: the folder, which does not exist yet.
        plan: what is to be trained.
        vocabulary: of the text.
        fresh_name: add a number to the name if another run took it, instead of raising.

    Raises:
        ValueError: if it exists, or cannot be made or written.
    """
    folder, number = out, 1
    while True:
        beside = f"{PARTIAL}{shortened(folder.name, 200)}-"
        made = folder.with_name(f"{beside}{secrets.token_hex(4)}")
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            made.mkdir()
            write_text(made / VOCABULARY, json.dumps(vocabulary.described()))
            seal = saving.seal({**asdict(plan), VOCABULARY: vocabulary.characters})
            write_text(made / RUN, json.dumps({**asdict(plan), saving.CHECKSUM: seal}, indent=1))
            if os.path.lexists(folder):  # an empty folder, too, which rename would replace
                raise FileExistsError(folder)
            made.rename(folder)
            break
        except OSError as error:
            shutil.rmtree(made, ignore_errors=True)
            if not os.path.lexists(folder):
                expected = f"a folder that can be made and written in {str(folder.parent)!r} ({reason(error)})"
                raise ValueError(f"out is {str(out)!r}; expected {expected}") from error
            if not fresh_name:
                raise ValueError(f"out is {str(out)!r}; expected a folder that does not exist yet") from error
            number += 1
            folder = out.with_name(f"{out.name}-{number}")
    sync(folder.parent)
    for left in folder.parent.glob(glob.escape(beside) + "?" * 8):  # who still writes one comes too late
        shutil.rmtree(left, ignore_errors=True)
    return folder


def discard(folder: Path) -> None:
    """Remove the folder of a run that trained nothing, unless another process is at it."""
    with suppress(OSError), locked(folder / RUN, wait=False) as mine:
        if mine and not (folder / CHECKPOINT).exists() and not (folder / RECORD).exists():
            shutil.rmtree(folder)


def train_in(folder: Path, plan: RunPlan, corpus: Corpus, model: LanguageModel, stop: Stop) -> Metrics:
    """Train in a folder to the end of the plan, or until somebody asks to stop; save the model, and what was measured.

    A run that ended has ``training.json`` and no checkpoint; one that did not has a checkpoint, and the model as it
    was then.

    Raises:
        ValueError: if another process trains in the folder, or as :func:`train` does.
        FloatingPointError: as :func:`train` does.
        OSError: if the model cannot be written; the last good checkpoint is untouched.
    """
    checkpoints = Checkpoints(folder / CHECKPOINT, plan.checkpoint_every)
    with locked(folder / RUN, wait=False) as mine:
        require(mine, "folder", str(folder), "a run that no other process is training at this moment")
        remove_partial(folder)
        before = checkpoints.load() or {"metrics": []}
        callback = json_lines(folder / METRICS, before["metrics"])
        del before  # as large as model and optimizer
        metrics = train(
            model,
            corpus,
            plan.training,
            callback=callback,
            checkpoints=checkpoints,
            execution=plan.execution,
            stop=stop,
        )
        try:
            vocabulary = saving.fingerprint(corpus.vocabulary.characters)
            about = {saving.VOCABULARY: vocabulary, saving.TRAINED_AT: plan.training.seq_len}
            saving.write(folder, {**(model.config or {}), **about}, model.state_dict())
            if metrics[-1]["step"] == plan.training.steps:
                measured = [finite(record) for record in metrics]
                record = {"training": asdict(plan.training), "corpus": plan.corpus, "metrics": measured}
                write_text(folder / RECORD, json.dumps(record, indent=1))
                checkpoints.path.unlink(missing_ok=True)
        except OSError as error:
            advice = f"make room and go on with `resume {folder}`"
            message = f"the model could not be written to {folder} ({reason(error)}); {checkpoints}: {advice}"
            raise OSError(message) from error
    return metrics
