"""The baseline: a decoder-only Transformer that is hard to beat at its size.

What is notable:
- rotary positions, computed where they are used: no table, no maximal length;
- attention is PyTorch's fused kernel: no ``[seq, seq]`` matrix is stored unless somebody asks for it;
- LayerNorm before each block (pre-norm), no biases in the projections;
- the embedding matrix is also the output matrix;
- one forward pass serves whole sequences and, with a cache, sequences in pieces.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .cache import Cache
from .checks import check_tokens, require, require_int
from .generation import generate
from .pretrained import Pretrained


def rotate(x: Tensor, start: int = 0, step: int = 1) -> Tensor:
    r"""Rotary positions: turn each pair of channels by an angle proportional to the position.

    With :math:`\theta_i = 10000^{-2i/K}`, the pair of channels :math:`(i, i + K/2)` at position :math:`t`, read as
    a complex number, is multiplied by :math:`e^{\mathrm{i} t \theta_i}`.

    Args:
        x: queries or keys, ``[..., seq, K]`` with even ``K``.
        start: the position of the first token.
        step: from one token's position to the next.

    Returns:
        The rotated tensor, of the same shape.

    Source: Su et al., RoFormer, 2021, section 3.2 (channels paired by halves).
    """
    T, K = x.shape[-2:]
    exact = torch.promote_types(x.dtype, torch.float32)  # angles of half precision would be far too coarse
    theta = 10000.0 ** (-torch.arange(0, K, 2, device=x.device, dtype=exact) / K)  # (K/2,)
    angle = (start + step * torch.arange(T, device=x.device))[:, None] * theta  # (T, K/2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    real, imag = x.chunk(2, dim=-1)  # (..., T, K/2) each
    return torch.cat([real * cos - imag * sin, real * sin + imag * cos], dim=-1)


def causal_mask(T: int, S: int, device: torch.device | None = None) -> Tensor:
    """Which of ``S`` keys each of the last ``T`` positions sees: bool ``[T, S]``, True where it does."""
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)


class MultiHeadAttention(nn.Module):
    r"""Multi-head attention with rotary positions, causal unless asked otherwise.

    :math:`\mathrm{softmax}(Q K^\top / \sqrt{K})\, V` in each of ``n_heads`` heads of ``K = d_model / n_heads``
    channels, where position :math:`t` sees the keys :math:`s \le t`.

    Args:
        d_model: channels of the input and of the output.
        n_heads: number of heads; divides ``d_model``.
        rotary: rotate queries and keys by their positions; without, attention is blind to order but for the mask.
        causal: whether position :math:`t` sees the keys :math:`s \le t`, or all of them.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``.

    Raises:
        ValueError: if ``n_heads`` does not divide ``d_model``, a rotary head has an odd number of channels, or
            attention that is not causal is called with a cache.

    Source: Vaswani et al., Attention Is All You Need, 2017, section 3.2.
    """

    def __init__(self, d_model: int, n_heads: int, rotary: bool = True, causal: bool = True) -> None:
        super().__init__()
        check_heads(d_model, n_heads, rotary)
        self.d_model, self.n_heads, self.rotary, self.causal = d_model, n_heads, rotary, causal
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.output = nn.Linear(d_model, d_model, bias=False)

    def project(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of ``x``, each ``[batch, seq, d_model]``."""
        return self.query(x), self.key(x), self.value(x)

    def heads(self, x: Tensor, cache: Cache | None = None) -> list[Tensor]:
        """Queries, keys and values by head, rotated: each ``[batch, n_heads, seq, d_head]``."""
        start = cache.length(self) if cache is not None else 0
        q, k, v = (z.view(*z.shape[:2], self.n_heads, -1).transpose(1, 2) for z in self.project(x, cache))
        return [rotate(q, start), rotate(k, start), v] if self.rotary else [q, k, v]  # (B, H, T, K)

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        require(self.causal or cache is None, "cache", cache, "None, for attention that is not causal")
        q, k, v = self.heads(x, cache)  # (B, H, T, K)
        if cache is not None:
            k, v = cache.append(self, k, v)  # (B, H, S, K), the T new positions last
        T, S = q.shape[2], k.shape[2]
        mask = causal_mask(T, S, x.device) if 1 < T < S else None
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal and T == S)  # (B, H, T, K)
        return self.output(y.transpose(1, 2).flatten(2))  # (B, T, D)

    def attention_map(self, x: Tensor) -> Tensor:
        """The weights ``[batch, n_heads, seq, seq]`` that the fused kernel uses and does not keep."""
        q, k, _ = self.heads(x)
        scores = q @ k.mT / q.shape[-1] ** 0.5  # (B, H, T, T)
        hidden = ~causal_mask(x.shape[1], x.shape[1], x.device) & self.causal
        return scores.masked_fill(hidden, -torch.inf).softmax(-1)


def check_heads(d_model: int, n_heads: int, rotary: bool = True) -> None:
    """Raise unless ``n_heads`` divides ``d_model`` into heads that can be rotated."""
    require_int("d_model", d_model, at_least=1)
    require_int("n_heads", n_heads, at_least=1)
    require(d_model % n_heads == 0, "d_model", d_model, f"a multiple of n_heads={n_heads}")
    d_head = d_model // n_heads
    require(not rotary or d_head % 2 == 0, "d_model / n_heads", d_head, "an even number, for rotary positions")


class FeedForward(nn.Module):
    r"""The position-wise network :math:`W_2\, f(W_1 x)`.

    Args:
        d_model: channels of the input and of the output.
        d_ff: channels between the two projections.
        activation: the function :math:`f`, a module.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``.

    Source: Vaswani et al., 2017, section 3.3, without biases.
    """

    def __init__(self, d_model: int, d_ff: int, activation: nn.Module) -> None:
        super().__init__()
        require_int("d_ff", d_ff, at_least=1)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.activation = activation
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activation(self.up(x)))


class TransformerLayer(nn.Module):
    r"""A pre-norm residual layer: :math:`h = x + A(\mathrm{LN}(x))`, then :math:`y = h + F(\mathrm{LN}(h))`.

    Args:
        attention: the sequence-mixing block :math:`A`; called with ``(x, cache)``.
        feed_forward: the position-wise block :math:`F`.
        d_model: channels of the input and of the output.
        dropout: probability of dropping each channel of what a block adds.

    Shapes:
        ``[batch, seq, d_model]`` to ``[batch, seq, d_model]``.

    Source: Xiong et al., On Layer Normalization in the Transformer Architecture, 2020.
    """

    def __init__(self, attention: nn.Module, feed_forward: nn.Module, d_model: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.d_model = d_model
        self.attention, self.feed_forward = attention, feed_forward
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), cache))  # (B, T, D)
        return x + self.dropout(self.feed_forward(self.norm2(x)))


class LearnedPositions(nn.Module):
    """Add a learned vector to each position, as an alternative to rotary positions.

    Args:
        d_model: channels.
        max_seq_len: number of positions.

    Shapes:
        ``[batch, seq, d_model]`` to the same; ``weight`` is ``[max_seq_len, d_model]``.

    Source: Vaswani et al., 2017, section 3.5.
    """

    def __init__(self, d_model: int, max_seq_len: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(max_seq_len, d_model))

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        start = 0 if cache is None else cache.advance(self, x.shape[1])
        return x + self.weight[start : start + x.shape[1]]


class Stack(nn.ModuleList):
    """Layers one after the other, each called with ``(x, cache)``."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        for layer in self:
            x = layer(x, cache)
        return x


class LanguageModel(Pretrained, nn.Module):
    r"""Tokens to logits: embedding, body, LayerNorm, and the embedding matrix once more.

    Args:
        body: the layers, ``[batch, seq, d_model]`` to the same shape; called with ``(x, cache)``.
        vocab_size: number of tokens.
        d_model: channels of the body.
        max_seq_len: the longest sequence that the model accepts.
        dropout: probability of dropping each channel of the embeddings.

    Shapes:
        int64 ``[batch, seq]`` to logits ``[batch, seq, vocab_size]``.

    Raises:
        TypeError: if the tokens are not int64.
        ValueError: if they are empty, too long, outside the vocabulary, or of another batch size than the cache; if
            another model has used the cache.
    """

    def __init__(
        self, body: nn.Module, *, vocab_size: int, d_model: int, max_seq_len: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.vocab_size, self.d_model, self.max_seq_len = vocab_size, d_model, max_seq_len
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)  # small, for it is the output matrix too
        self.dropout, self.body, self.norm = nn.Dropout(dropout), body, nn.LayerNorm(d_model)

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        check_tokens(tokens, self.vocab_size, self.max_seq_len, cache)
        if cache is not None:
            cache.check_owner(self)
        x = self.dropout(self.embedding(tokens))  # (B, T, D)
        x = self.norm(self.body(x, cache))
        if cache is not None:
            cache.tokens_read += tokens.shape[1]
        return x @ self.embedding.weight.T  # (B, T, V)

    generate = generate
