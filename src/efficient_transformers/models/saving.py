"""What a saved model is on the disk: a folder with ``model.safetensors``, the weights, and ``config.json``.

What is notable:
- nothing in a folder is executed or trusted: weights are safetensors, and a config is compared with them first;
- a folder of an older format is refused, since its weights would load without an error and mean something else;
- the file of weights holds their sha256, and that of the config, which holds that of the vocabulary: all of a folder is
  of one moment, or it is refused;
- both files are written beside their places first: a save that is cut short leaves the model of before, or none, and
  never the weights of one with the config of another.

See :doc:`/book/write-with-it`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..support.checks import require
from ..support.files import PARTIAL, sync

WEIGHTS, CONFIG = "model.safetensors", "config.json"
RUNS = Path("runs")  # where the command line makes its folders
VOCABULARY = "vocabulary_sha256"  # in a config that the command line wrote, of the characters that the model reads
TRAINED_AT = "trained_seq_len"  # likewise, of its run: tokens of a sequence
CHECKSUM = "sha256"  # in the metadata of weights: see sealed; those of others, and older ones, have none
FORMAT = 3  # in the first, rotary positions paired the channels i and i + K/2; in the second a gMLP was dense


def fingerprint(characters: str) -> str:
    """The sha256 of a vocabulary, by which a model knows its own."""
    return hashlib.sha256(characters.encode("utf-8", "surrogatepass")).hexdigest()


def checksum(state: Mapping[str, Tensor]) -> str:
    """The sha256 of named tensors: of their names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def seal(described: Mapping[str, Any]) -> str:
    """The sha256 of what a file of JSON says, in whatever order and with whatever spaces."""
    return fingerprint(json.dumps(described, sort_keys=True))


def sealed(config: Mapping[str, Any], state: Mapping[str, Tensor]) -> dict[str, str]:
    """The metadata of weights: their checksum, and the seal of their config, in one entry, as entries have no order."""
    return {CHECKSUM: f"{checksum(state)} {seal(config)}"}


def write(folder: Path, config: dict[str, Any], state: dict[str, Tensor]) -> None:
    """Make the folder, or replace what it holds: whole, or not at all.

    Raises:
        OSError: if it cannot be written.
    """
    from safetensors import SafetensorError  # heavy libraries are imported where they are used
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    config = {"format": FORMAT, **config}
    text = json.dumps(config, indent=2) + "\n"
    tensors = {name: tensor.contiguous() for name, tensor in state.items()}
    with tempfile.TemporaryDirectory(dir=folder, prefix=PARTIAL) as temporary:
        weights, configuration = (Path(temporary) / name for name in (WEIGHTS, CONFIG))
        try:
            save_file(tensors, weights, sealed(config, tensors))
        except SafetensorError as error:  # a full disk, for one, which is not an OSError there
            raise OSError(str(error)) from error
        configuration.write_text(text, encoding="utf-8")
        shutil.copymode(configuration, weights)  # safetensors makes files that only their owner can read
        sync(weights)
        sync(configuration)
        if (old := folder / CONFIG).is_file() and old.read_bytes() != text.encode():
            old.unlink()  # so that it never stands beside weights that are not its own
        weights.replace(folder / WEIGHTS)
        configuration.replace(folder / CONFIG)
    sync(folder)


def find(folder: str | Path, shipped: Sequence[str] = ()) -> Path:
    """The folder with weights and config; ``shipped`` is for the message."""
    path, names = Path(folder), f", or one of {', '.join(shipped)}" if shipped else ""
    require(path.is_dir(), "folder", str(folder), f"a folder that save_pretrained wrote{names}")
    for name in (CONFIG, WEIGHTS):
        require((path / name).is_file(), "folder", str(folder), f"a folder with {name}")
    return path


def read_config(folder: Path) -> dict[str, Any]:
    """The arguments of :func:`build_model` in ``config.json``."""
    file = folder / CONFIG
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is not JSON: {error}") from error
    require(isinstance(config, dict), str(file), config, "an object with the arguments of build_model")
    other = "none, as in a model that LanguageModel.save_pretrained wrote"
    require("model_type" not in config, f"the model_type in {file}", config.get("model_type"), other)
    found = config.pop("format", 1)
    for name in (VOCABULARY, TRAINED_AT):
        config.pop(name, None)
    require(found == FORMAT, f"the format of {file}", found, f"{FORMAT}; version 0.2.0 of this package reads format 2")
    return config


def read_weights(folder: Path, device: str | torch.device) -> dict[str, Tensor]:
    """The tensors in ``model.safetensors``.

    Raises:
        ValueError: if it holds none, or others than were saved, or ``config.json`` says something else.
    """
    from safetensors import SafetensorError, safe_open  # heavy libraries are imported where they are used
    from safetensors.torch import load_file

    file = folder / WEIGHTS
    try:
        with safe_open(file, framework="pt") as opened:
            saved, _, config = (opened.metadata() or {}).get(CHECKSUM, "").partition(" ")
        if config:
            found = seal(json.loads((folder / CONFIG).read_text(encoding="utf-8")))
            expected = f"{config}, as it was when {WEIGHTS} was saved"
            require(found == config, f"the sha256 of what {folder / CONFIG} says", found, expected)
        state = load_file(file, device=str(device))
    except SafetensorError as error:
        raise ValueError(f"{file} does not hold weights: {error}") from error
    if saved:
        found = checksum(state)
        require(found == saved, f"the sha256 of the tensors in {file}", found, f"{saved}, as they were saved")
    return state
