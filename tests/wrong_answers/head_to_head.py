GATED = """
from efficient_transformers import GatedFeedForward, initialize, train

def answer(model, corpus, config):
    for layer in {layers}:
        layer.feed_forward = GatedFeedForward(64, {made})
    {start}
    return train(model, corpus, config, show_progress=False)[-1]["validation_loss"]
"""

CROSSING = """
def answer(lengths, target):
    s = {order}
    if lengths[s[0]] <= target:
        return s[0]
    for a, b in {pairs}:
        if lengths[b] <= target < lengths[a]:
            w = (lengths[a] - target) / (lengths[a] - lengths[b])
            return a ** (1 - w) * b**w
    return math.inf
"""


def crossing(order="sorted(lengths)", pairs="zip(s, s[1:])"):
    """A wrong function for exercise 6.4."""
    return CROSSING.format(order=order, pairs=pairs)


def gated(made, start="initialize(model.body)", layers="model.body"):
    """A wrong function for exercise 6.5."""
    return GATED.format(made=made, start=start, layers=layers)


WRONG: dict[str, list[tuple[str, str]]] = {
    "6.1": [
        (
            "def answer(ours, theirs):\n    return [a - b for a, b in zip(ours.values(), theirs.values())]",
            "4 differences",
        ),
        (
            "def answer(ours, theirs):\n    return [ours[s] - theirs[s] for s in ours if s in theirs]",
            "not by ascending seed",
        ),
        (
            "def answer(ours, theirs):\n    return [theirs[s] - ours[s] for s in sorted(set(ours) & set(theirs))]",
            "the signs are reversed",
        ),
        (
            "def answer(ours, theirs):\n    n = sorted(set(ours) & set(theirs))\n"
            "    return [a - b for a, b in zip(sorted(ours[s] for s in n), sorted(theirs[s] for s in n))]",
            "are both losses of that seed?",
        ),
        (
            "def answer(ours, theirs):\n    return [ours[s] - theirs[s] for s in sorted(ours)]",
            "seed 4 was run on one side alone: take the seeds of both",
        ),
        (
            "def answer(ours, theirs):\n    return [ours[s] - theirs[s] for s in sorted(theirs)]",
            "seed 3 was run on one side alone: take the seeds of both",
        ),
        ("def answer(ours, theirs):\n    return 0.1", "you return a float; expected a list"),
    ],
    "6.2": [
        ("answer = 0.12 * 0.25", "take a logarithm"),
        ("answer = 0.12 * math.log(1.25)", "the base 2"),
        ("answer = -0.12 * math.log2(1.25)", "a positive number"),
        ("answer = 0.04", "if rounded to two decimals; give three"),
        ("answer = 0.12 * (1 - 0.8)", "a fifth fewer steps are not a fifth of a halving"),
        ("answer = 0.12 * 1.25", "0.15 is not it"),
        ("answer = 'a lot'", "your answer is 'a lot', of the type str; expected a number"),
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
        ("def answer(d):\n    return 32.0", "a share, between 0 and 1"),
        ("def answer(d):\n    return 2 * 0.5 ** len(d)", "the share of the two ways in which all signs are alike"),
        (
            "import itertools\n"
            "def answer(d):\n    o = sum(d)\n"
            "    s = [sum(a * b for a, b in zip(g, d)) for g in itertools.product((1, -1), repeat=len(d))]\n"
            "    return sum(x >= o - 1e-12 for x in s) / len(s)",
            "not above it alone",
        ),
        (
            "import itertools\n"
            "def answer(d):\n    o = abs(sum(d))\n"
            "    s = [abs(sum(a * b for a, b in zip(g, d))) for g in itertools.product((1, -1), repeat=len(d))]\n"
            "    return sum(x >= o for x in s) / len(s)",
            "another choice of signs has the same sum, and rounding puts it below: leave room",
        ),
        (
            "from scipy import stats\ndef answer(d):\n    return stats.ttest_1samp(d, 0).pvalue if len(d) > 1 else 1.0",
            "Student's test, which supposes a bell curve",
        ),
        (
            "def answer(d):\n    n, k = len(d), sum(x > 0 for x in d)\n"
            "    tail = sum(math.comb(n, i) for i in range(min(k, n - k) + 1)) / 2**n\n    return min(1.0, 2 * tail)",
            "that counts signs and forgets sizes",
        ),
        ("def answer(d):\n    return None", "is None, of the type NoneType; expected a number"),
        ("def answer(d):\n    return 0.5", "your p-value is 0.5; expected 0.0625"),
    ],
    "6.4": [
        (
            "def answer(lengths, target):\n    s = sorted(lengths)\n"
            "    if lengths[s[0]] <= target:\n        return s[0]\n"
            "    for a, b in zip(s, s[1:]):\n        if lengths[b] <= target:\n"
            "            return a + (b - a) * (lengths[a] - target) / (lengths[a] - lengths[b])\n    return math.inf",
            "not in their logarithm",
        ),
        ("def answer(lengths, target):\n    return min(lengths)", "expected 707.107"),
        (crossing(order="list(lengths)"), "the dictionary is in any order, and begins with its longest run; sort it"),
        (crossing(pairs="reversed(list(zip(s, s[1:])))"), "passes the target twice; the first time counts"),
        (
            "def answer(lengths, target):\n    s = sorted(lengths)\n"
            "    for a, b in zip(s, s[1:]):\n        w = (lengths[a] - target) / (lengths[a] - lengths[b])\n"
            "        if w <= 1:\n            return a ** (1 - w) * b**w\n    return s[-1]",
            "the shortest run reaches it already",
        ),
        (
            "def answer(lengths, target):\n    s = sorted(lengths)\n"
            "    if lengths[s[0]] <= target:\n        return s[0]\n"
            "    for a, b in zip(s, s[1:]):\n        w = (lengths[a] - target) / (lengths[a] - lengths[b])\n"
            "        if w <= 1:\n            return a ** (1 - w) * b**w\n    return s[-1]",
            "nothing is known",
        ),
    ],
    "6.5": [
        (gated("256, nn.SiLU()"), "your model has 136,768 parameters, the one before"),
        (gated("128, nn.SiLU()"), "expected a difference of at most 1 %"),
        (
            gated("171, nn.SiLU()", start="pass"),
            "do not start in zeros, as those of the other model do: call initialize",
        ),
        (gated("171, nn.GELU()"), "the activations are GELU, GELU; expected nn.SiLU() in every layer"),
        (gated("171, nn.SiLU()", layers="model.body[:1]"), "is no GatedFeedForward: change every layer"),
        (gated("171, nn.SiLU()", layers="[]"), "is no GatedFeedForward: change every layer"),
    ],
}
