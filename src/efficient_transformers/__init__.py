"""Layers, models and tools of the book *Efficient Transformers, Annotated*."""

from importlib import import_module
from typing import Any

from .layers.attention import MultiHeadAttention, causal_mask, rotate
from .layers.cache import Cache
from .layers.convolution import CausalDepthwiseConv, expand_sharing
from .layers.family import Stack
from .layers.gmlp import GMLPBlock, SpatialGatingUnit, TinyAttention
from .layers.hourglass import Hourglass, build_hourglass, parse_hierarchy
from .layers.inspection import receptive_field, shape_trace
from .layers.leaks import LeakError, check_leaks, leak_map
from .layers.primer import (
    GatedFeedForward,
    MultiDConvHeadAttention,
    PrimerLayer,
    PrimerNorm,
    SharedQueryKeyAttention,
    SquaredReLU,
)
from .layers.products import triangular_product
from .layers.resampling import (
    AttentionBasedShortening,
    AttentionBasedUpSampling,
    AvgPoolShortening,
    LinearPoolingShortening,
    LinearUpSampling,
    NaiveUpSampling,
    ShiftRight,
)
from .layers.transformer import FeedForward, LearnedPositions, TransformerLayer
from .models.generation import generate
from .models.language_model import LanguageModel, build_model, initialize, model_names
from .models.pretrained import pretrained_card, pretrained_names, pretrained_snapshots
from .training.checkpoint import Checkpoints
from .training.corpus import Corpus, load_corpus
from .training.evaluation import evaluate
from .training.execution import Execution
from .training.loop import Metrics, TrainingConfig, train
from .training.runs import load, save
from .training.vocabulary import ByteVocabulary, Vocabulary

__version__ = "0.2.0"

__all__ = [
    "AttentionBasedShortening",
    "AttentionBasedUpSampling",
    "AvgPoolShortening",
    "ByteVocabulary",
    "Cache",
    "CausalDepthwiseConv",
    "Checkpoints",
    "Corpus",
    "Execution",
    "FeedForward",
    "GMLPBlock",
    "GatedFeedForward",
    "Hourglass",
    "LanguageModel",
    "LeakError",
    "LearnedPositions",
    "LinearPoolingShortening",
    "LinearUpSampling",
    "Metrics",
    "MultiDConvHeadAttention",
    "MultiHeadAttention",
    "NaiveUpSampling",
    "PrimerLayer",
    "PrimerNorm",
    "SharedQueryKeyAttention",
    "ShiftRight",
    "SpatialGatingUnit",
    "SquaredReLU",
    "Stack",
    "TinyAttention",
    "TrainingConfig",
    "TransformerLayer",
    "Vocabulary",
    "build_hourglass",
    "build_model",
    "causal_mask",
    "check_leaks",
    "evaluate",
    "expand_sharing",
    "generate",
    "initialize",
    "leak_map",
    "load",
    "load_corpus",
    "model_names",
    "parse_hierarchy",
    "pretrained_card",
    "pretrained_names",
    "pretrained_snapshots",
    "receptive_field",
    "rotate",
    "save",
    "shape_trace",
    "train",
    "triangular_product",
]


# What chapters use by one name, imported when it is asked for: it brings Matplotlib, or the records of all runs.
_LATER = {
    "digits": "book.digits",
    "evidence": "judging.evidence",
    "exercises": "book.exercises",
    "figures": "book.figures",
    "results": "book.results",
    "study": "book.records",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{_LATER[name]}")
