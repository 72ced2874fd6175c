"""Times that can be compared: one thread, the candidates in turn, medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def medians(candidates: Mapping[str, Callable[[], object]], repeats: int, warm_up: int = 2) -> dict[str, float]:
    """Median seconds of each candidate; they run in turn, so that a slow minute of the machine hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for i in range(warm_up + repeats):
        for name, candidate in candidates.items():
            begin = time.perf_counter()
            candidate()
            if i >= warm_up:
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(t) for name, t in times.items()}


def report(rows: list[tuple[str, float, float | None]]) -> bool:
    """Print each ratio beside its bound; return whether all bounds hold."""
    for what, ratio, bound in rows:
        verdict = "" if bound is None else f"  at most {bound:.2f}: {'yes' if ratio <= bound else 'NO'}"
        print(f"{what:58} {ratio:6.2f}{verdict}")
    return all(bound is None or ratio <= bound for _, ratio, bound in rows)
