GATED = """
from efficient_transformers import GatedFeedForward, initialize, train

def answer(model, corpus, config):
    for layer in model.body:
        layer.feed_forward = GatedFeedForward(64, {made})
    initialize(model.body)
    return train(model, corpus, config, show_progress=False)[-1]["validation_loss"]
"""
CROSSING = """
def answer(lengths, target):
    s = {order}
    if lengths[s[0]] <= target:
        return s[0]
    for a, b in zip(s, s[1:]):
        if lengths[b] <= target < lengths[a]:
            w = (lengths[a] - target) / (lengths[a] - lengths[b])
            return {crossing}
    return math.inf
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "6.1": [
        (
            "def answer(ours, theirs):\n    return [a - b for a, b in zip(ours.values(), theirs.values())]",
            "4 differences",
        ),
        (
            "def answer(ours, theirs):\n    return [theirs[s] - ours[s] for s in sorted(set(ours) & set(theirs))]",
            "the signs are reversed",
        ),
    ],
    "6.2": [
        ("answer = 0.12 * 0.25", "take a logarithm"),
        ("answer = 0.12 * math.log(1.25)", "the base 2"),
    ],
    "6.3": [
        (
            "import itertools\n"
            "def answer(d):\n    o = abs(sum(d))\n"
            "    s = [abs(sum(a * b for a, b in zip(g, d))) for g in itertools.product((1, -1), repeat=len(d))]\n"
            "    return sum(x > o + 1e-12 for x in s) / len(s)",
            "count 'at least as far'",
        ),
        (
            "import itertools\n"
            "def answer(d):\n    o = sum(d)\n"
            "    s = [sum(a * b for a, b in zip(g, d)) for g in itertools.product((1, -1), repeat=len(d))]\n"
            "    return sum(x <= o + 1e-12 for x in s) / len(s)",
            "compare absolute values",
        ),
    ],
    "6.4": [
        (CROSSING.format(order="sorted(lengths)", crossing="a + (b - a) * w"), "not in their logarithm"),
        (
            CROSSING.format(order="list(lengths)", crossing="a ** (1 - w) * b**w"),
            "the dictionary is in any order, and begins with its longest run; sort it",
        ),
    ],
    "6.5": [
        (GATED.format(made="256, nn.SiLU()"), "your model has 136,768 parameters, the one before"),
        (GATED.format(made="171, nn.GELU()"), "the activations are GELU, GELU; expected nn.SiLU() in every layer"),
    ],
}
