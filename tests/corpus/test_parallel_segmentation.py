from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from corpus_examples import rows_of

from graphdoc.corpus import document as corpus_document
from graphdoc.corpus.document import text_hash, tokenise_in_order
from graphdoc.documents.document import Document
from graphdoc.errors import GraphdocError
from graphdoc.segmentation.segmenter import Segmenter


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_document, "BLOCK_DOCUMENTS", 4)


def numbered(rows: list[dict[str, Any]]) -> Iterator[tuple[int, Document]]:
    for number, row in enumerate(rows):
        yield number, Document.from_mapping(row)


@pytest.mark.parametrize("processes", [1, 3])
def test_documents_come_in_order_with_the_tokens_of_the_segmenter(segmenter: Segmenter, processes: int) -> None:
    rows = rows_of(30)
    found = list(tokenise_in_order(numbered(rows), segmenter, processes))
    assert [(one.id, one.group) for one in found] == [(row["id"], number) for number, row in enumerate(rows)]
    for one, row in zip(found, rows, strict=True):
        expected = segmenter.segment(Document.from_mapping(row))
        assert tuple(tuple(ids.tolist()) for ids in one.passages.tokens) == expected.token_ids
        assert one.passages.sections.tolist() == [passage.section for passage in expected.passages]
        assert one.coverage == expected.coverage


@pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="the broken segmenter reaches forks only")
def test_a_process_that_is_ended_from_outside_is_named(segmenter: Segmenter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Segmenter, "segment_many", lambda *_: os._exit(9))
    with pytest.raises(GraphdocError, match="preparing_processes=2"):
        list(tokenise_in_order(numbered(rows_of(30)), segmenter, 2))


def test_the_environment_is_as_before(segmenter: Segmenter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    found = tokenise_in_order(numbered(rows_of(30)), segmenter, 2)
    next(found)
    assert "TOKENIZERS_PARALLELISM" not in os.environ
    found.close()


def test_only_the_text_counts_for_the_hash() -> None:
    one = Document.from_mapping({"id": "a", "title": "A", "sections": [{"heading": "H", "text": "Rice."}]})
    other = Document.from_mapping({"id": "b", "text": "Rice."})
    assert text_hash(one) == text_hash(other) != text_hash(Document.from_text("Rice!"))
    assert -(2**63) <= text_hash(one) < 2**63
    assert np.array([text_hash(one)]).dtype == np.int64
