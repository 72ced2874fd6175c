"""The models of the book in the library ``transformers``: its auto classes, ``generate``, ``Trainer`` and folders.

What is notable:
- importing this module registers all of them: ``AutoModelForCausalLM`` makes and loads them without remote code;
- the model inside is the package's own, so that the numbers are;
- beams reorder the package's cache, which holds whatever a layer must remember.

See :doc:`/book/scaling-up`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from .layers.decoding import SearchCache
from .layers.family import Sizes
from .models.language_model import FAMILIES, LanguageModel, build_model
from .support.checks import require, require_instance

EXPECTED = "expected 5.24 or later: pip install 'transformers>=5.24'"  # the first to call a cache so

try:
    import transformers
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"transformers is not installed; {EXPECTED}") from error
if [int(part) for part in transformers.__version__.split(".")[:2]] < [5, 24]:
    raise ImportError(f"transformers is {transformers.__version__}; {EXPECTED}")

SIZES = ("name", "vocab_size", *(field.name for field in fields(Sizes)))
OPTIONS = {name: tuple(field.name for field in fields(family)) for name, family in FAMILIES.items()}
ARGUMENTS = {*SIZES, *(option for options in OPTIONS.values() for option in options)}  # of build_model


class BookConfig(transformers.PreTrainedConfig):
    """The arguments of :func:`build_model`, each an attribute, beside what every config of ``transformers`` has.

    ``hidden_size``, ``num_hidden_layers``, ``num_attention_heads``, ``intermediate_size`` and
    ``max_position_embeddings`` are further names of ``d_model``, ``n_layers``, ``n_heads``, ``d_ff`` and
    ``max_seq_len``.

    Args:
        name: one of :func:`model_names`.
        vocab_size: number of tokens; by default, of bytes.
        **options: further arguments of :func:`build_model`, and of ``transformers.PreTrainedConfig``.

    Raises:
        TypeError, ValueError: as for :func:`build_model`.
    """

    model_type = "efficient_transformers"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["cache"]
    attribute_map: ClassVar[dict[str, str]] = {
        "hidden_size": "d_model",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "intermediate_size": "d_ff",
        "max_position_embeddings": "max_seq_len",
    }

    def __init__(self, name: str = "transformer", vocab_size: int = 256, **options: Any) -> None:
        options = {self.attribute_map.get(option, option): value for option, value in options.items()}
        given = {option: options.pop(option) for option in ARGUMENTS & options.keys()}
        with torch.device("meta"):  # nothing is allocated: the model checks its arguments, and completes them
            model = build_model(name, vocab_size=vocab_size, **given)
        super().__init__(**options, **(model.config or {}))

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of :func:`build_model`."""
        return {argument: getattr(self, argument) for argument in (*SIZES, *OPTIONS[self.name])}


class BookCache:
    """What ``generate`` carries from step to step: a :class:`.SearchCache`, by the names of ``transformers``.

    Beams reorder it, whatever the model. It cannot be cropped, as assisted generation would ask for: a window of a
    convolution, or of a shortened level, does not say what it was a few tokens ago.

    Args:
        batch_size: the number of sequences that are read side by side.
    """

    is_compileable = is_croppable = False
    is_linear = (False,)  # it has a length

    def __init__(self, batch_size: int) -> None:
        self.cache = SearchCache(batch_size)

    def get_seq_length(self) -> int:
        """The tokens that have been read."""
        return self.cache.tokens_read

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Make sequence ``i`` the one that was ``beam_idx[i]``, ints ``[batch]``."""
        self.cache = self.cache.reorder(beam_idx.long())


class BookForCausalLM(transformers.GenerationMixin, transformers.PreTrainedModel):
    r"""A model of the book as one of ``transformers``, with the loss of the next token.

    The embedding matrix is also the output matrix, so that a folder holds it once.

    Args:
        config: which model.
        model: a model with that config, to be used as it is; None makes one, ready to train.

    Shapes:
        int64 ``input_ids`` ``[batch, seq]`` to ``logits`` ``[batch, seq, vocab_size]``; ``labels`` are like
        ``input_ids``, or -100 where a token is not to be predicted. Label :math:`t` is compared with the logits at
        :math:`t - 1`. The loss is the mean cross-entropy in nats per token.

    Raises:
        TypeError, ValueError: as for :class:`.LanguageModel`.
        ValueError: for an ``attention_mask`` with zeros, but for those at the end of rows beside labels; for labels
            with a cache, through which no gradient passes; and for a folder that lacks weights.
    """

    config_class = BookConfig
    base_model_prefix = "model"
    accepts_loss_kwargs = True  # Trainer passes the number of labels in all pieces of a batch
    _is_stateful = True  # assisted generation, which crops a cache, is refused

    def __init__(self, config: BookConfig, model: LanguageModel | None = None) -> None:
        super().__init__(config)
        self.model = build_model(**config.arguments) if model is None else model
        self.post_init()

    @transformers.utils.can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cache: BookCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool = False,
        num_items_in_batch: int | Tensor | None = None,
    ) -> transformers.modeling_outputs.CausalLMOutputWithPast:
        """The logits, and with labels the loss.

        Args:
            input_ids: the tokens, or with a cache those that it has not read.
            attention_mask: ones, and zeros where rows of ``labels`` end in padding.
            cache: what a call before returned.
            labels: what the loss is of.
            use_cache: return a cache, for the next call.
            num_items_in_batch: what the sum of losses is divided by; None is the number of labels.
        """
        for name, value in (("use_cache", use_cache), ("cache", cache)):
            none = f"{'False' if name == 'use_cache' else None} beside labels: a cache passes no gradient"
            require(labels is None or not value, name, value, none)
        if use_cache and cache is None:
            cache = BookCache(len(input_ids))
        if attention_mask is not None:
            check_mask(attention_mask, padded=labels is not None)
        logits = self.model(input_ids, None if cache is None else cache.cache)  # (B, T, V)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, self.config.vocab_size, num_items_in_batch=num_items_in_batch)
        return transformers.modeling_outputs.CausalLMOutputWithPast(loss=loss, logits=logits, cache=cache)

    def get_input_embeddings(self) -> nn.Embedding:
        """The embedding, whose matrix is also the output matrix."""
        return self.model.embedding

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the embedding, and with it the size of the vocabulary."""
        self.model.embedding, self.model.vocab_size = value, value.num_embeddings
        self.model.config = {**self.config.arguments, "vocab_size": value.num_embeddings}

    def init_weights(self) -> None:
        """Leave the weights as :func:`build_model` made them."""

    def _init_weights(self, module: nn.Module) -> None:
        """Draw a resized embedding; refuse any other module, which is one whose weights a folder lacks."""
        if isinstance(module, nn.Embedding) and module is not self.model.embedding:
            nn.init.normal_(module.weight, std=0.02)  # as in a new model
            return
        missing = [name for name, p in module.named_parameters(recurse=False) if not hasattr(p, "_is_hf_initialized")]
        require(not missing, f"what the folder lacks of {module}", missing, "nothing: it has another model's weights")

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # generate leaves it to the model to make its cache


def check_mask(mask: Tensor, padded: bool) -> None:
    """Raise ValueError if padding would be read: before a token, or, unless ``padded``, anywhere."""
    zeros = mask == 0
    harmless = (zeros[:, 1:] >= zeros[:, :-1]).all() if padded else ~zeros.any()
    expected = "ones: prompts of equal length" if not padded else "ones, and zeros at the end of rows alone"
    require(bool(harmless), "attention_mask", f"a mask with {int(zeros.sum())} zeros", expected)


def wrap(model: LanguageModel) -> BookForCausalLM:
    """A model of the package as one of ``transformers``, which shares its weights and its mode.

    ``wrap(LanguageModel.from_pretrained("primer-ez")).generate(tokens, num_beams=4, max_new_tokens=80)``.

    Args:
        model: made by :func:`build_model`, or loaded.

    Raises:
        TypeError: if it is not a :class:`.LanguageModel`.
        ValueError: if :func:`build_model` did not make it.
    """
    require_instance("model", model, LanguageModel)
    require(model.config is not None, "model", type(model).__name__, "a model made by build_model")
    return BookForCausalLM(BookConfig(**(model.config or {})), model).train(model.training)


# Again without complaint, when a notebook reloads the module.
transformers.AutoConfig.register(BookConfig.model_type, BookConfig, exist_ok=True)
transformers.AutoModelForCausalLM.register(BookConfig, BookForCausalLM, exist_ok=True)
