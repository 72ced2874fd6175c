"""Saving and loading: huggingface_hub's mixin, with the arguments of ``build_model`` in config.json."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any, Self

import safetensors.torch
import torch
from huggingface_hub import PyTorchModelHubMixin, hf_hub_download
from safetensors import SafetensorError
from torch import Tensor

from .checks import require

WEIGHTS, CONFIG = "model.safetensors", "config.json"


class Pretrained(PyTorchModelHubMixin):
    """``save_pretrained(folder)`` and ``from_pretrained(folder)`` for models made by :func:`build_model`.

    The folder holds ``model.safetensors``, the weights, and ``config.json``, the arguments of
    :func:`build_model`; together they restore the exact model, in eval mode. A name on the Hugging Face Hub
    works in place of a folder.

    Raises:
        ValueError: on saving a model that :func:`build_model` did not make; on loading from a folder that lacks
            a file, or whose weights belong to another configuration.
    """

    @property
    def config(self) -> dict[str, Any]:
        """The arguments of :func:`build_model` that make this model."""
        return self._hub_mixin_config  # type: ignore[return-value]

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> str | None:
        require("name" in self.config, "model", type(self).__name__, "a model made by build_model")
        return super().save_pretrained(save_directory, **kwargs)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **kwargs: Any) -> Self:
        folder = Path(pretrained_model_name_or_path)
        on_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", str(pretrained_model_name_or_path)) is not None
        require(folder.is_dir() or on_hub, "folder", str(folder), "a folder, or owner/name on the Hugging Face Hub")
        if folder.is_dir():
            for name in (CONFIG, WEIGHTS):
                require((folder / name).is_file(), "folder", str(folder), f"a folder with {name}")
            try:
                json.loads((folder / CONFIG).read_text(encoding="utf-8"))
            except ValueError as error:
                raise ValueError(f"{folder / CONFIG} is not JSON: {error}") from error
        return super().from_pretrained(pretrained_model_name_or_path, **kwargs)

    @classmethod
    def _from_pretrained(  # type: ignore[override]  # what is left out arrives in kwargs
        cls, *, model_id: str, config: dict[str, Any], map_location: str = "cpu", **kwargs: Any
    ) -> Self:
        from .models import build_model  # models.py imports this module

        weights = Path(model_id) / WEIGHTS
        if not weights.is_file():
            download = set(inspect.signature(hf_hub_download).parameters) & set(kwargs)
            weights = Path(hf_hub_download(model_id, WEIGHTS, **{k: kwargs[k] for k in download}))
        try:
            model = build_model(**config)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{CONFIG} of {model_id} describes no model: {error}") from error
        try:
            state = safetensors.torch.load_file(weights, device=map_location)
            model.load_state_dict(state)
        except (RuntimeError, SafetensorError) as error:
            message = f"{weights} does not hold the weights of the model in {CONFIG}: {error}"
            raise ValueError(message) from error
        return model.to(map_location, model_dtype(state)).eval()  # type: ignore[return-value]


def model_dtype(state: dict[str, Tensor]) -> torch.dtype:
    """The one type of number that all weights have."""
    (dtype,) = {tensor.dtype for tensor in state.values()}
    return dtype
