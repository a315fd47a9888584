"""What a model reads of the views of pairs, and the scores it gives; special tokens against the tokenizers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers.processors import BertProcessing, RobertaProcessing
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from graphdoc import DocumentEncoder
from graphdoc.graphs.layout import Packing
from graphdoc.matching.reader import CrossReader, DualReader, SpecialTokens
from graphdoc.modeling import DocumentModel

SPECIAL = SpecialTokens((1,), (2,), (1,), (2,), (2,), 1)
VIEWS = [(np.array([5, 6, 7]), np.array([8])), (np.array([9]), np.array([10, 11]))]


@pytest.fixture
def model(tiny_model: Callable[..., DocumentModel]) -> DocumentModel:
    """A tiny model that reads types of tokens."""
    return tiny_model("bert", projection_size=None, graph_layers=0, readout="mean", labels=["different", "similar"])


def test_a_cross_reader_puts_both_views_into_one_passage() -> None:
    batch = CrossReader(SPECIAL).graphs(VIEWS)
    assert [list(ids) for ids in batch.token_ids] == [[1, 5, 6, 7, 2, 8, 2], [1, 9, 2, 10, 11, 2]]
    assert batch.second_from == (5, 3)
    (mini_batch,) = batch.mini_batches(Packing(1000, 1.0), 0)
    assert mini_batch.token_types is not None
    assert mini_batch.token_types.tolist() == [[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1, 0]]


def test_a_dual_reader_puts_each_view_into_its_own() -> None:
    reader = DualReader(SPECIAL)
    batch = reader.graphs(VIEWS)
    assert [list(ids) for ids in batch.token_ids] == [[1, 5, 6, 7, 2], [1, 9, 2], [1, 8, 2], [1, 10, 11, 2]]
    assert batch.second_from is None
    assert reader.roles(2) == {"first": slice(2), "second": slice(2, 4)}


@pytest.mark.parametrize(("reader", "room", "longest"), [(CrossReader, 254, 512), (DualReader, 254, 256)])
def test_views_leave_room_for_special_tokens(reader: Any, room: int, longest: int) -> None:
    made = reader(SPECIAL)
    assert made.room(256) == room
    assert made.longest(256) == longest
    full = made.graphs([(np.arange(room), np.arange(room))])
    assert max(map(len, full.token_ids)) <= longest


def test_types_of_tokens_change_what_is_read(model: DocumentModel) -> None:
    batch = CrossReader(SPECIAL).graphs(VIEWS)
    with torch.no_grad():
        found = model(batch).logits
        transformer = model.passage_encoder.transformer
        for row, (ids, second) in enumerate(zip(batch.token_ids, batch.second_from or (), strict=True)):
            types = torch.tensor([[int(place >= second) for place in range(len(ids))]])
            hidden = transformer(torch.tensor(np.array([ids])), token_type_ids=types).last_hidden_state
            torch.testing.assert_close(model.head(hidden[:, 0])[0], found[row], atol=1e-5, rtol=1e-5)
        alone = transformer(torch.tensor(np.array([batch.token_ids[0]]))).last_hidden_state[:, 0]
    assert not torch.allclose(model.head(alone)[0], found[0], atol=1e-4)


def test_the_score_of_a_pair_does_not_depend_on_what_is_read_with_it(model: DocumentModel) -> None:
    reader = CrossReader(SPECIAL)
    views = [(np.arange(5, 5 + length), np.arange(9, 12 + length)) for length in (1, 30, 4, 9)]
    with torch.no_grad():
        together = reader.scores(model(reader.graphs(views)))
        alone = torch.cat([reader.scores(model(reader.graphs([view]))) for view in views])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
    assert together.std() > 1e-4


def test_views_that_are_read_at_once_are_one_document(tiny_model: Callable[..., DocumentModel]) -> None:
    model = tiny_model("bert", projection_size=None, graph_layers=0, readout="attention", labels=["a", "b"])
    batch = CrossReader(SPECIAL).graphs([*VIEWS, *VIEWS[::-1]], together=2)
    assert len(batch) == 2
    assert batch.passage_counts == (2, 2)
    with torch.no_grad():
        scores = CrossReader(SPECIAL).scores(model(batch))
    torch.testing.assert_close(scores[0], scores[1], atol=1e-5, rtol=1e-5)
    towers = DualReader(SPECIAL).graphs([*VIEWS, *VIEWS], together=2)
    assert [[list(ids) for ids in towers.token_ids[place : place + 2]] for place in (0, 4)] == [
        [[1, 5, 6, 7, 2], [1, 9, 2]], [[1, 8, 2], [1, 10, 11, 2]],
    ]  # fmt: skip


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
