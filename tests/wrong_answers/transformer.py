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
        seen = torch.ones(T, T, dtype=torch.bool).tril().triu({oldest})
        return self.output(F.scaled_dot_product_attention(q, k, v, seen).transpose(1, 2).flatten(2))

def answer(model, corpus, config):
    for layer in model.body:
        near = Near(64, 4)
        {weights}
        layer.attention = near
    return train(model, corpus, config, show_progress=False)[-1]["validation_loss"]
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "1.1": [
        (
            "def answer(q, k, v): return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1).tril() @ v",
            "no longer sum to 1",
        ),
        (
            "def answer(q, k, v): return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v",
            "your attention sees its future: output 0 depends on token 1",
        ),
    ],
    "1.2": [
        ("def answer(x): return x.flip(1)", "the last token asks"),
        ("def answer(x): return x.flip(2)", "channels moved within their tokens"),
    ],
    "1.3": [
        ("def answer(L, H, D, T): return L * D * T", "you count 210: a key and a value are kept"),
        ("def answer(L, H, D, T): return 2 * L * H * D * T", "the heads share the D channels"),
    ],
    "1.4": [
        ("def answer(T, w): return torch.ones(T, T, dtype=torch.bool).tril().triu(-w)", "holds w + 1 tokens"),
        ("def answer(T, w): return ~torch.ones(T, T, dtype=torch.bool).tril().triu(1 - w)", "where it is seen"),
    ],
    "1.5": [
        (
            ONE_KEY + "\n    def mix(self, q, k, v): return F.scaled_dot_product_attention(q, k, v, is_causal=True)",
            "your queries and keys are not turned",
        ),
        (
            ONE_KEY
            + "\n    def mix(self, q, k, v):"
            + " return F.scaled_dot_product_attention(rotate(q), rotate(k), rotate(v), is_causal=True)",
            "your values are turned too",
        ),
    ],
    "1.6": [
        (
            NEAR.format(oldest=-4, weights="near.load_state_dict(layer.attention.state_dict())"),
            "in layer 0 a character sees 4 characters back; expected 3, which with itself are 4",
        ),
        (NEAR.format(oldest=-3, weights="pass"), "train from weights of their own"),
    ],
}
