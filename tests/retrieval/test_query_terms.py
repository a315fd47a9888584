"""Words of whole documents: the cosine of their weights against its formula, and what an index makes of it."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as some
from typed import Documents

from graphdoc import Document, DocumentIndex
from graphdoc.retrieval.terms import QueryTerms
from graphdoc.segmentation.term_weights import TermCounts, TermWeights

TEXTS = some.lists(some.text("abcdef", max_size=30).map(list), min_size=1, max_size=6)


def cosine(first: Counter[str], second: Counter[str], collection: list[Counter[str]]) -> dict[str, float]:
    """The formula, word by word: what every word adds."""

    def weights(document: Counter[str]) -> dict[str, float]:
        rare = {
            word: math.log((1 + len(collection)) / (1 + sum(word in one for one in collection))) for word in document
        }
        weights = {word: count**0.75 * (1 + rare[word]) for word, count in document.items()}
        length = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
        return {word: weight / length for word, weight in weights.items()}

    one, other = weights(first), weights(second)
    return {word: one[word] * other[word] for word in one if word in other}


@given(TEXTS, some.text("abcdefg", max_size=30).map(list))
def test_the_cosine_is_that_of_the_formula_and_its_terms_add_up(texts: list[list[str]], asked: list[str]) -> None:
    counted = [Counter(text) for text in texts]
    weights = TermWeights([TermCounts.unpacked(TermCounts.of(one).packed()) for one in counted])
    query = QueryTerms([(term, term.upper(), count) for term, count in Counter(asked).items()], weights)
    for document in counted:
        expected = cosine(Counter(asked), document, counted)
        assert query.cosine(TermCounts.of(document)) == pytest.approx(sum(expected.values()))
        terms = query.explain(TermCounts.of(document), len(texts))
        assert {part.term.lower(): part.part for part in terms} == pytest.approx(expected)
        for part in terms:
            holding = sum(part.term.lower() in one for one in counted)
            assert (part.frequency, part.document_frequency) == (document[part.term.lower()], holding)


def test_a_document_is_searched_for_by_all_of_its_words(read_index: DocumentIndex, documents: Documents) -> None:
    counted = {one.id: Counter(read_index._store.tokens(f"{one.title} {text_of(one)}")) for one in documents}
    asked = documents[0]
    hits = read_index.search(asked, by="words")
    expected = {
        id: sum(cosine(counted[asked.id], other, list(counted.values())).values())
        for id, other in counted.items()
        if id != asked.id
    }
    assert {hit.id: hit.score for hit in hits} == pytest.approx({id: score for id, score in expected.items() if score})
    for hit in hits:
        assert sum(part.part for part in hit.explain().words) == pytest.approx(hit.score)


def text_of(document: Document) -> str:
    return " ".join(f"{section.heading} {section.text}" for section in document.sections)
