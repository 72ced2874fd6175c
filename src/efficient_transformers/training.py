"""One training loop for every model of the book, on whatever machine there is.

What is notable:
- Accelerate moves the same loop to a GPU, to Apple's MPS, to many processes (``accelerate launch``, ``torchrun``);
- every process draws the same global batch and takes its own rows, so that the result does not depend on their number;
- the clock stops during evaluation, so that losses can be compared at equal time.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .checks import require, require_int
from .corpus import Corpus


@dataclass(frozen=True)
class TrainingConfig:
    """What one training run does.

    Args:
        steps: number of optimizer steps.
        batch_size: sequences per step, over all processes together.
        seq_len: tokens per sequence.
        learning_rate: of AdamW at its peak.
        warmup_steps: steps over which the learning rate rises from 0; afterwards it falls along a cosine to a tenth.
        weight_decay: of matrices between channels: see :func:`parameter_groups`.
        clip_norm: the largest norm of the gradient.
        eval_every: steps between evaluations; the first is before step 1, the last after the last step.
        eval_batches: validation batches per evaluation, always the same.
        seed: of the batches and of dropout; the model has its own, used when it was built.
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
        require_int("seed", self.seed)
        for name in ("learning_rate", "clip_norm"):
            require(getattr(self, name) > 0, name, getattr(self, name), "more than 0")
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
    metrics: Metrics | None = None,
    show_progress: bool = True,
) -> Metrics:
    """Train ``model``, a language model, on ``corpus``; the model is changed in place and left in eval mode.

    Args:
        model: int64 ``[batch, seq]`` to logits ``[batch, seq, vocab]``.
        corpus: the text; its vocabulary is the model's.
        config: sizes, rates and seed; None means the defaults.
        metrics: records are appended to it as they come, so that an interrupted run keeps them; None starts a new one.
        show_progress: draw a progress bar, if the output is a terminal or a notebook.

    Returns:
        :class:`Metrics`: the losses in nats per token, by step and by seconds of training.

    Raises:
        ValueError: if the corpus is shorter than one context, or the processes do not divide the batch.
    """
    from accelerate import Accelerator  # heavy libraries are imported where they are used
    from accelerate.utils import parse_flag_from_env
    from tqdm.auto import tqdm

    config = config or TrainingConfig()
    on_cuda = torch.cuda.is_available() and not parse_flag_from_env("ACCELERATE_USE_CPU")
    native_bf16 = on_cuda and torch.cuda.is_bf16_supported(including_emulation=False)
    accelerator = Accelerator(mixed_precision="bf16" if native_bf16 else "no")
    rank, world = accelerator.process_index, accelerator.num_processes
    require(config.batch_size % world == 0, "batch_size", config.batch_size, f"a multiple of {world} processes")

    torch.manual_seed(config.seed)  # of dropout
    generator = torch.Generator().manual_seed(config.seed)  # of the batches, the same in every process
    groups = parameter_groups(model, config.weight_decay)
    network, optimizer = accelerator.prepare(model, torch.optim.AdamW(groups, betas=(0.9, 0.99)))

    def loss_of(inputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy in nats per token, over this process's rows of the global batch."""
        logits = network(inputs[rank::world].to(accelerator.device))  # (B/world, T, V)
        return F.cross_entropy(logits.flatten(0, 1), targets[rank::world].flatten().to(accelerator.device))

    @torch.no_grad()
    def validation_loss() -> float:
        network.eval()
        batches = corpus.validation_batches(config.eval_batches, config.batch_size, config.seq_len)
        losses = torch.stack([loss_of(*batch) for batch in batches])
        network.train()
        return accelerator.reduce(losses.mean(), "mean").item()

    metrics = Metrics() if metrics is None else metrics
    seconds, loss = 0.0, None
    watched = show_progress and accelerator.is_main_process
    with tqdm(total=config.steps, unit="step", disable=None if watched else True) as bar:
        started = time.perf_counter()
        for step in range(config.steps + 1):
            if step % config.eval_every == 0 or step == config.steps:
                train_loss = math.nan if loss is None else accelerator.reduce(loss.detach(), "mean").item()
                seconds += time.perf_counter() - started
                record = {"step": step, "seconds": seconds, "train_loss": train_loss}
                metrics.append({**record, "validation_loss": validation_loss()})
                bar.set_postfix(validation_loss=f"{metrics[-1]['validation_loss']:.3f}")
                started = time.perf_counter()
            if step < config.steps:
                for group in optimizer.param_groups:
                    group["lr"] = config.rate(step)
                loss = loss_of(*corpus.batch(config.batch_size, config.seq_len, generator))
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(network.parameters(), config.clip_norm)
                optimizer.step()
                optimizer.zero_grad()
                bar.update()
    accelerator.unwrap_model(network, keep_fp32_wrapper=False).eval()
    return metrics
