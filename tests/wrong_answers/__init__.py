"""Wrong answers to the exercises, and words that the reader must be told: ``{number: [(code, words), …]}``."""

from . import gmlp, head_to_head, hourglass, primer_ez, transformer, variations, your_own

PREAMBLE = """
import math
import torch
import torch.nn.functional as F
from torch import nn
from efficient_transformers import *
"""
WRONG = {
    n: a
    for chapter in (transformer, primer_ez, variations, hourglass, gmlp, head_to_head, your_own)
    for n, a in chapter.WRONG.items()
}
