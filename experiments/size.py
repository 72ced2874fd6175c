"""What the study over size says so far, from its records: the gate, the factors, and how they change with compute.

    python experiments/size.py

The gate is the part at width 64. The wider ones are run only if rates lie inside their grids, the two models that are
asked for a slope have a factor that lies between runs, and two seeds of a model differ by less than 0.02 bits per byte
after 4,000 steps or more.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import combinations

from declared import STUDIES
from declared.size import ASKED, BASELINE, GATE, LAST, WIDTHS
from declared.times import load_times, sizes_key
from planning import records_of

from efficient_transformers.studies.evidence import Losses
from efficient_transformers.studies.factors import Factor, factor, trends
from efficient_transformers.studies.protocol import Entry, Study, chosen_rate, key_of, missing_trials, tried
from efficient_transformers.studies.records import Record, bits_per_byte

BETWEEN_SEEDS = 0.02  # bits per byte, on average over pairs of seeds
LONG = 4000  # steps, from which on it is asked


def losses(entry: Entry, records: list[Record]) -> Losses:
    """The reported losses of an entry by seed, in bits per byte of the test text."""
    reported = [r for r in records if r["role"] == "reported" and key_of(r) == entry.key]
    return {r["run"]["training"]["seed"]: bits_per_byte(r["test"]) for r in reported}


def curve(study: Study, name: str, records: list[Record]) -> dict[int, Losses]:
    """Of a model, the losses of every budget whose seeds are complete."""
    found = {e.steps: losses(e, records) for e in study.entries if e.name == name and not missing_trials(e, records)}
    return dict(sorted(found.items()))


def factor_of(study: Study, name: str, records: list[Record]) -> Factor | None:
    """A model's factor; None while runs are missing, or if it lies beyond them."""
    reference, ours = curve(study, BASELINE, records), curve(study, name, records)
    return factor(reference, ours) if reference and len(ours) > 1 else None


def obstacles(study: Study, records: list[Record]) -> Iterator[str]:
    """What in the part at width 64 says that the wider ones should not be run as they are declared."""
    for entry in study.entries:
        if missing := missing_trials(entry, records):
            yield f"{entry.label} lacks {len(missing)} runs, or more"
            continue
        rate, grid = chosen_rate(entry, records), list(tried(entry, records))
        if rate is None or not grid[0] < rate < grid[-1]:
            yield f"the rate of {entry.label} is {rate}; expected one inside {grid}"
        values = losses(entry, records).values()
        apart = statistics.fmean(abs(a - b) for a, b in combinations(values, 2))
        if entry.steps >= LONG and apart >= BETWEEN_SEEDS:
            yield f"two seeds of {entry.label} differ by {apart:.3f} bits per byte; expected less than {BETWEEN_SEEDS}"
    for name in ASKED:
        if factor_of(study, name, records) is None:
            yield f"the factor of {name} lies beyond its runs, or runs are missing; expected one between them"


def step_ratio(study: Study, name: str) -> float | None:
    """What a step of a model takes, in steps of the baseline of its width; None until both are timed."""
    times = load_times()
    keys = [sizes_key(next(e for e in study.entries if e.name == each)) for each in (name, BASELINE)]
    timed = [times[key]["times_the_baseline"] for key in keys if key in times]
    return timed[0] / timed[1] if len(timed) == 2 else None


def compute(study: Study, steps: int, records: list[Record]) -> float:
    """The multiply-adds of a forward pass over all that the baseline reads in so many steps."""
    of = next(r for r in records if r["run"]["name"] == BASELINE)
    training = of["run"]["training"]
    return float(of["multiply_adds"] * training["batch_size"] * training["seq_len"] * steps)


def report() -> Iterator[str]:
    """The lines that are printed."""
    found: dict[str, dict[float, Factor]] = {name: {} for name in ASKED}
    for width in WIDTHS:
        study = STUDIES[f"size-{width}"]
        records = records_of(study)
        yield f"width {width}: {len(records)} records"
        if study.name == GATE:
            reasons = list(obstacles(study, records))
            yield "  gate: " + ("; ".join(reasons) if reasons else "passed")
        for entry in study.entries:
            if values := losses(entry, records).values():
                yield f"  {entry.label}: {statistics.fmean(values):.4f} bits per byte, {len(values)} seeds"
        for name in (*ASKED, LAST):
            if not any(entry.name == name for entry in study.entries):
                continue
            steps = factor_of(study, name, records)
            if steps is None:
                yield f"  {name}: no factor between runs"
                continue
            ratio = step_ratio(study, name)
            in_time = "not timed" if ratio is None else str(steps.in_time(ratio))
            yield f"  {name}: in steps {steps}, in time {in_time}, at the loss of {steps.steps:,} steps"
            if name in found:
                found[name][compute(study, steps.steps, records)] = steps
    several = {name: factors for name, factors in found.items() if len(factors) > 1}
    for name, trend in trends(several).items() if len(several) == len(ASKED) else ():
        yield f"{name}, slope of log factor against log compute: {trend}"


if __name__ == "__main__":
    for line in report():
        print(line)
