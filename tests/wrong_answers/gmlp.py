FOUR = """
from efficient_transformers import train

def answer(model, corpus, config):
    near = torch.arange(64) < {n}
    for block in model.body:
        {cut}
        block.gate.weight.register_hook(lambda gradient: gradient * near)
    return train(model, corpus, config, show_progress=False)[-1]["validation_loss"]
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "5.1": [
        (
            "def answer(weight, x):\n    return weight.tril() @ F.layer_norm(x.mT, x.shape[1:2]).mT",
            "output 0 changes with 8 tokens of its future: the norm still goes along the sequence",
        ),
        (
            "def answer(weight, x):\n    return weight @ F.layer_norm(x, x.shape[2:])",
            "output 0 changes with 8 tokens of its future: the matrix is not cut at its diagonal",
        ),
    ],
    "5.2": [
        (
            "def answer(kernel):\n    n = len(kernel)\n"
            "    return torch.stack([F.pad(kernel[: n - t], (t, 0)) for t in range(n)])",
            "yours stands above it",
        ),
        (
            "def answer(kernel):\n    t = torch.arange(len(kernel))\n    return kernel[(t[:, None] - t).abs()]",
            "your matrix is symmetric",
        ),
    ],
    "5.3": [
        ("def answer(D):\n    return 2 * D", "W multiplies half of the F channels, and attention takes two products"),
        ("def answer(D):\n    return D", "count the second product of attention"),
    ],
    "5.4": [
        (
            "def answer(x, up, down, weight, bias):\n"
            "    z1, z2 = F.gelu(F.layer_norm(x, x.shape[2:]) @ up.T).chunk(2, dim=-1)\n    T = x.shape[1]\n"
            "    f = weight[:T, :T].tril() @ F.layer_norm(z2, z2.shape[2:]) + bias[:T, None]\n"
            "    return (z1 * f) @ down.T",
            "a block adds to the stream",
        ),
        (
            "def answer(x, up, down, weight, bias):\n"
            "    z1, z2 = F.gelu(F.layer_norm(x, x.shape[2:]) @ up.T).chunk(2, dim=-1)\n    T = x.shape[1]\n"
            "    f = weight[:T, :T] @ F.layer_norm(z2, z2.shape[2:]) + bias[:T, None]\n"
            "    return x + (z1 * f) @ down.T",
            "your block sees the future",
        ),
    ],
    "5.5": [
        (
            "def answer(gate, past, z):\n    z1, z2 = z.chunk(2, dim=-1)\n    T = z.shape[1]\n    z2 = gate.norm(z2)\n"
            "    f = gate.weight[:T, :T].tril() @ z2 + gate.bias[:T, None]\n"
            "    return z1 * f, torch.cat([past, z2], 1)",
            "from token 4 on you start again at position 0",
        ),
        ("def answer(gate, past, z):\n    return gate(z)", "expected two tensors"),
    ],
    "5.6": [
        (
            FOUR.format(n=5, cut="block.gate.weight.data *= near"),
            "the gate of block 0 reads 4 characters back; expected 3, which with its own are 4",
        ),
        (
            FOUR.format(n=4, cut="pass"),
            "the weights keep the values that they start with",
        ),
    ],
}
