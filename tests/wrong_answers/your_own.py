MODEL = """
def answer(vocab_size):
    body = Stack([{layers}])
    initialize(body)
    return LanguageModel(body, vocab_size={vocab}, d_model=64, max_seq_len=64)
"""
LAYER = "TransformerLayer(MultiHeadAttention(64, 4), FeedForward(64, 256, nn.ReLU()), 64)"
GATE = "GMLPBlock(64, 256, 64, causal=True, weight='toeplitz')"
SEES_ALL = "GMLPBlock(64, 256, 64, causal=False, weight='toeplitz')"


def model(*layers, vocab="vocab_size"):
    """An answer to exercise 7.1."""
    return MODEL.format(layers=", ".join(layers), vocab=vocab)


MIXER = """
class Mixer(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.output = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, cache=None):
        return self.output({mixed})

def answer(d_model):
    return Mixer(d_model)
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "7.1": [
        (model(LAYER, LAYER), "no SpatialGatingUnit"),
        (model(GATE, GATE, GATE, GATE), "no MultiHeadAttention"),
        (model(LAYER, GATE), "expected at most 5 % between them"),
        (model(GATE, GATE, LAYER), "your layers are gate, gate, attention, which do not take turns"),
        (model(GATE, LAYER, GATE, vocab="64"), "your model fails on tokens"),
        (model(SEES_ALL, LAYER, SEES_ALL), "your model leaks at length 64"),
        ("def answer(vocab_size):\n    return vocab_size", "expected a torch.nn.Module"),
    ],
    "7.2": [
        (
            "def answer(vocab_size):\n"
            "    return build_model('hourglass', vocab_size=vocab_size, d_model=64, hierarchy='1@1 4@4 1@1')",
            "which layers still read every token?",
        ),
        (
            "def answer(vocab_size):\n"
            "    return build_model('hourglass', vocab_size=vocab_size, d_model=64, hierarchy='0@1 4@4 0@1')",
            "your model has 4 Transformer layers; expected at least 6",
        ),
        (
            "def answer(vocab_size):\n"
            "    return build_model('hourglass', vocab_size=vocab_size, d_model=16, hierarchy='0@1 8@4 0@1')",
            "your model has 16 channels; expected 64",
        ),
        (
            "def answer(vocab_size):\n"
            "    return build_model('transformer', vocab_size=vocab_size, d_model=16, n_layers=6)",
            "no Shortening",
        ),
    ],
    "7.3": [
        ("def answer(d_model):\n    return MultiHeadAttention(d_model, 4)", "uses MultiHeadAttention"),
        (MIXER.format(mixed="x"), "does not mix"),
        (MIXER.format(mixed="x.mean(1, keepdim=True).expand_as(x)"), "your model leaks at length 64"),
        (
            MIXER.format(mixed="F.pad(x, (0, 0, 1, 0))[:, :-1]"),
            "output 5 is another: does each layer get the cache?",
        ),
        ("def answer(d_model):\n    return nn.Identity()", "no nn.Linear called output"),
        ("def answer(d_model):\n    return 5", "your function returns no module"),
    ],
    "7.4": [
        ("answer = math.sqrt(5 / 3)", "the quantiles differ too"),
        ("answer = (2.306 / math.sqrt(5)) / (2.776 / math.sqrt(3))", "turn it over"),
        ("answer = 2.776 / 2.306", "divided by the root of its seeds"),
        ("answer = 2", "2 is not it"),
    ],
}
