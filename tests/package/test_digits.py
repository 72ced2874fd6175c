"""The digits: what is held out, how pixels are read, and how training goes."""

import pytest
import torch

from efficient_transformers.studies.digits import DigitClassifier, DigitTraining, accuracy, load_digits, train_digits

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def digits():
    return load_digits()


def test_digits_are_held_out_the_same_way_every_time(digits):
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


def test_pixels_are_tokens_in_both_directions():
    model = DigitClassifier(d_model=4, d_ffn=8, n_layers=1).double()
    with torch.no_grad():
        for block in model.blocks:
            block.gate.weight.normal_()
    images = torch.rand(1, 8, 8, dtype=torch.float64, requires_grad=True)
    x = model.embed(images.flatten(1).unsqueeze(2))
    (gradient,) = torch.autograd.grad(model.blocks[0](x)[0, 0].sum(), images)
    assert (gradient != 0).all()  # the first pixel's gate reads every pixel, the last one included


def test_hidden_pixels_change_nothing():
    torch.manual_seed(0)
    model = DigitClassifier(d_model=4, d_ffn=8, n_layers=2)
    with torch.no_grad():
        for block in model.blocks:
            block.gate.weight.normal_()
    images, mask = torch.rand(3, 8, 8), torch.rand(3, 8, 8) < 0.5
    hidden, other = torch.where(mask, images, torch.nan), torch.where(mask, images, torch.rand(3, 8, 8))
    assert torch.equal(model(hidden, mask), model(images, mask))
    assert (model(images) - model(other)).abs().max() > 1e-3
    torch.testing.assert_close(model(images, torch.ones_like(mask)), model(images))
    assert model(images, torch.zeros_like(mask)).isfinite().all()


def test_training_learns_and_is_repeatable(digits):
    config = DigitTraining(steps=60, batch_size=32, seed=3)
    model, seconds = train_digits(config, show_progress=False)
    again, _ = train_digits(config, show_progress=False)
    assert seconds > 0
    assert not model.training
    found = accuracy(model, digits.test_images, digits.test_labels)
    assert 0.4 < found < 1.0
    assert accuracy(again, digits.test_images, digits.test_labels) == pytest.approx(found, abs=0.03)


def test_images_and_masks_of_another_kind_are_refused():
    model, images = DigitClassifier(d_model=4, d_ffn=8, n_layers=1), torch.rand(2, 8, 8)
    with pytest.raises(ValueError, match=r"the shape of an image is \(8, 7\); expected"):
        model(images[:, :, 1:])
    with pytest.raises(ValueError, match=r"mask.shape is \(2, 7, 8\); expected"):
        model(images, images[:, 1:] > 0)
    with pytest.raises(TypeError, match=r"mask is torch.float32; expected"):
        model(images, images)
