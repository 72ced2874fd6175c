"""Wrong answers to the exercises of Chapter 2, and what the reader must be told."""

REPAIR = """
def answer(x, weight):
    W = weight.shape[1]
    x = F.pad(x, {padding}).mT
    return F.conv1d(x, {kernel}.unsqueeze(1), groups=len(weight)).mT
"""

MEMORY = """
def answer(piece, weight, past=None):
    B, T, C = piece.shape
    W = weight.shape[1]
    if past is None:
        past = piece.new_zeros(B, W - 1, C)
    seen = torch.cat([past, piece], dim=1)
    y = sum(weight[:, j] * seen[:, W - 1 - j : W - 1 - j + T] for j in range(W))
    return {result}
"""

NOTHING_REMEMBERED = """
def answer(piece, weight, past=None):
    B, T, C = piece.shape
    W = weight.shape[1]
    seen = F.pad(piece, (0, 0, W - 1, 0))
    y = sum(weight[:, j] * seen[:, W - 1 - j : W - 1 - j + T] for j in range(W))
    return y, seen[:, seen.shape[1] - (W - 1):]
"""

LOOK_AT_NOTHING = "[[0, 0, 0]] * 3"
QUERY = "[[0, 0, 1], [0, 1, 0], [1, 0, 0]]"

SHIFT = """
from efficient_transformers import train

class Shift(nn.Module):
    def forward(self, x):
        {names} = x.chunk(2, dim=-1)
        late = {late}
        return torch.cat({parts}, dim=-1)

def answer(model, corpus, config):
    for layer in {layers}:
        layer.{norm} = nn.Sequential({order})
    return train(model, corpus, config, show_progress=False)[-1]["validation_loss"]
"""


def shift(
    names="now, before",
    late="F.pad(before, (0, 0, 1, 0))[:, :-1]",
    parts="[now, late]",
    norm="norm1",
    layers="model.body",
    order="layer.{norm}, Shift()",
):
    """A wrong function for exercise 2.6."""
    return SHIFT.format(names=names, late=late, parts=parts, norm=norm, layers=layers, order=order.format(norm=norm))


WRONG: dict[str, list[tuple[str, str]]] = {
    "2.1": [
        (
            REPAIR.format(padding="(0, 0, 0, W - 1)", kernel="weight"),
            "your convolution sees 2 tokens of the future: the red cells of its leak map",
        ),
        (
            REPAIR.format(padding="(0, 0, 1, W - 2)", kernel="weight.flip(1)"),
            "your convolution sees 1 token of the future",
        ),
        (REPAIR.format(padding="(0, 0, W - 1, 0)", kernel="weight"), "the kernel is laid the wrong way round"),
        (REPAIR.format(padding="(0, 0, W - 1, 0)", kernel="weight.flip(0)"), "each channel the kernel of another"),
        (
            REPAIR.format(padding="(W - 1, 0)", kernel="weight.flip(1)"),
            "F.pad begins with the last dimension: (W - 1, 0) pads the channels, (0, 0, W - 1, 0) the tokens",
        ),
        ("def answer(x, weight): return None", "your output is a NoneType"),
        (REPAIR.format(padding="(0, 0, W, 0)", kernel="weight.flip(1)"), "one token for each that comes in"),
    ],
    "2.2": [
        ("answer = (1 / 2, 1 / 2)", "squaring squares the 2 as well: f(2x) = 4 f(x)"),
        ("answer = (1 / 4, 1 / 2)", "swapped"),
        ("answer = (2, 4)", "with the factor 2, the output is 4 times what it was"),
        ("answer = 1 / 4", "expected two numbers"),
        ("answer = ('a half', 'a quarter')", "a factor is 'a half', of the type str; expected a number"),
    ],
    "2.3": [
        ("answer = ([-1, 1, 0], [1, 1, 1])", "the difference with the wrong sign"),
        ("answer = ([1, 0, -1], [1, 1, 1])", "looks two tokens back, not one"),
        ("answer = ([1, -1, 0], [1, 0, 0])", "your second kernel leaves them so: let it add up"),
        ("answer = ([1, -1], [1, 1])", "expected two lists of three weights"),
        ("answer = [1, -1, 0]", "expected two lists of three weights"),
        (
            "answer = ([0, -1, 1], [1, 1, 1])",
            "returns - x[t-1] + x[t-2]; expected x[t] - x[t-1]: it lies the wrong way round",
        ),
        ("answer = ([0, 1, -1], [1, 1, 1])", "it lies the wrong way round"),
        ("answer = ([0.5, -0.5, 0], [1, 1, 1])", "that is the difference times 0.5"),
        ("answer = ([0.5, 0, -0.5], [1, 1, 1])", "looks two tokens back, not one"),
        ("answer = ([1 / 3, 1 / 3, 1 / 3], [1, 1, 1])", "its weights add up to 1, so a constant does not vanish"),
        ("answer = ([1, 1, 0], [1, 1, 1])", "its weights add up to 2, so a constant does not vanish"),
        ("answer = ([1, -2, 1], [1, 1, 1])", "a difference of neighbors has two weights"),
        ("answer = ([1, -1, 0], [1, 1, 0])", "makes 5, 5, 0; expected 5, 5, 5: at token 2 only the weight of 2 back"),
        ("answer = ([1, -1, 0], [1 / 3, 1 / 3, 1 / 3])", "makes 1.67, 1.67, 1.67; expected 5, 5, 5"),
        ("answer = ([1, -1, 0], [0, 1, 1])", "at token 0 only the weight of 0 back meets the 5, and yours is 0"),
    ],
    "2.4": [
        (
            f"answer = ({QUERY}, {QUERY})",
            "the last e looks at 2 ('e'), where the t gives 1 and the h gives 1 and the e gives 1: one token too early",
        ),
        (f"answer = ({LOOK_AT_NOTHING}, {QUERY})", "no key has a score above 0"),
        (f"answer = ({QUERY}, [[0, 1, 0], [0, 0, 0], [0, 0, 0]])", "expected 3 alone, after `the`"),
        (
            f"answer = ({QUERY}, [[0, 0, 1], [0, 1, 0], [0, 1, 0]])",
            "looks at 2 ('e'), where the t gives 1 and the h gives 1: one token too early",
        ),
        (
            f"answer = ({QUERY}, [[0, 0, 0], [0, 0, 1], [0, 0, 0]])",
            "in 'the hat the' the last e looks at 6 ('t'), where the h gives 1; 3, after `the`, has no more: match a",
        ),
        ("answer = ([1, 0, 0], [0, 1, 0])", "expected two of 3 letters by 3 weights"),
        ("answer = 'the'", "your answer is 'the'; expected two of 3 letters by 3 weights"),
    ],
    "2.5": [
        (NOTHING_REMEMBERED, "each piece starts as if nothing had come before"),
        (MEMORY.format(result="y, y[:, -(W - 1):]"), "those of earlier pieces included"),
        (
            MEMORY.format(result="y, torch.cat([past, y], dim=1)[:, -(W - 1):] if W > 1 else past"),
            "you remember outputs",
        ),
        (MEMORY.format(result="y, seen[:, -(W - 1):]"), "with W = 1 this is [:, -0:], which is everything"),
        (
            MEMORY.format(result="y, seen[:, T:]").replace("weight[:, j]", "weight.flip(1)[:, j]"),
            "the kernel is laid the wrong way round",
        ),
        (
            MEMORY.format(result="y, F.pad(y, (0, 0, W - 1, 0))[:, T:]"),
            "you remember outputs",
        ),
        (MEMORY.format(result="y"), "expected a pair: output, past"),
    ],
    "2.6": [
        (shift(late="F.pad(before, (0, 0, 0, 1))[:, 1:]"), "comes one token early, which is the future"),
        (shift(late="before.roll(1, 1)"), "`roll` brings the last token before the first, which is a leak"),
        (shift(order="Shift(), layer.{norm}"), "you shift what enters the norm"),
        (shift(late="2 * before"), "it computes something else"),
        (shift(parts="[now, before]"), "computes what it computed before"),
        (shift(names="before, now", parts="[late, now]"), "the first half of the channels is late"),
        (shift(norm="norm2"), "the shift stands in front of the feed-forward network"),
        (shift(layers="model.body[:1]"), "the first layer alone is changed"),
    ],
}
