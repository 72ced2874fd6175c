"""Forward and backward of equal layers, ours beside those of public implementations; `make bench` installs those.

python benchmarks/peers.py

Where two layers are the same function, weights are copied across and outputs compared first. Some differ by design:
hourglasses end their sequences in other ways, and x-transformers has norms of its own. One thread, medians of rounds
in which all take turns; the ratios and the machine go to benchmarks/results/peers.json.
"""

import sys
from collections.abc import Mapping

import torch
from layers import D_FF, D, H, layer
from timing import medians, report, step, write
from torch import Tensor, nn

from efficient_transformers import (
    GMLPBlock,
    MultiDConvHeadAttention,
    MultiHeadAttention,
    SquaredReLU,
    build_hourglass,
)

FACTOR = 4
SIZES = ((8, 256, 15), (2, 1024, 9), (1, 2048, 7))  # batch, length, rounds

# At least so many times as fast, for the three sizes; None where nothing is promised.
FLOORS = {
    ("Transformer layer", "labml"): (2.2, 5.5, 10.0),
    ("Primer EZ layer", "labml"): (2.2, 5.5, 10.0),
    ("Hourglass", "labml"): (2.0, 5.0, 9.0),
    ("Hourglass", "lucidrains"): (1.05, 2.0, 3.2),
    ("gMLP block", "labml"): (1.0, 1.2, 1.35),
    ("gMLP block", "lucidrains"): (1.0, 1.2, 1.35),
    ("Transformer layer", "torch"): (1 / 1.03, 1 / 1.03, 1 / 1.03),
}

ATTENTION = {f"attention.{name}": f"self_attn.{name}" for name in ("query", "key", "value")}
LABML_LAYER = {name: f"{theirs}.linear" for name, theirs in ATTENTION.items()} | {
    "attention.output": "self_attn.output",
    "feed_forward.up": "feed_forward.layer1",
    "feed_forward.down": "feed_forward.layer2",
    "norm1": "norm_self_attn",
    "norm2": "norm_ff",
}
LABML_CONVOLVED = (
    LABML_LAYER
    | {name: f"{theirs}.0.linear" for name, theirs in ATTENTION.items()}
    | {f"attention.conv_{name[0]}": f"self_attn.{name}.1.conv" for name in ("query", "key", "value")}
)
LABML_GMLP = {"up": "proj1", "down": "proj2", "gate.norm": "sgu.norm", "gate": "sgu", "norm": "norm"}
LUCIDRAINS_GMLP = {
    "up": "fn.fn.proj_in.0",
    "down": "fn.fn.proj_out",
    "gate": "fn.fn.sgu",
    "gate.norm": "fn.fn.sgu.norm",
    "norm": "fn.norm",
}
TORCH_LAYER = {"attention.output": "self_attn.out_proj", "feed_forward.up": "linear1", "feed_forward.down": "linear2"}
TORCH_LAYER |= {"norm1": "norm1", "norm2": "norm2"}


class TimeFirst(nn.Module):
    """A module of labml, which takes ``[seq, batch, channels]``, called with the batch first."""

    def __init__(self, inner: nn.Module, length: int, named: bool = True) -> None:
        super().__init__()
        self.inner, self.named = inner, named
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).tril()[..., None])

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(0, 1)
        return (self.inner(x=x, mask=self.mask) if self.named else self.inner(x)).transpose(0, 1)


class Causal(nn.Module):
    """PyTorch's own layer with the hint that its mask is the causal one, which its fused attention needs."""

    def __init__(self, inner: nn.Module, length: int) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, self.mask, is_causal=True)


def copy_weights(ours: nn.Module, theirs: nn.Module, names: Mapping[str, str]) -> None:
    """Give a peer our weights, renamed, and zeros where it has a bias and we have none."""
    state = {name: torch.zeros_like(value) for name, value in theirs.state_dict().items()}
    for name, value in ours.state_dict().items():
        module, _, kind = name.rpartition(".")
        if ".conv_" in name:
            value = value[0].flip(1)[:, None]  # conv1d counts from the oldest token
        if (target := f"{names.get(module)}.{kind}") in state:
            state[target] = value.reshape(state[target].shape)
    theirs.load_state_dict(state)


def layers(length: int) -> dict[str, dict[str, nn.Module]]:
    """For each kind of layer ours and its peers, with the same weights where they are the same function."""
    from g_mlp_pytorch.g_mlp_pytorch import PreNorm, Residual, gMLPBlock
    from hourglass_transformer_pytorch.hourglass_transformer_pytorch import HourglassTransformer
    from labml_nn.transformers.feed_forward import FeedForward as LabmlFeedForward
    from labml_nn.transformers.gmlp import GMLPBlock as LabmlGMLP
    from labml_nn.transformers.hour_glass import HourGlass
    from labml_nn.transformers.mha import MultiHeadAttention as LabmlAttention
    from labml_nn.transformers.models import TransformerLayer as LabmlLayer
    from labml_nn.transformers.primer_ez import MultiDConvHeadAttention as LabmlConvolved
    from labml_nn.transformers.primer_ez import SquaredReLU as LabmlSquaredReLU
    from x_transformers import Decoder

    def labml_layer(attention: nn.Module, activation: nn.Module) -> nn.Module:
        feed_forward = LabmlFeedForward(D, D_FF, 0.0, activation)
        return LabmlLayer(d_model=D, self_attn=attention, feed_forward=feed_forward, dropout_prob=0.0)

    plain = plain_layer()
    convolved = layer(MultiDConvHeadAttention(D, H), SquaredReLU())
    convolved.attention.rotary = False
    block = GMLPBlock(D, D_FF, length, causal=True)
    labml = labml_layer(LabmlAttention(H, D, 0.0), nn.ReLU())
    labml_convolved = labml_layer(LabmlConvolved(H, D, 0.0), LabmlSquaredReLU())
    labml_gmlp = LabmlGMLP(D, D_FF, length)
    lucidrains_gmlp = Residual(PreNorm(D, gMLPBlock(dim=D, dim_ff=D_FF, seq_len=length, causal=True)))
    own = nn.TransformerEncoderLayer(D, H, D_FF, 0.0, "relu", batch_first=True, norm_first=True, bias=False)
    copy_weights(plain, labml, LABML_LAYER)
    copy_weights(convolved, labml_convolved, LABML_CONVOLVED)
    copy_weights(block, labml_gmlp, LABML_GMLP)
    copy_weights(block, lucidrains_gmlp, LUCIDRAINS_GMLP)
    copy_weights(plain, own, TORCH_LAYER)
    inputs = (plain.attention.query, plain.attention.key, plain.attention.value)
    own.self_attn.in_proj_weight.data = torch.cat([projection.weight.detach() for projection in inputs])
    sizes = {"d_model": D, "n_heads": H, "d_ff": D_FF}
    valley = {"depth": (1, 1, 1), "shorten_factor": FACTOR, "heads": H, "dim_head": D // H}
    return {
        "Transformer layer": {
            "ours": plain,
            "labml": TimeFirst(labml, length),
            "torch": Causal(own, length),
            "x-transformers": Decoder(dim=D, depth=1, heads=H, attn_dim_head=D // H, attn_flash=True),
        },
        "Primer EZ layer": {"ours": convolved, "labml": TimeFirst(labml_convolved, length)},
        "Hourglass": {
            "ours": build_hourglass(n_layers=(1, 1), factors=(FACTOR,), layer=plain_layer, **sizes),
            "labml": TimeFirst(HourGlass(H, D, 0.0, D_FF, [FACTOR]), length, named=False),
            "lucidrains": HourglassTransformer(D, attn_resampling=False, causal=True, **valley),
        },
        "gMLP block": {"ours": block, "labml": TimeFirst(labml_gmlp, length), "lucidrains": lucidrains_gmlp},
    }


def plain_layer() -> nn.Module:
    """Ours without positions, which the peers' layers have none of."""
    return layer(MultiHeadAttention(D, H, rotary=False), nn.ReLU())


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows, measured = [], []
    for n, (batch, length, rounds) in enumerate(SIZES):
        x = torch.randn(batch, length, D, requires_grad=True)
        for kind, modules in layers(length).items():
            same = [name for name in modules if kind != "Hourglass" and name not in ("ours", "x-transformers")]
            for name in same:
                torch.testing.assert_close(modules[name](x), modules["ours"](x), rtol=0, atol=1e-5)
            took = medians({name: step(module, x) for name, module in modules.items()}, rounds)
            for name in (name for name in took if name != "ours"):
                floor = FLOORS.get((kind, name))
                ratio = took["ours"] / took[name]
                what = f"{kind}, batch {batch}, length {length}: ours / {name} ({took[name] * 1e3:.0f} ms)"
                rows.append((what, ratio, None if floor is None else 1 / floor[n]))
                measured.append(
                    {"layer": kind, "peer": name, "batch": batch, "length": length, "rounds": rounds}
                    | {"ours_ms": round(took["ours"] * 1e3, 2), "peer_ms": round(took[name] * 1e3, 2)}
                    | {"same_function": name in same}
                )
    write("peers", measured)
    sys.exit(0 if report(rows) else 1)


if __name__ == "__main__":
    main()
