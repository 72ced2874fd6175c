"""The studies' own models: each differs from the package's in what its name says, and in nothing else."""

from __future__ import annotations

import re

import pytest
import torch
from declared import STUDIES
from declared.primer_parts import KERNEL_SUM, SPREAD
from planning import VOCABULARIES
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from variants import VARIANTS, build

from efficient_transformers import (
    CausalDepthwiseConv,
    LearnedPositions,
    MultiHeadAttention,
    PrimerNorm,
    SpatialGatingUnit,
)
from efficient_transformers.layers.family import parameter_count
from efficient_transformers.training.loop import OPTIMIZERS, parameter_groups

pytestmark = pytest.mark.slow

SIZES = {"vocab_size": 11, "d_model": 16, "n_layers": 3, "max_seq_len": 8}


def convs(model):
    return [module for module in model.modules() if isinstance(module, CausalDepthwiseConv)]


def same_weights(one, other):
    ours, theirs = one.state_dict(), other.state_dict()
    return list(ours) == list(theirs) and all(torch.equal(ours[key], theirs[key]) for key in ours)


def made(name, **options):
    torch.manual_seed(0)
    return build(name, **SIZES, **options)


def test_without_a_change_they_are_the_packages_models():
    assert same_weights(made("changed-baseline"), made("transformer"))
    assert same_weights(made("started-kernels"), made("primer-ez"))
    assert same_weights(made("started-kernels", kernel_sum=KERNEL_SUM), made("primer-ez"))


@pytest.mark.parametrize("width", [1, 2, 5, 7])
def test_kernels_of_any_width_start_with_the_same_sum(width):
    for conv in convs(made("started-kernels", kernel_size=width, kernel_sum=KERNEL_SUM)):
        assert torch.allclose(conv.weight.sum(-1), torch.tensor(0.5 + 1 / 3))
        assert width == 1 or (conv.weight[..., 0] == 0.5).all()
    sums = [conv.weight.sum(-1) for conv in convs(made("primer-ez", kernel_size=width))]
    assert not any(torch.allclose(total, torch.tensor(0.5 + 1 / 3)) for total in sums)


def test_starts_differ_in_one_factor():
    official = convs(made("primer-ez"))[0].weight.detach()
    half, apart = (convs(made("started-kernels", **o))[0].weight for o in ({"scale": 0.5}, {"noise": SPREAD}))
    assert torch.equal(half, official / 2)
    assert apart.std(dim=(0, 1)).min() > 0.1  # channels differ
    large = torch.cat(
        [c.weight.detach() for c in convs(build("started-kernels", **SIZES | {"d_model": 4096}, noise=SPREAD))]
    )
    torch.testing.assert_close(large.mean(dim=(0, 1)), official[0, 0], rtol=0, atol=0.02)
    assert (large - official[0, 0]).std().item() == pytest.approx(SPREAD, rel=0.02)
    biased = convs(made("started-kernels", bias=True, bias_noise=SPREAD))[0]
    assert torch.equal(biased.weight, official)
    assert biased.bias.std() > 0.1


def test_a_baseline_with_nanogpts_choices_has_them():
    model = made("changed-baseline", positions="learned", activation="gelu", init="gpt")
    assert isinstance(model.body[0], LearnedPositions)
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    assert len(attentions) == 3
    assert not any(attention.rotary for attention in attentions)
    assert isinstance(model.body[1].feed_forward.activation, nn.GELU)
    wide = build("changed-baseline", **SIZES | {"d_model": 256}, init="gpt")
    assert wide.body[0].attention.query.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert wide.body[0].feed_forward.down.weight.std().item() == pytest.approx(0.02 / 6**0.5, rel=0.05)
    assert wide.body[0].attention.rotary


def test_last_matrices_that_are_not_zero_start_like_the_others():
    baseline = build("changed-baseline", **SIZES | {"d_model": 256}, init="last not zero")
    plain = build("changed-baseline", **SIZES | {"d_model": 256})
    attention, feed_forward = baseline.body[0].branch_ends()
    assert attention.weight.std().item() == pytest.approx(256**-0.5, rel=0.05)
    assert feed_forward.weight.std().item() == pytest.approx(feed_forward.in_features**-0.5, rel=0.05)
    assert not any(last.weight.any() for last in plain.body[0].branch_ends())
    primer = build("primer-part", **SIZES, last_zero=False)
    for layer in primer.body:
        attention, feed_forward = layer.branch_ends()
        assert not attention.weight.any()
        assert feed_forward.weight.std().item() == pytest.approx(feed_forward.in_features**-0.5, rel=0.2)
    zero = build("primer-part", **SIZES)
    assert not zero.body[0].feed_forward.down.weight.any()


def test_parts_of_primer_are_those_of_primer():
    primer, keys, norms = (
        made("primer", sharing="heads"),
        *(made("primer-part", **{part: True}) for part in ("shared_keys", "norms")),
    )
    assert len(convs(keys)) == len(convs(primer)) == 6
    assert len(convs(norms)) == 9
    assert sum(isinstance(module, PrimerNorm) for module in norms.modules()) == 6
    assert not any(isinstance(module, PrimerNorm) for module in keys.modules())
    both, tokens = made("primer-part", shared_keys=True, norms=True), torch.randint(11, (2, 8))
    both.load_state_dict(primer.state_dict())
    torch.testing.assert_close(both(tokens), primer(tokens))


@pytest.mark.parametrize("weight", ["dense", "toeplitz"])
def test_weights_that_are_not_near_stay_zero_in_training(weight):
    model, whole = (made("changed-gates", weight=weight, **options) for options in ({"near": 3}, {}))
    assert same_weights(whole, made("gmlp", weight=weight))
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.1), lr=0.1)
    for _ in range(3):
        tokens = torch.randint(11, (4, 8))
        nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    far = torch.ones(8, 8).tril(-3).bool()
    for block in model.body:
        learned = block.gate.matrix(8).tril()
        assert (learned[far] == 0).all()
        assert (learned.triu(-2).abs() > 0.01).sum() == 8 + 7 + 6


@pytest.mark.parametrize("name", ["gmlp", "dense-gmlp", "amlp"])
def test_gates_start_open(name):
    gates = [module for module in made(name).modules() if isinstance(module, SpatialGatingUnit)]
    assert gates
    assert all((gate.bias == 1).all() for gate in gates)


def test_a_bias_of_0_declares_a_start_that_is_shut():
    assert same_weights(made("changed-gates", bias=0.0), made("gmlp", start="shut"))
    with pytest.raises(ValueError, match=r"bias is 1.0; expected 0, or None"):
        made("changed-gates", bias=1.0)


def test_a_gmlp_may_start_with_a_wide_matrix_or_a_last_one_that_is_not_zero_and_nothing_else():
    usual = made("dense-gmlp").state_dict()
    for options, names in (
        ({"within": 0.1}, {"gate.weight"}),
        ({"last_zero": False}, {"down.weight"}),
        ({"within": 0.1, "last_zero": False}, {"gate.weight", "down.weight"}),
    ):
        changed = made("changed-gates", weight="dense", **options)
        differs = {key for key, value in changed.state_dict().items() if not torch.equal(value, usual[key])}
        assert differs == {f"body.{n}.{name}" for n in range(3) for name in names}
        for block in changed.body if "within" in options else ():
            assert 0.09 < block.gate.weight.abs().max() <= 0.1
        for block in changed.body if "last_zero" in options else ():
            assert block.down.weight.std().item() == pytest.approx(block.down.in_features**-0.5, rel=0.1)


@pytest.mark.parametrize(
    "options", [{}, {"weight": "toeplitz"}, {"gate": "linear", "d_ff": 24}, {"d_attention": 8}], ids=str
)
def test_a_two_sided_gmlp_sees_both_sides(options):
    model = made("two-sided", kind="gmlp", **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    x = model.embedding(torch.randint(11, (1, 8))).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(model.body(x, None)[0, 3].sum(), x)
    assert (gradient.abs().sum(2) > 0).all()


def test_two_sided_attention_without_positions_is_blind_to_order():
    order = torch.tensor([3, 1, 0, 2, 7, 5, 6, 4])
    tokens = torch.randint(11, (2, 8))
    for positions in ("rotary", "learned", "none"):
        model = made("two-sided", kind="attention", positions=positions)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        blind = torch.allclose(model(tokens)[:, order], model(tokens[:, order]), atol=1e-4)
        assert blind == (positions == "none")


def test_numbers_for_distances_at_zero_change_nothing():
    tokens = torch.randint(11, (2, 8))
    for name, of in (("distance-bias", "transformer"), ("convolved-distance-bias", "primer-ez")):
        model, plain = made(name), made(of)
        for parameter in plain.parameters():
            nn.init.normal_(parameter, std=0.3)
        missing, unexpected = model.load_state_dict(plain.state_dict(), strict=False)
        assert (missing, unexpected) == ([f"body.{n}.attention.bias" for n in range(3)], [])
        assert not torch.allclose(model(tokens), plain(tokens), atol=1e-2)
        for layer in model.body:
            nn.init.zeros_(layer.attention.bias)
        assert torch.allclose(model(tokens), plain(tokens), atol=1e-4)


def test_fixed_slopes_are_those_that_learned_numbers_start_from():
    fixed, learned = made("fixed-slopes"), made("distance-bias")
    assert same_weights(fixed, learned)
    assert not [name for name, _ in fixed.named_parameters() if name.endswith("bias") and "attention" in name]
    assert parameter_count(learned) - parameter_count(fixed) == sum(a.attention.bias.numel() for a in learned.body)


def test_fixed_slopes_keep_the_fused_kernel_which_takes_no_numbers_that_learn():
    tokens = torch.randint(11, (2, 8))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        made("fixed-slopes")(tokens)
        with pytest.warns(UserWarning, match="ernel"), pytest.raises(RuntimeError, match="No available kernel"):
            made("distance-bias")(tokens)


def test_the_base_of_rotary_positions_may_be_another():
    tokens = torch.randint(11, (2, 8))
    usual, same, other = made("transformer"), made("rotary-base", base=10_000.0), made("rotary-base", base=2.0)
    for model in (usual, same, other):
        torch.manual_seed(1)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.3)
    assert torch.allclose(same(tokens), usual(tokens), atol=1e-4)
    assert not torch.allclose(other(tokens), usual(tokens), atol=1e-2)


def test_convolutions_elsewhere_read_what_their_name_says():
    tokens = torch.randint(11, (2, 8))
    plain = made("primer-ez", convolve="")
    for parameter in plain.parameters():
        nn.init.normal_(parameter, std=0.3)
    front, each = made("convolved-elsewhere", where="embedding"), made("convolved-elsewhere", where="input")
    assert (len(convs(front)), len(convs(each))) == (1, 3)
    for model in (front, each):
        theirs = dict(plain.named_parameters())
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if ".conv." not in name and not name.startswith("body.0.weight"):
                    shifted = re.sub(r"body\.(\d)", lambda m: f"body.{int(m[1]) - 1}", name)
                    parameter.copy_(theirs[shifted if model is front else name])
        assert not torch.allclose(model(tokens), plain(tokens), atol=1e-2)
        for conv in convs(model):
            nn.init.zeros_(conv.weight)
            nn.init.ones_(conv.weight[..., 0])  # the current token alone
        assert torch.allclose(model(tokens), plain(tokens), atol=1e-5)


def test_normalized_queries_and_keys_have_one_length_before_they_are_turned():
    model = made("normalized-attention")
    plain = made("transformer")
    attention, x = model.body[0].attention, torch.randn(2, 8, 16)
    nn.init.normal_(attention.query.weight, std=3.0)
    q, _, v = attention.heads(x)
    lengths = q.norm(dim=-1)
    torch.testing.assert_close(lengths, torch.full_like(lengths, (16 / attention.n_heads) ** 0.5), rtol=1e-3, atol=0)
    torch.testing.assert_close(v, plain.body[0].attention.split(attention.value(x)))
    assert parameter_count(model) - parameter_count(plain) == 3 * 2 * 2 * 16 // attention.n_heads


def test_a_modern_baseline_has_rms_norms_alone_and_any_of_primers_ideas():
    model, ez = made("modern"), made("modern", activation="squared-relu", convolve="qkv")
    plain = made("transformer").state_dict()
    ours = {name: tensor for name, tensor in model.state_dict().items() if "norm_" not in name}
    assert set(plain) - set(ours) == {name for name in plain if "norm" in name and name.endswith("bias")}
    assert all(torch.equal(plain[name], tensor) for name, tensor in ours.items())
    for each, kernels in ((model, 0), (ez, 9)):
        kinds = [type(module) for module in each.modules()]
        assert (kinds.count(nn.RMSNorm), nn.LayerNorm in kinds, len(convs(each))) == (3 * 4 + 1, False, kernels)
    attention = ez.body[0].attention
    nn.init.normal_(attention.query.weight, std=3.0)
    q, k, _ = attention.heads(torch.randn(2, 8, 16))
    for z in (q, k):
        torch.testing.assert_close(z.norm(dim=-1), torch.full((2, 4, 8), 2.0), rtol=1e-3, atol=0)


def test_muon_with_another_rate_for_adamw_changes_that_part_alone():
    tokens, after = torch.randint(11, (2, 8)), {}
    for name in ("muon", "muon, AdamW's rate halved", "muon, AdamW's rate doubled"):
        model = made("transformer")
        start = {key: p.detach().clone() for key, p in model.named_parameters()}
        optimizer = OPTIMIZERS[name](model, weight_decay=0.1)
        for group in optimizer.param_groups:
            group["lr"] = 0.01
        nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        after[name] = {key: p.detach() - start[key] for key, p in model.named_parameters()}
    plain, halved, doubled = after.values()
    for key, change in plain.items():
        inner = key.startswith("body") and change.dim() == 2
        torch.testing.assert_close(halved[key], change * (1 if inner else 0.5), rtol=1e-3, atol=1e-7)
        torch.testing.assert_close(doubled[key], change * (1 if inner else 2.0), rtol=1e-3, atol=1e-7)
    assert plain["body.0.attention.output.weight"].any()


def test_fixed_kernels_are_primer_ezs_and_no_optimizer_sees_them():
    fixed, learned = made("fixed-kernels"), made("primer-ez")
    assert same_weights(fixed, learned)
    assert {name for name, _ in learned.named_parameters()} - {name for name, _ in fixed.named_parameters()} == {
        f"body.{n}.attention.conv_{which}.weight" for n in range(3) for which in "qkv"
    }


@pytest.mark.parametrize("name", VARIANTS)
def test_they_are_causal_unless_two_sided_and_train(name):
    options = {
        "changed-baseline": {"positions": "learned"},
        "started-kernels": {"noise": 0.1},
        "primer-part": {"norms": True},
        "changed-gates": {"near": 3},
        "two-sided": {"kind": "attention"},
        "distance-bias": {},
        "fixed-slopes": {},
        "convolved-distance-bias": {},
        "rotary-base": {"base": 100.0},
        "normalized-attention": {},
        "modern": {"convolve": "v"},
        "convolved-elsewhere": {"where": "input"},
        "fixed-kernels": {},
        "own-output": {"kind": "transformer"},
    }[name]
    model = made(name, **options)
    tokens = torch.randint(11, (2, 8))
    changed = tokens.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % 11
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    same = torch.allclose(model(tokens)[:, :5], model(changed)[:, :5], atol=1e-5)
    assert same == (name != "two-sided")
    model(tokens).square().mean().backward()
    assert model.embedding.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("changed-baseline", {"positions": "lerned"}, "positions is 'lerned'"),
        ("changed-baseline", {"init": "gtp"}, "init is 'gtp'"),
        ("convolved-elsewhere", {"where": "inptu"}, "where is 'inptu'"),
        ("two-sided", {"kind": "gMLP"}, "kind is 'gMLP'"),
        ("two-sided", {"kind": "gmlp", "positions": "learned"}, "positions is 'learned'; expected None, for gMLP"),
        ("two-sided", {"kind": "attention", "gate": "linear"}, "options is {'gate': 'linear'}; expected none"),
    ],
    ids=str,
)
def test_a_slip_in_a_declared_study_is_an_error(name, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        made(name, **options)
    with pytest.raises(TypeError, match="d_ff"):
        made("primer-part", d_ff=32)


def test_a_model_with_other_layers_is_not_saved_as_one_with_those_of_its_name(tmp_path):
    for model in (made("primer-part", norms=True), made("changed-baseline", positions="learned")):
        with pytest.raises(ValueError, match="a model made by build_model"):
            model.save_pretrained(tmp_path / "model")


@pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))
def test_every_declared_model_can_be_built(study):
    for entry in {(e.model, str(e.options)): e for e in study.entries}.values():
        vocabulary = entry.subwords or VOCABULARIES[entry.corpus]
        with torch.device("meta"):
            model = build(entry.model, vocab_size=entry.tokens(vocabulary), **entry.describe(1.0, 0)["options"])
        assert model.max_seq_len == entry.seq_len
