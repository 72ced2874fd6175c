"""What several test files need."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import efficient_transformers
from efficient_transformers import Cache
from efficient_transformers.judging.recording import results
from efficient_transformers.models import saving

# A command line that trains in a moment, and where it runs.
TEXT = "the quick brown fox\njumps over the lazy dog. " * 20
SIZES = ["--d-model", "8", "--n-layers", "1", "--n-heads", "2", "--batch-size", "2"]
SIZES += ["--seq-len", "8", "--eval-every", "2", "--eval-batches", "1"]
SETTINGS = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def mostly_long(values, always):
    """The values for a parameter, of which all but some are for `make test-long` alone."""
    return [value if value in always else pytest.param(value, marks=pytest.mark.long) for value in values]


def randomize(module, scale=0.1):
    """Weights far from their special initial values, so that nothing is equal by accident; in eval mode."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(scale * torch.randn_like(p))
    return module.eval()


def edit_config(folder, **changes):
    """Another config, sealed as the one of these weights, so that what is wrong with it is said."""
    config = json.loads((folder / saving.CONFIG).read_text()) | changes
    (folder / saving.CONFIG).write_text(json.dumps(config))
    state = load_file(folder / saving.WEIGHTS)
    save_file(state, folder / saving.WEIGHTS, saving.sealed(config, state))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".json", ".jsonl")}


def refuse_another_tree(root):
    """What Python finds installed is what these tests are beside: its code, and the results that it reads.

    Raises:
        pytest.UsageError: if it is not.
    """
    mend = f"install this tree, by `pip install --editable {root}`"
    code = Path(efficient_transformers.__file__)
    if not code.is_relative_to(root / "src"):
        raise pytest.UsageError(f"efficient_transformers is {code.parent}; expected it in {root / 'src'}: {mend}")
    for package, mine in (("recorded", "experiments"), ("measured", "benchmarks")):
        if contents(results(package)) != contents(root / mine / "results"):
            theirs = f"efficient_transformers.{package} is {results(package)}, which has other results"
            raise pytest.UsageError(f"{theirs} than {root / mine / 'results'}: {mend}")


@st.composite
def cut_points(draw, at_most):
    """A length and any way of cutting it: the lengths of the pieces."""
    length = draw(st.integers(1, at_most))
    cuts = sorted(draw(st.sets(st.integers(1, length - 1)))) if length > 1 else []
    return [end - start for start, end in pairwise([0, *cuts, length])]


def without_seconds(metrics):
    """What was measured, without the clock, and without the training loss before the first step, which is NaN."""
    return [{k: v for k, v in record.items() if k != "seconds" and not math.isnan(v)} for record in metrics]


def in_pieces(module, x, pieces, cache=None):
    """The outputs for ``[batch, seq, ...]`` read in pieces with a cache."""
    cache = Cache(x.shape[0]) if cache is None else cache
    return torch.cat([module(piece, cache) for piece in x.split(pieces, dim=1)], dim=1)


def loss_of(model, tokens):
    """The mean cross-entropy of each next token of ``[batch, seq]``."""
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


class ForgetfulCache(Cache):
    """Starts convolutions and windows anew with each piece, as a decoder without their state does."""

    def with_past(self, layer, x, n):
        return F.pad(x, (0, 0, n, 0))


def assert_equal_up_to(tolerance, actual, expected):
    """No element differs by more than ``tolerance``."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)
