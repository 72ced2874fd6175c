SHIFTED = "return sum(weight[:, j] * F.pad(x, (0, 0, j, 0))[:, : x.shape[1]] for j in range(weight.shape[1]))"
FFT = """
def answer(x, weight):
    n = x.shape[1]{more}
    y = torch.fft.rfft(x, n, dim=1) * torch.fft.rfft(weight.T, n, dim=0){conj}
    return torch.fft.irfft(y, n, dim=1)[:, : x.shape[1]]
"""
FREEZE = """
from efficient_transformers import CausalDepthwiseConv, train

def answer(model, corpus, config):
    for module in model.body.modules():
        if {which}:
            module.requires_grad_({value})
    return train(model, corpus, config, show_progress=False)[-1]["validation_loss"]
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "3.1": [
        (
            f"def answer(x, k):\n    weight = k.repeat(x.shape[2] // len(k), 1)\n    {SHIFTED}",
            "take their kernels in turn",
        ),
        (
            "def answer(x, k):\n"
            "    weight = k.repeat_interleave(x.shape[2] // len(k), 0)\n"
            "    return sum(weight[:, j] * F.pad(x, (0, 0, 0, j))[:, j:] for j in range(k.shape[1]))",
            "sees 2 tokens of the future",
        ),
    ],
    "3.2": [
        ("answer = ([0.5, 0.5], 1)", "0.71 of its height is left"),
        ("answer = ([0.5, 0.5], 4)", "this wave is the same"),
    ],
    "3.3": [
        ("def answer(W, dilations): return (W - 1) * sum(dilations)", "the current token counts too"),
        ("def answer(W, dilations): return 1 + W * sum(dilations)", "W weights reach back W − 1 steps"),
        ("def answer(W, dilations): return 1 + (W - 1) * sum(d - 1 for d in dilations)", "a step goes δ tokens back"),
    ],
    "3.4": [
        ('answer = ("k", "k")', "with rotation, k's bias is turned by the position"),
        ('answer = ("qk", "")', "without rotation, leaving out q's bias changes an output"),
    ],
    "3.5": [
        (FFT.format(more="", conj=""), "treats the text as a circle"),
        (FFT.format(more=" + weight.shape[1] - 1", conj=".conj()"), "sees the future"),
        (
            FFT.format(more=" + weight.shape[1] - 1", conj="").replace(": x.shape[1]]", "-x.shape[1] :]"),
            "you keep the last T of 11 tokens",
        ),
        (f"def answer(x, weight):\n    {SHIFTED}", "no transform made them"),
    ],
    "3.6": [
        (FREEZE.format(which="isinstance(module, CausalDepthwiseConv)", value=True), "a kernel's weight has moved by"),
        (FREEZE.format(which=True, value=False), "more than the kernels is frozen"),
    ],
}
