"""The baseline Transformer in one file: layers, model, text, training, sampling. Equations are numbered as in the book.

    python transformer.py a-text.txt

Put together by `make single` from the cells of Chapter 1 of Efficient Transformers, Annotated.
"""

import math
import statistics
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


def turn_pairs(x, start=0):
    """(1.3) for x of shape (..., T, K), whose first token is at position start."""
    T, K = x.shape[-2:]
    theta = 10000.0 ** (-2 * torch.arange(K // 2) / K)                    # (K/2,)
    factors = torch.exp(1j * (start + torch.arange(T))[:, None] * theta)  # (T, K/2)
    pairs = torch.view_as_complex(x.unflatten(-1, (K // 2, 2)))           # (..., T, K/2)
    return torch.view_as_real(pairs * factors).flatten(-2)                # (..., T, K)


class PlainAttention(nn.Module):
    """(1.5) for x of shape (B, T, D)."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.d_model, self.n_heads = d_model, n_heads
        self.query, self.key, self.value, self.output = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def split(self, z):                                                     # (B, T, D)
        return z.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)          # (B, H, T, K)

    def project(self, x):
        return self.query(x), self.key(x), self.value(x)                    # (B, T, D) each

    def heads(self, x, start=0):
        q, k, v = (self.split(z) for z in self.project(x))                  # (B, H, T, K) each
        return turn_pairs(q, start), turn_pairs(k, start), v

    def forward(self, x):
        y = F.scaled_dot_product_attention(*self.heads(x), is_causal=True)  # (B, H, T, K)
        return self.output(y.transpose(1, 2).flatten(2))                    # (B, T, D)


class PlainFeedForward(nn.Module):
    """(1.6) for x of shape (..., D)."""

    def __init__(self, d_model, d_ff, activation):
        super().__init__()
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.activation = activation
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.down(self.activation(self.up(x)))  # (..., F) inside


class PlainLayer(nn.Module):
    """(1.7) for x of shape (B, T, D)."""

    def __init__(self, attention, feed_forward, d_model):
        super().__init__()
        self.d_model, self.attention, self.feed_forward = d_model, attention, feed_forward
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))  # (B, T, D)
        return x + self.feed_forward(self.norm2(x))

    def branch_ends(self):                     # they start at 0: Section 1.7
        return [self.attention.output, self.feed_forward.down]


class PlainLanguageModel(nn.Module):
    """(1.8) for tokens of shape (B, T)."""

    def __init__(self, body, vocab_size, d_model):
        super().__init__()
        self.d_model = d_model
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.body, self.norm = body, nn.LayerNorm(d_model)

    def forward(self, tokens):
        x = self.embedding(tokens)          # (B, T, D)
        x = self.norm(self.body(x))         # (B, T, D)
        return x @ self.embedding.weight.T  # (B, T, V)


def initialize(module):
    for linear in module.modules():
        if isinstance(linear, nn.Linear):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
    for block in module.modules():
        if hasattr(block, "branch_ends"):
            for last in block.branch_ends():
                nn.init.zeros_(last.weight)


def build(vocab_size):
    """The model of the book: about 0.8 million parameters."""
    layers = [PlainLayer(PlainAttention(128, 4), PlainFeedForward(128, 512, nn.ReLU()), 128) for _ in range(4)]
    body = nn.Sequential(*layers)
    initialize(body)
    return PlainLanguageModel(body, vocab_size, 128)


class Corpus:
    """A text by characters: nine tenths to train on, the rest for validation."""

    def __init__(self, text):
        self.vocabulary, self.characters = self, sorted(set(text))
        tokens = self.encode(text)                                          # (N,)
        self.train, self.validation = tokens.tensor_split([9 * len(tokens) // 10])

    def encode(self, text):
        number = {c: i for i, c in enumerate(self.characters)}
        return torch.tensor([number[c] for c in text])

    def decode(self, tokens):
        return "".join(self.characters[i] for i in tokens)

    def batch(self, batch_size, seq_len, generator, validation=False):
        tokens = self.validation if validation else self.train
        starts = torch.randint(len(tokens) - seq_len, (batch_size, 1), generator=generator)
        rows = tokens[starts + torch.arange(seq_len + 1)]                   # (B, T + 1)
        return rows[:, :-1], rows[:, 1:]

    def validation_batches(self, count, *shape):
        generator = torch.Generator().manual_seed(0)
        return [self.batch(*shape, generator, validation=True) for _ in range(count)]


def next_token_loss(model, inputs, targets):
    """(1.9), averaged, for tokens (B, T) and the tokens that follow each, (B, T)."""
    logits = model(inputs)                               # (B, T, V)
    log_p = logits - logits.logsumexp(-1, keepdim=True)  # (B, T, V)
    return -log_p.gather(-1, targets[..., None]).mean()


def rate(step, steps, peak, warmup=50):
    """(1.10): the learning rate of a step."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / (steps - warmup)
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


@torch.no_grad()
def validation_loss(model):
    batches = corpus.validation_batches(8, 12, 64)  # always the same 8
    return statistics.mean(next_token_loss(model, *batch).item() for batch in batches)


def learn(model, steps, peak=0.002, warmup=50, look_at=()):
    batches, curve = torch.Generator().manual_seed(0), {}
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99))
    for step in range(steps):
        if step in look_at:
            curve[step] = validation_loss(model)
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps, peak, warmup)
        loss = next_token_loss(model, *corpus.batch(12, 64, batches))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return {**curve, steps: validation_loss(model)}


@torch.no_grad()
def write_on(model, prompt, count, temperature=0.7):
    """(1.11), again and again, after a text."""
    generator = torch.Generator().manual_seed(0)
    tokens = corpus.vocabulary.encode(prompt)[None]  # (1, T)
    for _ in range(count):
        logits = model(tokens)[:, -1]                # (1, V)
        p = (logits / temperature).softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(p, 1, generator=generator)], dim=1)
    return corpus.vocabulary.decode(tokens[0])


if __name__ == "__main__":
    corpus = Corpus(Path(sys.argv[1]).read_text(encoding="utf-8"))
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    torch.manual_seed(0)
    model = build(len(corpus.characters))
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters; 500 steps take about a minute")
    for step, loss in learn(model, steps, look_at=range(0, steps, 100)).items():
        print(f"step {step:4}: validation loss {loss:.3f}")
    print(write_on(model, corpus.decode(corpus.validation[:20]), 300))
