"""Masked characters: what is hidden is predicted, and nothing else; each character of a sample is hidden once."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from efficient_transformers import Execution, GMLPBlock, LanguageModel, Stack, TrainingConfig, Vocabulary, train
from efficient_transformers.studies.masking import MaskedCorpus, hide_tokens
from efficient_transformers.training.corpus import NO_TARGET, Corpus
from efficient_transformers.training.evaluation import BLOCK, block_starts, masked_score

TEXT = torch.randint(7, (9_000,), generator=torch.Generator().manual_seed(1))
CORPUS = Corpus("letters", Vocabulary("abcdefg"), TEXT, TEXT.flip(0))


def test_hidden_tokens_are_the_only_targets():
    corpus = hide_tokens(CORPUS)
    inputs, targets = corpus.batch(50, 64, torch.Generator().manual_seed(0))
    plain, _ = CORPUS.batch(50, 64, torch.Generator().manual_seed(0))
    hidden = inputs == 7
    assert hidden.float().mean() == pytest.approx(0.15, abs=0.02)
    assert torch.equal(inputs[~hidden], plain[~hidden])  # the same rows as for next characters
    assert torch.equal(targets[hidden], plain[hidden])
    assert (targets[~hidden] == NO_TARGET).all()


def test_validation_batches_are_always_the_same():
    corpus = hide_tokens(CORPUS)
    first, second = (list(corpus.validation_batches(3, 2, 32)) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])
    assert not torch.equal(first[0][0] == 7, first[1][0] == 7)


def test_a_batch_has_a_target_even_if_none_was_drawn():
    corpus = MaskedCorpus("letters", CORPUS.vocabulary, TEXT, TEXT, share=1e-9)
    _, targets = corpus.batch(2, 8, torch.Generator().manual_seed(0))
    assert (targets != NO_TARGET).sum() == 1


def test_pieces_of_a_masked_batch_train_like_the_whole():
    """Though hidden tokens are spread unevenly over them, and a piece may have none."""
    ends = []
    for pieces in (1, 8):
        torch.manual_seed(0)
        body = Stack([GMLPBlock(8, 32, 8, causal=False)])
        model = LanguageModel(body, vocab_size=8, d_model=8, max_seq_len=8)
        config = TrainingConfig(6, 8, 8, learning_rate=0.01, warmup_steps=1, eval_every=6, eval_batches=1)
        run = train(model, hide_tokens(CORPUS), config, execution=Execution(accumulation=pieces), show_progress=False)
        ends.append([*run[-1].values()][2:] + [p.detach().clone() for p in model.parameters()])
    for whole, piece in zip(*ends, strict=True):
        torch.testing.assert_close(torch.as_tensor(whole), torch.as_tensor(piece), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("share", [0, 1, -0.1])
def test_a_share_that_hides_nothing_or_all_is_refused(share):
    with pytest.raises(ValueError, match="share is"):
        MaskedCorpus("letters", CORPUS.vocabulary, TEXT, TEXT, share=share)


class Honest(nn.Module):
    """Knows what it sees, and guesses what it does not; notes which places were hidden."""

    def __init__(self):
        super().__init__()
        self.weight, self.hidden = nn.Parameter(torch.zeros(1)), []

    def forward(self, tokens):
        self.hidden.append(tokens == 7)
        return 100.0 * nn.functional.one_hot(tokens, 8)[..., :7]


def test_every_token_of_the_sample_is_hidden_once_and_never_seen():
    model = Honest()
    found = masked_score(model, TEXT, seq_len=256, at_least=2000, mask_token=7)
    assert found.targets == 2 * BLOCK
    assert found.blocks == pytest.approx([math.log(7)] * 2)  # whoever saw a target would be sure of it
    assert torch.equal(sum(hidden.int() for hidden in model.hidden), torch.ones(8, 256, dtype=torch.int))
    for hidden in model.hidden:
        assert hidden.float().mean() == pytest.approx(1 / 7, abs=0.005)


def test_a_masked_score_is_that_of_a_real_model():
    torch.manual_seed(0)
    embed = nn.Embedding(8, 7)
    model = nn.Sequential(embed, nn.Linear(7, 7))
    found = masked_score(model, TEXT, seq_len=64, at_least=1, mask_token=7)
    (start,) = block_starts(len(TEXT), 1, 64).tolist()
    logits = model(torch.tensor(7))  # what it says of any hidden token
    expected = nn.functional.cross_entropy(logits.expand(BLOCK, 7), TEXT[start : start + BLOCK])
    assert found.loss == pytest.approx(expected.item(), abs=1e-5)


def test_a_context_that_does_not_divide_a_block_is_refused():
    with pytest.raises(ValueError, match="seq_len is 2048; expected a divisor of 1024"):
        masked_score(Honest(), TEXT, seq_len=2048, at_least=1, mask_token=7)
