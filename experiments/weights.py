"""Train the models that ship with the package, one of each family, and pack their weights.

    python experiments/weights.py train              # all that are missing, one after the other; can be stopped
    python experiments/weights.py train primer-ez    # one
    python experiments/weights.py pack               # score what is trained, and write it into the package

Sizes are those of the first study (README.md), about 0.8M parameters beside dense spatial matrices. A run is sixteen
times as long as a chapter's. Its learning rate is not tuned for that length; these models are to be looked at, and no
comparison is made with them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from declared.sizes import gmlp, hourglass
from torch import Tensor

from efficient_transformers import Checkpoints, TrainingConfig, build_model, load_corpus, train
from efficient_transformers.files import locked

WORK = Path(__file__).parent / "weights"
SEQ_LEN, SEED = 256, 0
ATTENTION_RATE, GATE_RATE = 2e-3, 3e-3

RECIPES: dict[str, tuple[str, dict[str, Any], float]] = {
    "primer-ez": ("primer-ez", {}, ATTENTION_RATE),
    "gmlp": ("gmlp", gmlp("0.8M", SEQ_LEN, matrices=False), GATE_RATE),
    "transformer": ("transformer", {}, ATTENTION_RATE),
    "hourglass": ("hourglass", hourglass("0.8M", SEQ_LEN), ATTENTION_RATE),
    "gmlp-toeplitz": ("gmlp", gmlp("0.8M", SEQ_LEN, weight="toeplitz"), GATE_RATE),
    "amlp": ("amlp", gmlp("0.8M", SEQ_LEN, model="amlp"), GATE_RATE),
    "primer": ("primer", {}, ATTENTION_RATE),
}
SNAPSHOTS = (250, 500, 1000, 2000, 4000)  # steps at which the parts that chapters draw are kept
DRAWN = ("gate.weight", "conv_q.weight", "conv_k.weight", "conv_v.weight")


def config_of(name: str) -> TrainingConfig:
    """How a model is trained: 1,024 tokens a step, like the studies."""
    return TrainingConfig(8000, 4, SEQ_LEN, learning_rate=RECIPES[name][2], warmup_steps=200, eval_every=250, seed=SEED)


def train_one(name: str) -> None:
    """Train a model in a folder of its own, going on from its last checkpoint."""
    from safetensors.torch import save_file

    model_name, options, _ = RECIPES[name]
    folder = WORK / name
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        corpus = load_corpus("shakespeare-with-test")
        torch.manual_seed(SEED)
        model = build_model(model_name, vocab_size=len(corpus.vocabulary), max_seq_len=SEQ_LEN, **options)

        def keep(record: dict[str, float]) -> None:
            step = int(record["step"])
            print(f"{name}, step {step}: {record['validation_loss']:.4f}", flush=True)
            if step in SNAPSHOTS and (parts := drawn(model.state_dict())):
                save_file(parts, folder / f"step-{step}.safetensors")

        checkpoints = Checkpoints(folder / "checkpoint.pt", every=500)
        train(model, corpus, config_of(name), callback=keep, checkpoints=checkpoints, show_progress=False)
        model.save_pretrained(folder)


def drawn(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The spatial matrices and the convolutions of a model, in half precision."""
    return {key: value.half() for key, value in state.items() if key.endswith(DRAWN)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("train", "pack"))
    parser.add_argument("names", nargs="*", default=list(RECIPES), help=f"of {list(RECIPES)}")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(RECIPES):
        parser.error(f"names is {sorted(unknown)}; expected some of {list(RECIPES)}")
    torch.set_num_threads(1)
    for name in arguments.names:
        if not (WORK / name / "model.safetensors").is_file():
            train_one(name)


if __name__ == "__main__":
    main()
