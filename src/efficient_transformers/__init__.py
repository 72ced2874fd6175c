"""Layers, models and tools of the book *Efficient Transformers, Annotated*."""

from .cache import Cache
from .corpus import Corpus, Vocabulary, load_corpus
from .generation import generate
from .gmlp import GMLPBlock, SpatialGatingUnit, TinyAttention, triangular_product
from .hourglass import (
    AttentionBasedShortening,
    AttentionBasedUpSampling,
    AvgPoolShortening,
    Hourglass,
    LinearPoolingShortening,
    LinearUpSampling,
    NaiveUpSampling,
    ShiftRight,
    build_hourglass,
    parse_hierarchy,
)
from .inspection import leak_map, receptive_field, shape_trace
from .models import build_model, model_names
from .primer import (
    CausalDepthwiseConv,
    GatedFeedForward,
    MultiDConvHeadAttention,
    PrimerLayer,
    PrimerNorm,
    SharedQueryKeyAttention,
    SquaredReLU,
    expand_sharing,
)
from .training import Metrics, TrainingConfig, train
from .transformer import (
    FeedForward,
    LanguageModel,
    LearnedPositions,
    MultiHeadAttention,
    Stack,
    TransformerLayer,
    causal_mask,
    rotate,
)

__version__ = "0.1.0"

__all__ = [
    "AttentionBasedShortening",
    "AttentionBasedUpSampling",
    "AvgPoolShortening",
    "Cache",
    "CausalDepthwiseConv",
    "Corpus",
    "FeedForward",
    "GMLPBlock",
    "GatedFeedForward",
    "Hourglass",
    "LanguageModel",
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
    "expand_sharing",
    "generate",
    "leak_map",
    "load_corpus",
    "model_names",
    "parse_hierarchy",
    "receptive_field",
    "rotate",
    "shape_trace",
    "train",
    "triangular_product",
]
