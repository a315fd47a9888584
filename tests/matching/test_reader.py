"""What a model reads of the views of pairs, and the scores it gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

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
