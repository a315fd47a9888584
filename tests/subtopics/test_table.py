"""The table of subtopics: who has them, leading words by hand, and mean similarities."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from graphdoc.segmentation.terms import TermMaker
from graphdoc.subtopics import Subtopics
from graphdoc.subtopics.table import SubtopicTable, leading_words

TEXTS = [
    "Rice is steamed.", "The dam holds rivers.", "Steamed rice cools.",
    "Rivers meet the DNA dam.", "Clocks strike.", "Clocks strike again: a clock.",
]  # fmt: skip
SUBTOPICS = Subtopics.of([0, 1, 0, 1, 2, 2], 3)


def table(**changes: object) -> SubtopicTable:
    similarity = np.arange(36, dtype=float).reshape(6, 6)
    return SubtopicTable.of(
        SUBTOPICS, TEXTS, similarity + similarity.T, "en", **{"by": "words", "cluster_size": 2, **changes}
    )  # type: ignore[arg-type]


def test_every_subtopic_says_who_has_it() -> None:
    rows = table().rows
    assert [(row.number, row.holder, row.a, row.b) for row in rows] == [
        (1, "both", (1,), (0,)), (0, "a", (0, 2), ()), (2, "b", (), (1, 2)),
    ]  # fmt: skip
    assert [row.share_a for row in rows] == [1 / 3, 2 / 3, 0]
    assert [row.share_b for row in rows] == [1 / 3, 0, 2 / 3]
    # Sentence 1 of A and sentence 0 of B, which is the fourth of all.
    assert [row.similarity for row in rows] == [(1 * 6 + 3) + (3 * 6 + 1), None, None]


def test_within_one_document_similarity_is_that_of_all_sentences() -> None:
    own = Subtopics.of([0, 0, 0, 1], 4)
    similarity = np.array([[9, 1, 2, 0], [1, 9, 3, 0], [2, 3, 9, 0], [0, 0, 0, 9.0]])
    made = SubtopicTable.of(own, TEXTS[:4], similarity, "en", by="vectors", cluster_size=3, within=True)
    assert [(row.holder, row.similarity) for row in made.rows] == [("a", 2.0), ("a", None)]


def test_leading_words_are_those_of_class_based_tfidf() -> None:
    found = leading_words(SUBTOPICS, TEXTS, "en", most=3)
    stems = [
        Counter({"rice": 2, "steam": 2, "cool": 1}),
        Counter({"dam": 2, "hold": 1, "river": 2, "meet": 1, "dna": 1}),
        Counter({"clock": 3, "strike": 2}),
    ]
    mean = sum(sum(one.values()) for one in stems) / 3
    total = sum(stems, Counter())
    for words, own in zip(found, stems, strict=True):
        weights = {term: count * np.log1p(mean / total[term]) for term, count in own.items()}
        best = sorted(weights.values(), reverse=True)[: len(words)]
        (terms,) = zip(*(TermMaker("en").terms(word).terms for word in words), strict=True)
        assert [weights[term] for term in terms] == pytest.approx(best)
    assert found[0][0] in ("rice", "steamed")
    assert found[2] == ("clocks", "strike")


def test_everything_is_plain_values_and_sentences_without_words_have_none() -> None:
    values = table(beyond=(4, 0)).to_dict()
    assert (values["beyond"], values["a"], values["b"]) == ([4, 0], [0, 1, 0], [1, 2, 2])
    assert values["rows"][0] == {
        "number": 1, "holder": "both", "words": ["dam", "rivers", "holds", "meet", "DNA"], "a": [1], "b": [0],
        "share_a": 0.333333, "share_b": 0.333333, "similarity": 28.0,
    }  # fmt: skip
    assert leading_words(Subtopics.of([0, 0], 1), ["12 34", "..."], "en") == [()]
