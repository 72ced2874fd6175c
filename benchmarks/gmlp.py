"""A gMLP block whose causal product skips the empty half of the matrix, against the dense product, and the transform.

python benchmarks/gmlp.py
"""

from __future__ import annotations

import sys

import torch
from timing import medians, report
from torch import Tensor

from efficient_transformers import GMLPBlock, SpatialGatingUnit

BOUNDS = {(2, 1024): 0.87, (1, 2048): 0.70, (8, 256): 1.05, (2, 256): 1.05}
CURVE = [(16, 128), (8, 256), (4, 512), (2, 1024), (1, 2048), (1, 4096)]  # batch and length


class DenseGate(SpatialGatingUnit):
    """The causal product with the whole matrix, the future set to zero; the faster of two ways to write it."""

    def mix(self, z: Tensor, cache: None = None) -> Tensor:
        matrix = self.matrix(z.shape[1]).tril()
        return torch.bmm(matrix.expand(len(z), -1, -1), z)


def blocks(length: int) -> dict[str, GMLPBlock]:
    """The same block four times: dense and blocked, and with a Toeplitz matrix blocked and by the transform."""
    made = {
        "dense": GMLPBlock(256, 1024, length, causal=True),
        "blocked": GMLPBlock(256, 1024, length, causal=True),
        "Toeplitz, blocked": GMLPBlock(256, 1024, length, causal=True, weight="toeplitz"),
        "Toeplitz, transform": GMLPBlock(256, 1024, length, causal=True, weight="toeplitz", fft=True),
    }
    made["dense"].gate = DenseGate(1024, length, causal=True)
    made["blocked"].load_state_dict(made["dense"].state_dict())
    made["Toeplitz, transform"].load_state_dict(made["Toeplitz, blocked"].state_dict())
    return made


def step(block: GMLPBlock, x: Tensor) -> Tensor:
    """Forward and backward."""
    block.zero_grad()
    y = block(x)
    y.sum().backward()
    return y.detach()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows: list[tuple[str, float, float | None]] = []
    for batch, length in sorted({*CURVE, *BOUNDS}, key=lambda pair: pair[::-1]):
        x = torch.randn(batch, length, 256, requires_grad=True)
        made = blocks(length)
        torch.testing.assert_close(step(made["dense"], x), step(made["blocked"], x), rtol=0, atol=1e-4)
        took = medians({name: lambda b=block, x=x: step(b, x) for name, block in made.items()}, 9)
        for name in list(made)[1:]:
            what = f"{name} / dense ({took['dense'] * 1e3:.0f} ms), batch {batch}, length {length}"
            rows.append((what, took[name] / took["dense"], BOUNDS.get((batch, length)) if name == "blocked" else None))
    sys.exit(0 if report(rows) else 1)


if __name__ == "__main__":
    main()
