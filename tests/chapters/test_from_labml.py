"""The page for readers of labml: each row names what there is, and theirs, where it is installed, does what it says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch

from efficient_transformers import CausalDepthwiseConv, labml
from tools.notebooks import chapters, tested
from tools.site import pages

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "book" / "from-labml.md").read_text(encoding="utf-8")
MODULES = pages.documented().values()
PEERS = ROOT / ".peers"  # where `make` puts labml-nn


def rows() -> list[tuple[str, list[str]]]:
    """Each row with the module of labml_nn.transformers that its table is about."""
    found, module = [], ""
    for line in TEXT.splitlines():
        module = line.removeprefix("## ") if line.startswith("## ") else module
        if line.startswith("| `"):
            found.append((module, [cell.strip() for cell in line.strip("|").split("|")]))
    return found


ROWS = rows()
needs_labml = pytest.mark.long  # `make test-long` brings it


@pytest.mark.parametrize(("module", "row"), ROWS, ids=lambda part: part if isinstance(part, str) else part[0])
def test_what_a_row_names_exists(module, row):
    theirs, ours, section, differs, tests = row
    assert re.fullmatch(r"`\w+`", theirs)
    (named,) = re.findall(r"^\{(?:class|func)\}`(\w+)`$", ours)
    assert any(hasattr(documented, named) for documented in MODULES)
    assert section.removeprefix("Section ") in chapters.sections()
    assert differs
    held = re.findall(r"`(test_\w+)`", tests)
    assert held
    assert [name for name in held if name not in tested.places()] == []


def test_the_first_code_runs_and_each_class_of_the_four_pages_imports_by_its_name():
    space = {}
    exec(re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1], space)
    assert space["attention"].heads == 8
    for module, row in ROWS:
        if module in ("primer_ez", "primer_ez.variations", "hour_glass", "gmlp"):
            assert isinstance(getattr(labml, row[0].strip("`")), type)


@needs_labml
@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # in their docstrings
@pytest.mark.parametrize("module", sorted({module for module, _ in ROWS}))
def test_each_class_and_function_of_theirs_has_a_row(module):
    path = PEERS / "labml_nn" / "transformers" / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    theirs = [f"`{node.name}`" for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    assert [row[0] for of, row in ROWS if of == module] == theirs


@needs_labml
def test_their_other_convolution_is_the_same_sum(monkeypatch):
    monkeypatch.syspath_prepend(PEERS)
    from labml_nn.transformers.primer_ez import efficient

    theirs, ours = efficient.SpatialDepthWiseConvolution(8), CausalDepthwiseConv(32, 4)
    ours.weight.data = theirs.kernels.detach().T[None]
    x = torch.randn(9, 2, 4, 8)  # [seq, batch, heads, channels]
    torch.testing.assert_close(ours(x.transpose(0, 1).flatten(2)), theirs(x).transpose(0, 1).flatten(2))


@needs_labml
def test_theirs_does_what_the_rows_say(monkeypatch):
    monkeypatch.syspath_prepend(PEERS)
    from labml_nn.transformers import gmlp, hour_glass, models, primer_ez

    with pytest.raises(RuntimeError, match="size 0"):
        primer_ez.SpatialDepthWiseConvolution(8, kernel_size=1)(torch.randn(9, 2, 4, 8))
    x = torch.randn(20, 1, 32)
    short = hour_glass.HourGlass(4, 32, 0.0, 64, [8, 4])
    assert not torch.allclose(short(x[:10])[9], short(x)[9], atol=1e-3)
    for name in ("LinearPoolingShortening", "AttentionBasedShortening", "LinearUpSampling", "AttentionBasedUpSampling"):
        with pytest.raises(NotImplementedError):
            getattr(hour_glass, name)()
    block = gmlp.GMLPBlock(32, 64, 16)
    tokens = x[:16].requires_grad_()
    (reads,) = torch.autograd.grad(block(x=tokens)[3].sum(), tokens)
    assert reads.any(dim=(1, 2)).all(), "token 3 reads all, the later ones too"
    with pytest.raises(RuntimeError, match="einsum"):
        block(x=x)
    first, *_, last = models.Encoder(block, 3).layers
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), last.parameters(), strict=True))
