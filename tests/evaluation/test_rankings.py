"""Queries ranked in every way: what the runs hold, and the choice of a weight."""

from __future__ import annotations

import numpy as np
import pytest
from small_index import documents as documents
from small_index import encoder as encoder
from small_index import read_index as read_index

from graphdoc import DocumentIndex
from graphdoc.evaluation.rankers import HYBRIDS, SEARCHES, fused, rank_queries

QUERIES = {"a": "spring tides of the sea", "b": "steamed rice", "c": "wood on a lathe"}
QRELS = {"a": {"tides": 2, "marsh": 1}, "b": {"rice": 1}, "c": {"lathe": 1}}


def test_runs_are_those_of_searches(read_index: DocumentIndex) -> None:
    found = rank_queries(read_index, QUERIES, QRELS, k=4, depth=200, folds=3)
    assert list(found.runs) == list(found.milliseconds) == [*SEARCHES, *HYBRIDS]
    ways = {
        "words": {"by": "words"},
        "words-documents": {"by": "words", "words_unit": "document"},
        "words-both": {"by": "words", "words_unit": "both"},
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
    words, vectors = found.runs["words"]["b"], found.runs["vectors"]["b"]
    chosen = weight.fold_weights[weight.folds["b"]]
    hits = read_index.search(QUERIES["b"], 4, fusion="weighted", weight=chosen, depth=5000)
    assert found.runs["hybrid-weighted"]["b"] == pytest.approx({hit.id: hit.score for hit in hits}, abs=1e-5)
    only_words = fused(dict(words), dict(vectors), "weighted", 1.0)
    assert max(only_words, key=lambda id: only_words[id]) == "rice"


def test_own_documents_are_taken_out_before_rankings_are_joined(read_index: DocumentIndex) -> None:
    found = rank_queries(read_index, QUERIES, QRELS, own={"a": {"tides"}}, folds=3)
    assert all("tides" not in run["a"] for run in found.runs.values())
    assert max(found.runs["hybrid"]["a"].values()) <= 2 / 61
    few = rank_queries(read_index, QUERIES, QRELS, k=1, folds=4)
    assert not few.weights and list(few.runs["words"]["b"]) == ["rice"]
    assert np.isclose(max(found.runs["hybrid"]["b"].values()), 2 / 61, rtol=0.1)
