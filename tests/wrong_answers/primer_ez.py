"""Wrong answers to the exercises of Chapter 2, and what the reader must be told."""

REPAIR = """
def answer(x, weight):
    W = weight.shape[1]
    x = F.pad(x, {padding}).mT
    return F.conv1d(x, {kernel}.unsqueeze(1), groups=len(weight)).mT
"""

MEMORY = """
def answer(piece, weight, past=None):
    T, W = piece.shape[1], weight.shape[1]
    seen = F.pad(piece, (0, 0, W - 1, 0)) if past is None else torch.cat([past, piece], dim=1)
    y = sum(weight[:, j] * seen[:, W - 1 - j : W - 1 - j + T] for j in range(W))
    return y, {past}
"""

QUERY = "[[0, 0, 1], [0, 1, 0], [1, 0, 0]]"

SHIFT = """
from efficient_transformers import train

class Shift(nn.Module):
    def forward(self, x):
        now, before = x.chunk(2, dim=-1)
        return torch.cat([now, F.pad(before, {padding})], dim=-1)

def answer(model, corpus, config):
    for layer in model.body:
        layer.norm1 = nn.Sequential({order})
    return train(model, corpus, config, show_progress=False)[-1]["validation_loss"]
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "2.1": [
        (
            REPAIR.format(padding="(0, 0, 0, W - 1)", kernel="weight"),
            "your convolution sees 2 tokens of the future: the red cells of its leak map",
        ),
        (REPAIR.format(padding="(0, 0, W - 1, 0)", kernel="weight"), "the kernel is laid the wrong way round"),
    ],
    "2.2": [
        ("answer = (1 / 2, 1 / 2)", "squaring squares the 2 as well: f(2x) = 4 f(x)"),
        ("answer = (1 / 4, 1 / 2)", "swapped"),
    ],
    "2.3": [
        ("answer = ([-1, 1, 0], [1, 1, 1])", "the difference with the wrong sign"),
        ("answer = ([1, 0, -1], [1, 1, 1])", "looks two tokens back, not one"),
    ],
    "2.4": [
        (
            f"answer = ({QUERY}, {QUERY})",
            "the last e looks at 2 ('e'), where the t gives 1 and the h gives 1 and the e gives 1: one token too early",
        ),
        (f"answer = ([[0, 0, 0]] * 3, {QUERY})", "no key has a score above 0"),
    ],
    "2.5": [
        (
            MEMORY.format(past="piece.new_zeros(len(piece), W - 1, piece.shape[2])"),
            "as if nothing had come before",
        ),
        (MEMORY.format(past="y[:, -(W - 1):]"), "those of earlier pieces included"),
    ],
    "2.6": [
        (
            SHIFT.format(padding="(0, 0, -1, 1)", order="layer.norm1, Shift()"),
            "comes one token early",
        ),
        (SHIFT.format(padding="(0, 0, 1, -1)", order="Shift(), layer.norm1"), "you shift what enters the norm"),
    ],
}
