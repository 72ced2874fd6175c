MODEL = """
def answer(vocab_size):
    body = Stack([{layers}])
    initialize(body)
    return LanguageModel(body, vocab_size=vocab_size, d_model=64, max_seq_len=64)
"""
LAYER = "TransformerLayer(MultiHeadAttention(64, 4), FeedForward(64, 256, nn.ReLU()), 64)"
SEES_ALL = "GMLPBlock(64, 256, 64, causal=False, weight='toeplitz')"
BLOCK = "GMLPBlock(64, 256, 64, causal=True, weight='toeplitz')"
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
        (MODEL.format(layers=f"{LAYER}, {LAYER}"), "no SpatialGatingUnit"),
        (MODEL.format(layers=f"{SEES_ALL}, {LAYER}, {SEES_ALL}"), "your model leaks at length 64"),
        (
            MODEL.format(layers=f"{BLOCK}, {BLOCK}, {LAYER}"),
            "your layers are gMLP block, gMLP block, attention, which do not take turns",
        ),
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
    ],
    "7.3": [
        ("def answer(d_model):\n    return MultiHeadAttention(d_model, 4)", "uses MultiHeadAttention"),
        (MIXER.format(mixed="x.mean(1, keepdim=True).expand_as(x)"), "your model leaks at length 64"),
    ],
    "7.4": [
        ("answer = math.sqrt(5 / 3)", "the quantiles differ too"),
        ("answer = 2.776 / 2.306", "divided by the root of its seeds"),
    ],
}
