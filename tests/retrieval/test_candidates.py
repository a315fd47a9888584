"""Candidates of an index: its documents, its word search, and an index of words alone."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from graphdoc import Document, DocumentEncoder, DocumentIndex
from graphdoc.errors import RetrievalError
from graphdoc.retrieval.candidates import documents_of_index, index_words, word_rows, word_scores
from graphdoc.retrieval.mining import MiningSettings, mine
from graphdoc.retrieval.word_process import WordProcess, serve

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


@pytest.mark.slow
def test_a_process_of_its_own_finds_the_same(
    index: DocumentIndex, encoder: DocumentEncoder, documents: list[Document], tmp_path: Path
) -> None:
    index.maintain()
    segmented = [encoder.segment_with_text(one) for one in documents]
    with WordProcess(tmp_path / "words", "en") as search:
        assert search.index(segmented) == len(documents)
        expected = word_scores(index, QUERIES, 100)
        for query, text in QUERIES.items():
            assert search.scores(text, ["rice", "tides"], 100) == expected(query, ["rice", "tides"])
        # What it has to say is said by whoever asks, also when it has ended.
        with pytest.raises(RetrievalError, match="k=-2"):
            search.scores("sea", [], -1)
        with pytest.raises(RetrievalError, match="ended"):
            search.scores("sea", [], 1)


def test_messages_of_the_process(tmp_path: Path, encoder: DocumentEncoder, documents: list[Document]) -> None:
    lines = [word_rows(encoder.segment_with_text(documents[0])), None, {"query": "sea", "positives": [], "depth": 5}]
    answers = io.StringIO()
    serve(str(tmp_path / "words"), "en", io.StringIO("".join(json.dumps(line) + "\n" for line in lines)), answers)
    first, second = map(json.loads, answers.getvalue().splitlines())
    assert first == {"documents": 1}
    assert list(second["scores"]) == ["tides"]
    answers = io.StringIO()
    serve(str(tmp_path / "words"), "en", io.StringIO("null\n"), answers)
    assert "holds an index" in json.loads(answers.getvalue())["error"]


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
