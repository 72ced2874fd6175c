"""Chapter 1's model that grows: each part lowers the loss under another seed, too."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tools.notebooks import chapters


@pytest.mark.slow
def test_each_part_lowers_the_loss_under_another_seed(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    code = [cell.node.source for cell in chapters.cells("01-transformer") if cell.is_code]
    first = next(i for i, source in enumerate(code) if source.startswith("class Growing"))
    last = next(i for i, source in enumerate(code) if "figures.growing" in source)
    imports = next(source for source in code if "import torch\n" in source)
    grown = "\n".join(code[first:last])
    assert grown.count("manual_seed(0)") == 3
    assert "warmup_steps=20)" in grown
    other = grown.replace("manual_seed(0)", "manual_seed(1)").replace("warmup_steps=20)", "warmup_steps=20, seed=1)")
    names = {}
    exec(f"{imports}\ncorpus = load_corpus()\n{other}", names)
    assert len(names["losses"]) == 8
    assert all(after < before for before, after in pairwise(names["losses"].values()))
