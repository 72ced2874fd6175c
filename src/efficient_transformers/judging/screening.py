"""What would make a comparison worthless besides a leak, looked for before it starts: in any model, by running it."""

from __future__ import annotations

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from ..layers.leaks import EXACT
from ..models.cost import multiply_adds
from ..support.checks import require
from ..training.loop import parameter_groups

KNOWS, SURE = 0.1, 1.0  # nats: how far below and above ln V a loss at the start may lie
APART = 0.05  # the share by which costs may differ without a word


def check_start(
    model: nn.Module, inputs: Tensor, targets: Tensor, vocab_size: int, what: str = "the model"
) -> list[str]:
    """A remark if the loss before training is not about ln V, that of a model that knows nothing.

    Raises:
        ValueError: if it lies below the entropy of the targets: how often each token occurs may be known beforehand,
            as the start of a bias, and nothing else.
    """
    with torch.no_grad():
        loss = F.cross_entropy(model(inputs).flatten(0, 1).float(), targets.flatten()).item()
    blank, shares = math.log(vocab_size), targets.flatten().bincount() / targets.numel()
    least = torch.special.entr(shares).sum().item()
    expected = f"at least {least:.3f}, that of a model that knows how often each token occurs, and nothing else"
    require(loss > least - EXACT, f"the loss of {what} before training", round(loss, 3), expected)
    beside = f"ln {vocab_size} = {blank:.2f}"
    if loss < blank - KNOWS:
        return [f"Its loss before training is {loss:.2f}, below {beside}: it starts with the frequencies of tokens."]
    return [f"Its loss before training is {loss:.2f}, far above {beside}."] if loss > blank + SURE else []


def undecayed(model: nn.Module) -> list[str]:
    """A remark if many numbers are in matrices that the recipe decays in an ``nn.Linear`` or ``nn.Embedding`` alone."""
    _, others = parameter_groups(model, 0.0)
    share = sum(p.numel() for p in others["params"] if p.ndim > 1) / sum(p.numel() for p in model.parameters())
    where = f"{share:.0%} of its parameters are matrices outside nn.Linear and nn.Embedding"
    return [f"{where}, and are not decayed."] if share > APART else []


def in_closed_form(model: nn.Module, seq_len: int) -> float | None:
    """Multiply-adds per token by the book's cost model; None for what has a layer that the book has not."""
    try:
        return multiply_adds(model, seq_len)  # type: ignore[arg-type]
    except (TypeError, AttributeError):
        return None


def multiply_adds_of(model: nn.Module, seq_len: int) -> float:
    """Per token of a forward pass of ``seq_len`` tokens: in closed form, or as matrix products of a run are counted."""
    if (known := in_closed_form(model, seq_len)) is not None:
        return known
    tokens = torch.zeros(1, seq_len, dtype=torch.int64)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        copy.deepcopy(model).cpu()(tokens)
    return counter.get_total_flops() / 2 / seq_len


def apart(what: str, ours: float, theirs: float) -> list[str]:
    """By how much two costs differ, if by more than 5 %."""
    if not theirs:
        return [f"{ours:,.0f} {what} against none"] if ours else []
    share = ours / theirs - 1
    return [f"{abs(share):.0%} {'more' if share > 0 else 'fewer'} {what}"] if abs(share) > APART else []
