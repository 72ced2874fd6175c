"""The language model, every family of the book by its name, saving and loading.

What is notable:
- the embedding matrix is also the output matrix;
- a model that :func:`build_model` made knows its arguments, so that a folder of weights and arguments restores it;
- branches end in zeros at the start: each layer begins as the identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..layers.cache import Cache
from ..layers.family import Family, Sizes
from ..layers.fast import is_plain
from ..layers.gmlp import GMLPFamily
from ..layers.hourglass import HourglassFamily
from ..layers.primer import PrimerEZFamily, PrimerFamily
from ..layers.transformer import TransformerFamily, check_room
from ..support.checks import require, require_int, require_known, require_module, require_probability
from . import pretrained, saving
from .generation import generate

FAMILIES: dict[str, type[Family]] = {
    "transformer": TransformerFamily,
    "primer-ez": PrimerEZFamily,
    "primer": PrimerFamily,
    "hourglass": HourglassFamily,
    "gmlp": GMLPFamily,
}

# Further names, for a family with some options set; a model's config has the family's name and all options.
VARIATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "primer-ez-shared": ("primer-ez", {"sharing": "all"}),
    "primer-ez-per-head": ("primer-ez", {"sharing": "none"}),
    "dense-gmlp": ("gmlp", {"weight": "dense"}),
    "amlp": ("gmlp", {"d_attention": 64}),
}


class LanguageModel(nn.Module):
    r"""Tokens to logits: embedding, body, LayerNorm, and the embedding matrix once more.

    Args:
        body: the layers, ``[batch, seq, d_model]`` to the same shape; called with ``(x, cache)``.
        vocab_size: number of tokens.
        d_model: channels of the body.
        max_seq_len: the longest sequence that the model accepts.
        dropout: probability of dropping each channel of the embeddings.
        config: the arguments of :func:`build_model` that make this model, without which it cannot be saved.

    Shapes:
        int64 ``[batch, seq]`` to logits ``[batch, seq, vocab_size]``.

    Raises:
        TypeError: if the tokens are not int64, a size is not an int, or the body is not a module.
        ValueError: if the tokens are empty, too long, outside the vocabulary, or of another batch size than the
            cache; if another model has used the cache, or its last step was interrupted. Whether tokens are in the
            vocabulary is checked on the CPU alone: elsewhere, looking would wait for the device.
    """

    def __init__(
        self,
        body: nn.Module,
        *,
        vocab_size: int,
        d_model: int,
        max_seq_len: int,
        dropout: float = 0.0,
        config: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        require_module("body", body)
        for name, size in (("vocab_size", vocab_size), ("d_model", d_model), ("max_seq_len", max_seq_len)):
            require_int(name, size, at_least=1)
        require_probability("dropout", dropout)
        self.vocab_size, self.d_model, self.max_seq_len, self.config = vocab_size, d_model, max_seq_len, config
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)  # small, since it is the output matrix too
        self.dropout, self.body, self.norm = nn.Dropout(dropout), body, nn.LayerNorm(d_model)

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        self.check_tokens(tokens, cache)
        if cache is not None:
            cache.begin(self, tokens)
        x = self.dropout(self.embedding(tokens))  # (B, T, D)
        logits = self.norm(self.body(x, cache)) @ self.embedding.weight.T  # (B, T, V)
        if cache is not None:
            cache.end(self, tokens)  # the last thing in a step: whoever interrupts it before then has no logits
        return logits

    generate = generate

    def check_tokens(self, tokens: Tensor, cache: Cache | None = None) -> None:
        """Raise unless ``tokens`` is int64 ``[batch, seq]``, in the vocabulary, not empty and not too long."""
        require(isinstance(tokens, Tensor), "tokens", tokens, "a tensor", TypeError)
        require(tokens.dtype == torch.int64, "tokens.dtype", tokens.dtype, "torch.int64 token ids", TypeError)
        shape = tokens.shape
        require(len(shape) == 2 and min(shape) > 0, "tokens.shape", tuple(shape), "[batch, seq], neither of them 0")
        if cache is not None:
            cache.check_batch(shape[0])
        check_room(self, shape[1], self.max_seq_len, cache)
        if is_plain(tokens):
            low, high = int(tokens.min()), int(tokens.max())
            worst = low if low < 0 else high
            require(0 <= worst < self.vocab_size, "a token", worst, f"0 to {self.vocab_size - 1}, the vocabulary")

    def save_pretrained(self, folder: str | Path) -> None:
        """Write ``model.safetensors``, the weights, and ``config.json``, the arguments of :func:`build_model`.

        Raises:
            ValueError: if :func:`build_model` did not make the model.
            OSError: if they cannot be written; the folder then holds what it held before, or no config.
        """
        require(self.config is not None, "model", type(self).__name__, "a model made by build_model")
        saving.write(Path(folder), self.config or {}, self.state_dict())

    @classmethod
    def from_pretrained(cls, folder: str | Path, *, map_location: str | torch.device = "cpu") -> LanguageModel:
        """The exact model that :meth:`save_pretrained` wrote, or one that ships with the package, in eval mode.

        Args:
            folder: the folder, or one of :func:`pretrained_names`.
            map_location: the device to load the weights to.

        Raises:
            ValueError: if there is no such folder, the model has another name now, the folder lacks a file, a file is
                damaged, it was written in another format, or its weights belong to another configuration.
        """
        shipped = pretrained.locate(folder)
        if str(folder) in pretrained.pretrained_names():
            return assemble(*pretrained.read(str(folder), map_location), shipped).eval()
        path = saving.find(folder, pretrained.pretrained_names())
        return assemble(saving.read_config(path), saving.read_weights(path, map_location), path).eval()


def assemble(config: dict[str, Any], state: Mapping[str, Tensor], folder: Path) -> LanguageModel:
    """The model of ``config`` with the weights ``state``; nothing is allocated before they are known to fit."""
    n_layers = config.get("n_layers")
    few = isinstance(n_layers, int) and n_layers <= len(state)  # a layer has more than one tensor
    expected = f"an int, at most {len(state)}, the number of tensors in {saving.WEIGHTS}"
    require(few, f"n_layers in {folder / saving.CONFIG}", n_layers, expected)
    try:
        with torch.device("meta"):
            model = build_model(**config)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{saving.CONFIG} of {folder} does not describe a model: {error}") from error
    try:
        model.load_state_dict(state, assign=True)
    except RuntimeError as error:
        message = f"{folder / saving.WEIGHTS} does not hold the weights of the model in {saving.CONFIG}: {error}"
        raise ValueError(message) from error
    return model


def initialize(module: nn.Module) -> None:
    """Give good starting weights: projections a spread of 1 / sqrt(inputs), the last one of each branch zeros.

    :func:`build_model` does this for its models; for layers in a model of your own, call it once at the start.
    """
    for linear in module.modules():
        if isinstance(linear, nn.Linear):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
    for block in module.modules():
        if hasattr(block, "branch_ends"):
            for last in block.branch_ends():  # type: ignore[operator]
                nn.init.zeros_(last.weight)


def model_names() -> list[str]:
    """The names that :func:`build_model` knows."""
    return [*FAMILIES, *VARIATIONS]


def find_family(name: str) -> tuple[str, type[Family], dict[str, Any]]:
    """The family of one of :func:`model_names`, by name and as a class, and the options that the name sets."""
    require_known("name", name, model_names())
    family, options = VARIATIONS.get(name, (name, {}))
    return family, FAMILIES[family], options


def build_model(
    name: str,
    *,
    vocab_size: int,
    d_model: int = 128,
    n_layers: int | None = None,
    n_heads: int = 4,
    d_ff: int | None = None,
    max_seq_len: int = 256,
    dropout: float = 0.0,
    **options: Any,
) -> LanguageModel:
    """A language model of the book, ready to train.

    Args:
        name: one of :func:`model_names`; ``"primer-ez-shared"`` and ``"primer-ez-per-head"`` are ``"primer-ez"``
            with sharing ``"all"`` and ``"none"``, ``"dense-gmlp"`` is ``"gmlp"`` with ``weight="dense"``, and
            ``"amlp"`` with ``d_attention=64``.
        vocab_size: number of tokens.
        d_model: channels of the residual stream.
        n_layers: number of layers; None means 4, what an hourglass's hierarchy has, or 8 blocks of gMLP, which have
            as many parameters as 4 layers beside their spatial matrices.
        n_heads: attention heads per layer; divides ``d_model``. gMLP has none, and takes any, so that one
            call makes each family.
        d_ff: hidden channels of the feed-forward networks, or of gMLP's blocks; None means ``4 * d_model``.
        max_seq_len: the longest sequence that the model accepts, in tokens.
        dropout: probability of dropping a channel of the embeddings and of what each block adds.
        **options: the fields of the family: :class:`TransformerFamily`, :class:`PrimerEZFamily`,
            :class:`PrimerFamily`, :class:`HourglassFamily` or :class:`GMLPFamily`.

    Returns:
        A :class:`LanguageModel`; its ``config`` holds these arguments.

    Raises:
        TypeError: for an option that the model does not have, or a size that is not an int.
        ValueError: for an unknown name, a size out of range, an option that contradicts the name, or one of an
            hourglass's resampling or of gMLP's gates that the other options leave without effect.
    """
    name, family, fixed = find_family(name)
    for option, value in fixed.items():
        require(options.get(option, value) == value, option, options.get(option), f"{value!r}, as the name says")
    known = [field.name for field in fields(family)]
    for option in options:
        require(option in known, "option", option, f"one of {known}, the options of {name!r}", TypeError)
    settled, layers = family(**{**options, **fixed}).settle(n_layers)
    require_int("vocab_size", vocab_size, at_least=1)
    require_int("d_model", d_model, at_least=1)
    sizes = Sizes(
        d_model=d_model,
        n_layers=layers,
        n_heads=n_heads,
        d_ff=4 * d_model if d_ff is None else d_ff,
        max_seq_len=max_seq_len,
        dropout=dropout,
    )
    body = settled.make_body(sizes)
    initialize(body)
    return LanguageModel(
        body,
        vocab_size=vocab_size,
        d_model=d_model,
        max_seq_len=max_seq_len,
        dropout=dropout,
        config={"name": name, "vocab_size": vocab_size, **asdict(sizes), **asdict(settled)},
    )
