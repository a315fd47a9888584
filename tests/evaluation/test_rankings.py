"""Queries ranked in every way: what the runs hold, and the choice of a weight."""

from __future__ import annotations

import pytest
from small_index import documents as documents
from small_index import encoder as encoder
from small_index import read_index as read_index

from graphdoc import DocumentIndex
from graphdoc.evaluation.rankers import SEARCHES, WEIGHTED, rank_queries

QUERIES = {"a": "spring tides of the sea", "b": "steamed rice", "c": "wood on a lathe"}
QRELS = {"a": {"tides": 2, "marsh": 1}, "b": {"rice": 1}, "c": {"lathe": 1}}


def test_runs_are_those_of_searches(read_index: DocumentIndex) -> None:
    found = rank_queries(read_index, QUERIES, QRELS, k=4, depth=200, folds=3)
    assert list(found.runs) == list(found.milliseconds) == [*SEARCHES, *WEIGHTED]
    ways = {
        "words": {"by": "words", "words_unit": "passage"},
        "words-documents": {"by": "words", "words_unit": "document"},
        "vectors": {"by": "vectors"},
        "vectors-documents": {"by": "vectors", "vectors_unit": "document"},
        "hybrid": {},
    }
    for query, text in QUERIES.items():
        for name, settings in ways.items():
            hits = read_index.search(text, 4, depth=200, **settings)
            assert found.runs[name][query] == pytest.approx({hit.id: hit.score for hit in hits}, abs=1e-5)
            assert list(found.runs[name][query]) == [hit.id for hit in hits]
    assert min(found.milliseconds.values()) > 0


def test_the_weight_is_that_of_words(read_index: DocumentIndex) -> None:
    found = rank_queries(read_index, QUERIES, QRELS, folds=3)
    (weight,) = found.weights.values()
    chosen = weight.fold_weights[weight.folds["b"]]
    units = {"words_unit": "document", "vectors_unit": "document"}
    hits = read_index.search(QUERIES["b"], 4, fusion="weighted", weight=chosen, depth=5000, **units)  # type: ignore[arg-type]
    assert found.runs["documents-weighted"]["b"] == pytest.approx({hit.id: hit.score for hit in hits}, abs=1e-5)


def test_own_documents_are_taken_out_before_rankings_are_joined(read_index: DocumentIndex) -> None:
    found = rank_queries(read_index, QUERIES, QRELS, own={"a": {"tides"}}, folds=3)
    assert all("tides" not in run["a"] for run in found.runs.values())
    few = rank_queries(read_index, QUERIES, QRELS, k=1, folds=4)
    assert not few.weights and list(few.runs["words"]["b"]) == ["rice"]
