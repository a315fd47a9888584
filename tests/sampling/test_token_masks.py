from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from graphdoc.errors import ModelError
from graphdoc.sampling.sentence_pairs import TokenMasks

MASK = 399


@pytest.fixture
def tokenizer(backbone_folder: Callable[[str], Path]) -> PreTrainedTokenizerFast:
    """A tokenizer of 400 tokens, the last of which is the mask."""
    found: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(backbone_folder("roberta"))
    found.mask_token = found.convert_ids_to_tokens(MASK)
    return found


def test_shares_are_those_of_bert(tokenizer: PreTrainedTokenizerFast) -> None:
    masks = TokenMasks(tokenizer)
    draw = np.random.default_rng(0)
    counts = np.zeros(4)
    for number in range(400):
        sentences = [np.array([0, *draw.integers(4, MASK, size=size), 2], np.int32) for size in (12, 30)]
        for before, after in zip(sentences, masks.draw(sentences, 0, number), strict=True):
            assert len(after.token_ids) == len(before)
            np.testing.assert_array_equal(after.tokens, before[after.places])
            others = np.setdiff1d(np.arange(len(before)), after.places)
            np.testing.assert_array_equal(after.token_ids[others], before[others])
            assert {0, len(before) - 1} <= set(others.tolist())
            seen = after.token_ids[after.places]
            counts += (len(seen), (seen == MASK).sum(), (seen == after.tokens).sum(), len(before) - 2)
    chosen, masked, kept, tokens = counts
    assert chosen / tokens == pytest.approx(0.15, abs=0.01)
    assert masked / chosen == pytest.approx(0.8, abs=0.03)
    assert kept / chosen == pytest.approx(0.1, abs=0.03)


def test_draws_depend_on_the_key_alone(tokenizer: PreTrainedTokenizerFast) -> None:
    sentences = [np.arange(4, 60), np.arange(60, 90)]

    def drawn(*key: int) -> list[list[int]]:
        return [one.token_ids.tolist() for one in masks.draw(sentences, *key)]

    masks = TokenMasks(tokenizer)
    first = drawn(0, 1)
    assert drawn(0, 2) != first
    assert drawn(0, 1) == first
    masks = TokenMasks(tokenizer)
    assert drawn(0, 1) == first


def test_a_tokenizer_without_mask_is_refused(backbone_folder: Callable[[str], Path]) -> None:
    with pytest.raises(ModelError, match=r"mask token.*roberta-base.*loss\.mlm_weight=0"):
        TokenMasks(AutoTokenizer.from_pretrained(backbone_folder("roberta")))
