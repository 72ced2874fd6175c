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
        (REPAIR.format(padding="(0, 0, W, 0)", kernel="weight.flip(1)"), "one token for each that comes in"),
    ],
    "2.2": [
        ("answer = (1 / 2, 1 / 2)", "squaring squares the 2 as well: f(2x) = 4 f(x)"),
        ("answer = (1 / 4, 1 / 2)", "swapped"),
        ("answer = (2, 4)", "with the factor 2, the output is 4 times what it was"),
        ("answer = 1 / 4", "expected two numbers"),
    ],
    "2.3": [
        ("answer = ([-1, 1, 0], [1, 1, 1])", "the difference with the wrong sign"),
        ("answer = ([1, 0, -1], [1, 1, 1])", "looks two tokens back, not one"),
        ("answer = ([1, -1, 0], [1, 0, 0])", "your second kernel leaves them so: let it add up"),
        ("answer = ([1, -1], [1, 1])", "expected two lists of three weights"),
    ],
    "2.4": [
        (f"answer = ({QUERY}, {QUERY})", "looks at the e of the first `the`: one token too early"),
        (f"answer = ({LOOK_AT_NOTHING}, {QUERY})", "no key has a score above 0"),
        (f"answer = ({QUERY}, [[0, 1, 0], [0, 0, 0], [0, 0, 0]])", "expected 3 alone, after `the`"),
        ("answer = ([1, 0, 0], [0, 1, 0])", "expected two of 3 letters by 3 weights"),
    ],
    "2.5": [
        (NOTHING_REMEMBERED, "each piece starts as if nothing had come before"),
        (MEMORY.format(result="y, y[:, -(W - 1):]"), "those of earlier pieces included"),
        (
            MEMORY.format(result="y, torch.cat([past, y], dim=1)[:, -(W - 1):] if W > 1 else past"),
            "you remember outputs",
        ),
        (MEMORY.format(result="y, seen[:, -(W - 1):]"), "with W = 1 this is [:, -0:], which is everything"),
        (MEMORY.format(result="y"), "expected a pair: output, past"),
    ],
}
