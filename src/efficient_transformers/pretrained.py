"""Saving and loading: huggingface_hub's mixin, with the arguments of ``build_model`` in config.json."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Self

import safetensors.torch
from huggingface_hub import PyTorchModelHubMixin, hf_hub_download
from safetensors import SafetensorError

from .checks import require

WEIGHTS = "model.safetensors"


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
    def _from_pretrained(
        cls, *, model_id: str, config: dict[str, Any] | None = None, map_location: str = "cpu", **kwargs: Any
    ) -> Self:
        from .models import build_model  # models.py imports this module

        folder = Path(model_id)
        if folder.is_dir():
            require((folder / WEIGHTS).exists(), "folder", str(folder), f"a folder with {WEIGHTS}")
            weights = str(folder / WEIGHTS)
        else:
            download = set(inspect.signature(hf_hub_download).parameters) & set(kwargs)
            weights = hf_hub_download(model_id, WEIGHTS, **{k: kwargs[k] for k in download})
        require(config is not None, "folder", model_id, "a folder with config.json")
        model = build_model(**config)  # type: ignore[arg-type]
        try:
            safetensors.torch.load_model(model, weights, device=map_location)
        except (RuntimeError, SafetensorError) as error:
            message = f"{weights} does not hold the weights of the model in config.json: {error}"
            raise ValueError(message) from error
        return model.eval()  # type: ignore[return-value]
