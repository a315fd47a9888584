"""Special tokens around one text and two, against the tokenizers themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tokenizers.processors import BertProcessing, RobertaProcessing
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from graphdoc import DocumentEncoder
from graphdoc.matching.reader import SpecialTokens

TEXTS = ("rice and koji", "the tide rises over the marsh")


def tokenizer_of(backbone_folder: Callable[[str], Path], name: str) -> PreTrainedTokenizerBase:
    """A tokenizer that puts special tokens between texts as its kind does."""
    tokenizer = AutoTokenizer.from_pretrained(backbone_folder(name))
    names = (tokenizer.sep_token or tokenizer.eos_token, tokenizer.cls_token or tokenizer.bos_token)
    processor = RobertaProcessing if name == "roberta" else BertProcessing
    ids = [(token, tokenizer.convert_tokens_to_ids(token)) for token in names]
    tokenizer.backend_tokenizer.post_processor = processor(*ids)
    return tokenizer


def check(tokenizer: PreTrainedTokenizerBase) -> SpecialTokens:
    special = SpecialTokens.of(tokenizer)
    alone = [np.array(tokenizer(text)["input_ids"]) for text in TEXTS]
    plain = [special.without(ids) for ids in alone]
    for ids, text in zip(alone, plain, strict=True):
        np.testing.assert_array_equal(special.around(text), ids)
        assert len(ids) == len(text) + special.alone
    return special


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_two_texts_are_put_together_as_the_tokenizer_does(backbone_folder: Callable[[str], Path], name: str) -> None:
    tokenizer = tokenizer_of(backbone_folder, name)
    special = check(tokenizer)
    pair = tokenizer(*TEXTS, return_token_type_ids=True)
    ids, second = special.together(*(special.without(tokenizer(text)["input_ids"]) for text in TEXTS))
    assert ids.tolist() == pair["input_ids"]
    assert special.of_pair == (3 if name == "bert" else 4)
    if name == "bert":
        assert [int(place >= second) for place in range(len(ids))] == pair["token_type_ids"]
    assert pair.sequence_ids(0)[second] in (1, None)


def test_mini_reads_two_texts_as_bert_does(mini: DocumentEncoder) -> None:
    special = check(mini.tokenizer)
    pair = mini.tokenizer(*TEXTS)
    ids, second = special.together(*(special.without(mini.tokenizer(text)["input_ids"]) for text in TEXTS))
    assert ids.tolist() == pair["input_ids"]
    assert second == pair["token_type_ids"].index(1)


def test_texts_that_nothing_stands_between_are_set_apart(backbone_folder: Callable[[str], Path]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(backbone_folder("bert"))
    assert None not in tokenizer(*TEXTS).sequence_ids(0)
    special = check(tokenizer)
    ids, second = special.together(np.array([7, 8]), np.array([9]))
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    assert ids.tolist() == [cls, 7, 8, sep, 9, sep]
    assert second == 4
