"""Time per generated token, early and late in the text, with the cache and without.

python benchmarks/generation.py
"""

from __future__ import annotations

import statistics
import sys
import time

import torch
from timing import report

from efficient_transformers import Cache, build_model, model_names
from efficient_transformers.models.language_model import find_family


@torch.no_grad()
def seconds_at(name: str, position: int, use_cache: bool, repeats: int) -> float:
    """Median seconds to read the token at ``position``, the earlier ones being known."""
    model = build_model(name, vocab_size=79, max_seq_len=2048).eval()
    tokens = torch.randint(79, (1, position + repeats))
    cache = Cache(1)
    model(tokens[:, :position], cache)
    times = []
    for i in range(repeats):
        begin = time.perf_counter()
        if use_cache:
            model(tokens[:, position + i : position + i + 1], cache)
        else:
            model(tokens[:, : position + i + 1])
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows: list[tuple[str, float, float | None]] = []
    for name in model_names():
        most = 2.0 if find_family(name)[1].reads_beyond_training else 3.0  # a row of a matrix grows with the text
        for use_cache, repeats, bound in ((True, 50, most), (False, 5, None)):
            rounds = [[seconds_at(name, position, use_cache, repeats) for position in (10, 1000)] for _ in range(3)]
            early, late = (statistics.median(seconds) for seconds in zip(*rounds, strict=True))
            how = "with cache" if use_cache else "without"
            what = f"{name}, {how}: token 1000 / token 10 ({late * 1e3:.1f} / {early * 1e3:.1f} ms)"
            rows.append((what, late / early, bound))
    sys.exit(0 if report(rows) else 1)


if __name__ == "__main__":
    main()
