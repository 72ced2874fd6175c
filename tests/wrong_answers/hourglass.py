CLASS = """
class answer:
    def __init__(self, k):
        self.k, self.t, self.last = k, 0, None

    def __call__(self, x, short):
        {body}
"""


def up_sampling(*lines):
    """A wrong class for exercise 4.5, from the lines of its call."""
    return CLASS.format(body="\n        ".join(lines))


LAST = """
from efficient_transformers import train

class Last(nn.Module):
    factor = 4

    def forward(self, x, cache=None):
        return {taken}

def answer(model, corpus, config):
    model.body.shorten = Last()
    return train(model, corpus, config, show_progress=False)[-1]["validation_loss"]
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "4.1": [
        (
            "def answer(x, short, k):\n"
            "    w = (torch.arange(x.shape[1]) + k - 1) // k\n"
            "    return x + short[:, w.clamp(max=short.shape[1] - 1)]",
            "gives token 1 the vector of window 1 (T = 8, k = 4): that window ends at token 4, so the token sees 3 of",
        ),
        ("def answer(x, short, k):\n    return short[:, torch.arange(x.shape[1]) // k]", "lacks x"),
    ],
    "4.2": [
        ("def answer(t): return t % 4", "the age of the window of the level between"),
        ("def answer(t): return t % 8 + 1", "one too many"),
    ],
    "4.3": [
        ("def answer(D): return 12 * D", "attention has both, scores and mixture"),
        ("def answer(D): return 2 * D", "the feed-forward network has 8D² more"),
    ],
    "4.4": [
        (
            "def answer(x, k):\n"
            "    T = x.shape[1]\n"
            "    return F.pad(x, (0, 0, 0, -T % k), value=-math.inf).unflatten(1, (-1, k)).amax(2)",
            "it shows its readers 3 future tokens",
        ),
        (
            "def answer(x, k):\n"
            "    n = (x.shape[1] - 1) // k + 1\n"
            "    return F.pad(x, (0, 0, k - 1, 0))[:, : n * k].unflatten(1, (n, k)).amax(2)",
            "pad with -inf",
        ),
    ],
    "4.5": [
        (
            up_sampling("return x + short[:, torch.arange(x.shape[1]) // self.k]"),
            "This piece completes no window: its tokens read the last vector of an earlier piece",
        ),
        (
            up_sampling(
                "have = short if self.last is None else torch.cat([self.last, short], 1)",
                "self.last = have[:, -1:]",
                "return x + have[:, torch.arange(x.shape[1]) // self.k]",
            ),
            "gives token 4 the vector of window 0",
        ),
    ],
    "4.6": [
        (LAST.format(taken="F.pad(x, (0, 0, 0, 3))[:, 3::4]"), "their last tokens are the future of their readers"),
        (
            LAST.format(taken="F.pad(x, (0, 0, 3, 0))[:, : (x.shape[1] + 3) // 4 * 4 : 4]"),
            "a window's first token, its oldest",
        ),
    ],
}
