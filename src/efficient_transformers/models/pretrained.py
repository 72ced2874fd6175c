"""The models that ship with the package, each in a folder with a card that says how it was trained.

What is notable:
- weights are stored in float16 and a causal spatial matrix as its lower triangle; they are computed with in float32;
- a card holds the sha256 of its weights and its snapshots, and the config, so that a damaged file is refused.

See :doc:`/book/write-with-it`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..support.checks import require, require_known
from . import saving

SHIPPED = Path(__file__).parents[1] / "weights"
CARD, SNAPSHOTS = "card.json", "snapshots.safetensors"
HASHED = {"sha256": saving.WEIGHTS, "snapshots_sha256": SNAPSHOTS}  # the files that a card holds the sha256 of
TRIANGLE = ".tril"  # at the end of the name of a matrix that is stored as its lower triangle


def pretrained_names() -> list[str]:
    """The names of the models that ship with the package."""
    return sorted(card.parent.name for card in SHIPPED.glob(f"*/{CARD}"))


def locate(folder: str | Path) -> Path:
    """The folder of a model that ships with the package; any other path as it is.

    A folder of the user's own with such a name is meant only where its path says so: ``./primer-ez``.
    """
    return SHIPPED / str(folder) if str(folder) in pretrained_names() else Path(folder)


def pretrained_card(name: str) -> dict[str, Any]:
    """How a model that ships was trained, on what, what it scores, and the sha256 of its files.

    Raises:
        ValueError: for an unknown name.
    """
    require_known("name", name, pretrained_names())
    return dict(json.loads((SHIPPED / name / CARD).read_text(encoding="utf-8")))


def read(name: str, device: str | torch.device = "cpu") -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The arguments of :func:`build_model` and the weights, in float32, of a model that ships.

    Raises:
        ValueError: for an unknown name, a file that is missing, or weights or a config that are not those of the card.
    """
    check(name, "sha256")
    folder = saving.find(SHIPPED / name)
    config, expected = saving.read_config(folder), pretrained_card(name)["model"]
    require(config == expected, f"what {folder / saving.CONFIG} says", config, f"{expected}, of its card")
    return config, unpack(saving.read_weights(folder, device))


def check(name: str, key: str) -> None:
    """Raise ValueError if a file is missing, or has another sha256 than the card; ``key`` is one of ``HASHED``."""
    file, expected = SHIPPED / name / HASHED[key], pretrained_card(name)[key]
    require(file.is_file(), "folder", str(file.parent), f"a folder with {file.name}")
    found = sha256(file)
    require(found == expected, f"the sha256 of {file}", found, f"{expected}, of its card")


def sha256(file: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def pretrained_snapshots(name: str) -> dict[int, dict[str, Tensor]]:
    """Parts of a model in the course of its training, those that chapters draw: by step, then by parameter.

    Raises:
        ValueError: for an unknown name, a model of which nothing was kept, or a file that is missing or damaged.
    """
    from safetensors.torch import load_file  # heavy libraries are imported where they are used

    require_known("name", name, pretrained_names())
    require_known("name", name, [known for known in pretrained_names() if "snapshots_sha256" in pretrained_card(known)])
    check(name, "snapshots_sha256")
    snapshots: dict[int, dict[str, Tensor]] = {}
    for key, tensor in unpack(load_file(SHIPPED / name / SNAPSHOTS)).items():
        step, parameter = key.split("/")
        snapshots.setdefault(int(step), {})[parameter] = tensor
    return dict(sorted(snapshots.items()))


def pack(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights in float16, causal spatial matrices as their lower triangles, row by row: see :func:`unpack`."""
    packed = {}
    for name, tensor in state.items():
        n = len(state.get(name.removesuffix("weight") + "bias", ()))  # a gate has one for each position
        if name.endswith("gate.weight") and tensor.shape == (n, n):
            rows, columns = torch.tril_indices(*tensor.shape).unbind()
            name, tensor = name + TRIANGLE, tensor[rows, columns]  # (n(n+1)/2)
        packed[name] = tensor.half()
    return packed


def unpack(packed: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights in float32, with zeros above the diagonal of a causal matrix, where nothing is ever read."""
    state = {}
    for name, tensor in packed.items():
        tensor = tensor.float()
        if name.endswith(TRIANGLE):
            n = int((2 * tensor.numel()) ** 0.5)  # n(n+1)/2 lies between n^2/2 and (n+1)^2/2
            matrix = tensor.new_zeros(n, n)
            rows, columns = torch.tril_indices(n, n, device=tensor.device).unbind()
            matrix[rows, columns] = tensor
            name, tensor = name.removesuffix(TRIANGLE), matrix
        state[name] = tensor
    return state
