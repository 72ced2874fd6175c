"""Time and memory of a training step as the text grows, for every family; for study S8.

python benchmarks/lengths.py

One sequence, forward and backward, one thread; medians of rounds in which the families take turns. Dense spatial
matrices stop at 2,048 tokens, where they alone have 34 million numbers in eight blocks. Rows go to
benchmarks/results/lengths.json with the multiply-adds that the cost model counts.
"""

from functools import partial

import torch
import torch.nn.functional as F
from timing import medians, write

from efficient_transformers import LanguageModel, build_model
from efficient_transformers.layers.inspection import peak_memory
from efficient_transformers.models.cost import multiply_adds

LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
DENSE_UP_TO = 2048
FAMILIES = {
    "Baseline": ("transformer", {}),
    "Primer EZ": ("primer-ez", {}),
    "Primer": ("primer", {}),
    "Hourglass": ("hourglass", {}),
    "dense gMLP": ("dense-gmlp", {}),
    "gMLP": ("gmlp", {}),
    "gMLP, transform": ("gmlp", {"fft": True}),
    "dense aMLP": ("amlp", {"weight": "dense"}),
}


def step(model: LanguageModel, tokens: torch.Tensor) -> None:
    """Forward and backward of one training step."""
    model.zero_grad()
    F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = []
    for length in LENGTHS:
        tokens = torch.randint(79, (1, length + 1))
        models = {
            label: build_model(name, vocab_size=79, max_seq_len=length, **options)
            for label, (name, options) in FAMILIES.items()
            if length <= DENSE_UP_TO or "dense" not in label
        }
        steps = {label: partial(step, model, tokens) for label, model in models.items()}
        rounds = max(3, min(9, 9 * 512 // length))
        took = medians(steps, rounds, warm_up=1)
        for label, model in models.items():
            model.zero_grad()
            row = {"model": label, "length": length, "ms": round(took[label] * 1e3, 2), "rounds": rounds}
            row |= {"peak_bytes": peak_memory(steps[label])}
            row |= {"multiply_adds": round(multiply_adds(model, length) * length)}
            rows.append(row)
            print(f"{label:26} {length:5}  {row['ms']:9.1f} ms  {row['peak_bytes'] / 2**20:7.0f} MiB", flush=True)
    write("lengths", rows)


if __name__ == "__main__":
    main()
