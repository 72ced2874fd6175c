"""Sampling: the cache changes nothing, the seed decides everything, and the frequencies are those of the softmax."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event

import pytest
import torch
import torch.nn.functional as F

from efficient_transformers import build_model, model_names
from efficient_transformers.models.generation import draw

every_model = pytest.mark.parametrize("name", model_names())


def small_model(name="transformer", vocab_size=11, dropout=0.0):
    """A model whose predictions are far from uniform, depend on all tokens, and do not just repeat the last one."""
    torch.manual_seed(26)
    model = build_model(name, vocab_size=vocab_size, d_model=16, n_layers=2, n_heads=2, max_seq_len=40, dropout=dropout)
    with torch.no_grad():
        for p in model.body.parameters():
            p.add_(torch.randn_like(p))
        model.embedding.weight.copy_(2 * F.normalize(torch.randn_like(model.embedding.weight)))
        model.norm.weight.normal_()
    return model.eval()


def prompt(batch=3, length=4, vocab_size=11):
    return torch.randint(vocab_size, (batch, length))


@every_model
def test_the_prompt_and_new_tokens_fill_the_model_and_their_number_may_be_0(name):
    model, start = small_model(name), prompt(length=1)
    before = start.clone()
    tokens = model.generate(start, 39, seed=0)
    assert tokens.shape == (3, 40)
    assert tokens.dtype == torch.int64
    assert 0 <= tokens.min() <= tokens.max() < 11
    assert torch.equal(tokens[:, :1], before)
    for use_cache in (True, False):
        assert torch.equal(model.generate(start, 0, use_cache=use_cache), before)


@pytest.mark.slow
@every_model
@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"seed": 3}, {"seed": 3, "top_k": 4, "temperature": 2.0}])
def test_the_cache_changes_no_token(name, sampling):
    model, start = small_model(name), prompt()
    assert torch.equal(
        model.generate(start, 36, use_cache=True, **sampling), model.generate(start, 36, use_cache=False, **sampling)
    )


@every_model
def test_the_cache_reads_each_token_once(name):
    model, read = small_model(name), []
    model.register_forward_pre_hook(lambda m, args: read.append(args[0].shape[1]))
    model.generate(prompt(), 5, seed=0)
    assert read == [4, 1, 1, 1, 1]
    read.clear()
    model.generate(prompt(), 5, seed=0, use_cache=False)
    assert read == [4, 5, 6, 7, 8]


@pytest.mark.slow
@every_model
def test_a_batch_of_prompts_equals_single_prompts_when_greedy(name):
    model, start = small_model(name), prompt(batch=4)
    singles = [model.generate(row, 20, temperature=0) for row in start.split(1)]
    assert torch.equal(model.generate(start, 20, temperature=0), torch.cat(singles))


@every_model
def test_temperature_zero_takes_the_likeliest_token(name):
    model, tokens = small_model(name), prompt()
    result = model.generate(tokens, 12, temperature=0)
    assert len(result[:, 4:].unique()) > 2  # a model that only repeats itself would prove little
    for _ in range(12):
        tokens = torch.cat([tokens, model(tokens)[:, -1].argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(result, tokens)


def test_greedy_is_also_top_k_of_one_and_a_tiny_temperature():
    model, start = small_model(), prompt()
    greedy = model.generate(start, 20, temperature=0)
    assert torch.equal(model.generate(start, 20, top_k=1), greedy)
    assert torch.equal(model.generate(start, 20, temperature=1e-42), greedy)


@pytest.mark.parametrize("k", [2, 5, 99])
def test_top_k_draws_all_of_the_k_likeliest_tokens_and_no_other(k):
    model, start = small_model(), prompt(batch=1)
    likeliest = model(start)[0, -1].topk(min(k, 11)).indices
    drawn = model.generate(start.expand(3000, -1), 1, temperature=5.0, top_k=k, seed=0)[:, -1].unique()
    assert torch.equal(drawn, likeliest.sort().values)


def test_top_k_keeps_exactly_k_tokens_when_several_are_equally_likely():
    logits = torch.zeros(500, 8)
    assert len(draw(logits, 1.0, 3, torch.Generator().manual_seed(0)).unique()) == 3


def test_the_seed_decides_the_draws_of_each_row_and_without_one_each_call_draws_anew():
    model, start = small_model(), torch.zeros(8, 1, dtype=torch.int64)
    before = torch.get_rng_state()
    once = model.generate(start, 20, temperature=3.0, seed=7)
    assert torch.equal(once, model.generate(start, 20, temperature=3.0, seed=7))
    assert not torch.equal(once, model.generate(start, 20, temperature=3.0, seed=8))
    assert len({tuple(row) for row in once.tolist()}) == 8
    assert not torch.equal(*(model.generate(start, 20, temperature=3.0) for _ in range(2)))
    assert torch.equal(torch.get_rng_state(), before)  # the global random numbers are left alone


def test_draws_have_the_frequencies_of_the_softmax():
    model, n = small_model(vocab_size=6), 20_000
    start = torch.tensor([[3, 1]])
    probabilities = (model(start)[0, -1] / 1.7).softmax(-1)
    assert probabilities.max() < 0.9  # so that there is something to measure
    drawn = model.generate(start.expand(n, -1), 1, temperature=1.7, seed=0)[:, -1]
    frequencies = torch.bincount(drawn, minlength=6) / n
    torch.testing.assert_close(frequencies, probabilities.detach(), rtol=0, atol=0.015)


def test_dropout_is_off_while_generating():
    start, without = prompt(), small_model()
    model = small_model(dropout=0.5).train()
    assert torch.equal(model.generate(start, 20, temperature=0), without.generate(start, 20, temperature=0))
    assert not torch.equal(model(start), without(start))


def test_each_module_has_its_own_mode_afterwards_and_after_an_error_and_no_gradient_is_kept():
    model, modes, outputs = small_model().train(), [], []
    model.norm.eval()
    model.body.register_forward_pre_hook(lambda m, args: modes.append(m.training))
    model.register_forward_hook(lambda m, args, y: outputs.append(y))
    model.generate(prompt(), 3)
    assert modes == [False] * 3
    assert [y.requires_grad for y in outputs] == [False] * 3
    assert (model.training, model.body.training, model.norm.training) == (True, True, False)

    def fail(module, args):
        raise RuntimeError("in the middle")

    model.norm.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        model.generate(prompt(), 3)
    assert (model.training, model.body.training, model.norm.training) == (True, True, False)
    assert torch.is_grad_enabled()


def test_threads_may_generate_at_once_with_a_model_in_train_mode():
    """The second begins before the first has ended, and ends after it."""
    model, start = small_model(dropout=0.5).train(), prompt()
    expected = small_model().generate(start, 8, temperature=0)
    steps, first_began, second_began, first_ended = count(), Event(), Event(), Event()

    def meet(module, args):
        step = next(steps)
        if step == 0:
            first_began.set()
            assert second_began.wait(60)
        if step == 1:
            second_began.set()
            assert first_ended.wait(60)

    model.norm.register_forward_pre_hook(meet)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(model.generate, start, 1)
        assert first_began.wait(60)
        second = pool.submit(model.generate, start, 8, temperature=0)
        first.result()
        first_ended.set()
        assert torch.equal(second.result(), expected)
    assert {m.training for m in model.modules()} == {True}


@pytest.mark.parametrize("temperature", [0, 1.0])
@pytest.mark.parametrize("damage", [torch.nan, torch.inf])
def test_a_prediction_that_is_not_a_number_is_refused(temperature, damage):
    model = small_model()
    model.norm.bias.data[0] = damage
    with pytest.raises(FloatingPointError, match="a prediction of the model is nan; expected a number"):
        model.generate(prompt(), 3, temperature=temperature)
