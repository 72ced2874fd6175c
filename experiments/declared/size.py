"""Study 12, in three parts: does the factor to equal loss shrink, stay or grow with compute, on source code?

A part is a width. The first is a gate to the others: `python experiments/size.py` says whether they are to be run.

- A factor is read at the baseline's loss on a model's curve, so each model has runs at half the baseline's steps too:
  with 4,000 and 8,000 of the baseline, and 2,000 and 4,000 of a model, factors from 1 to 4 lie between runs. At width
  256 a model has a quarter of the steps instead of the baseline twice as many, which the text has no room for.
- Steps double with the width, so that compute, the baseline's multiply-adds, grows about 40 times from 64 to 256.
- At width 64 each budget has a rate of its own. At 128 and 256 rates are tuned at 4,000 steps, and taken for the longer
  budgets: how far a best rate moves with the budget is seen at width 64.
- Two models are asked for a slope, Primer, and SwiGLU with convolutions. gMLP has two widths, and none.
- If there is no time for all, what goes first is the end of size-256, then gMLP at width 128, then SwiGLU with
  convolutions at width 256, then the third seed at 128.
"""

from __future__ import annotations

from typing import Any

from variants import complete

from efficient_transformers.studies.protocol import SEEDS, Entry, Study

from .controls import against
from .sizes import gmlp

WIDTHS = (64, 128, 256)
CONTEXT, BATCH = 256, 4
BLOCKS = 400  # of every score
SUBWORDS = 1024
TRAIN_TOKENS = 17_096_986  # of the text to train on, in subwords: a test counts them
BASELINE, ASKED, LAST = "Baseline", ("Primer", "SwiGLU and convolutions"), "gMLP"
LOW, MIDDLE, HIGH = (5e-4, 1e-3, 2e-3), (1e-3, 2e-3, 4e-3), (2e-3, 4e-3, 8e-3)
HIGHEST = (4e-3, 8e-3, 16e-3)


def models(width: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """For each name its model and options, at a width and the baseline's parameters."""
    plain = {"d_model": width, "n_layers": 4}
    parameters_of = {64: "0.2M", 128: "0.8M", 256: "3M"}
    return {
        BASELINE: ("transformer", plain),
        "Primer": ("primer", plain),
        "SwiGLU and convolutions": ("primer-ez", plain | {"activation": "swiglu"}),
        LAST: ("gmlp", gmlp(parameters_of[width], CONTEXT, weight="toeplitz")),
    }


def entry(width: int, name: str, steps: int, rates: tuple[float, ...], seeds: tuple[int, ...], **more: Any) -> Entry:
    """A model at a width and a budget."""
    model, options = models(width)[name]
    return Entry(
        name=name,
        model=model,
        options=complete(model, {"max_seq_len": CONTEXT} | options),
        steps=steps,
        seq_len=CONTEXT,
        batch_size=BATCH,
        corpus="source-code",
        seeds=seeds,
        rates=rates,
        size=f"width {width}",
        subwords=SUBWORDS,
        blocks=BLOCKS,
        **more,
    )


def longer(of: Entry, steps: int) -> Entry:
    """An entry at more steps, at its rate."""
    width = of.options["d_model"]
    return entry(width, of.name, steps, of.rates, of.seeds, rate_of=of)


def study(width: int, question: str, entries: tuple[Entry, ...], steps: int) -> Study:
    """A part, whose one figure has every model against the baseline at its own budget."""
    plain, *others = (e for e in entries if e.steps == steps)
    return Study(
        f"size-{width}", question, entries, {f"models, width {width}, {steps:,} steps": against(plain, *others)}
    )


def size_64() -> Study:
    """4,000 steps of all, each budget with a rate of its own."""
    few = (0, 1, 2)
    others = (*ASKED, LAST)
    entries = (
        entry(64, BASELINE, 4000, HIGH, SEEDS),
        *(entry(64, name, 4000, HIGHEST, SEEDS) for name in others),
        entry(64, BASELINE, 8000, HIGH, few),
        *(entry(64, name, 2000, HIGHEST, few) for name in others),
    )
    return study(64, "How many times fewer steps reach the baseline's loss at width 64?", entries, 4000)


def size_128() -> Study:
    """8,000 steps, at the rates of 4,000."""
    seeds = (0, 1, 2)
    plain, *_ = tuned = (
        entry(128, BASELINE, 4000, MIDDLE, seeds),
        *(entry(128, name, 4000, HIGH, seeds) for name in (*ASKED, LAST)),
    )
    entries = (*tuned, *(longer(each, 8000) for each in tuned), longer(plain, 16_000))
    return study(128, "And with 6 times the compute, at width 128?", entries, 8000)


def size_256() -> Study:
    """16,000 steps, at the rates of 4,000."""
    seeds = (0, 1)
    _, *others = tuned = (
        entry(256, BASELINE, 4000, LOW, seeds),
        *(entry(256, name, 4000, MIDDLE, seeds) for name in ASKED),
    )
    entries = (*tuned, *(longer(each, 16_000) for each in tuned), *(longer(each, 8000) for each in others))
    return study(256, "And with 40 times, at width 256?", entries, 16_000)


GATE = "size-64"
AFTER_THE_GATE = ("size-128", "size-256")
