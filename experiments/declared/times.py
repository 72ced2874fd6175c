"""What a step takes, measured once and stored: for plans, and for runs at equal time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from efficient_transformers.checks import require
from efficient_transformers.studies.protocol import Entry
from efficient_transformers.studies.records import read_step_times, step_key

TIMES = Path(__file__).parents[1] / "results" / "step-times.json"


def sizes_key(entry: Entry) -> str:
    """What the time of a step depends on."""
    return step_key(entry.describe(1.0, 0))


def load_times() -> dict[str, dict[str, Any]]:
    """The measured times, by :func:`sizes_key`."""
    return read_step_times(TIMES) if TIMES.exists() else {}


def timed_seconds(entry: Entry) -> float:
    """What a step of an entry takes.

    Raises:
        ValueError: if it was never timed: times come before the budgets that are made of them.
    """
    key, times = sizes_key(entry), load_times()
    require(key in times, "the entry", entry.label, f"one whose steps are timed in {TIMES.name}")
    return float(times[key]["seconds"])


def times_the_baseline(entry: Entry) -> float:
    """What a step of an entry takes, in steps of the baseline that took turns with it.

    Raises:
        ValueError: if it was never timed beside the baseline.
    """
    key, times = sizes_key(entry), load_times()
    timed = "times_the_baseline" in times.get(key, {})
    require(timed, "the entry", entry.label, f"one whose steps are timed beside the baseline's in {TIMES.name}")
    return float(times[key]["times_the_baseline"])
