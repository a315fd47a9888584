"""Subtopics of documents that are compared: the same in either order, as data, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from graphdoc import Document, DocumentEncoder
from graphdoc.errors import SettingsError
from graphdoc.inference.learned_subtopics import subtopic_finder
from graphdoc.similarity.encoded_document import pair_subtopics

RICE = " ".join(["Rice is steamed for koji.", "Koji grows on steamed rice.", "The rice cools.", "Koji needs air."] * 3)
TIDE = " ".join(
    ["The tide turns.", "Tide gates close.", "A barrier holds the tide.", "Koji and rice travel by sea."] * 3
)


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Callable[..., DocumentEncoder]) -> DocumentEncoder:
    return tiny_encoder("roberta", graph_layers=0, readout="mean", max_passages=None)


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return [Document.from_text(RICE, id="b"), Document.from_text(TIDE, id="a")]


@pytest.mark.parametrize("by", ["words", "vectors"])
def test_the_order_of_documents_does_not_matter(encoder: DocumentEncoder, documents: list[Document], by: str) -> None:
    forth = encoder.compare(*documents, subtopics=by).subtopics
    back = encoder.compare(*documents[::-1], subtopics=by).subtopics
    assert forth is not None and back is not None

    def partition(clusters: np.ndarray) -> set[frozenset[int]]:
        return {frozenset(np.flatnonzero(clusters == one).tolist()) for one in set(clusters.tolist())}

    turned = np.roll(back.subtopics.clusters, len(back.subtopics.sides[1]))
    assert partition(forth.subtopics.clusters) == partition(turned)
    assert len(partition(turned)) > 2


def test_a_comparison_holds_subtopics_as_data(encoder: DocumentEncoder, documents: list[Document]) -> None:
    comparison = encoder.compare(*documents, subtopics="words", cluster_size=4)
    table = comparison.subtopics
    assert table is not None
    assert comparison.to_dict()["subtopics"] == table.to_dict()
    matrix = comparison.sentences
    assert matrix is not None
    for row in table.rows:
        expected = matrix[np.ix_(row.a, row.b)].mean() if row.holder == "both" else None
        assert row.similarity == pytest.approx(expected, abs=1e-6)


def test_a_receptive_field_takes_the_first_sentences(encoder: DocumentEncoder, documents: list[Document]) -> None:
    table = encoder.compare(*documents, subtopics="words", receptive_field=5).subtopics
    assert table is not None
    assert [len(side) for side in table.subtopics.sides] == [5, 5]
    assert table.beyond == (7, 7)


def test_a_document_of_one_sentence(encoder: DocumentEncoder, documents: list[Document]) -> None:
    for other in (documents[0], None):
        table = encoder.compare("Rice.", other, subtopics="words").subtopics
        assert table is not None
        assert table.subtopics.first == 1
        assert sum(len(row.a) for row in table.rows) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"subtopics": "topics"},
        {"subtopics": "words", "cluster_size": 0},
        {"subtopics": "words", "receptive_field": 0},
    ],
)
def test_bad_settings_are_refused(
    encoder: DocumentEncoder, documents: list[Document], options: dict[str, object]
) -> None:
    name, value = list(options.items())[-1]
    with pytest.raises(SettingsError) as error:
        encoder.compare(*documents, **options)  # type: ignore[arg-type]
    assert name in str(error.value) and str(value) in str(error.value)


def test_what_was_not_asked_for_is_not_there(encoder: DocumentEncoder, documents: list[Document]) -> None:
    comparison = encoder.compare(*documents)
    assert comparison.subtopics is None
    assert comparison.to_dict()["subtopics"] is None
    with pytest.raises(SettingsError, match="sentences"):
        pair_subtopics(comparison.a, comparison.b, "en", subtopic_finder("words", "en"))
