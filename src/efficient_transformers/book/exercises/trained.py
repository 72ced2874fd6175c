"""What the exercises share in which the reader changes a model, trains it and reads the loss.

What is notable:
- the answer is called twice: for three steps, after which the changed model is looked at, and for a real training;
- so a wrong change is told at once, and what is measured for a right one was trained here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...models.language_model import LanguageModel, build_model
from ...training.corpus import Corpus, load_corpus
from ...training.loop import TrainingConfig, train
from .checking import as_number, close, drawn, expect

STEPS = 120
PROBE = 3  # steps: after the first, branches no longer end in zeros; after the second, all before these ends has moved
SEQ_LEN = 64

Answer = Callable[[LanguageModel, Corpus, TrainingConfig], Any]
Make = Callable[[], LanguageModel]
Mistake = tuple[str, Callable[[Any], None]]


class Probe(NamedTuple):
    """A model after three steps of the reader's training; its logits, and its weights, in the first of them."""

    model: Any
    first: Tensor
    start: dict[str, Tensor]


@cache
def text() -> Corpus:
    """The plays."""
    return load_corpus()


def run(steps: int, eval_batches: int = 16) -> TrainingConfig:
    """One rate for all, which no model was tuned for."""
    sizes: dict[str, Any] = {"batch_size": 12, "seq_len": SEQ_LEN, "eval_batches": eval_batches}
    return TrainingConfig(steps=steps, learning_rate=4e-3, eval_every=steps, **sizes)


def fresh(name: str, **options: Any) -> LanguageModel:
    """A small model, always with the same weights."""
    torch.manual_seed(0)
    return build_model(name, vocab_size=len(text().vocabulary), d_model=64, max_seq_len=SEQ_LEN, **options)


def validation_loss(model: nn.Module, config: TrainingConfig) -> float:
    """What :func:`train` measures at the end."""
    batches = text().validation_batches(config.eval_batches, config.batch_size, config.seq_len)
    with torch.no_grad():
        return sum(loss(model(x), y) for x, y in batches) / config.eval_batches


def loss(logits: Tensor, targets: Tensor) -> float:
    """The mean cross-entropy."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()


def probe(answer: Answer, make: Make) -> Probe:
    """Let the reader train for three steps; raise unless the model was trained, and the loss is the validation's."""
    model, config, outputs, start = make(), run(PROBE, eval_batches=2), list[Tensor](), dict[str, Tensor]()
    before, untrained = copy.deepcopy(model.state_dict()), validation_loss(model, config)

    def keep(module: nn.Module, _: Any, logits: Tensor) -> None:
        if module.training:
            outputs.append(logits.detach().cpu())
            for name, weight in module.state_dict().items():
                start.setdefault(name, weight.detach().cpu().clone())

    hook = model.register_forward_hook(keep)
    got = answer(model, text(), config)
    hook.remove()
    model.cpu()  # a training leaves it where it was trained
    trained_for = f"your function trains the model for {len(outputs)} steps; expected {PROBE}, those of `config`"
    as_it_was = torch.equal(model.embedding.weight, before["embedding.weight"])
    not_trained = "the model that your function was given is not trained: change it in place, then call train on it"
    expect(not as_it_was and bool(outputs), not_trained)
    expect(len(outputs) == PROBE, f"{trained_for}: pass it on to train")
    whole = "train returns a list of records, the last one after the last step: give its `validation_loss`"
    expect(not isinstance(got, list | dict), f"you return a {type(got).__name__}; expected a number. {whole}")
    value, found = as_number("what you return", got), validation_loss(model, config)
    if abs(value - found) > 1e-3:
        said = f"you return {value:.3f}; the validation loss of the model that your function leaves is {found:.3f}"
        reason, generator = "read it after the change and the training", torch.Generator().manual_seed(config.seed)
        *_, (_, targets) = (text().batch(config.batch_size, config.seq_len, generator) for _ in range(config.steps))
        if abs(value - untrained) < 1e-3:
            reason = "yours is that of the first record, before the first step; the last record is `[-1]`"
        elif abs(value - loss(outputs[-1], targets)) < 1e-3:
            reason = "yours is the loss of the last training batch, `train_loss`"
        expect(False, f"{said}: {reason}")
    return Probe(model, outputs[0], start)


def same_function(model: nn.Module, other: nn.Module) -> bool:
    """Whether two models compute the same, with the weights of the first, shaken, in both.

    They are the same if they agree for all weights; the order of their parameters says which are which.
    """
    pairs = list(zip(model.parameters(), other.parameters(), strict=False))
    counts = {len(list(m.parameters())) for m in (model, other)}
    if counts != {len(pairs)} or any(a.shape != b.shape for a, b in pairs):
        return False
    shaken = copy.deepcopy(model)
    with torch.no_grad():
        for i, (a, b) in enumerate(zip(shaken.parameters(), other.parameters(), strict=True)):
            a.add_(drawn(i, *a.shape), alpha=0.1)
            b.copy_(a)
        tokens = next(text().validation_batches(1, 2, 32))[0]
        return close(shaken(tokens), other(tokens))


def expect_change(model: nn.Module, make: Make, right: Callable[[Any], None], mistakes: Iterable[Mistake]) -> None:
    """Raise unless ``model`` computes what a fresh one does after the change ``right``; say which mistake it shows.

    Args:
        model: the reader's, trained.
        make: makes the model as it was.
        right: changes such a model in place.
        mistakes: sentences, each with a change that it explains.
    """

    def does(change: Callable[[Any], None]) -> bool:
        other = make()
        change(other)
        return same_function(model, other)

    if does(right):
        return
    reasons = [("the model computes what it computed before: nothing in it is changed", lambda _: None), *mistakes]
    reason = next((words for words, change in reasons if does(change)), "it computes something else")
    expect(False, f"the model is not the one that was asked for: {reason}")


def reads(module: nn.Module, T: int, d_model: int) -> Tensor:
    """By how much each output of ``module`` changes with each of its T inputs, its weights as they are: ``[T, T]``."""
    exact = copy.deepcopy(module).double()
    x = drawn(0, T, d_model).double()
    slopes: Tensor = torch.autograd.functional.jacobian(lambda x: exact(x[None])[0], x)  # type: ignore[no-untyped-call]
    return slopes.abs().amax(dim=(1, 3))


def against(changed: float, usual: float) -> str:
    """By how much a loss differs from another, with a sign in words."""
    return f"{abs(changed - usual):.3f} nats {'lower' if changed < usual else 'higher'}"


def result(answer: Answer, make: Make) -> float:
    """The loss at which the reader's model ends."""
    return as_number("what you return", answer(make(), text(), run(STEPS)))


def trained(make: Make) -> float:
    """The loss at which the model ends as it was."""
    return train(make(), text(), run(STEPS), show_progress=False)[-1]["validation_loss"]
