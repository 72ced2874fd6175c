"""Statistics against numbers by hand and against SciPy; what is not told apart is not told apart."""

from __future__ import annotations

import math
import re

import pytest
import torch
from scipy import stats

from efficient_transformers.judging.evidence import (
    RATE_ERROR,
    compare,
    crossing,
    holm,
    paired,
    pooled_spread,
    regrouped,
    sampling_error,
    steps_to_loss,
)


def by_seed(*losses):
    return dict(enumerate(losses))


def test_differences_are_paired_by_seed_in_any_order():
    assert paired({1: 2.0, 0: 1.0}, {0: 0.5, 1: 1.0}) == [0.5, 1.0]


def test_a_pooled_spread_by_hand():
    spread, freedom = pooled_spread([[1.0, 3.0], [2.0, 2.0, 5.0]])  # squares 2 and 6
    assert freedom == 3
    assert spread == pytest.approx(math.sqrt(8 / 3))


def test_the_choice_of_rates_adds_its_own_error_which_no_number_of_seeds_takes_away():
    sides = by_seed(1.0, 1.2, 1.1), by_seed(1.0, 1.0, 1.0)
    assert compare({"": sides}, rate_error=RATE_ERROR)[""].error == pytest.approx(
        math.sqrt(0.1**2 / 3 + 2 * RATE_ERROR**2)
    )
    many = {seed: 0.01 * (seed % 2) for seed in range(400)}
    zeros = dict.fromkeys(many, 0.0)
    assert compare({"": (many, zeros)}, rate_error=0.1)[""].error == pytest.approx(0.1 * math.sqrt(2), rel=1e-3)


def test_holms_correction_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.04, 0.01]) == pytest.approx([0.04, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_sampling_error_by_hand():
    means = [float(i) for i in range(14)]
    blocks = [mean + aside for mean in means for aside in (-1, 1)]
    assert sampling_error(blocks) == pytest.approx(math.sqrt(17.5 / 14))  # 17.5 is the variance of 0 to 13


def test_stretches_see_that_neighbors_are_alike_and_single_blocks_do_not():
    alike = torch.randn(14, generator=torch.Generator().manual_seed(0)).repeat_interleave(14).tolist()
    expected = torch.tensor(alike[::14]).std().item() / math.sqrt(14)
    assert sampling_error(alike) == pytest.approx(expected, rel=1e-6)


def test_a_single_pair_is_students_paired_test():
    ours, theirs = by_seed(1.5, 1.7, 1.75), by_seed(1.4, 1.5, 1.5)
    found = compare({"a": (ours, theirs)}, rate_error=0.0)["a"]
    expected = stats.ttest_rel(list(ours.values()), list(theirs.values()))
    interval = expected.confidence_interval(0.95)
    assert (found.p, found.low, found.high) == pytest.approx((expected.pvalue, interval.low, interval.high))
    assert not found.told_apart
    assert str(found) == "+0.183  [-0.006, +0.373], not told apart"


def test_pairs_share_a_spread_and_are_corrected_for_their_number():
    zero = by_seed(0.0, 0.0, 0.0)
    pairs = {"small": (by_seed(-0.1, 0.0, 0.16), zero), "large": (by_seed(0.9, 1.0, 1.1), zero)}
    found = compare(pairs, rate_error=0.0)
    squares = 2 * 0.01 + 0.12**2 + 0.02**2 + 0.14**2
    spread = math.sqrt(squares / 4)
    p = 2 * stats.t.sf(1.0 * math.sqrt(3) / spread, 4)
    assert list(found) == ["small", "large"]
    assert found["large"].p == pytest.approx(2 * p)
    half = stats.t.ppf(1 - 0.05 / 2 / 2, 4) * spread / math.sqrt(3)  # the smallest p is held against half the level
    assert (found["large"].low, found["large"].high) == pytest.approx((1 - half, 1 + half))
    half = stats.t.ppf(1 - 0.05 / 2, 4) * spread / math.sqrt(3)
    assert (found["small"].low, found["small"].high) == pytest.approx((0.02 - half, 0.02 + half))
    assert found["large"].told_apart
    assert not found["small"].told_apart


def test_an_interval_leaves_zero_out_exactly_where_a_pair_is_told_apart():
    generator, verdicts = torch.Generator().manual_seed(0), []
    for _ in range(200):
        shift = torch.rand(6, 1, generator=generator)
        noise = torch.randn(6, 5, generator=generator)
        pairs = {f"{i}": (by_seed(*row), by_seed(*[0.0] * 5)) for i, row in enumerate((2 * shift + noise).tolist())}
        for one in compare(pairs).values():
            assert one.told_apart == (one.low > 0 or one.high < 0)
            assert one.told_apart == (one.p <= 0.05)
            verdicts.append(one.told_apart)
    assert 0.1 < sum(verdicts) / len(verdicts) < 0.9


def test_a_crossing_is_interpolated_on_a_logarithmic_axis():
    found = crossing({100: [10.0, 10.1], 400: [-10.1, -10.0]})
    assert found is not None
    assert found.at == pytest.approx(200, rel=0.01)  # the geometric mean
    assert not found.open_below
    assert not found.open_above
    third = crossing({100: [0.1, 0.1001], 800: [-0.2, -0.2001]})
    assert third is not None
    assert third.at == pytest.approx(200, rel=0.01)


def test_the_interval_of_a_crossing_by_hand():
    differences = {100: [0.38, 0.42], 10_000: [-0.42, -0.38]}  # means ±0.4, two degrees of freedom
    found = crossing(differences)
    assert found is not None
    spread = math.sqrt((2 * 0.02**2 + 2 * 0.02**2) / 2)
    reach = stats.t.ppf(0.975, 2) * spread / math.sqrt(2)
    share = reach / 0.4  # of a decade on each side of 1000
    assert found.low == pytest.approx(10 ** (3 - share), rel=0.01)
    assert found.high == pytest.approx(10 ** (3 + share), rel=0.01)


def test_a_crossing_may_lie_outside_of_what_was_measured():
    found = crossing({100: [0.2, -0.1], 400: [-0.5, -0.6]})
    assert found is not None
    assert found.open_below
    assert found.low == 100
    assert str(found).split()[1:] == ["[≤", "100,", f"{found.high:,.0f}]"]


@pytest.mark.parametrize("signs", [(1, 1), (-1, -1)], ids=str)
def test_where_nothing_crosses_none_is_seen(signs):
    assert crossing({100: [signs[0] * 0.1, signs[0] * 0.2], 200: [signs[1] * 0.3, signs[1] * 0.1]}) is None


def test_steps_to_a_loss_are_those_of_an_annealed_run():
    lengths = {500: by_seed(2.0, 2.01), 1000: by_seed(1.8, 1.81), 2000: by_seed(1.6, 1.61)}
    found = steps_to_loss(lengths, by_seed(1.7, 1.71))
    assert found is not None
    assert found.at == pytest.approx(math.sqrt(1000 * 2000), rel=1e-3)
    assert steps_to_loss(lengths, by_seed(1.5, 1.51)) is None


CONTROL = by_seed(0.0, 0.01, -0.01, 0.005, -0.005)


def shifted(by, spread=1.0):
    """Losses that differ from the control's by this, in the mean, in another order of seeds."""
    order = [2, 0, 3, 1, 4]
    return {seed: by + spread * CONTROL[order[seed]] for seed in CONTROL}


def test_a_verdict_far_from_its_edge_holds_in_every_grouping():
    lists = {"first": {"far": (shifted(-1.0), CONTROL), "nowhere": (shifted(0.0), CONTROL)}}
    lists["second"] = {"behind": (shifted(0.5), CONTROL)}
    assert regrouped(lists) == {"far": (), "nowhere": (), "behind": ()}


@pytest.mark.slow
def test_a_verdict_that_one_long_list_undoes_is_found():
    one = {"close": (shifted(-0.018), CONTROL)}
    assert compare(one)["close"].told_apart
    assert regrouped({"one": one})["close"] == ()
    many = {f"idle {i}": (shifted(0.0), CONTROL) for i in range(40)}
    assert regrouped({"one": one, "many": many})["close"] == ("one list", "own spreads", "Dunnett")


def test_a_verdict_that_a_noisy_neighbor_makes_is_undone_by_its_own_spread():
    lists = {"one": {"quiet": (shifted(-0.05), CONTROL), "noisy": (shifted(0.0, spread=20.0), CONTROL)}}
    assert not compare(lists["one"])["quiet"].told_apart
    assert "own spreads" in regrouped(lists)["quiet"]


def test_dunnetts_grouping_is_scipys():
    ours = {f"model {i}": shifted(-0.004 * i) for i in range(4)}
    lists = {"one": {name: (losses, CONTROL) for name, losses in ours.items()}}
    declared = {name: c.told_apart for name, c in compare(lists["one"], rate_error=0.0).items()}
    exact = stats.dunnett(*([*x.values()] for x in ours.values()), control=[*CONTROL.values()], random_state=0)
    assert min(abs(exact.pvalue - 0.05)) > 0.002
    differs = {
        name for (name, verdict), p in zip(declared.items(), exact.pvalue, strict=True) if verdict != (p <= 0.05)
    }
    assert {name for name, kinds in regrouped(lists, rate_error=0.0).items() if "Dunnett" in kinds} == differs


SAME = (by_seed(1.0, 1.5), by_seed(1.0, 1.5))
REFUSED = [
    (lambda: paired({0: 1.0, 1: 1.0}, {0: 1.0, 2: 1.0}), r"the seeds is [0, 1]"),
    (lambda: paired({0: 1.0}, {0: 1.0}), "the seeds is [0]"),
    (lambda: pooled_spread([[1.0], [2.0]]), "groups is [1, 1]"),
    (lambda: sampling_error([1.0] * 15), "the number of blocks is 15"),
    (lambda: compare({}), "pairs is {}"),
    (lambda: compare({"a": SAME, "b": (by_seed(2.0, 2.5), SAME[1])}), "the spread of the differences is 0.0"),
    (lambda: crossing({100: [1.0, 2.0]}), "differences is [100]"),
    (lambda: crossing({0: [1.0, 2.0], 1: [-1.0, -1.0]}), "differences is [0, 1]"),
    (lambda: regrouped({"one": {"same": SAME}, "two": {"same": SAME}}), "the names of pairs is ['same', 'same']"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_gives_no_evidence_is_refused(call, said):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}; expected "):
        call()
