"""One training loop for every model of the book, on whatever machine there is.

What is notable:
- Accelerate moves the same loop to a GPU, to Apple's MPS, to many processes (``accelerate launch``, ``torchrun``);
- every process draws the same global batch and takes its own rows, so that the result does not depend on their number;
- the clock stops during evaluation and saving, so that losses can be compared at equal time;
- with checkpoints, a run that was killed at any moment goes on as if nothing had happened.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..checks import require, require_int, require_number, require_seed
from .checkpoint import Checkpoints, restore
from .corpus import NO_TARGET, Corpus
from .execution import Agreement, Execution, Stop, plain, processes
from .files import reason


@dataclass(frozen=True)
class TrainingConfig:
    """What one training run does.

    Args:
        steps: number of optimizer steps.
        batch_size: sequences per step, over all processes together.
        seq_len: tokens per sequence.
        learning_rate: of AdamW at its peak.
        warmup_steps: steps over which the learning rate rises from 0; afterwards it falls along a cosine to a tenth.
        weight_decay: of matrices between channels: see :func:`efficient_transformers.training.loop.parameter_groups`.
        clip_norm: the largest norm of the gradient.
        eval_every: steps between evaluations; the first is before step 1, the last after the last step.
        eval_batches: validation batches per evaluation, always the same.
        seed: of the batches and of dropout; the model has its own, used when it was built.

    Raises:
        TypeError: if a count or the seed is not an int, or a rate, decay or norm not a number.
        ValueError: for a number out of range.
    """

    steps: int = 500
    batch_size: int = 16
    seq_len: int = 128
    learning_rate: float = 3e-3
    warmup_steps: int = 50
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    eval_every: int = 50
    eval_batches: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "seq_len", "eval_every", "eval_batches"):
            require_int(name, getattr(self, name), at_least=1)
        require_int("warmup_steps", self.warmup_steps, at_least=0)
        require_seed("seed", self.seed)
        for name in ("learning_rate", "clip_norm"):
            require_number(name, getattr(self, name))
            require(getattr(self, name) > 0, name, getattr(self, name), "more than 0")
        require_number("weight_decay", self.weight_decay)
        require(self.weight_decay >= 0, "weight_decay", self.weight_decay, "0 or more")

    def rate(self, step: int) -> float:
        """The learning rate of ``step``, which counts from 0."""
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
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
    """Train ``model``, a language model, on ``corpus``; the model is changed in place and left in eval mode.

    With many processes, each computes its rows of every batch, and the losses are those of one process to rounding.
    This does not hold with dropout: the processes draw different masks.

    Args:
        model: int64 ``[batch, seq]`` to logits ``[batch, seq, vocab]``.
        corpus: the text; its vocabulary is the model's.
        config: sizes, rates and seed; None means the defaults.
        callback: called with each record as it comes, in every process; the model is in eval mode meanwhile.
        checkpoints: where to keep the last good one, and how often to write it. If there is one already, the run goes
            on from it: on one device, with the same losses and weights, bit for bit, as if it had not been
            interrupted. None keeps nothing.
        execution: precision, pieces, compilation, shards; None means the defaults. A sharded model stays sharded.
        stop: training ends, with a checkpoint, after the step in which somebody asked it to; None runs to the end.
        show_progress: draw a progress bar, if the output is a terminal or a notebook.

    Returns:
        :class:`Metrics`: the losses in nats per token, by step and by seconds of training.

    Raises:
        ValueError: if the corpus is shorter than one context, the processes and pieces do not divide the batch, or
            the checkpoint is damaged or of another run.
        FloatingPointError: as soon as a loss is not finite; the weights are those before that step.
        OSError: if the first checkpoint cannot be written.
    """
    from tqdm.auto import tqdm  # heavy libraries are imported where they are used

    config, execution, stop = config or TrainingConfig(), execution or Execution(), stop or Stop()
    accelerator, pieces = processes(), execution.accumulation
    rank, world = accelerator.process_index, accelerator.num_processes
    shares = f"a multiple of {world} processes" + (f" times {pieces} pieces" if pieces > 1 else "")
    require(config.batch_size % (world * pieces) == 0, "batch_size", config.batch_size, shares)

    torch.manual_seed(config.seed + rank)  # of dropout
    generator = torch.Generator().manual_seed(config.seed)  # of the batches, the same in every process

    def adam(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameter_groups(model, config.weight_decay), betas=(0.9, 0.99))

    network, optimizer = execution.prepare(model, adam, accelerator)
    forward = torch.compile(network) if execution.compile else network
    agree = Agreement()

    def part_of_loss(inputs: Tensor, targets: Tensor, counted: Tensor) -> Tensor:
        """What these rows add to the cross-entropy in nats per token of a batch with so many targets; times world."""
        with execution.autocast(accelerator.device):
            logits = forward(inputs.to(accelerator.device))  # (B/world/pieces, T, V)
        flat, targets = logits.flatten(0, 1).float(), targets.flatten().to(accelerator.device)
        return F.cross_entropy(flat, targets, reduction="sum") / (counted / world)

    def backward(inputs: Tensor, targets: Tensor) -> float:
        """Gradients from this process's rows of the global batch, piece by piece; their part of the loss."""
        rows = zip(inputs[rank::world].chunk(pieces), targets[rank::world].chunk(pieces), strict=True)
        counted = (targets != NO_TARGET).sum()  # of the whole batch: hidden tokens are not spread evenly over its rows
        losses: list[Tensor] = []
        for number, piece in enumerate(rows, start=1):
            with nullcontext() if number == pieces else accelerator.no_sync(network):
                losses.append(part_of_loss(*piece, counted))
                accelerator.backward(losses[-1])
        return torch.stack([loss.detach() for loss in losses]).sum().item()

    @torch.no_grad()
    def validation_loss() -> float:
        batches = corpus.validation_batches(config.eval_batches, config.batch_size, config.seq_len)
        losses = torch.stack([part_of_loss(x[rank::world], y[rank::world], (y != NO_TARGET).sum()) for x, y in batches])
        return accelerator.reduce(losses.mean(), "mean").item()

    def rate_before(step: int) -> str:
        return f"the learning rate was {config.rate(max(0, step - 1)):g}"

    def check(what: str, loss: float, step: int) -> None:
        if not math.isfinite(loss):
            message = f"the {what} loss of step {step} is {loss}; {rate_before(step)}"
            raise FloatingPointError(f"{message}; {checkpoints}" if checkpoints else message)

    metrics, first, seconds, train_loss = Metrics(), 0, 0.0, math.nan
    described = {"training": asdict(config), "corpus": corpus.checksum()} if checkpoints else {}
    if checkpoints and (saved := checkpoints.load()):
        for name, value in described.items():
            require(saved[name] == value, f"the {name} of {checkpoints.path}", saved[name], f"{value!r}, as before")
        try:
            restore(saved, plain(network, accelerator), optimizer)
            generator.set_state(saved["batches"])
            metrics, first, seconds = Metrics(saved["metrics"]), saved["step"], saved["seconds"]
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {reason(error)}"
            raise ValueError(f"{checkpoints.path} does not go with the model of this run ({why})") from error
        del saved  # as large as model and optimizer
    asked, started, begun = False, time.perf_counter(), seconds
    watched = show_progress and accelerator.is_main_process
    network.train()
    with tqdm(total=config.steps, initial=first, unit="step", disable=None if watched else True) as bar:
        for step in range(first, config.steps + 1):
            ending = asked or step == config.steps
            evaluating = (step % config.eval_every == 0 or step == config.steps) and (
                not metrics or metrics[-1]["step"] < step
            )
            saving = checkpoints and (ending or step % checkpoints.every == 0) and checkpoints.last != step
            if evaluating or saving:
                seconds += time.perf_counter() - started
                if evaluating:
                    network.eval()
                    record: dict[str, float] = {"step": step, "seconds": seconds, "train_loss": train_loss}
                    metrics.append({**record, "validation_loss": validation_loss()})
                    check("validation", metrics[-1]["validation_loss"], step)
                    if callback:
                        callback(metrics[-1])
                    network.train()
                if saving and checkpoints:
                    state = {"step": step, "seconds": seconds, "batches": generator.get_state(), "metrics": [*metrics]}
                    try:
                        checkpoints.save({**state, **described}, plain(network, accelerator), optimizer)
                    except FloatingPointError as error:
                        raise FloatingPointError(f"{error}; {rate_before(step)}") from error
                started = time.perf_counter()
            if ending:
                break
            for group in optimizer.param_groups:
                group["lr"] = config.rate(step)
            loss = backward(*corpus.batch(config.batch_size, config.seq_len, generator))
            train_loss, asked = agree(loss, stop.signal is not None)
            check("training", train_loss, step + 1)
            accelerator.clip_grad_norm_(network.parameters(), config.clip_norm)
            optimizer.step()
            optimizer.zero_grad()
            lasted = max(1e-9, seconds - begun + time.perf_counter() - started)
            speed = (step + 1 - first) * config.batch_size * config.seq_len / lasted
            bar.set_postfix_str(f"loss {train_loss:.3f}, {speed:,.0f} tokens/s", refresh=False)
            bar.update()
    plain(network, accelerator).eval()
    return metrics
