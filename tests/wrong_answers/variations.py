SHIFTED = "return sum(weight[:, j] * F.pad(x, (0, 0, j, 0))[:, : x.shape[1]] for j in range(weight.shape[1]))"
FFT = """
def answer(x, weight):
    n = x.shape[1]{more}
    y = torch.fft.rfft(x, n, dim=1) * torch.fft.rfft(weight{turned}.T, n, dim=0){conj}
    return torch.fft.irfft(y, n, dim=1)[:, : {keep}]
"""


def fft(more=" + weight.shape[1] - 1", turned="", conj="", keep="x.shape[1]"):
    return FFT.format(more=more, turned=turned, conj=conj, keep=keep)


FREEZE = """
from efficient_transformers import CausalDepthwiseConv, train

def answer(model, corpus, config):
    for module in {where}:
        if {which}:
            {do}
    return train(model, corpus, config, show_progress=False)[-1]["validation_loss"]
"""


def freeze(do="module.requires_grad_(False)", where="model.modules()", which="isinstance(module, CausalDepthwiseConv)"):
    """A wrong function for exercise 3.6."""
    return FREEZE.format(do=do, where=where, which=which)


WRONG: dict[str, list[tuple[str, str]]] = {
    "3.1": [
        (
            f"def answer(x, k):\n    weight = k.repeat(x.shape[2] // len(k), 1)\n    {SHIFTED}",
            "take their kernels in turn",
        ),
        (
            f"def answer(x, k):\n    weight = k.flip(1).repeat_interleave(x.shape[2] // len(k), 0)\n    {SHIFTED}",
            "the wrong way round",
        ),
        (
            "def answer(x, k):\n"
            "    weight = k.repeat_interleave(x.shape[2] // len(k), 0)\n"
            "    return sum(weight[:, j] * F.pad(x, (0, 0, 0, j))[:, j:] for j in range(k.shape[1]))",
            "sees 2 tokens of the future",
        ),
        (f"def answer(x, k):\n    weight = k[:1]\n    {SHIFTED}", "every head has the first one"),
        ("def answer(x, k): return x[..., :4]", "has the shape (2, 10, 4); expected (2, 10, 24)"),
        ("def answer(x, k): return x", "numbers differ"),
        (
            "def answer(x, k):\n"
            "    weight = k.repeat_interleave(x.shape[2] // len(k), 0)\n"
            "    return sum(weight[:, j] * x.roll(j, 1) for j in range(k.shape[1]))",
            "the end wraps round to the start",
        ),
    ],
    "3.2": [
        ("answer = ([-0.5, -0.5], 2)", "a constant comes out upside down"),
        ("answer = ([0.5, 0.5], 1)", "0.71 of its height is left"),
        ("answer = ([0.5, 0.5], 4)", "this wave is the same"),
        ("answer = ([1.0, 1.0], 2)", "comes out as 2"),
        ("answer = ([0.5, 0.5], 0)", "expected a number of tokens, 1 or more"),
        ("answer = (['half', 0.5], 2)", "a weight is 'half', of the type str; expected a number"),
        ("answer = [0.5, 0.5, 2]", "expected two weights and a dilation"),
        ("answer = ([0.5, 0.25, 0.25], 2)", "expected two weights and a dilation"),
    ],
    "3.3": [
        ("def answer(W, dilations): return (W - 1) * sum(dilations)", "the current token counts too"),
        ("def answer(W, dilations): return 1 + W * sum(dilations)", "W weights reach back W − 1 steps"),
        ("def answer(W, dilations): return 1 + (W - 1) * max(dilations)", "the largest alone is too little"),
        ("def answer(W, dilations): return 1 + (W - 1) * sum(d - 1 for d in dilations)", "a step goes δ tokens back"),
        ("def answer(W, dilations): return W ** len(dilations)", "back through each convolution"),
    ],
    "3.4": [
        ('answer = ("k", "k")', "with rotation, k's bias is turned by the position"),
        ('answer = ("", "")', "without rotation, k's bias can be left out too"),
        ('answer = ("qk", "")', "without rotation, leaving out q's bias changes an output"),
        ('answer = ("k", "v")', "reaches the output whole"),
        ("answer = 'k'", "it should be two strings"),
    ],
    "3.5": [
        (fft(more=""), "treats the text as a circle"),
        (fft(conj=".conj()"), "sees the future"),
        (fft(turned=".flip(1)"), "the wrong way round"),
        (fft().replace("[:, : x.shape[1]]", "[:, -x.shape[1] :]"), "you keep the last T of 11 tokens"),
        ("def answer(x, weight):\n    " + SHIFTED, "no transform made them"),
        (fft(keep="n"), "keep the first T = 9"),
        ("def answer(x, weight): return 2 * x", "numbers differ"),
        (fft().replace("(y, n, dim=1)", "(y, dim=1)"), "irfft assumes an even one"),
    ],
    "3.6": [
        (freeze("module.requires_grad_(True)"), "a kernel's weight has moved by"),
        (freeze(where="model.body[:1].modules()"), "freeze the kernels of all layers"),
        (freeze(where="model.body.modules()", which="True"), "more than the kernels is frozen"),
        (
            freeze("nn.init.zeros_(module.weight).requires_grad_(False)"),
            "a kernel's weight is set to another one, 0.500 away, before the training",
        ),
        (
            freeze("w = module.weight.data; del module.weight; module.register_buffer('weight', w)"),
            "the model has other parameters than before",
        ),
        (freeze(which="model", where="[model]"), "all are frozen"),
    ],
}
