"""One training loop for every model of the book, on whatever machine there is.

What is notable:
- the model moves to a GPU, or to Apple's MPS, where there is one; nothing else of the loop changes;
- the clock stops during evaluation and saving, so that losses can be compared at equal time;
- with checkpoints, a run that was killed at any moment goes on as if nothing had happened.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..support.checks import (
    require,
    require_instance,
    require_int,
    require_known,
    require_module,
    require_number,
    require_seed,
)
from ..support.files import reason
from .checkpoint import Checkpoints, random_states_kept, restore
from .corpus import Corpus
from .execution import Execution, Stop, find_device
from .logs import bar
from .orthogonal import Muon

__all__ = ["Metrics", "TrainingConfig", "muon", "parameter_groups", "train"]

BETAS = (0.9, 0.99)  # of AdamW
LONGEST_WARM_UP = 50  # steps, by default

Optimizer = Literal["adamw", "muon"]


@dataclass(frozen=True)
class TrainingConfig:
    """What one training run does.

    Args:
        steps: number of optimizer steps.
        batch_size: sequences per step.
        seq_len: tokens per sequence.
        learning_rate: at its peak, of all weights.
        warmup_steps: steps over which the learning rate rises from 0; afterwards it falls along a cosine to a tenth.
            By default 50, or half of the steps of a run that has less than 100.
        weight_decay: of the weights of ``nn.Linear`` and ``nn.Embedding``, in units of the rate; nothing else decays.
        clip_norm: the largest norm of the gradient.
        eval_every: steps between evaluations; the first is before step 1, the last after the last step.
        eval_batches: validation batches per evaluation, always the same.
        seed: of the batches and of dropout; the command ``train`` also draws the first weights by it.
        optimizer: "adamw", or "muon" for the matrices inside the layers, with AdamW for the rest.

    Raises:
        TypeError: if a count or the seed is not an int, or a rate, decay or norm not a number.
        ValueError: for a number out of range, or an unknown optimizer.
    """

    steps: int = 500
    batch_size: int = 16
    seq_len: int = 128
    learning_rate: float = 3e-3
    warmup_steps: int | None = None
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    eval_every: int = 50
    eval_batches: int = 8
    seed: int = 0
    optimizer: Optimizer = "adamw"

    def __post_init__(self) -> None:
        require_known("optimizer", self.optimizer, OPTIMIZERS)
        for name in ("steps", "batch_size", "seq_len", "eval_every", "eval_batches"):
            require_int(name, getattr(self, name), at_least=1)
        if self.warmup_steps is None:  # a record of the run says what was done
            object.__setattr__(self, "warmup_steps", min(LONGEST_WARM_UP, self.steps // 2))
        require_int("warmup_steps", self.warmup_steps, at_least=0)
        shorter = f"less than steps={self.steps}: the learning rate would never reach its peak"
        require((self.warmup_steps or 0) < self.steps, "warmup_steps", self.warmup_steps, shorter)
        require_seed("seed", self.seed)
        for name in ("learning_rate", "clip_norm"):
            require_number(name, getattr(self, name))
            require(getattr(self, name) > 0, name, getattr(self, name), "more than 0")
        require_number("weight_decay", self.weight_decay)
        require(self.weight_decay >= 0, "weight_decay", self.weight_decay, "0 or more")

    def rate(self, step: int) -> float:
        """The learning rate of ``step``, which counts from 0."""
        warmup = self.warmup_steps or 0
        if step < warmup:
            return self.learning_rate * (step + 1) / warmup
        progress = (step - warmup) / (self.steps - warmup)
        return self.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


class Metrics(list[dict[str, float]]):
    """One record per evaluation: ``step``, ``seconds`` of training, ``train_loss``, ``validation_loss`` (nats)."""


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """The parameters for an optimizer: matrices between channels, which are decayed, and all others, which are not.

    Decayed are the weights of ``nn.Linear`` and ``nn.Embedding``. The spatial weights of gMLP are not, dense or
    Toeplitz, so that the two differ in nothing but their number; nor are kernels of convolutions, norms and biases.
    """
    owners = [module for module in model.modules() if isinstance(module, nn.Linear | nn.Embedding)]
    decayed = {id(module.weight) for module in owners}  # not the tensors, whose == compares their elements
    matrices = [p for p in model.parameters() if id(p) in decayed]
    others = [p for p in model.parameters() if id(p) not in decayed]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


def adamw(model: nn.Module, weight_decay: float) -> torch.optim.Optimizer:
    """AdamW, with :func:`parameter_groups`; on a GPU its update is one kernel for all parameters."""
    return adamw_of(parameter_groups(model, weight_decay))


def adamw_of(groups: list[dict[str, Any]]) -> torch.optim.AdamW:
    """AdamW with the averages of all runs."""
    return torch.optim.AdamW(groups, betas=BETAS, fused=torch.cuda.is_available() or None)


def muon(model: nn.Module, weight_decay: float, scale: str = "match_rms_adamw") -> torch.optim.Optimizer:
    r"""Muon for the matrices inside the layers, AdamW for all other parameters, with the same rate and decay.

    Muon's step is the gradient's average with its singular values set to about 1, which five iterations do in bfloat16.

    Args:
        model: with such matrices.
        weight_decay: as for :func:`parameter_groups`.
        scale: of the step of an :math:`m \times n` matrix: ``"match_rms_adamw"`` is :math:`0.2 \sqrt{\max(m, n)}`, so
            that its root mean square is about that of AdamW's steps, and one rate does for both; ``"original"`` is
            :math:`\sqrt{\max(1, m / n)}`.

    Raises:
        ValueError: if the model has no matrix for Muon.

    Source: Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024; Liu et al., Muon is Scalable
    for LLM Training, 2025, section 2.2.
    """
    matrices = inner_matrices(model)
    with_them = "one with an nn.Linear inside its body, or inside an nn.ModuleList, which is what Muon trains"
    require(bool(matrices), "model", type(model).__name__, with_them)
    inside = {id(matrix) for matrix in matrices}
    groups = parameter_groups(model, weight_decay)
    for group in groups:
        group["params"] = [p for p in group["params"] if id(p) not in inside]
    first = Muon(matrices, weight_decay=weight_decay, adjust_lr_fn=scale)
    return Both(first, adamw_of(groups))


def inner_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The weights of ``nn.Linear`` inside the layers: neither an embedding nor what makes logits, which may be one."""
    body = getattr(model, "body", None)  # a model of the reader's may have none
    layers = [body] if isinstance(body, nn.Module) else [m for m in model.modules() if isinstance(m, nn.ModuleList)]
    linear = {id(m.weight) for part in layers for m in part.modules() if isinstance(m, nn.Linear)}
    linear -= {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    return [p for p in model.parameters() if id(p) in linear]


class Both(torch.optim.Optimizer):
    """Two optimizers as one, of the groups and the state of both."""

    def __init__(self, first: torch.optim.Optimizer, second: torch.optim.Optimizer) -> None:
        self.parts = [(part, len(part.param_groups)) for part in (first, second)]
        super().__init__([*first.param_groups, *second.param_groups], {})
        self.share()

    def share(self) -> None:
        """Let the two see the groups and the state of this one, which loading replaces."""
        start = 0
        for part, groups in self.parts:
            part.param_groups, part.state = self.param_groups[start : start + groups], self.state
            start += groups

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.share()

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step of each."""
        for part, _ in self.parts:
            part.step()


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {"adamw": adamw, "muon": muon}


class Losses:
    """The cross-entropy of batches, in nats per token.

    Args:
        model: on the device of the run.
        execution: precision and compilation.
    """

    def __init__(self, model: nn.Module, execution: Execution) -> None:
        self.model, self.execution, self.device = model, execution, find_device()
        self.forward = torch.compile(model) if execution.compile else model

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over a batch's targets."""
        with self.execution.autocast(self.device):
            logits = self.forward(inputs.to(self.device))  # (B, T, V)
        flat, targets = logits.flatten(0, 1).float(), targets.flatten().to(self.device)  # (B * T, V), (B * T)
        return F.cross_entropy(flat, targets, reduction="sum") / targets.numel()

    @torch.no_grad()
    def mean(self, batches: Iterable[tuple[Tensor, Tensor]]) -> float:
        """The mean loss of batches; the model is in eval mode meanwhile."""
        self.model.eval()
        return torch.stack([self(inputs, targets) for inputs, targets in batches]).mean().item()


class Progress:
    """How far a run is: what was measured, what the next batches are, and a clock that rests in pauses."""

    def __init__(self, corpus: Corpus, config: TrainingConfig, checkpoints: Checkpoints | None) -> None:
        self.corpus, self.config, self.checkpoints = corpus, config, checkpoints
        self.batches = torch.Generator().manual_seed(config.seed)
        self.described = {"training": asdict(config), "corpus": corpus.checksum()} if checkpoints else {}
        self.metrics, self.step, self.train_loss = Metrics(), 0, math.nan
        self.seconds, self.started = 0.0, time.perf_counter()

    def resume(self, model: nn.Module, optimizer: Any) -> None:
        """Go on from the checkpoint, if there is one."""
        if not self.checkpoints or not (saved := self.checkpoints.load()):
            return
        for name, value in self.described.items():
            which = f"the {name} of {self.checkpoints.path}"
            require(saved[name] == value, which, saved[name], f"{value!r}, as before")
        try:
            restore(saved, model, optimizer)
            self.batches.set_state(saved["batches"])
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {reason(error)}"
            raise ValueError(f"{self.checkpoints.path} does not go with the model of this run ({why})") from error
        self.metrics, self.step, self.seconds = Metrics(saved["metrics"]), saved["step"], saved["seconds"]
        self.started = time.perf_counter()  # reading takes no time of training

    def __str__(self) -> str:
        speed = self.step * self.config.batch_size * self.config.seq_len / self.elapsed()
        return f"loss {self.train_loss:.3f}, {speed:,.0f} tokens/s"

    def batch(self) -> tuple[Tensor, Tensor]:
        """The next training batch: inputs and targets, ``[batch, seq]`` each."""
        return self.corpus.batch(self.config.batch_size, self.config.seq_len, self.batches)

    def validation_batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """What is measured on, always the same."""
        config = self.config
        return self.corpus.validation_batches(config.eval_batches, config.batch_size, config.seq_len)

    def elapsed(self) -> float:
        """Seconds of training."""
        return self.seconds + time.perf_counter() - self.started

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock, for the length of the block."""
        self.seconds = self.elapsed()
        yield
        self.started = time.perf_counter()

    def evaluation_is_due(self) -> bool:
        """Whether this step is to be measured, and was not before the run was interrupted."""
        due = self.step % self.config.eval_every == 0 or self.step == self.config.steps
        return due and (not self.metrics or self.metrics[-1]["step"] < self.step)

    def record(self, validation_loss: float) -> dict[str, float]:
        """Add what was measured to the metrics; a copy of it."""
        losses = {"train_loss": self.train_loss, "validation_loss": validation_loss}
        self.metrics.append({"step": self.step, "seconds": self.seconds, **losses})
        self.check("validation", validation_loss)
        return dict(self.metrics[-1])

    def check(self, which: str, loss: float) -> None:
        """Raise FloatingPointError unless the loss is finite."""
        if not math.isfinite(loss):
            message = f"the {which} loss of step {self.step} is {loss}; {self.last_rate()}"
            raise FloatingPointError(f"{message}; {self.checkpoints}" if self.checkpoints else message)

    def last_rate(self) -> str:
        """What changed the weights last."""
        return f"the learning rate was {self.config.rate(max(0, self.step - 1)):g}"

    def save(self, model: nn.Module, optimizer: Any, *, ending: bool) -> None:
        """Write a checkpoint, if one is due."""
        kept = self.checkpoints
        if not kept or kept.last == self.step or not (ending or self.step % kept.every == 0):
            return
        state = {"step": self.step, "seconds": self.seconds, "metrics": [*self.metrics]}
        try:
            kept.save({**state, "batches": self.batches.get_state(), **self.described}, model, optimizer)
        except FloatingPointError as error:
            raise FloatingPointError(f"{error}; {self.last_rate()}") from error


def check_arguments(
    model: nn.Module,
    corpus: Corpus,
    config: TrainingConfig,
    checkpoints: Checkpoints | None,
    execution: Execution,
    stop: Stop,
) -> None:
    """Raise TypeError for an argument of :func:`train` of another kind, ValueError for a model that cannot learn it."""
    require_module("model", model)
    require_instance("corpus", corpus, Corpus)
    size = len(corpus.vocabulary)
    known = getattr(model, "vocab_size", size)  # a model of the reader's may not say
    require(size <= known, "the size of the corpus's vocabulary", size, f"at most vocab_size={known}, as the model has")
    require_instance("config", config, TrainingConfig)
    if checkpoints is not None:
        require_instance("checkpoints", checkpoints, Checkpoints)
    require_instance("execution", execution, Execution)
    require_instance("stop", stop, Stop)
    trainable = any(p.requires_grad for p in model.parameters())
    require(trainable, "model", type(model).__name__, "one with a parameter that can be trained: all are frozen")


@random_states_kept()
@torch.inference_mode(False)  # a caller who had turned gradients off gets them here
def train(
    model: nn.Module,
    corpus: Corpus,
    config: TrainingConfig | None = None,
    *,
    callback: Callable[[dict[str, float]], object] | None = None,
    checkpoints: Checkpoints | None = None,
    execution: Execution | None = None,
    stop: Stop | None = None,
    show_progress: bool = True,
) -> Metrics:
    """Train ``model``, a language model, on ``corpus``; the model is changed in place.

    However the training ends, the model is left in eval mode and without gradients, and the random states of the
    process as they were.

    Args:
        model: int64 ``[batch, seq]`` to logits ``[batch, seq, vocab]``. Where there is a GPU, it moves there and stays.
        corpus: the text; its vocabulary is the model's.
        config: sizes, rates and seed; None means the defaults.
        callback: called with a copy of each record as it comes; the model is in eval mode meanwhile.
        checkpoints: where to keep the last good one, and how often to write it. If there is one already, the run goes
            on from it: on one device, with the same losses and weights, bit for bit, as if it had not been
            interrupted. None keeps nothing.
        execution: precision and compilation; None means the defaults.
        stop: training ends, with a checkpoint, after the step in which somebody asked it to; None runs to the end.
        show_progress: draw a progress bar, if the output is a terminal or a notebook.

    Returns:
        :class:`Metrics`: the losses in nats per token, by step and by seconds of training.

    Raises:
        TypeError, ValueError: if an argument is of another kind, the corpus shorter than one context, all of the model
            frozen, or the checkpoint damaged or of another run.
        FloatingPointError: as soon as a loss is not finite; the weights are those before that step.
        OSError: if the first checkpoint cannot be written.
    """
    config = TrainingConfig() if config is None else config
    execution = Execution() if execution is None else execution
    stop = Stop() if stop is None else stop
    check_arguments(model, corpus, config, checkpoints, execution, stop)
    torch.manual_seed(config.seed)  # of dropout
    model.to(find_device())
    optimizer = OPTIMIZERS[config.optimizer](model, weight_decay=config.weight_decay)
    losses, progress, asked = Losses(model, execution), Progress(corpus, config, checkpoints), False
    try:
        progress.resume(model, optimizer)
        model.train()
        with bar(show=show_progress, total=config.steps, initial=progress.step, unit="step") as drawn:
            for step in range(progress.step, config.steps + 1):
                ending = asked or step == config.steps
                with progress.paused():
                    if progress.evaluation_is_due():
                        record = progress.record(losses.mean(progress.validation_batches()))
                        if callback:
                            callback(record)
                        model.train()
                    progress.save(model, optimizer, ending=ending)
                if ending:
                    break
                for group in optimizer.param_groups:
                    group["lr"] = config.rate(step)
                loss = losses(*progress.batch())
                loss.backward()  # type: ignore[no-untyped-call]
                progress.step, progress.train_loss, asked = step + 1, loss.item(), stop.signal is not None
                progress.check("training", progress.train_loss)
                nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
                optimizer.step()
                optimizer.zero_grad()
                drawn.set_postfix_str(str(progress), refresh=False)
                drawn.update()
    finally:
        model.eval().zero_grad()
    return progress.metrics
