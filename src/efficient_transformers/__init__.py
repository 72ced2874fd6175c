"""Layers, models and tools of the book *Efficient Transformers, Annotated*."""

from .attention import MultiHeadAttention, causal_mask, rotate
from .cache import Cache
from .checkpoint import Checkpoints
from .convolution import CausalDepthwiseConv, expand_sharing
from .corpus import Corpus, load_corpus
from .evaluation import evaluate
from .execution import Execution
from .family import Stack
from .generation import generate
from .gmlp import GMLPBlock, SpatialGatingUnit, TinyAttention
from .hourglass import Hourglass, build_hourglass, parse_hierarchy
from .inspection import leak_map, receptive_field, shape_trace
from .models import LanguageModel, build_model, initialize, model_names
from .pretrained import pretrained_card, pretrained_names, pretrained_snapshots
from .primer import (
    GatedFeedForward,
    MultiDConvHeadAttention,
    PrimerLayer,
    PrimerNorm,
    SharedQueryKeyAttention,
    SquaredReLU,
)
from .products import triangular_product
from .resampling import (
    AttentionBasedShortening,
    AttentionBasedUpSampling,
    AvgPoolShortening,
    LinearPoolingShortening,
    LinearUpSampling,
    NaiveUpSampling,
    ShiftRight,
)
from .tokens import ByteVocabulary, Vocabulary
from .training import Metrics, TrainingConfig, train
from .transformer import FeedForward, LearnedPositions, TransformerLayer

__version__ = "0.1.0"

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
    "evaluate",
    "expand_sharing",
    "generate",
    "initialize",
    "leak_map",
    "load_corpus",
    "model_names",
    "parse_hierarchy",
    "pretrained_card",
    "pretrained_names",
    "pretrained_snapshots",
    "receptive_field",
    "rotate",
    "shape_trace",
    "train",
    "triangular_product",
]
