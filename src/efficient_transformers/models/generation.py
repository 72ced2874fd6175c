"""Sampling: one token after the other, from the model's own predictions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ..layers.cache import Cache
from ..support.checks import require, require_bool, require_int, require_number, require_seed


class Decoder(Protocol):
    """What :func:`generate` asks of a model; :class:`LanguageModel` is one."""

    max_seq_len: int
    embedding: nn.Embedding

    def __call__(self, tokens: Tensor, cache: Cache | None = None) -> Tensor: ...

    def check_tokens(self, tokens: Tensor, cache: Cache | None = None) -> None: ...

    def eval(self) -> Any: ...

    def modules(self) -> Iterator[nn.Module]: ...


@torch.no_grad()
def generate(
    model: Decoder,
    prompt: Tensor,
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int | None = None,
    use_cache: bool = True,
) -> Tensor:
    r"""Continue each prompt by ``max_new_tokens`` tokens, drawn from :math:`\mathrm{softmax}(\text{logits} / \tau)`.

    Args:
        model: the language model; the mode of each of its modules, train or eval, is the same afterwards. Several
            threads may generate with one model, and none of them has dropout.
        prompt: int64 ``[batch, seq]``, at least one token each.
        max_new_tokens: how many tokens to add; prompt and new tokens fit into ``model.max_seq_len``.
        temperature: :math:`\tau`; 0 always takes the likeliest token.
        top_k: draw from the ``top_k`` likeliest tokens only.
        seed: of the draws; None draws differently each time.
        use_cache: read each token once; without, every step reads everything again, with the same result.

    Returns:
        int64 ``[batch, seq + max_new_tokens]``, the prompt included.

    Raises:
        TypeError: if the prompt is not int64, the temperature not a number, or a count or the seed not an int.
        ValueError: if the temperature is below 0 or not finite, ``top_k < 1``, or the prompt is empty, outside the
            vocabulary or too long.
        FloatingPointError: if the model predicts what is not a number, as one with damaged weights does.

    The book builds it as ``write_on``.
    """
    model.check_tokens(prompt)
    require_int("max_new_tokens", max_new_tokens, at_least=0)
    require_number("temperature", temperature)
    require(temperature >= 0, "temperature", temperature, "0 or more")
    if top_k is not None:
        require_int("top_k", top_k, at_least=1)
    if seed is not None:
        require_seed("seed", seed)
    require_bool("use_cache", use_cache)
    total = prompt.shape[1] + max_new_tokens
    require(total <= model.max_seq_len, "prompt and new tokens", total, f"at most max_seq_len={model.max_seq_len}")

    generator = torch.Generator(model.embedding.weight.device)
    generator.manual_seed(seed) if seed is not None else generator.seed()
    cache = Cache(prompt.shape[0]) if use_cache else None
    tokens = unread = prompt.to(model.embedding.weight.device)
    with eval_mode(model):
        for _ in range(max_new_tokens):
            logits = model(unread, cache)[:, -1].float()  # (B, V)
            token = draw(logits, temperature, top_k, generator)  # (B, 1)
            tokens = torch.cat([tokens, token], dim=1)
            unread = token if use_cache else tokens
    return tokens


LOCK = Lock()
IN_EVAL: dict[int, tuple[dict[nn.Module, bool], int]] = {}  # by a model's id: its modules' modes before, and the blocks


@contextmanager
def eval_mode(model: Decoder | nn.Module) -> Iterator[None]:
    """Eval mode within the block, and in all threads' blocks; the last to end gives each module its mode of before."""
    with LOCK:
        before, blocks = IN_EVAL.get(id(model), ({module: module.training for module in model.modules()}, 0))
        IN_EVAL[id(model)] = before, blocks + 1
        model.eval()
    try:
        yield
    finally:
        with LOCK:
            before, blocks = IN_EVAL.pop(id(model))
            if blocks > 1:
                IN_EVAL[id(model)] = before, blocks - 1
            else:
                for module, training in before.items():
                    module.training = training


def draw(logits: Tensor, temperature: float, top_k: int | None, generator: torch.Generator) -> Tensor:
    """One token per row of ``logits`` ``[batch, vocab]``, as ``[batch, 1]``."""
    logits = logits - logits.amax(-1, keepdim=True)  # no overflow, however small the temperature; NaN if one is
    require(not logits.isnan().any(), "a prediction of the model", torch.nan, "a number", FloatingPointError)
    if temperature < torch.finfo(logits.dtype).tiny:  # 0, or what a division would take for 0
        return logits.argmax(dim=-1, keepdim=True)
    if top_k is not None:
        best, index = logits.topk(min(top_k, logits.shape[-1]))  # exactly top_k, also where several are equal
        logits = torch.full_like(logits, -torch.inf).scatter(1, index, best)
    return torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)
