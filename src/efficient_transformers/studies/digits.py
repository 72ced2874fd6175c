"""Handwritten digits, read by a two-sided gMLP: 64 pixels are 64 tokens, and nothing tells it which is beside which.

What is notable:
- a pixel becomes a token by one linear map of its brightness; where it stands is known to the spatial matrices alone;
- the digits are scikit-learn's, part of the installed package, so nothing is downloaded;
- the held-out digits are the same for every seed, and are used once, after training.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..checks import require, require_int, require_number, require_seed
from ..layers.gmlp import GMLPBlock
from ..training.logs import bar
from ..training.loop import parameter_groups


@dataclass(frozen=True)
class Digits:
    """Images, float32 ``[n, 8, 8]`` from 0 (paper) to 1 (ink), and labels, int64 ``[n]``, to train and held out."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load_digits() -> Digits:
    """The 1,797 digits of scikit-learn: 1,437 to train and 360 held out, each kind in the same proportion.

    Source: Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI repository, 1998.
    """
    from sklearn.datasets import load_digits as load_images  # heavy libraries are imported where they are used
    from sklearn.model_selection import train_test_split

    data = load_images()
    images, labels = data.images.astype(np.float32) / 16, data.target.astype(np.int64)
    parts = train_test_split(images, labels, test_size=360, random_state=0, stratify=labels)
    train_images, test_images, train_labels, test_labels = map(torch.from_numpy, parts)
    return Digits(train_images, train_labels, test_images, test_labels)


class DigitClassifier(nn.Module):
    """Two-sided gMLP blocks over pixels, the mean over all tokens, and one linear map to ten classes.

    Args:
        d_model: channels.
        d_ffn: channels between the projections of a block.
        n_layers: number of blocks.
        side: pixels along each side of the image.

    Shapes:
        float ``[batch, side, side]`` to logits ``[batch, 10]``; a mask, bool of the same shape as the images, is True
        for visible pixels. Hidden ones reach neither the gates nor the mean.

    Raises:
        TypeError, ValueError: for a size that is not an int or below 1, and if images or mask have another shape.
    """

    def __init__(self, d_model: int = 32, d_ffn: int = 64, *, n_layers: int = 8, side: int = 8) -> None:
        super().__init__()
        require_int("n_layers", n_layers, at_least=1)
        require_int("side", side, at_least=1)
        self.side = side
        self.embed = nn.Linear(1, d_model)
        self.blocks = nn.ModuleList(GMLPBlock(d_model, d_ffn, side**2, causal=False) for _ in range(n_layers))
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, 10)

    def forward(self, images: Tensor, mask: Tensor | None = None) -> Tensor:
        shape, side = tuple(images.shape[1:]), self.side
        require(shape == (side, side), "the shape of an image", shape, f"({side}, {side})")
        if mask is not None:
            require(mask.shape == images.shape, "mask.shape", tuple(mask.shape), str(tuple(images.shape)))
            mask = mask.flatten(1)  # (B, N)
        x = self.embed(images.flatten(1).unsqueeze(2))  # (B, N, D), a token for each of the N pixels
        for block in self.blocks:
            x = block(x, mask=mask)
        x = self.norm(x)
        if mask is None:
            return self.head(x.mean(1))
        visible = mask.unsqueeze(2)  # (B, N, 1)
        total = x.masked_fill(~visible, 0).sum(1)  # (B, D); a product with 0 would not stop what is not a number
        return self.head(total / visible.sum(1).clamp(min=1))


@dataclass(frozen=True)
class DigitTraining:
    """How a :class:`DigitClassifier` is trained.

    Args:
        steps: of AdamW, along PyTorch's one-cycle schedule.
        batch_size: images per step, drawn at random.
        learning_rate: at its peak.
        weight_decay: of matrices.
        label_smoothing: share of the target that is spread over all classes.
        seed: of the model and of the batches.

    Raises:
        TypeError: if ``steps``, ``batch_size`` or ``seed`` is not an int, or another is not a number.
        ValueError: for a number out of range.
    """

    steps: int = 600
    batch_size: int = 48
    learning_rate: float = 6e-3
    weight_decay: float = 0.1
    label_smoothing: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        require_int("steps", self.steps, at_least=1)
        require_int("batch_size", self.batch_size, at_least=1)
        require_seed("seed", self.seed)
        for name in ("learning_rate", "weight_decay", "label_smoothing"):
            require_number(name, getattr(self, name))
        require(self.learning_rate > 0, "learning_rate", self.learning_rate, "more than 0")
        require(self.weight_decay >= 0, "weight_decay", self.weight_decay, "0 or more")
        smoothing = self.label_smoothing
        require(0 <= smoothing < 1, "label_smoothing", smoothing, "a share, at least 0 and less than 1")


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor, *, mask: Tensor | None = None) -> float:
    """The share of images whose largest logit is that of their label."""
    logits = model(images) if mask is None else model(images, mask)
    return (logits.argmax(1) == labels).float().mean().item()


def train_digits(
    config: DigitTraining | None = None,
    show_progress: bool = True,
    *,
    make: Callable[[], nn.Module] = DigitClassifier,
    digits: Digits | None = None,
) -> tuple[nn.Module, float]:
    """Train a classifier on the digits.

    Args:
        config: how; by default as Chapter 5 does.
        show_progress: whether to draw a bar.
        make: makes the classifier, once the seed is set.
        digits: to train on; by default :func:`load_digits`.

    Returns:
        The model, and the seconds that it took.
    """
    config, digits = config or DigitTraining(), digits or load_digits()
    torch.manual_seed(config.seed)
    model = make()
    optimizer = torch.optim.AdamW(parameter_groups(model, config.weight_decay), lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, config.learning_rate, config.steps, pct_start=0.1)
    started = time.perf_counter()
    for _ in bar(range(config.steps), show=show_progress, unit="step"):
        rows = torch.randint(len(digits.train_labels), (config.batch_size,))
        logits = model(digits.train_images[rows])
        F.cross_entropy(logits, digits.train_labels[rows], label_smoothing=config.label_smoothing).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return model.eval(), time.perf_counter() - started
