"""An hourglass of eight layers, six of them on every fourth token, against eight layers of the baseline.

python benchmarks/hourglass.py
"""

from __future__ import annotations

import statistics
import sys
import time

import torch
from timing import medians, report

from efficient_transformers import Cache, LanguageModel, build_model
from efficient_transformers.layers.inspection import peak_memory

SIZES = {"vocab_size": 79, "d_model": 256, "n_heads": 8, "max_seq_len": 4096}
RESAMPLING = {
    "average, naive": {},
    "linear, linear": {"shortening": "linear", "up_sampling": "linear"},
    "attention, attention": {"shortening": "attention", "up_sampling": "attention"},
}


@torch.no_grad()
def seconds_per_token(models: dict[str, LanguageModel], tokens: int, rounds: int) -> dict[str, float]:
    """Median over rounds of the mean seconds to generate each of ``tokens`` with a cache; the models take turns."""
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(rounds):
        for name, model in models.items():
            cache, token = Cache(1), torch.zeros(1, 1, dtype=torch.int64)
            begin = time.perf_counter()
            for _ in range(tokens):
                token = model(token, cache).argmax(-1)
            times[name].append((time.perf_counter() - begin) / tokens)
    return {name: statistics.median(t) for name, t in times.items()}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    models = {"baseline": build_model("transformer", n_layers=8, **SIZES)}
    for name, options in RESAMPLING.items():
        models[name] = build_model("hourglass", hierarchy="1@1 6@4 1@1", **options, **SIZES)
    tokens = {length: torch.randint(79, (1, length)) for length in (2048, 4096)}
    took = medians({name: lambda m=m: m(tokens[2048]).sum().backward() for name, m in models.items()}, 7)
    for model in models.values():
        model.zero_grad()
    needs = {name: peak_memory(lambda m=m: m.body(m.embedding(tokens[4096]))) for name, m in models.items()}
    each = seconds_per_token({name: model.eval() for name, model in models.items()}, 512, 5)
    print(f"baseline: {took['baseline'] * 1e3:.0f} ms, {needs['baseline'] >> 20} MiB, {each['baseline'] * 1e3:.2f} ms")
    rows: list[tuple[str, float, float | None]] = []
    for name in RESAMPLING:
        default = name == "average, naive"
        for what, measured, bound in (
            ("forward and backward, length 2048", took, 0.45),
            ("activation memory, length 4096", needs, 0.55),
            ("per token of 512, with a cache", each, 0.55),
        ):
            rows.append((f"{what}: {name}", measured[name] / measured["baseline"], bound if default else None))
    sys.exit(0 if report(rows) else 1)


if __name__ == "__main__":
    main()
