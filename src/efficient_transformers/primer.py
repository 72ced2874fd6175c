"""Primer EZ, its variations, and the full Primer.

What is notable:
- the activation is squared: ``max(x, 0) ** 2``, with its derivative written out, which saves two passes over memory;
- after the query, key and value projections, a depthwise causal convolution mixes three tokens;
- how heads share kernels is the shape of the weight, nothing else: broadcasting does the rest;
- the convolution is ``conv2d`` on a channels-last view, so that no transposed copy of the activations is made.
"""

from __future__ import annotations

import copy
from itertools import combinations
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from .cache import Cache
from .checks import require, require_int, require_known
from .transformer import FeedForward, LanguageModel, MultiHeadAttention, TransformerLayer, check_heads


class SquaredReLUFunction(torch.autograd.Function):
    """The activation and its derivative; autograd's own would keep as much and pass over it twice more."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:
        root = F.relu(x)
        ctx.save_for_backward(root)
        return root.square()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (root,) = ctx.saved_tensors
        return (gradient * root).mul_(2)


class SquaredReLU(nn.Module):
    r"""The activation :math:`y = \max(x, 0)^2`, element by element; it can be differentiated once.

    Source: So et al., Primer, 2021, section 4.
    """

    def forward(self, x: Tensor) -> Tensor:
        return SquaredReLUFunction.apply(x)  # type: ignore[no-untyped-call]


SHARINGS = ("heads", "none", "all")
STARTS = ("official", "random")
SUBSETS = tuple("".join(names) for n in range(4) for names in combinations("qkv", n))


class CausalDepthwiseConv(nn.Module):
    r"""Each channel becomes a weighted sum of ``kernel_size`` of its own values, the current one and earlier ones.

    :math:`y_{t,c} = b_c + \sum_{j=0}^{W-1} w_{c,j}\, x_{t-\delta j,c}`, with :math:`x_{s,c} = 0` for :math:`s < 0`
    and dilation :math:`\delta`. ``weight[..., j]`` is the weight of the token :math:`\delta j` steps back.

    Args:
        d_model: channels, laid out head after head.
        n_heads: number of heads; divides ``d_model``.
        kernel_size: tokens in the sum, the current one included.
        sharing: ``"heads"``: one kernel for each channel of a head, shared by all heads; ``"none"``: one for each
            channel of each head; ``"all"``: one.
        dilation: tokens from one weight of the kernel to the next.
        bias: whether each kernel has a bias.
        start: ``"official"``: weights of 0.5 for the current token and 0.5 / W for each earlier one, a bias of 0;
            ``"random"``: uniform within :math:`\pm 1/\sqrt{W}`, as in PyTorch's own depthwise convolution.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``; the weight is
        ``[1 or n_heads, 1 or d_head, kernel_size]``, the bias ``[1 or n_heads, 1 or d_head, 1]``.

    Raises:
        TypeError: if ``kernel_size`` or ``dilation`` is not an int.
        ValueError: if one of them is below 1, ``n_heads`` does not divide ``d_model``, or a name is unknown.

    Source: So et al., 2021, section 4, and the paper's released code (sharing ``"none"``, no dilation, no bias).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        kernel_size: int = 3,
        sharing: str = "heads",
        dilation: int = 1,
        bias: bool = False,
        start: str = "official",
    ) -> None:
        super().__init__()
        check_conv(d_model, n_heads, kernel_size, sharing, dilation, start)
        self.d_model, self.n_heads, self.kernel_size, self.dilation = d_model, n_heads, kernel_size, dilation
        heads = n_heads if sharing == "none" else 1
        channels = 1 if sharing == "all" else d_model // n_heads
        self.weight = nn.Parameter(torch.full((heads, channels, kernel_size), 0.5 / kernel_size))
        self.bias = nn.Parameter(torch.zeros(heads, channels, 1)) if bias else None
        nn.init.constant_(self.weight[..., 0], 0.5)
        if start == "random":
            for p in self.parameters():
                nn.init.uniform_(p, -(kernel_size**-0.5), kernel_size**-0.5)

    def per_channel(self, p: Tensor) -> Tensor:
        """A parameter, repeated for the heads and channels that share it: ``[d_model, ...]``."""
        return p.expand(self.n_heads, self.d_model // self.n_heads, -1).flatten(0, 1)

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        past = (self.kernel_size - 1) * self.dilation
        x = F.pad(x, (0, 0, past, 0)) if cache is None else cache.with_past(self, x, past)  # (B, past+T, D)
        kernel = self.per_channel(self.weight.flip(2))[:, None, None]  # (D, 1, 1, W)
        bias = None if self.bias is None else self.per_channel(self.bias).flatten()  # (D)
        x = x.mT.unsqueeze(2)  # (B, D, 1, past+T), channels last in memory
        y = F.conv2d(x, kernel, bias, dilation=(1, self.dilation), groups=self.d_model)
        return y.squeeze(2).mT  # (B, T, D)


def check_conv(d_model: int, n_heads: int, kernel_size: int, sharing: str, dilation: int, start: str) -> None:
    """Raise unless a :class:`CausalDepthwiseConv` can be made of these."""
    require_int("kernel_size", kernel_size, at_least=1)
    require_int("dilation", dilation, at_least=1)
    require_known("sharing", sharing, SHARINGS)
    require_known("start", start, STARTS)
    check_heads(d_model, n_heads, rotary=False)


class MultiDConvHeadAttention(MultiHeadAttention):
    """Multi-head attention whose queries, keys and values pass through a causal depthwise convolution.

    Args:
        d_model, n_heads: as for :class:`MultiHeadAttention`.
        convolve: which of ``"q"``, ``"k"`` and ``"v"``, in this order; ``""`` is plain attention.
        **options: of :class:`CausalDepthwiseConv`.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``.

    Raises:
        ValueError: if ``convolve`` is not one of the eight subsets, or for the convolution's arguments.

    Source: So et al., 2021, section 4.
    """

    def __init__(self, d_model: int, n_heads: int, convolve: str = "qkv", **options: Any) -> None:
        super().__init__(d_model, n_heads)
        require_known("convolve", convolve, SUBSETS)
        self.conv_q, self.conv_k, self.conv_v = (
            CausalDepthwiseConv(d_model, n_heads, **options) if name in convolve else None for name in "qkv"
        )

    def project(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Tensor, Tensor]:
        pairs = zip(super().project(x), (self.conv_q, self.conv_k, self.conv_v), strict=True)
        q, k, v = (z if conv is None else conv(z, cache) for z, conv in pairs)  # (B, T, D) each
        return q, k, v


def expand_sharing(module: nn.Module, sharing: str = "none") -> nn.Module:
    """A copy that computes the same with more kernels: shared ones are repeated, and free to part from then on.

    Args:
        module: a model or a layer; each :class:`CausalDepthwiseConv` in it is expanded.
        sharing: ``"heads"`` (from ``"all"``) or ``"none"`` (from any).

    Raises:
        ValueError: if a convolution has more kernels than the asked sharing, so that some would be lost.
    """
    require_known("sharing", sharing, SHARINGS)
    module = copy.deepcopy(module)
    for conv in module.modules():
        if isinstance(conv, CausalDepthwiseConv):
            heads, channels = conv.n_heads, conv.d_model // conv.n_heads
            wanted = {"none": (heads, channels), "heads": (1, channels), "all": (1, 1)}[sharing]
            has = tuple(conv.weight.shape[:2])
            fits = all(n in (1, m) for n, m in zip(has, wanted, strict=True))
            require(fits, "sharing", sharing, f"a sharing that holds kernels of shape {has} (heads, channels)")
            for name, p in list(conv.named_parameters()):
                setattr(conv, name, nn.Parameter(p.detach().expand(*wanted, -1).clone()))
    if isinstance(module, LanguageModel) and "sharing" in module.config:
        module.config["sharing"] = sharing
    return module


class GatedFeedForward(FeedForward):
    r"""The position-wise network :math:`W_2\,(f(W_3 x) \odot W_1 x)`; SwiGLU when :math:`f` is SiLU.

    Args:
        d_model, d_ff, activation: as for :class:`FeedForward`; at 2/3 of its ``d_ff``, the parameters are equal.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``.

    Source: Shazeer, GLU Variants Improve Transformer, 2020.
    """

    def __init__(self, d_model: int, d_ff: int, activation: nn.Module) -> None:
        super().__init__(d_model, d_ff, activation)
        self.gate = nn.Linear(d_model, d_ff, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activation(self.gate(x)) * self.up(x))


class SharedQueryKeyAttention(MultiHeadAttention):
    r"""Attention whose queries are made from its keys: :math:`K = \mathrm{conv}(x W_K)`, then :math:`Q = K W_Q`.

    Args:
        d_model, n_heads: as for :class:`MultiHeadAttention`.
        **options: of :class:`CausalDepthwiseConv`.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``.

    Source: the paper's released code, ``share_qk_rep``.
    """

    def __init__(self, d_model: int, n_heads: int, **options: Any) -> None:
        super().__init__(d_model, n_heads)
        self.conv_k = CausalDepthwiseConv(d_model, n_heads, **options)
        self.conv_v = CausalDepthwiseConv(d_model, n_heads, **options)

    def project(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Tensor, Tensor]:
        k = self.conv_k(self.key(x), cache)  # (B, T, D)
        return self.query(k), k, self.conv_v(self.value(x), cache)


class PrimerNorm(nn.Module):
    r"""Primer's norm: :math:`y = g\,(x - \mu) / \sqrt{\mathrm{mean}(x\,(x - \mu)) + \epsilon} + b`.

    The mean :math:`\mu` is over the channels. Since :math:`\mathrm{mean}(x (x - \mu))` is the variance, this is
    LayerNorm, up to rounding.

    Args:
        d_model: channels.
        eps: the number :math:`\epsilon`.

    Shapes:
        ``[..., d_model]`` to the same shape.

    Source: the paper's released code, ``primer_norm``.
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # half precision cannot hold the sums
        centered = wide - wide.mean(-1, keepdim=True)
        variance = (wide * centered).mean(-1, keepdim=True)
        return (centered * (variance + self.eps).rsqrt() * self.weight + self.bias).to(x.dtype)


class PrimerLayer(TransformerLayer):
    r"""Primer's placement of norms: :math:`h = x + A(N(x))` as before, but then :math:`y = h + N(F(h))`.

    Args and shapes:
        As for :class:`TransformerLayer`.

    Source: the paper's released code, ``PrePostNormLayerStack``.
    """

    def __init__(self, attention: nn.Module, feed_forward: nn.Module, d_model: int, dropout: float = 0.0) -> None:
        super().__init__(attention, feed_forward, d_model, dropout)
        self.norm1, self.norm2 = PrimerNorm(d_model), PrimerNorm(d_model)  # type: ignore[assignment]

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), cache))  # (B, T, D)
        return x + self.dropout(self.norm2(self.feed_forward(x)))
