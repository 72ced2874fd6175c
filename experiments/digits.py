"""The digits of chapter 5: the gMLP, and a small two-sided Transformer beside it, three seeds each.

    python experiments/digits.py                 # can be stopped and started again

Results go to experiments/results/digits.jsonl and digits-attention.jsonl, one line per seed. One thread.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from efficient_transformers.digits import DigitClassifier, DigitTraining, digit_record
from efficient_transformers.study import append_record, environment, read_records

RUNS = [DigitTraining(seed=seed) for seed in (0, 1, 2)]


class AttentionClassifier(nn.Module):
    """PyTorch's own pre-norm encoder over pixels with learned positions, the mean, and a linear map to ten classes."""

    def __init__(self, d_model: int = 32, n_layers: int = 4, side: int = 8) -> None:
        super().__init__()
        self.embed = nn.Linear(1, d_model)
        self.positions = nn.Parameter(0.02 * torch.randn(side**2, d_model))
        layer = nn.TransformerEncoderLayer(
            d_model, 4, 4 * d_model, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.embed(images.flatten(1).unsqueeze(2)) + self.positions  # (B, N, D)
        logits: Tensor = self.head(self.norm(self.body(x)).mean(1))
        return logits


MODELS = {"digits": DigitClassifier, "digits-attention": AttentionClassifier}


def main() -> None:
    torch.set_num_threads(1)
    for name, make in MODELS.items():
        path = Path(__file__).parent / "results" / f"{name}.jsonl"
        done = [record["run"] for record in read_records(path)] if path.exists() else []
        for run in RUNS:
            if asdict(run) not in done:
                record = digit_record(run, make) | environment()
                append_record(record, path)
                print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
