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
        x = F.pad(x, {padded})
        return {taken}{more}

def answer(model, corpus, config):
    model.body.shorten = Last()
    return train(model, corpus, config, show_progress=False)[-1]["validation_loss"]
"""


WINDOWS = "x[:, : x.shape[1] // 4 * 4].unflatten(1, (-1, 4))"


def last(taken, padded="(0, 0, 3, 0)", more=""):
    """A wrong function for exercise 4.6."""
    return LAST.format(taken=taken, padded=padded, more=more)


WRONG: dict[str, list[tuple[str, str]]] = {
    "4.1": [
        (
            "def answer(x, short, k):\n"
            "    w = (torch.arange(x.shape[1]) + k - 1) // k\n"
            "    return x + short[:, w.clamp(max=short.shape[1] - 1)]",
            "gives token 1 the vector of window 1 (T = 8, k = 4): that window ends at token 4, so the token sees 3 of",
        ),
        (
            "def answer(x, short, k):\n    return x + short[:, (torch.arange(x.shape[1]) // k - 1).clamp(min=0)]",
            "gives token 4 the vector of window 0 (T = 8, k = 4): that is honest but stale",
        ),
        ("def answer(x, short, k):\n    return short[:, torch.arange(x.shape[1]) // k]", "lacks x"),
        ("def answer(x, short, k):\n    return x + short", "choose one vector of short for each token, 8 in all"),
        ("def answer(x, short, k):\n    return x.add_(short[:, torch.arange(x.shape[1]) // k])", "changed x in place"),
        ("def answer(x, short, k):\n    return x", "(128 of 128 numbers differ)"),
    ],
    "4.2": [
        ("def answer(t): return t % 4", "the age of the window of the level between"),
        ("def answer(t): return t % 8 + 0.9", "for t = 0 you say 0.9; expected a whole number of tokens"),
        ("answer = 7", "your answer is 7, of the type int; expected a function of t"),
        ("def answer(t): return t % 6", "factors of nested levels multiply"),
        ("def answer(t): return t % 8 + 1", "one too many"),
        ("def answer(t): return t // 8", "for t = 1 you say 0; the innermost window that it reads ends at token 0"),
    ],
    "4.3": [
        ("def answer(D): return 12 * D", "attention has both, scores and mixture"),
        ("answer = 768", "your answer is 768, of the type int; expected a function of D"),
        ("def answer(D): return 'long'", "what you return for D = 32 is 'long', of the type str; expected a number"),
        ("def answer(D): return 2 * D", "the feed-forward network has 8D² more"),
        (
            "def answer(D): return 512",
            "at T = 512 and D = 32 attention takes 32,768 multiply-adds, the matrices 12,288",
        ),
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
        (
            "def answer(x, k):\n"
            "    T = x.shape[1]\n"
            "    x = F.pad(x, (0, 0, k - 1, 0), value=-math.inf)[:, :T]\n"
            "    return F.pad(x, (0, 0, 0, -T % k), value=-math.inf).unflatten(1, (-1, k)).amax(2)",
            "lacks its latest tokens",
        ),
        (
            "def answer(x, k):\n    return x[:, : x.shape[1] // k * k].unflatten(1, (-1, k)).amax(2)[:, :1]",
            "for T = 8 and k = 4 your shortening gives (2, 1, 3); expected (2, 2, 3), a window for each of the tokens",
        ),
        (
            "def answer(x, k):\n"
            "    n = (x.shape[1] - 1) // k + 1\n"
            "    return F.pad(x, (0, 0, k - 1, 0), value=-6.0)[:, : n * k].unflatten(1, (n, k)).amax(2)",
            "you return -6, which stood before the text and won: only -inf loses against every number",
        ),
        (
            "def answer(x, k):\n"
            "    n = (x.shape[1] - 1) // k + 1\n"
            "    return F.pad(x, (0, 0, k - 1, 0), value=-1.0)[:, : n * k].unflatten(1, (n, k)).amax(2)",
            "token 0 is alone in window 0 and has -1e+30 there; you return -1, which stood before the text and won",
        ),
        (
            "def answer(x, k):\n"
            "    n = (x.shape[1] - 1) // k + 1\n"
            "    return F.pad(x, (0, 0, k - 1, 0), value=-torch.inf)[:, : n * k].unflatten(1, (n, k)).max(2)",
            "gives a pair, the largest numbers and their places, as `max` does: take the first",
        ),
        (
            "def answer(x, k):\n    return F.max_pool1d(x.mT, k).mT",
            "it shows its readers 3 future tokens",
        ),
    ],
    "4.5": [
        (
            up_sampling(
                "t = self.t + torch.arange(x.shape[1])",
                "have = short if self.last is None else torch.cat([self.last, short], 1)",
                "y = x + have[:, (t // self.k > (self.t - 1) // self.k).long() * (self.t > 0)]",
                "self.t, self.last = self.t + x.shape[1], have[:, -1:]",
                "return y",
            ),
            "pieces of",
        ),
        (
            up_sampling(
                "have = short if self.last is None else torch.cat([self.last, short], 1)",
                "first, t = max(0, (self.t - 1) // 4), self.t + torch.arange(x.shape[1])",
                "self.t, self.last = self.t + x.shape[1], have[:, -1:]",
                "return x + have[:, t // 4 - first]",
            ),
            "k = 3",
        ),
        (
            up_sampling("return x + short[:, torch.arange(x.shape[1]) // self.k]"),
            "This piece completes no window: its tokens read the last vector of an earlier piece",
        ),
        (
            up_sampling(
                "have = short if self.last is None else torch.cat([self.last, short], 1)",
                "self.last = have[:, -1:]",
                "return have",
            ),
            "a vector for each token of the piece, which completes 3 windows",
        ),
        (
            up_sampling(
                "have = short if self.last is None else torch.cat([self.last, short], 1)",
                "self.last = have[:, -1:]",
                "return x + have[:, torch.arange(x.shape[1]) // self.k]",
            ),
            "gives token 4 the vector of window 0",
        ),
        (
            up_sampling(
                "t = self.t + torch.arange(x.shape[1])",
                "first = -(-self.t // self.k)",
                "self.t += x.shape[1]",
                "return x + short[:, t // self.k - first]",
            ),
            "at tokens 3 to 3, pieces of [3, 1, 1, 4, 2], your answer stopped in line",
        ),
    ],
    "4.6": [
        (last("x[:, 3::4]", padded="(0, 0, 0, 3)"), "their last tokens are the future of their readers"),
        (last(WINDOWS, more="[:, :, 0]"), "a window's first token, its oldest; expected the last"),
        (last(WINDOWS, more=".amax(2)"), "it keeps the largest of each window"),
        (last(WINDOWS, more=".sum(2)"), "it keeps the sum of each window"),
        (last(WINDOWS, more=".mean(2)"), "nothing in it is changed"),
        (last(WINDOWS, more="[:, :, 1]"), "it computes something else"),
        (last("x[:, ::4] / 4", padded="(0, 0, 0, 0)"), "a quarter of the last token"),
    ],
}
