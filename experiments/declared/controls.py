"""What hostile readers found missing: studies 6 to 11 and 13 to 24, the first by version 3 of the protocol.

Each asks what a leaderboard of this book leaves open because both sides of a pair share it: the depth, the positions,
the start of a gate, the output matrix. A name says "gMLP" for the form with a Toeplitz matrix.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from variants import complete

from efficient_transformers.studies.protocol import Entry, Pair, Study

from .contexts import GATE_ENTRIES, LONG_CONTEXT, SHUT
from .head_to_head import EQUAL_TIME, EQUAL_TIME_2000, MIDDLE, SHORT
from .primer_parts import OWN as PARTS
from .shortening import SHORTENING
from .sizes import baseline, gmlp, hourglass
from .times import times_the_baseline

SAME = baseline("0.8M")
TOEPLITZ = gmlp("0.8M", 256, weight="toeplitz")
MIXED = SAME | {"activation": "swiglu"}  # SwiGLU and convolutions


def entry(name: str, model: str, options: dict[str, Any], steps: int = 500, context: int = 256, **more: Any) -> Entry:
    """A model at a budget, with all its options."""
    whole = complete(model, {"max_seq_len": context} | options)
    given = {"batch_size": 1024 // context} | more
    return Entry(name=name, model=model, options=whole, steps=steps, seq_len=context, **given)


def in_the_time_of(steps: int, of: Entry) -> Entry:
    """The entry with as many steps as it makes, on a quiet machine, while the baseline makes so many."""
    return replace(of, name=f"{of.name}, equal time", steps=int(steps / times_the_baseline(of)))


def older(entries: tuple[Entry, ...], name: str, steps: int | None = None) -> Entry:
    """An entry of protocol 2 by its name, and its budget where there are several."""
    (found,) = (e for e in entries if e.name == name and steps in (None, e.steps))
    return found


def against(theirs: Entry, *ours: Entry) -> tuple[Pair, ...]:
    """Each of ours against one."""
    return tuple((each.key, theirs.key) for each in ours)


# 6. Leaving layers out was tried for the baseline alone.
HALVED = (
    entry("gMLP, 4 blocks", "gmlp", TOEPLITZ | {"n_layers": 4}, size="0.4M"),
    entry("gMLP, 6 blocks", "gmlp", TOEPLITZ | {"n_layers": 6}, size="0.6M"),
    entry("Primer EZ, 2 layers", "primer-ez", SAME | {"n_layers": 2}, size="0.4M"),
    entry("Primer, 2 layers", "primer", SAME | {"n_layers": 2}, size="0.4M"),
    entry("SwiGLU and convolutions, 2 layers", "primer-ez", MIXED | {"n_layers": 2}, size="0.4M"),
)
TWO = entry("Baseline, 2 layers", "transformer", SAME | {"n_layers": 2}, size="0.4M")  # to be timed alone

# 7. T5, which Primer's baseline is made of, has a learned number per head and distance instead of rotary positions.
BESIDE, INSTEAD = "Baseline, distances", "Baseline, distances for rotation"


def with_distances(steps: int = 500, context: int = 256) -> tuple[Entry, Entry]:
    """The baseline with such numbers, beside rotary positions and instead of them."""
    return (
        entry(BESIDE, "distance-bias", SAME, steps, context),
        entry(INSTEAD, "distance-bias", SAME | {"rotary": False}, steps, context),
    )


FROM_ZERO = entry("Baseline, distances from zero", "distance-bias", SAME | {"first": "zero"})

# 16. Two layers make twice the updates in a minute, and are smaller. So do four with half a batch, or four narrow ones.
MORE_UPDATES = (
    entry("Baseline, half a batch", "transformer", SAME, batch_size=2),
    entry("Baseline, narrow", "transformer", SAME | {"d_model": 88}, size="0.4M"),
    entry("Baseline, 2 wide layers", "transformer", SAME | {"d_model": 184, "n_layers": 2}),
)

# 22. At 1,024 characters nothing of gMLP was compared in equal time.
LONG = (
    entry("gMLP", "gmlp", older(LONG_CONTEXT, "gMLP Toeplitz").options, context=1024),
    entry("Baseline, 2 layers", "transformer", SAME | {"n_layers": 2}, context=1024, size="0.4M"),
)
# 20 and 23. One convolution in front of all layers, where Primer EZ has twelve.
FRONT = entry("one convolution, of the embeddings", "convolved-elsewhere", SAME | {"where": "embedding"})


def depth() -> Study:
    """Study 6."""
    figures: dict[str, tuple[Pair, ...]] = {}
    entries: list[Entry] = []
    for steps, shallow, study in (
        (500, "Baseline, 2 layers", EQUAL_TIME),
        (2000, "Baseline, 2 layers", EQUAL_TIME_2000),
    ):
        made = tuple(in_the_time_of(steps, of) for of in HALVED)
        entries += made
        four, _, ez, primer, mixed = made
        known = study.entries
        figures[f"shallow, equal time, {steps:,} steps"] = against(older(known, f"{shallow}, equal time"), *made)
        whole = [(four, "gMLP Toeplitz"), (ez, "Primer EZ")] + ([(primer, "Primer")] if steps == 2000 else [])
        figures[f"half and whole, equal time, {steps:,} steps"] = (
            *((half.key, older(known, f"{name}, equal time").key) for half, name in whole),
            (four.key, mixed.key),
        )
    return Study(
        "depth",
        "In equal time, who is ahead if every family may leave layers out?",
        tuple(entries),
        figures,
        borrowed=EQUAL_TIME.entries + EQUAL_TIME_2000.entries,
    )


def distances() -> Study:
    """Study 7."""
    made = {
        (steps, context): with_distances(steps, context)
        for steps, context in ((500, 256), (500, 64), (500, 1024), (2000, 256))
    }
    timed = {steps: in_the_time_of(steps, made[500, 256][0]) for steps in (500, 2000)}
    plain = {
        (500, 256): SHORT[0],
        (2000, 256): MIDDLE[0],
        (500, 64): older(GATE_ENTRIES, "baseline"),
        (500, 1024): older(LONG_CONTEXT, "Baseline"),
    }
    figures = {
        f"distances, context {context:,}, {steps:,} steps": against(plain[steps, context], *both)
        for (steps, context), both in made.items()
    }
    beside, beside_2000 = made[500, 256][0], made[2000, 256][0]
    figures["distances, context 256, 500 steps"] += against(SHORT[0], FROM_ZERO)
    figures["families against distances, 500 steps"] = tuple(
        (older(SHORT, name).key, beside.key) for name in ("Primer EZ", "Primer", "gMLP Toeplitz")
    )
    figures["families against distances, 2,000 steps"] = tuple(
        (older(MIDDLE, name).key, beside_2000.key) for name in ("Primer EZ", "Primer", "SwiGLU", "gMLP Toeplitz")
    )
    figures["gates against distances, context 64"] = tuple(
        (older(GATE_ENTRIES, name).key, made[500, 64][0].key) for name in ("split", "split, Toeplitz", "Primer EZ")
    )
    figures["distances, equal time"] = tuple((timed[steps].key, plain[steps, 256].key) for steps in (500, 2000))
    return Study(
        "distances",
        "How much of a lead is what a learned number per distance gives the baseline?",
        (*made[500, 256], FROM_ZERO, *made[500, 64], *made[2000, 256], *timed.values(), *made[500, 1024]),
        figures,
        borrowed=SHORT + MIDDLE + GATE_ENTRIES + LONG_CONTEXT,
    )


def shut_gate() -> Study:
    """Study 8: it holds if the interval against b = 1 leaves out a loss of more than 0.01."""
    shut = entry("gMLP, b = 0", "changed-gates", TOEPLITZ | {"bias": 0.0}, 2000)
    return Study(
        "shut-gate",
        "Does a gate that starts shut stay ahead of one that starts open, after 2,000 steps?",
        (shut,),
        {
            "shut at the start, 2,000 steps": (
                *against(older(MIDDLE, "gMLP Toeplitz"), shut),
                *against(MIDDLE[0], shut),
            )
        },
        borrowed=MIDDLE + SHUT,
    )


def attention_beside() -> Study:
    """Study 9: the paper's aMLP, whose text models have Toeplitz matrices."""
    options = gmlp("0.8M", 256, "amlp", weight="toeplitz")
    made = {steps: entry("aMLP, Toeplitz", "amlp", options, steps) for steps in (500, 2000)}
    return Study(
        "attention-beside",
        "Does a little attention help a gate whose matrix is Toeplitz?",
        tuple(made.values()),
        {
            f"attention beside a gate, {steps:,} steps": (
                *against(older(known, "gMLP Toeplitz"), made[steps]),
                *against(older(known, "Baseline"), made[steps]),
                *against(older(known, "Primer EZ"), made[steps]),
            )
            for steps, known in ((500, SHORT), (2000, MIDDLE))
        },
        borrowed=SHORT + MIDDLE,
    )


def own_output() -> Study:
    """Study 10: where no layer follows the waist, the last thing a token has is its own embedding."""
    waist = {"d_model": 128, "hierarchy": "0@1 4@4 0@1"}
    tied = entry("Waist", "hourglass", waist)
    own = entry("Waist, own output", "own-output", waist | {"kind": "hourglass"})
    plain = entry("Baseline, own output", "own-output", SAME | {"kind": "transformer"})
    whole = entry("Hourglass, own output", "own-output", hourglass("0.8M", 256) | {"kind": "hourglass"})
    return Study(
        "own-output",
        "Is it the waist that costs so much, or an output matrix that is also the embedding?",
        (tied, own, plain, whole),
        {
            "output matrices": (
                *against(tied, own),
                *against(SHORT[0], plain),
                *against(older(SHORT, "Hourglass"), whole),
                *against(plain, own),
                *against(whole, own),
            )
        },
        borrowed=SHORT,
    )


def eight_thousand() -> Study:
    """Study 11, in the place of one that was declared by protocol 2 and never run."""
    seeds = (0, 1, 2)
    plain, *others = made = (
        entry("Baseline", "transformer", SAME, 8000, seeds=seeds),
        entry("Primer", "primer", SAME, 8000, seeds=seeds),
        entry("SwiGLU and convolutions", "primer-ez", MIXED, 8000, seeds=seeds),
        entry("gMLP", "gmlp", TOEPLITZ, 8000, seeds=seeds),
    )
    return Study(
        "eight-thousand",
        "Leads halved from 500 to 2,000 steps: do they go on to do so?",
        made,
        {"families, 8,000 steps": against(plain, *others)},
    )


def longer_values() -> Study:
    """Study 13: after 500 steps the convolution of the values alone did as well as all three."""
    values = entry("v", "primer-ez", SAME | {"convolve": "v"}, 2000)
    return Study(
        "longer-values",
        "Do convolved values alone keep what all three convolutions keep, after 2,000 steps?",
        (values,),
        {
            "values alone, 2,000 steps": (
                *against(older(MIDDLE, "Primer EZ"), values),
                *against(older(PARTS, "squared ReLU", 2000), values),
                *against(MIDDLE[0], values),
            )
        },
        borrowed=MIDDLE + PARTS,
    )


def attention_added() -> Study:
    """Study 14: study 9's attention was paid for with channels. This one comes on top."""
    made = {steps: entry("aMLP, all channels", "amlp", TOEPLITZ, steps, size="1.1M") for steps in (500, 2000)}
    paid = {of.steps: of for of in attention_beside().entries}
    return Study(
        "attention-added",
        "And if it is not paid for with channels?",
        tuple(made.values()),
        {
            f"attention on top, {steps:,} steps": (
                *against(older(known, "gMLP Toeplitz"), made[steps]),
                *against(paid[steps], made[steps]),
            )
            for steps, known in ((500, SHORT), (2000, MIDDLE))
        },
        borrowed=SHORT + MIDDLE + tuple(paid.values()),
    )


def open_rate() -> Study:
    """Study 15: of the open gate's rates several ended alike, and one seed chose the largest."""
    smaller = entry("gMLP, rate 0.00566", "gmlp", TOEPLITZ, 2000, rate=0.00566)
    (shut,) = shut_gate().entries
    return Study(
        "open-rate",
        "Is a shut gate's lead after 2,000 steps one over a rate?",
        (smaller,),
        {
            "shut against open, a smaller rate": (
                *against(older(MIDDLE, "gMLP Toeplitz"), smaller),
                (shut.key, smaller.key),
            )
        },
        borrowed=(*MIDDLE, shut),
    )


def more_updates() -> Study:
    """Study 16."""
    made = tuple(in_the_time_of(500, of) for of in MORE_UPDATES)
    two = older(EQUAL_TIME.entries, "Baseline, 2 layers, equal time")
    return Study(
        "more-updates",
        "Are two layers ahead in equal time since they are few, or since they make more updates?",
        made,
        {
            "more updates, equal time, any batch": (
                *against(SHORT[0], *made),
                *against(two, *made),
            )
        },
        borrowed=SHORT + EQUAL_TIME.entries,
    )


def mixing() -> Study:
    """Study 17: gMLP has eight mixing layers, GELU, and a product; which of them has the baseline not?"""
    eight = entry("Baseline, 8 thin layers", "transformer", SAME | {"n_layers": 8, "d_ff": 128})
    gelu = entry("Baseline, GELU", "changed-baseline", SAME | {"activation": "gelu"})
    whole = {"d_model": 128, "n_layers": 8, "d_ff": 384, "weight": "toeplitz"}
    additive, linear = (
        entry(f"{gate}, Toeplitz", "gmlp", whole | {"gate": gate}, context=64) for gate in ("additive", "linear")
    )
    split, product, plain = (older(GATE_ENTRIES, name) for name in ("split, Toeplitz", "whole, Toeplitz", "baseline"))
    toeplitz = older(SHORT, "gMLP Toeplitz")
    return Study(
        "mixing",
        "Is gMLP's lead one of eight mixing layers, of GELU, or of its product?",
        (eight, gelu, additive, linear),
        {
            "layers and activation": (
                *against(SHORT[0], eight, gelu),
                (toeplitz.key, eight.key),
                (toeplitz.key, gelu.key),
            ),
            "Toeplitz gates, context 64": (
                (split.key, additive.key),
                (product.key, additive.key),
                (additive.key, linear.key),
                (linear.key, plain.key),
            ),
        },
        borrowed=SHORT + GATE_ENTRIES,
    )


def positions() -> Study:
    """Study 18: study 7 gave numbers to the baseline alone, and left rotation as it was."""
    slopes = entry("Baseline, fixed slopes", "fixed-slopes", SAME)
    bases = tuple(entry(f"Baseline, base {base:,}", "rotary-base", SAME | {"base": base}) for base in (1000, 100))
    made = {steps: entry("Primer EZ, distances", "convolved-distance-bias", SAME, steps) for steps in (500, 2000)}
    known = {500: (SHORT, with_distances()[0]), 2000: (MIDDLE, with_distances(2000)[0])}
    return Study(
        "positions",
        "Which positions does the baseline want, and does Primer EZ gain by numbers for distances as it does?",
        (slopes, made[500], *bases, made[2000]),
        {
            "positions, 500 steps": (
                *against(SHORT[0], slopes, *bases),
                *against(known[500][1], slopes),
            )
        }
        | {
            f"Primer EZ with distances, {steps:,} steps": (
                (made[steps].key, older(plain, "Primer EZ").key),
                (made[steps].key, beside.key),
            )
            for steps, (plain, beside) in known.items()
        },
        borrowed=(*SHORT, *MIDDLE, *(beside for _, beside in known.values())),
    )


def decay() -> Study:
    """Study 19: all models decay by a tenth of the rate, which nobody varied."""
    changed = {
        name: tuple(
            entry(f"{name}, {label}", model, SAME, weight_decay=decay)
            for label, decay in (("no decay", 0.0), ("ten times the decay", 1.0))
        )
        for name, model in (("Baseline", "transformer"), ("Primer EZ", "primer-ez"))
    }
    return Study(
        "decay",
        "How much hangs on the decay of weights that all models share?",
        (*changed["Baseline"], *changed["Primer EZ"]),
        {
            "decay of weights, 500 steps": (
                *(pair for name, both in changed.items() for pair in against(older(SHORT, name), *both)),
                *zip((e.key for e in changed["Primer EZ"]), (e.key for e in changed["Baseline"]), strict=True),
            )
        },
        borrowed=SHORT,
    )


def elsewhere() -> Study:
    """Study 20: Primer EZ's convolutions stand behind queries, keys and values, and are learned."""
    made = (
        FRONT,
        entry("kernels that are not learned", "fixed-kernels", SAME),
        entry("a convolution in front of each attention", "convolved-elsewhere", SAME | {"where": "input"}),
    )
    return Study(
        "elsewhere",
        "Do convolutions have to stand behind queries, keys and values, and to be learned?",
        made,
        {
            "where and whether learned": (
                *against(older(PARTS, "squared ReLU", 500), *made),
                *against(older(SHORT, "Primer EZ"), *made),
            )
        },
        borrowed=SHORT + PARTS,
    )


def eight_layers() -> Study:
    """Study 21: study 4 compared an hourglass of eight layers with eight plain ones in equal time alone."""
    options = {"d_model": 128, "hierarchy": "1@1 6@4 1@1"}
    made: list[Entry] = []
    pairs: list[Pair] = []
    for context in (256, 1024):
        (plain,) = (
            e for e in SHORTENING.entries if e.name == "baseline, 8 layers, equal time" and e.seq_len == context
        )
        made.append(entry("Hourglass, 8 layers", "hourglass", options, plain.steps, context, size="1.6M"))
        pairs += against(plain, made[-1])
    return Study(
        "eight-layers",
        "What do shortened layers lose to as many plain ones, after as many steps?",
        tuple(made),
        {"eight layers, equal steps": tuple(pairs)},
        borrowed=SHORTENING.entries,
    )


def opponents() -> Study:
    """Study 22: stronger opponents of gMLP and of Primer EZ, and values convolved beside ReLU."""
    gate, two = LONG
    steps = int(gate.steps * times_the_baseline(gate) / times_the_baseline(two))
    two = replace(two, name="Baseline, 2 layers, in the time of gMLP", steps=steps)
    best = entry("SwiGLU and convolutions, distances", "convolved-distance-bias", MIXED, context=64)
    values = entry("v, ReLU", "primer-ez", SAME | {"convolve": "v", "activation": "relu"})
    normalized = entry("Baseline, normalized queries and keys", "normalized-attention", SAME)
    toeplitz, mixed = (older(GATE_ENTRIES, name) for name in ("split, Toeplitz", "SwiGLU and convolutions"))
    return Study(
        "opponents",
        "Do gMLP and Primer EZ lead stronger opponents, and do convolved values need another activation?",
        (two, best, values, normalized),
        {
            "gMLP and two layers in its time, context 1,024": ((older(LONG_CONTEXT, "gMLP Toeplitz").key, two.key),),
            "gMLP and the best with distances, context 64": ((toeplitz.key, best.key), (best.key, mixed.key)),
            "values alone, ReLU": (
                *against(SHORT[0], values),
                (older(PARTS, "v").key, values.key),
                (values.key, older(PARTS, "convolutions", 500).key),
            ),
            "normalized queries and keys": (
                *against(SHORT[0], normalized),
                (older(SHORT, "Primer EZ").key, normalized.key),
            ),
        },
        borrowed=SHORT + PARTS + GATE_ENTRIES + LONG_CONTEXT,
    )


def front() -> Study:
    """Study 23: after 500 steps one convolution, of the embeddings, had ended about where Primer EZ's twelve do."""
    longer = replace(FRONT, steps=2000)
    relu = replace(FRONT, name=f"{FRONT.name}, ReLU", options=FRONT.options | {"activation": "relu"})
    swiglu = replace(FRONT, name=f"{FRONT.name}, SwiGLU", options=FRONT.options | {"activation": "swiglu"})
    ez, plain = older(MIDDLE, "Primer EZ"), older(PARTS, "squared ReLU", 2000)
    return Study(
        "front",
        "Does one convolution, of the embeddings, keep up with Primer EZ for longer, and beside other activations?",
        (longer, relu, swiglu),
        {
            "one convolution, 2,000 steps": (
                *against(ez, longer),
                *against(plain, longer),
                *against(MIDDLE[0], longer),
            ),
            "one convolution, other activations": (
                *against(older(PARTS, "convolutions", 500), relu),
                *against(SHORT[0], relu),
                *against(older(PARTS, "SwiGLU and convolutions", 500), swiglu),
                *against(older(SHORT, "SwiGLU"), swiglu),
            ),
        },
        borrowed=SHORT + MIDDLE + PARTS,
    )


def squared() -> Study:
    """Study 24: values alone last, but they were only run with squared ReLU, and that not alone for so long."""
    alone, values = entry("squared ReLU alone", "primer-ez", SAME | {"convolve": ""}, 2000), longer_values().entries
    return Study(
        "squared-relu",
        "Is what Primer EZ keeps after 2,000 steps that of squared ReLU?",
        (alone,),
        {
            "squared ReLU, 2,000 steps": (
                *against(MIDDLE[0], alone),
                *against(alone, older(MIDDLE, "Primer EZ"), *values),
            )
        },
        borrowed=MIDDLE + values,
    )


def shut_for_long() -> Study:
    """Study 25: after 8,000 steps gMLP ends level with the full Primer, from gates that start open."""
    shut = entry("gMLP, b = 0", "changed-gates", TOEPLITZ | {"bias": 0.0}, 8000, seeds=(0, 1, 2))
    known = eight_thousand().entries
    plain, primer, gates = (older(known, name) for name in ("Baseline", "Primer", "gMLP"))
    return Study(
        "shut-for-long",
        "From a shut gate, does gMLP end lower than the full Primer after 8,000 steps?",
        (shut,),
        {
            "shut at the start, 8,000 steps": (
                *against(gates, shut),
                *against(primer, shut),
                *against(plain, shut),
            )
        },
        borrowed=known,
    )


def slopes() -> Study:
    """Study 26: of numbers for distances nearly all comes without learning, and what is not learned is cheaper."""
    short, long = (entry("Baseline, fixed slopes", "fixed-slopes", SAME, context=at) for at in (256, 1024))
    timed = tuple(in_the_time_of(steps, short) for steps in (500, 2000))
    learned, _ = with_distances(context=1024)
    in_time = {500: EQUAL_TIME.entries, 2000: EQUAL_TIME_2000.entries}
    return Study(
        "slopes",
        "Do fixed slopes help in equal time, and as much as learned ones at 1,024 characters?",
        (*timed, long),
        {
            "fixed slopes, equal time": tuple(
                pair
                for of, plain in zip(timed, (SHORT[0], MIDDLE[0]), strict=True)
                for pair in ((of.key, plain.key), *against(of, older(in_time[plain.steps], "Primer EZ, equal time")))
            ),
            "fixed slopes, context 1,024": (
                *against(older(LONG_CONTEXT, "Baseline"), long),
                *against(learned, long),
            ),
        },
        borrowed=SHORT + MIDDLE + LONG_CONTEXT + EQUAL_TIME.entries + EQUAL_TIME_2000.entries + (learned,),
    )
