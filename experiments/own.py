"""The variant of Chapter 7: convolved attention on every token, around gates on windows of four.

    python -m efficient_transformers compare experiments/own.py:build --minutes 60 --out FOLDER

The plan and the records of that hour are in results/own/.
"""

from __future__ import annotations

from torch import nn

from efficient_transformers import (
    AvgPoolShortening,
    FeedForward,
    GMLPBlock,
    Hourglass,
    LanguageModel,
    MultiDConvHeadAttention,
    NaiveUpSampling,
    SquaredReLU,
    Stack,
    TransformerLayer,
    initialize,
)


def build(vocab_size: int, n_layers: int = 4, max_seq_len: int = 256, d_model: int = 128, k: int = 4) -> nn.Module:
    """A gate for each layer, on windows of k tokens; two gates have the parameters of one layer."""
    outside = n_layers // 2

    def convolved(n: int) -> Stack:
        return Stack(
            [
                TransformerLayer(
                    MultiDConvHeadAttention(d_model, 4), FeedForward(d_model, 4 * d_model, SquaredReLU()), d_model
                )
                for _ in range(n)
            ]
        )

    windows = (max_seq_len - 1) // k + 1
    gates = [GMLPBlock(d_model, 4 * d_model, windows, causal=True, weight="toeplitz") for _ in range(n_layers)]
    body = Hourglass(
        before=convolved(outside - outside // 2),
        shorten=AvgPoolShortening(d_model, k),
        inside=Stack(gates),
        up_sample=NaiveUpSampling(d_model, k),
        after=convolved(outside // 2),
        d_model=d_model,
    )
    initialize(body)
    return LanguageModel(body, vocab_size=vocab_size, d_model=d_model, max_seq_len=max_seq_len)
