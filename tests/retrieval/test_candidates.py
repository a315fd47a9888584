"""Candidates of an index: its documents, its word search, and an index of words alone."""

from __future__ import annotations

import numpy as np
import pytest

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.retrieval import candidates
from graphdoc.retrieval.candidates import PassageWords, documents_of_index, index_words, word_rows, word_scores
from graphdoc.retrieval.mining import MiningSettings, mine

QUERIES = {"a": "spring tides of the sea", "b": "steamed rice", "c": "wood"}


def test_documents_are_those_of_the_index(index: DocumentIndex, documents: list[Document]) -> None:
    copy = Document("copy", documents[0].sections, title="Another title")
    index.update([copy])
    found = documents_of_index(index)
    assert sorted(found.ids) == sorted([*(one.id for one in documents), "copy"])
    assert found.vectors is not None
    expected = index.encoder.encode([*documents, copy], normalize=True)
    for one, vector in zip([*documents, copy], expected, strict=True):
        np.testing.assert_allclose(found.vectors[found.rows[one.id]], vector, atol=1e-5)
    groups = {id: found.groups[row] for id, row in found.rows.items()}
    assert groups["copy"] == groups[documents[0].id]
    assert len(set(groups.values())) == len(documents)
    assert found.similarity == "cosine"
    assert documents_of_index(index, vectors=False).vectors is None


def test_word_scores_are_those_of_a_search(index: DocumentIndex) -> None:
    scores = word_scores(index, QUERIES, 1)
    hits = {hit.id: hit.score for hit in index.search(QUERIES["a"], 4, by="words")}
    assert scores("a", ["rice"]) == pytest.approx(hits)
    assert set(hits) == {"tides", "marsh"}


def test_a_positive_that_was_not_found_has_its_score(index: DocumentIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = word_scores(index, QUERIES, 10)("a", [])
    found = DocumentIndex.scores

    def only_the_best(self: DocumentIndex, query: str, k: int = 10, **settings: str) -> dict[str, dict[str, float]]:
        (scores,) = found(self, query, k, **settings).values()
        return {"words": scores if "where" in settings else dict([max(scores.items(), key=lambda one: one[1])])}

    monkeypatch.setattr(DocumentIndex, "scores", only_the_best)
    scores = word_scores(index, QUERIES, 10)
    assert len(scores("a", [])) == 1
    assert scores("a", ["tides", "marsh", "rice"]) == pytest.approx(whole)


def test_an_index_of_words_alone_finds_the_same(
    index: DocumentIndex, encoder: DocumentEncoder, documents: list[Document]
) -> None:
    index.maintain()
    rows = [word_rows(encoder.segment_with_text(one)) for one in documents]
    alone = index_words(rows, encoder.model.config.language)
    assert len(alone) == len(documents)
    for text in QUERIES.values():
        assert alone.scores(text, by="words") == index.scores(text, by="words")


def test_words_in_this_process_find_what_an_index_finds(
    index: DocumentIndex, encoder: DocumentEncoder, documents: list[Document]
) -> None:
    index.maintain()
    words = PassageWords([encoder.segment_with_text(one) for one in documents], "en")
    expected = word_scores(index, QUERIES, 100)
    for query, text in QUERIES.items():
        ours, theirs = words.scores(text, ["rice", "tides"], 100), expected(query, ["rice", "tides"])
        assert list(ours) == list(theirs)
        # LanceDB multiplies by k1 + 1, and has another list of stop words.
        shares = [score / theirs[id] for id, score in ours.items()]
        np.testing.assert_allclose(shares, shares[0], rtol=0.02)
    assert words.scores("the of nowhere", ["rice"], 5) == {}


def test_a_positive_below_the_best_passages_has_its_score(
    monkeypatch: pytest.MonkeyPatch, encoder: DocumentEncoder
) -> None:
    monkeypatch.setattr(candidates, "_FEWEST_PASSAGES", 1)
    documents = [Document(f"d{n:03d}", [Section("Tides rise. " + "Salt marsh. " * n)]) for n in range(100)]
    words = PassageWords([encoder.segment_with_text(one) for one in documents], "en")
    few, whole = words.scores("tides", ["d099"], 1), words.scores("tides", [], 100)
    assert len(few) < len(whole) == 100 and "d099" not in words.scores("tides", [], 1)
    assert {id: whole[id] for id in few} == few


def test_negatives_of_an_index(index: DocumentIndex) -> None:
    found = documents_of_index(index)
    vectors = index.encoder.encode_query(list(QUERIES.values()))
    positives = {"a": ["tides"], "b": ["rice"], "c": ["lathe"]}
    options = MiningSettings("both", margin=None, mask_similar=None)
    lists = mine(found, positives, options, words=word_scores(index, QUERIES, 100), vectors=vectors)
    for query, ids in positives.items():
        assert set(lists.lists[query]) == set(found.ids) - set(ids)
    words = mine(found, positives, MiningSettings("words", margin=None), words=word_scores(index, QUERIES, 100))
    assert words.lists["a"] == ("marsh",)
