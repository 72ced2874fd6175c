FOUR = """
from efficient_transformers import train

def answer(model, corpus, config):
    near = {near}
    for block in {blocks}:
        {cut}
        {hook}
    return train(model, corpus, config, show_progress=False)[-1]["validation_loss"]
"""


def four(
    near="torch.arange(64) < 4",
    hook="block.gate.weight.register_hook(lambda gradient: gradient * near)",
    blocks="model.body",
    cut="block.gate.weight.data *= near",
):
    """A wrong function for exercise 5.6."""
    return FOUR.format(near=near, hook=hook, blocks=blocks, cut=cut)


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
        ("def answer(weight, x):\n    return weight.tril() @ x", "the tokens are not normalized any more"),
        (
            "def answer(weight, x):\n    return F.layer_norm(weight.tril() @ x, x.shape[2:])",
            "you normalize what comes out",
        ),
        (
            "def answer(weight, x):\n    return weight.tril() @ F.layer_norm(x, x.shape[1:])",
            "something mixes all tokens",
        ),
        (
            "def answer(weight, x):\n    return weight.tril(-1) @ F.layer_norm(x, x.shape[2:])",
            "a token may read itself",
        ),
    ],
    "5.2": [
        (
            "def answer(kernel):\n    n = len(kernel)\n"
            "    return torch.stack([F.pad(kernel[: n - t], (t, 0)) for t in range(n)])",
            "yours stands above it",
        ),
        (
            "def answer(kernel):\n    return torch.stack([kernel.flip(0).roll(t + 1) for t in range(len(kernel))])",
            "wraps around",
        ),
        (
            "def answer(kernel):\n    n = len(kernel)\n"
            "    return sum(torch.diag(kernel[n - 1 - j].expand(n - j), -j) for j in range(n))",
            "runs the wrong way",
        ),
        ("def answer(kernel):\n    return torch.diag(kernel)", "your kernel lies along the diagonal"),
        (
            "def answer(kernel):\n    t = torch.arange(len(kernel))\n    return kernel[(t[:, None] - t).abs()]",
            "your matrix is symmetric",
        ),
        (
            "def answer(kernel):\n    t = torch.arange(len(kernel))\n    return kernel[t - t[:, None]].tril()",
            "your index is below 0 in the past, where it reads from the end",
        ),
        (
            "def answer(kernel):\n    t = torch.arange(len(kernel))\n    return kernel[(t[:, None] - t).clamp(min=0)]",
            "all the future gets kernel[0]",
        ),
        ("def answer(kernel):\n    return kernel.expand(5, 5)", "your matrix at [0, 1] is 2; expected 0"),
    ],
    "5.3": [
        ("def answer(D):\n    return 2 * D", "W multiplies half of the F channels, and attention takes two products"),
        ("def answer(D):\n    return 8 * D", "two products of n × n × D, not four"),
        ("def answer(D):\n    return D", "count the second product of attention"),
        ("def answer(D):\n    return 3 * D", "the gate takes 2,400 multiply-adds for 10 tokens"),
        (
            "def answer(D):\n    return None",
            "what you return for D = 16 is None, of the type NoneType; expected a number",
        ),
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
        (
            "def answer(x, up, down, weight, bias):\n"
            "    z2, z1 = F.gelu(F.layer_norm(x, x.shape[2:]) @ up.T).chunk(2, dim=-1)\n    T = x.shape[1]\n"
            "    f = weight[:T, :T].tril() @ F.layer_norm(z2, z2.shape[2:]) + bias[:T, None]\n"
            "    return x + (z1 * f) @ down.T",
            "the halves are exchanged",
        ),
        (
            "def answer(x, up, down, weight, bias):\n"
            "    z1, z2 = F.gelu(F.layer_norm(x, x.shape[2:]) @ up.T).chunk(2, dim=-1)\n    T = x.shape[1]\n"
            "    return x + (z1 * (weight[:T, :T].tril() @ z2 + bias[:T, None])) @ down.T",
            "the half that W mixes is not normalized",
        ),
        (
            "def answer(x, up, down, weight, bias):\n"
            "    z1, z2 = F.gelu(F.layer_norm(x, x.shape[2:]) @ up.T).chunk(2, dim=-1)\n    T = x.shape[1]\n"
            "    f = weight[:T, :T].tril() @ F.layer_norm(z2, z2.shape[2:]) + bias[:T]\n"
            "    return x + (z1 * f) @ down.T",
            "the bias goes along the channels",
        ),
        (
            "def answer(x, up, down, weight, bias):\n"
            "    z1, z2 = F.gelu(F.layer_norm(x, x.shape[2:]) @ up.T).chunk(2, dim=-1)\n    T = x.shape[1]\n"
            "    f = F.layer_norm(z2, z2.shape[2:]) @ weight[:T, :T].tril().T + bias[:T, None]\n"
            "    return x + (z1 * f) @ down.T",
            "W mixes channels",
        ),
        (
            "def answer(x, up, down, weight, bias):\n"
            "    return x + F.gelu(F.layer_norm(x, x.shape[2:]) @ up).chunk(2, dim=-1)[0] @ down.T",
            "rows of the left and columns of the right differ in length (shapes: x (2, 5, 4), up (10, 4)",
        ),
    ],
    "5.5": [
        (
            "def answer(gate, past, z):\n    z1, z2 = z.chunk(2, dim=-1)\n    T = z.shape[1]\n    z2 = gate.norm(z2)\n"
            "    f = gate.weight[:T, :T].tril() @ z2 + gate.bias[:T, None]\n"
            "    return z1 * f, torch.cat([past, z2], 1)",
            "from token 4 on you start again at position 0",
        ),
        (
            "def answer(gate, past, z):\n    z1, z2 = z.chunk(2, dim=-1)\n    S, T = past.shape[1], z.shape[1]\n"
            "    past = torch.cat([past, gate.norm(z2)], 1)\n"
            "    return z1 * (gate.weight[S : S + T, : S + T] @ past + gate.bias[S : S + T, None]), past",
            "tokens of one piece see each other's future",
        ),
        (
            "def answer(gate, past, z):\n    z1, z2 = z.chunk(2, dim=-1)\n    S, T = past.shape[1], z.shape[1]\n"
            "    past = torch.cat([past, gate.norm(z2)], 1)\n"
            "    f = gate.weight[S : S + T, : S + T].tril(S) @ past + gate.bias[:T, None]\n    return z1 * f, past",
            "the bias of token 4 is that of position 0",
        ),
        (
            "def answer(gate, past, z):\n    z1, z2 = z.chunk(2, dim=-1)\n    S, T = past.shape[1], z.shape[1]\n"
            "    past = torch.cat([past, gate.norm(z2)], 1)\n"
            "    f = gate.weight[S : S + T, : S + T].tril(S) @ past + gate.bias[S : S + T, None]\n"
            "    return z1 * f, past[:, -1:]",
            "after 4 tokens you remember 1; expected all 4",
        ),
        (
            "def answer(gate, past, z):\n    z1, z2 = z.chunk(2, dim=-1)\n    S, T = past.shape[1], z.shape[1]\n"
            "    past = torch.cat([past, gate.norm(z2)], 1)\n"
            "    f = gate.weight[S : S + T, : S + T].tril() @ past + gate.bias[S : S + T, None]\n"
            "    return z1 * f, past",
            "tril cuts after the rows were chosen",
        ),
        (
            "def answer(gate, past, z):\n    z1, z2 = z.chunk(2, dim=-1)\n    S, T = past.shape[1], z.shape[1]\n"
            "    past = torch.cat([past, z2], 1)\n"
            "    f = gate.weight.tril()[S : S + T, : S + T] @ past + gate.bias[S : S + T, None]\n"
            "    return z1 * f, past",
            "W multiplies Z2 as it came",
        ),
        (
            "def answer(gate, past, z):\n    z1, z2 = z.chunk(2, dim=-1)\n    S, T = past.shape[1], z.shape[1]\n"
            "    past = torch.cat([past, z2], 1)\n    rows = gate.weight.tril()[S : S + T, : S + T]\n"
            "    return z1 * (rows @ gate.norm(past) + gate.bias[S : S + T, None]), past",
            "you remember Z2 as it came",
        ),
        (
            "def answer(gate, past, z):\n    return gate(z)",
            "expected two tensors",
        ),
    ],
    "5.6": [
        (
            four(near="torch.arange(64) < 5"),
            "the gate of block 0 reads 4 characters back; expected 3, which with its own are 4",
        ),
        (four(cut="pass"), "their gradients are stopped, but the weights keep the values that they start with"),
        (four(hook="pass"), "weights that are set to 0 once learn again"),
        (four(blocks="model.body[1:]"), "the gate of block 0 reads 11 characters back"),
        (four(near="torch.isin(torch.arange(64), torch.tensor([0, 3]))"), "but skips some of those between"),
    ],
}
