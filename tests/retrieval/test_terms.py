"""Terms of texts, and which words of a document say most about it."""

from __future__ import annotations

from collections import Counter

import pytest

from graphdoc import DocumentIndex
from graphdoc.documents.document import Document
from graphdoc.retrieval.terms import best_words, terms_of


def lower(text: str) -> list[str]:
    """The terms of a text: its words in small letters."""
    return text.lower().split()


@pytest.mark.parametrize(
    ("count", "copies"), [(1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (10, 4), (11, 8), (100, 32), (1000, 64)]
)
def test_a_word_is_asked_for_by_how_often_it_is_there(count: int, copies: int) -> None:
    text = "Tide " + "tide " * (count - 1) + "moon"
    found = best_words(text, lower, {}, 100, 60)
    assert Counter(found) == {"Tide": copies, "moon": 1}
    # Copies stand side by side, so that a text of them reads as words with weights.
    assert found == ["Tide"] * copies + ["moon"] or found == ["moon"] + ["Tide"] * copies


def test_the_best_words_are_those_of_the_highest_tf_idf() -> None:
    text = "the the the the quartz tide tide"
    frequencies = {"the": 99, "tide": 50}
    found = best_words(text, lower, frequencies, 100, 2)
    assert list(dict.fromkeys(found)) == ["quartz", "tide"] and Counter(found)["tide"] == 2


def test_word_search_counts_every_copy(read_index: DocumentIndex) -> None:
    once = Document.from_text("tides moon", id="asked")
    often = Document.from_text("tides tides tides tides tides moon", id="asked")
    single = {word: _scores(read_index, word) for word in ("tides", "moon")}
    assert single["tides"] and single["moon"]
    for document, weight in ((once, 1), (often, 4)):
        expected = Counter({id: weight * score for id, score in single["tides"].items()})
        expected.update(single["moon"])
        found = {hit.id: hit.score for hit in read_index.search(document, 10, by="words", words_unit="document")}
        assert found == pytest.approx(dict(expected), abs=1e-3)


def _scores(index: DocumentIndex, word: str) -> dict[str, float]:
    return {hit.id: hit.score for hit in index.search(word, 10, by="words", words_unit="document")}


def test_terms_are_told_apart_whatever_numbers_texts_have() -> None:
    texts = ["tide 907331415926535 tables", "", "907331415926536", "tide"]
    expected = [text.split() for text in texts]
    assert terms_of(texts, str.split) == expected
    assert terms_of([], str.split) == []
