"""Handwritten digits of 64 pixels, part of scikit-learn's package, so that nothing is downloaded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


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
