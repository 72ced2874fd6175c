"""gMLP in one file: layers, model, text, training, sampling. Equations are numbered as in the book.

    python gmlp.py a-text.txt

Put together by `make single` from the cells of Chapter 5 of Efficient Transformers, Annotated.
"""

import math
import statistics
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


class SplitGate(nn.Module):
    """(5.1) for z of shape (B, T, F): the halves, the matrix, the product."""

    def __init__(self, d_ffn, n, causal):
        super().__init__()
        self.causal, self.norm = causal, nn.LayerNorm(d_ffn // 2)
        self.weight = nn.Parameter(0.001 * n**-0.5 * torch.randn(n, n))   # near 0
        self.bias = nn.Parameter(torch.ones(n))

    def matrix(self, T):
        return self.weight[:T, :T]

    def f(self, z2):
        T = z2.shape[1]
        w = self.matrix(T).tril() if self.causal else self.matrix(T)
        return w @ self.norm(z2) + self.bias[:T, None]                    # (B, T, F/2)

    def forward(self, z):
        z1, z2 = z.chunk(2, dim=-1)                                       # (B, T, F/2) each
        return z1 * self.f(z2)


class PlainBlock(nn.Module):
    """(5.2) for x of shape (B, T, D)."""

    def __init__(self, d_model, d_ffn, n, causal):
        super().__init__()
        self.d_model = d_model
        self.norm, self.gate = nn.LayerNorm(d_model), SplitGate(d_ffn, n, causal)
        self.up = nn.Linear(d_model, d_ffn, bias=False)
        self.down = nn.Linear(d_ffn // 2, d_model, bias=False)

    def forward(self, x):
        z = F.gelu(self.up(self.norm(x)))                                 # (B, T, F)
        return x + self.down(self.gate(z))                                # (B, T, D)


def full(kernel):
    """(5.4): W, (T, T), from a weight for each distance from -(T-1) to T-1."""
    T = (len(kernel) + 1) // 2
    t, s = torch.arange(T)[:, None], torch.arange(T)
    return kernel[t - s + T - 1]


class ToeplitzGate(SplitGate):
    """(5.1) with the W of (5.4), causal: weight[j] is that of the distance j."""

    def __init__(self, d_ffn, n):
        super().__init__(d_ffn, n, causal=True)
        self.weight = nn.Parameter(0.001 * n**-0.5 * torch.randn(n))

    def matrix(self, T):
        return full(F.pad(self.weight[:T], (T - 1, 0)))                   # zeros: the future


class DenseGMLP(nn.Module):
    """Tokens (B, T) to logits (B, T, V): (1.8) with blocks of (5.2)."""

    def __init__(self, vocab_size, d_model=128, n_layers=8, n=64):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.body = nn.Sequential(*(PlainBlock(d_model, 4 * d_model, n, causal=True)
                                    for _ in range(n_layers)))
        self.norm = nn.LayerNorm(d_model)
        for block in self.body:
            nn.init.normal_(block.up.weight, std=d_model**-0.5)
            nn.init.zeros_(block.down.weight)

    def forward(self, tokens):
        x = self.norm(self.body(self.embedding(tokens)))                  # (B, T, D)
        return x @ self.embedding.weight.T                                # (B, T, V)


def build(vocab_size):
    """The model of the book: about 0.8 million parameters."""
    model = DenseGMLP(vocab_size)
    for block in model.body:  # one weight for each distance
        block.gate = ToeplitzGate(512, 64)
    return model


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
        logits = model(tokens[:, -64:])[:, -1]                # (1, V)
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
