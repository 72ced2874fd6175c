"""Time per generated token, early and late in the text, with the cache and without.

python benchmarks/generation.py
"""

import itertools
import sys
from collections.abc import Callable

import torch
from timing import medians, report
from torch import Tensor

from efficient_transformers import Cache, LanguageModel, build_model, model_names
from efficient_transformers.models.language_model import find_family


def reading(model: LanguageModel, tokens: Tensor, position: int, use_cache: bool) -> Callable[[], object]:
    """Reads the token at ``position``, the earlier ones being known, and in the next call the one after."""
    ends, cache = itertools.count(position + 1), Cache(1)
    model(tokens[:, :position], cache)

    def read() -> Tensor:
        n = next(ends)
        return model(tokens[:, n - 1 : n], cache) if use_cache else model(tokens[:, :n])

    return read


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = []
    for name in model_names():
        model, tokens = build_model(name, vocab_size=79, max_seq_len=2048).eval(), torch.randint(79, (1, 2048))
        most = 2.0 if find_family(name)[1].reads_beyond_training else 3.0  # a row of a matrix grows with the text
        for use_cache, repeats, bound in ((True, 50, most), (False, 5, None)):
            early, late = medians({at: reading(model, tokens, at, use_cache) for at in (10, 1000)}, repeats).values()
            how = "with cache" if use_cache else "without"
            what = f"{name}, {how}: token 1000 / token 10 ({late * 1e3:.1f} / {early * 1e3:.1f} ms)"
            rows.append((what, late / early, bound))
    sys.exit(0 if report(rows) else 1)


if __name__ == "__main__":
    main()
