"""The causal depthwise convolution of Primer EZ.

What is notable:
- how heads share kernels is the shape of the weight, nothing else: broadcasting does the rest;
- with a cache, the zeros before the sequence are the last inputs of the piece before.
"""

from __future__ import annotations

import copy
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..support.checks import require, require_bool, require_input, require_int, require_known
from . import fast
from .attention import check_heads
from .cache import Cache
from .fast import on_cpu

Sharing = Literal["heads", "none", "all"]
Init = Literal["official", "random"]
SHARINGS: tuple[str, ...] = get_args(Sharing)


class CausalDepthwiseConv(nn.Module):
    r"""Each channel becomes a weighted sum of ``kernel_size`` of its own values, the current one and earlier ones.

    :math:`y_{t,c} = b_c + \sum_{j=0}^{W-1} w_{c,j}\, x_{t-\delta j,c}`, with :math:`x_{s,c} = 0` for :math:`s < 0`
    and dilation :math:`\delta`. ``weight[..., j]`` is the weight of the token :math:`\delta j` steps back.

    Args:
        d_model: channels, laid out head after head.
        n_heads: number of heads; divides ``d_model``. Without heads, each channel has its own kernel.
        kernel_size: tokens in the sum, the current one included.
        sharing: ``"heads"``: one kernel for each channel of a head, shared by all heads; ``"none"``: one for each
            channel of each head; ``"all"``: one.
        dilation: tokens from one weight of the kernel to the next.
        bias: whether each kernel has a bias.
        init: ``"official"``: weights of 0.5 for the current token and 0.5 / W for each earlier one, a bias of 0;
            ``"random"``: uniform within :math:`\pm 1/\sqrt{W}`, as in PyTorch's own depthwise convolution.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``; the weight is
        ``[1 or n_heads, 1 or d_head, kernel_size]``, the bias ``[1 or n_heads, 1 or d_head, 1]``.

    Raises:
        TypeError: if ``kernel_size`` or ``dilation`` is not an int.
        ValueError: if one of them is below 1, ``n_heads`` does not divide ``d_model``, a name is unknown, or a
            sequence has no tokens.

    Source: So et al., 2021, abstract and released code (sharing ``"none"``, no dilation, no bias).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int = 1,
        *,
        kernel_size: int = 3,
        sharing: Sharing = "heads",
        dilation: int = 1,
        bias: bool = False,
        init: Init = "official",
    ) -> None:
        super().__init__()
        check_heads(d_model, n_heads, rotary=False)
        check_conv(kernel_size, sharing, dilation, bias, init)
        self.d_model, self.n_heads, self.kernel_size, self.dilation = d_model, n_heads, kernel_size, dilation
        heads = n_heads if sharing == "none" else 1
        channels = 1 if sharing == "all" else d_model // n_heads
        self.weight = nn.Parameter(torch.full((heads, channels, kernel_size), 0.5 / kernel_size))
        self.bias = nn.Parameter(torch.zeros(heads, channels, 1)) if bias else None
        nn.init.constant_(self.weight[..., 0], 0.5)
        if init == "random":
            for p in self.parameters():
                nn.init.uniform_(p, -(kernel_size**-0.5), kernel_size**-0.5)

    def per_channel(self, p: Tensor) -> Tensor:
        """A parameter, repeated for the heads and channels that share it: ``[d_model, ...]``."""
        return p.expand(self.n_heads, self.d_model // self.n_heads, -1).flatten(0, 1)

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        # Zeros before the sequence, or a cache's last inputs, keep every sum from reading a later token. PyTorch counts
        # a kernel from its oldest token, hence the flip.
        require_input("x", x, self.d_model)
        require(x.shape[1] > 0, "the sequence length", x.shape[1], "at least one token")
        past = (self.kernel_size - 1) * self.dilation
        x = F.pad(x, (0, 0, past, 0)) if cache is None else cache.with_past(self, x, past)  # (B, past+T, D)
        kernel = self.per_channel(self.weight.flip(2)).unsqueeze(1)  # (D, 1, W)
        bias = None if self.bias is None else self.per_channel(self.bias).flatten()  # (D)
        return depthwise_conv(x, kernel, bias, self.dilation)  # (B, T, D)

    def extra_repr(self) -> str:
        sizes = f"{self.d_model}, n_heads={self.n_heads}, kernel_size={self.kernel_size}"
        return f"{sizes}, dilation={self.dilation}, kernels={self.weight[..., 0].numel()}"


@on_cpu(fast.channels_last_conv)
def depthwise_conv(x: Tensor, kernel: Tensor, bias: Tensor | None, dilation: int) -> Tensor:
    """``conv1d`` of ``[batch, past + seq, channels]`` with a kernel ``[channels, 1, W]`` for each channel."""
    y = F.conv1d(x.mT, kernel, bias, dilation=dilation, groups=len(kernel)).mT  # (B, T, D)
    return y.contiguous()  # a token's channels side by side: fused attention takes no others on a GPU


def check_conv(kernel_size: int, sharing: str, dilation: int, bias: bool, init: str) -> None:
    """Raise unless a :class:`CausalDepthwiseConv` can be made of these."""
    require_int("kernel_size", kernel_size, at_least=1)
    require_int("dilation", dilation, at_least=1)
    require_known("sharing", sharing, SHARINGS)
    require_bool("bias", bias)
    require_known("init", init, get_args(Init))


def expand_sharing(module: nn.Module, sharing: Sharing = "none") -> nn.Module:
    """A copy that computes the same with more kernels: shared ones are repeated, and free to part from then on.

    Args:
        module: a model or a layer; each :class:`CausalDepthwiseConv` in it is expanded.
        sharing: ``"heads"`` (from ``"all"``) or ``"none"`` (from any).

    Raises:
        ValueError: if a convolution has more kernels than the asked sharing, so that some would be lost.
    """
    require_known("sharing", sharing, SHARINGS)
    config: Any = getattr(module, "config", None)
    module = copy.deepcopy(module)
    expanded: dict[nn.Parameter, nn.Parameter] = {}  # so that tied kernels stay tied
    for conv in module.modules():
        if isinstance(conv, CausalDepthwiseConv):
            heads, channels = conv.n_heads, conv.d_model // conv.n_heads
            wanted = {"none": (heads, channels), "heads": (1, channels), "all": (1, 1)}[sharing]
            has = tuple(conv.weight.shape[:2])
            fits = all(n in (1, m) for n, m in zip(has, wanted, strict=True))
            require(fits, "sharing", sharing, f"a sharing that holds kernels of shape {has} (heads, channels)")
            for name, p in list(conv.named_parameters(remove_duplicate=False)):
                larger = nn.Parameter(p.detach().expand(*wanted, -1).clone(), p.requires_grad)
                setattr(conv, name, expanded.setdefault(p, larger))
    if config:
        # Without that option nothing could build the copy again, so that it has nothing to be saved by.
        module.config = config | {"sharing": sharing} if "sharing" in config else None  # type: ignore[assignment]
    return module
