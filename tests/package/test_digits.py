"""The digits: what is held out."""

import pytest
import torch

from efficient_transformers.book.digits import load_digits

pytestmark = pytest.mark.slow


def test_digits_are_held_out_the_same_way_every_time():
    digits = load_digits()
    assert digits.train_images.shape == (1437, 8, 8)
    assert digits.test_images.shape == (360, 8, 8)
    assert digits.train_images.dtype == torch.float32
    assert digits.train_labels.dtype == torch.int64
    assert digits.train_images.min() == 0
    assert digits.train_images.max() == 1
    assert (torch.bincount(digits.test_labels) >= 35).all()
    again = load_digits()
    for name, value in vars(digits).items():
        assert torch.equal(getattr(again, name), value)
    train = {image.numpy().tobytes() for image in digits.train_images}
    assert not any(image.numpy().tobytes() in train for image in digits.test_images)
