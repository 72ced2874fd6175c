ATTEND = """
def attend(q, k, v, hidden, scale=True):
    scores = q @ k.mT / (q.shape[-1] ** 0.5 if scale else 1)
    return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v

def triangle(q, n):
    T = q.shape[-2]
    return torch.ones(T, T, dtype=torch.bool).triu(n)
"""

ONE_KEY = """
class answer(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.d_model, self.n_heads = d_model, n_heads
        self.query, self.output = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(d_model, d_model // n_heads, bias=False) for _ in range(2))

    def forward(self, x):
        q = self.query(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        k, v = self.key(x)[:, None], self.value(x)[:, None]
        return self.output(self.mix(q, k.expand_as(q), v.expand_as(q)).transpose(1, 2).flatten(2))
"""

NEAR = """
from efficient_transformers import MultiHeadAttention, train

class Near(MultiHeadAttention):
    def attend(self, q, k, v, **options):
        T = q.shape[2]
        seen = torch.ones(T, T, dtype=torch.bool){seen}
        y = F.scaled_dot_product_attention(q, k, v, seen{options})
        return self.output(y.transpose(1, 2).flatten(2))

def answer(model, corpus, config):
    for layer in {layers}:
        near = Near(64, 4)
        {weights}
        layer.attention = near
    return train(model, corpus, config, show_progress=False)[-1]["validation_loss"]
"""


KEPT = "near.load_state_dict(layer.attention.state_dict())"


def near(seen=".tril().triu(-3)", options="", layers="model.body", weights=KEPT):
    """A wrong function for exercise 1.6, by its mask, a further option, the layers that it changes, their weights."""
    return NEAR.format(seen=seen, options=options, layers=layers, weights=weights)


TRAIN = "from efficient_transformers import train\n\ndef answer(model, corpus, config):\n    "

WRONG: dict[str, list[tuple[str, str]]] = {
    "1.1": [
        (
            "def answer(q, k, v): return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1).tril() @ v",
            "no longer sum to 1",
        ),
        ("def answer(q, k, v): return (q @ k.mT / q.shape[-1] ** 0.5).tril().softmax(-1) @ v", "exp(0) is 1"),
        (
            "def answer(q, k, v):"
            "\n    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1).tril()"
            "\n    return weights / weights.sum(-1, keepdim=True) @ v",
            "dividing them by their sum is 0/0",
        ),
        (
            "def answer(q, k, v):"
            "\n    future = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)"
            "\n    return (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(future, -1e4).softmax(-1) @ v",
            "a low score is not a weight of 0",
        ),
        (ATTEND + "def answer(q, k, v): return attend(q, k, v, triangle(q, 1).T)", "the wrong way round"),
        (ATTEND + "def answer(q, k, v): return attend(q, k, v, triangle(q, 0))", "not even itself"),
        (ATTEND + "def answer(q, k, v): return attend(q, k, v, triangle(q, 1), scale=False)", "the root of K"),
        (
            ATTEND + "def answer(q, k, v): return attend(q, k, v, triangle(q, 2))",
            "your attention sees its future: output 0 depends on token 1 (5",
        ),
        ("def answer(q, k, v): return (q @ k.mT).tril()", "expected (2, 3, 6, 3)"),
        (
            "def answer(q, k, v):\n"
            "    T, K = q.shape[-2:]\n"
            "    return (q @ k.mT / (K / 2)).masked_fill(~torch.ones(T, T).bool().tril(), -math.inf).softmax(-1) @ v",
            "numbers differ",
        ),
    ],
    "1.2": [
        ("def answer(x): return x", "this is x as it was"),
        ("def answer(x): return x.flip(1)", "the last token asks"),
        ("def answer(x): return torch.cat([2 * x[:, :9], x[:, 9:]], dim=1)", "other vectors, and their sum"),
        (
            "def answer(x): return torch.cat([x[:, :9].sort(dim=1).values, x[:, 9:]], dim=1)",
            "channels moved between tokens",
        ),
        ("def answer(x): return x.sort(dim=1).values", "channels moved between tokens"),
        ("def answer(x): return x.flip(2)", "channels moved within their tokens"),
        ("def answer(x): return x[:, 1:]", "a tensor (1, 10, 32)"),
    ],
    "1.3": [
        ("def answer(L, H, D, T): return L * D * T", "you count 210: a key and a value are kept"),
        ("def answer(L, H, D, T): return 2 * L * H * D * T", "the heads share the D channels"),
        ("def answer(L, H, D, T): return 3 * L * D * T", "queries are asked once"),
        ("def answer(L, H, D, T): return 8 * L * D * T", "you count bytes, 4 for each number"),
        ("def answer(L, H, D, T): return 2 * D * T", "for 3 layers"),
        ("def answer(L, H, D, T): return 2 * L * D", "every token is kept"),
        ("def answer(L, H, D, T): return L + H", "you count 8: which numbers does one layer keep of one token?"),
    ],
    "1.4": [
        ("def answer(T, w): return torch.ones(T, T).tril().triu(1 - w)", "expected torch.bool"),
        ("def answer(T, w): return torch.ones(T, T, dtype=torch.bool).tril().triu(-w)", "holds w + 1 tokens"),
        ("def answer(T, w): return torch.ones(T, T, dtype=torch.bool).tril().triu(2 - w)", "holds w - 1 tokens"),
        ("def answer(T, w): return torch.ones(T, T, dtype=torch.bool).tril()", "no lower edge"),
        ("def answer(T, w): return torch.ones(T, T, dtype=torch.bool).tril(w - 1).triu(1 - w)", "into the future"),
        ("def answer(T, w): return ~torch.ones(T, T, dtype=torch.bool).tril().triu(1 - w)", "where it is seen"),
        ("def answer(T, w): return torch.ones(T, T, dtype=torch.bool).tril().triu(1 - w).T", "turn the mask over"),
        ("def answer(T, w): return torch.ones(T, T, dtype=torch.bool).tril(1).triu(1 - w)", "token 0 sees token 1"),
    ],
    "1.5": [
        (
            ONE_KEY + "\n    def mix(self, q, k, v): return F.scaled_dot_product_attention(q, k, v, is_causal=True)",
            "your queries and keys are not turned",
        ),
        (
            ONE_KEY + "\n    def mix(self, q, k, v): return F.scaled_dot_product_attention(rotate(q), rotate(k), v)",
            "your layer sees its future: output 0 depends on token 1 (21 leaks",
        ),
        (
            ONE_KEY
            + "\n    def mix(self, q, k, v):"
            + " return F.scaled_dot_product_attention(rotate(q), rotate(k), rotate(v), is_causal=True)",
            "your values are turned too",
        ),
        (
            ONE_KEY
            + "\n    def mix(self, q, k, v):"
            + "\n        q = rotate(q.transpose(1, 2)).transpose(1, 2)"
            + "\n        return F.scaled_dot_product_attention(q, rotate(k), v, is_causal=True)",
            "your queries are turned along the heads",
        ),
        (
            ONE_KEY
            + "\n    def mix(self, q, k, v):"
            + "\n        q, k = (rotate(z.transpose(1, 2)).transpose(1, 2) for z in (q, k))"
            + "\n        return F.scaled_dot_product_attention(q, k, v, is_causal=True)",
            "both along the heads, which cancels",
        ),
        ("answer = MultiHeadAttention(24, 3)", "your answer is one module"),
        ("answer = MultiHeadAttention", "one key for all heads has K = D / H = 8 channels"),
        ("def answer(d_model, n_heads): return nn.Linear(d_model, d_model)", "no nn.Linear called query"),
        ("def answer(d_model, n_heads): return 3", "expected an nn.Module"),
    ],
    "1.6": [
        (
            near(".tril().triu(-4)"),
            "in layer 0 a character sees 4 characters back; expected 3, which with itself are 4",
        ),
        (near(".triu(-3)"), "in layer 0 a character sees its future"),
        (near(weights="pass"), "train from weights of their own"),
        (near(weights="nn.init.zeros_(near.output.weight)"), "train from weights of their own"),
        (near(layers="model.body[:1]"), "in layer 1 a character sees the whole text before it"),
        (near(options=", scale=1.0"), "are not the attention that they were"),
        (TRAIN + "return train(model, corpus, config)", "you return a Metrics; expected a number"),
        (TRAIN + "return 2.3", "the model that your function was given is not trained"),
        (TRAIN + "return train(model, corpus, config)[-1]['train_loss']", "the loss of the last training batch"),
        (
            TRAIN + "return train(model, corpus, config)[0]['validation_loss']",
            "the first record, before the first step",
        ),
        (
            "from efficient_transformers import TrainingConfig\n"
            + TRAIN
            + "return train(model, corpus, TrainingConfig(steps=1, batch_size=2, seq_len=8))[-1]['validation_loss']",
            "trains the model for 1 steps; expected 3, those of `config`: pass it on to train",
        ),
        (
            near().replace("def answer(model, corpus, config):", "def change(model):").replace("return train", "# ")
            + "\n\ndef answer(model, corpus, config):"
            + "\n    loss = train(model, corpus, config)[-1]['validation_loss']\n    change(model)\n    return loss",
            "read it after the change and the training",
        ),
    ],
}
