"""Train the models that ship with the package, one of each family and gMLP twice, and pack their weights.

    python experiments/weights.py              # train what is not trained yet, and pack it; can be stopped
    python experiments/weights.py primer-ez    # one

Sizes are those of the first study (README.md), about 0.8M parameters beside dense spatial matrices. A run is sixteen
times as long as a chapter's, with one seed and a learning rate that is not tuned for that length: these models are to
be looked at. Chapter 6 sets them beside the studies, and says so.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from efficient_transformers import Checkpoints, Corpus, LanguageModel, TrainingConfig, build_model, load_corpus, train
from efficient_transformers.judging.recording import environment
from efficient_transformers.models import pretrained, saving
from efficient_transformers.models.cost import effective_parameters
from efficient_transformers.models.pretrained import CARD, HASHED, SHIPPED, pack, sha256, unpack
from efficient_transformers.support.files import locked
from efficient_transformers.training.corpus import HELD_OUT, TEST
from efficient_transformers.training.evaluation import score
from efficient_transformers.training.runs import VOCABULARY

WORK = Path(__file__).parent / "weights"
SEQ_LEN, SEED = 256, 0
TUNING_TARGETS, TEST_TARGETS = 50_000, 200_000  # tokens that a card's losses are of
ATTENTION_RATE, GATE_RATE = 2e-3, 3e-3

RECIPES: dict[str, tuple[str, dict[str, Any], float]] = {
    "primer-ez": ("primer-ez", {}, ATTENTION_RATE),
    "dense-gmlp": ("gmlp", {"weight": "dense", "d_ff": 512}, GATE_RATE),
    "transformer": ("transformer", {}, ATTENTION_RATE),
    "hourglass": ("hourglass", {"hierarchy": "1@1 2@4 1@1"}, ATTENTION_RATE),
    "gmlp": ("gmlp", {"d_ff": 504}, GATE_RATE),
}
SNAPSHOTS = (250, 500, 1000, 2000, 4000)  # steps at which the parts that chapters draw are kept
WITH_SNAPSHOTS = ("primer-ez", "gmlp", "dense-gmlp")  # 16 MB is all that the weights may take
PROMPT = "To be"
DRAWN = re.compile(r"(gate|conv_[qkv])\.weight")


def config_of(name: str) -> TrainingConfig:
    """How a model is trained: 1,024 tokens a step, like the studies."""
    return TrainingConfig(8000, 4, SEQ_LEN, learning_rate=RECIPES[name][2], warmup_steps=200, eval_every=250, seed=SEED)


def train_one(name: str, corpus: Corpus) -> None:
    """Train a model in a folder of its own, going on from its last checkpoint."""
    model_name, options, _ = RECIPES[name]
    folder = WORK / name
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        torch.manual_seed(SEED)
        model = build_model(model_name, vocab_size=len(corpus.vocabulary), max_seq_len=SEQ_LEN, **options)

        def keep(record: dict[str, float]) -> None:
            step = int(record["step"])
            print(f"{name}, step {step}: {record['validation_loss']:.4f}", flush=True)
            if step in SNAPSHOTS and name in WITH_SNAPSHOTS:
                # Packed beside the biases, by which a spatial matrix is known.
                parts = {key: value for key, value in pack(model.state_dict()).items() if DRAWN.search(key)}
                save_file(parts, folder / f"step-{step}.safetensors")

        checkpoints = Checkpoints(folder / "checkpoint.pt", every=500)
        train(model, corpus, config_of(name), callback=keep, checkpoints=checkpoints, show_progress=False)
        model.save_pretrained(folder)


def pack_one(name: str, corpus: Corpus) -> None:
    """Write a trained model into the package, in half precision, with what it scores and writes as it is there."""
    trained, folder = LanguageModel.from_pretrained(WORK / name), SHIPPED / name
    state = pack(trained.state_dict())
    trained.load_state_dict(unpack(state))  # from here on it is the model that ships
    fingerprint = saving.fingerprint(corpus.vocabulary.characters)
    saving.write(folder, {**(trained.config or {}), saving.VOCABULARY: fingerprint}, state)
    (folder / VOCABULARY).write_text(json.dumps({"characters": corpus.vocabulary.characters}) + "\n", encoding="utf-8")
    if name in WITH_SNAPSHOTS:
        parts = {step: load_file(WORK / name / f"step-{step}.safetensors") for step in SNAPSHOTS}
        kept = {f"{step}/{key}": value for step, of in parts.items() for key, value in of.items()}
        save_file(kept, folder / pretrained.SNAPSHOTS)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors writes for its owner alone
    card = make_card(name, trained, corpus)
    (folder / CARD).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(card_text(card), encoding="utf-8")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: validation {card['validation_loss']:.4f}, test {card['test_loss']:.4f}, {size / 1e6:.2f} MB")


def make_card(name: str, model: LanguageModel, corpus: Corpus) -> dict[str, Any]:
    """Everything that a reader should know of a model, as JSON."""
    config = config_of(name)
    prompt = corpus.vocabulary.encode(PROMPT)[None]  # (1, T)
    written = model.generate(prompt, SEQ_LEN - prompt.shape[1], temperature=0)[0]
    assert corpus.test is not None
    return {
        "name": name,
        "model": model.config,
        "parameters": effective_parameters(model),
        "corpus": "Shakespeare's plays, by characters; the text is in the public domain",
        "validation_plays": list(HELD_OUT),
        "test_plays": list(TEST),
        "steps": config.steps,
        "tokens": config.steps * config.batch_size * config.seq_len,
        "context": SEQ_LEN,
        "learning_rate": config.learning_rate,
        "seed": SEED,
        "validation_loss": score(model, corpus.validation, seq_len=SEQ_LEN, at_least=TUNING_TARGETS).loss,
        "test_loss": score(model, corpus.test, seq_len=SEQ_LEN, at_least=TEST_TARGETS).loss,
        "greedy": {"prompt": PROMPT, "text": corpus.vocabulary.decode(written)},
        **{key: sha256(SHIPPED / name / file) for key, file in HASHED.items() if (SHIPPED / name / file).is_file()},
        "licence": "MIT",
        **environment(),
    }


def card_text(card: dict[str, Any]) -> str:
    """The card as a page for people."""
    validation, test = ", ".join(card["validation_plays"]), ", ".join(card["test_plays"])
    return f"""# {card["name"]}

A language model of the book *Efficient Transformers, Annotated*, to be looked at and played with.

- Model: `build_model(**{card["model"]})`, {card["parameters"]:,} parameters.
- Data: {card["corpus"]}. Held out: {validation} to validate, {test} to test.
- Training: {card["steps"]:,} steps of 4 sequences of {card["context"]} characters, {card["tokens"]:,} in all;
  AdamW, peak rate {card["learning_rate"]:g}, seed {card["seed"]}. The rate was not tuned for this length.
- Loss: {card["validation_loss"]:.4f} on validation, {card["test_loss"]:.4f} on test, in nats per character, each of
  which is predicted with at least half a context before it.
- Limits: it reads at most {card["context"]} characters, of its own vocabulary only. What it writes looks like a play
  and means nothing. One run says little about its family; Section 6.1 says why.
- Weights: float16, sha256 `{card["sha256"]}`. Licence: {card["licence"]}.
- Made by `python experiments/weights.py {card["name"]}`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {list(RECIPES)}; by default all")
    names = parser.parse_args().names or list(RECIPES)
    if unknown := set(names) - set(RECIPES):
        parser.error(f"names is {sorted(unknown)}; expected some of {list(RECIPES)}")
    torch.set_num_threads(1)
    corpus = load_corpus("shakespeare-with-test")
    for name in names:
        if not (WORK / name / saving.WEIGHTS).is_file():
            train_one(name, corpus)
        pack_one(name, corpus)


if __name__ == "__main__":
    main()
