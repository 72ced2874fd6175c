"""Models of others run the convolution of Primer EZ: the library transformers has them."""

import importlib

import pytest
import torch
from helpers import assert_equal_up_to, randomize

from efficient_transformers import Cache, CausalDepthwiseConv


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", ["qwen3_next", "mamba2"])
def test_gated_deltanet_and_mamba_run_this_convolution(name, bias):
    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    conv, x = randomize(CausalDepthwiseConv(6, kernel_size=4, bias=bias)), torch.randn(2, 9, 6)
    kernel = conv.weight.flip(2).squeeze(0)  # theirs begins with the oldest token
    shift = conv.bias.flatten() if bias else None
    assert_equal_up_to(1e-6, module.causal_conv1d_fn(x.mT, kernel, shift).mT, conv(x))
    cache, state = Cache(2), torch.zeros(2, 6, 3)
    for token in x.split(1, dim=1):
        theirs = module.causal_conv1d_update(token.mT, state, kernel, shift)
        assert_equal_up_to(1e-6, theirs.mT, conv(token, cache))
