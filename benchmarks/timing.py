"""Times that can be compared: one thread, the candidates in turn, medians."""

import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from efficient_transformers.judging.recording import environment

RESULTS = Path(__file__).parent / "results"


def medians(candidates: Mapping[Any, Callable[[], object]], repeats: int, warm_up: int = 2) -> dict[Any, float]:
    """Median seconds of each candidate; they run in turn, so that a slow minute of the machine hits all of them."""
    times: dict[Any, list[float]] = {name: [] for name in candidates}
    for i in range(warm_up + repeats):
        for name, candidate in candidates.items():
            begin = time.perf_counter()
            candidate()
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()  # a GPU goes on after the call
            if i >= warm_up:
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(t) for name, t in times.items()}


def step(module: nn.Module, x: Tensor) -> Callable[[], object]:
    """Forward and backward."""
    return lambda: module(x).sum().backward()


def report(rows: list[tuple[str, float, float | None]]) -> bool:
    """Print each ratio beside its bound; return whether all bounds hold."""
    for what, ratio, bound in rows:
        verdict = "" if bound is None else f"  at most {bound:.2f}: {'yes' if ratio <= bound else 'NO'}"
        print(f"{what:58} {ratio:6.2f}{verdict}")
    return all(bound is None or ratio <= bound for _, ratio, bound in rows)


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """What was measured, and on which machine, for ``load_benchmark``."""
    (RESULTS / f"{name}.json").write_text(
        json.dumps({"rows": rows, **environment()}, indent=1) + "\n", encoding="utf-8"
    )
