from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from graphdoc import DocumentEncoder
from graphdoc.documents.document import Document
from graphdoc.errors import SettingsError
from graphdoc.inference.learned_subtopics import subtopic_finder
from graphdoc.similarity.encoded_document import pair_subtopics, section_vectors

EncoderFactory = Callable[..., DocumentEncoder]


def test_sections_are_means_under_the_weights_and_alike_without_any() -> None:
    passages = np.array([[2, 0], [0, 4], [6, 2], [0, 8]], np.float32)
    rows = np.array([0, 0, 1, 1])
    assert section_vectors(passages, np.array([3, 1, 1, 0], np.float32), rows, 2).tolist() == [[1.5, 1], [6, 2]]
    assert section_vectors(passages, np.array([0, 0, 1, 0], np.float32), rows, 2).tolist() == [[1, 2], [6, 2]]


def test_a_section_that_attention_gives_nothing_has_a_vector(
    tiny_encoder: EncoderFactory, structured: list[Document]
) -> None:
    encoder = tiny_encoder("bert", readout="attention", graph_layers=0)
    with torch.no_grad():
        encoder.model.readout.score.weight.mul_(1e6)
    encoded = encoder.encode_levels(structured[0])
    assert sorted(encoded.weights)[-2:] == [0, 1]
    means = [encoded.passages[encoded.section_rows == row].mean(0) for row in range(len(encoded.section_numbers))]
    alone = encoded.section_rows[encoded.weights.argmax()]
    means[alone] = encoded.passages[encoded.weights.argmax()]
    for found in (encoded.sections, encoder.encode(structured[0], level="section")):
        np.testing.assert_allclose(found, means, atol=1e-6)


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
    table, matrix = comparison.subtopics, comparison.sentences
    assert table is not None and matrix is not None
    assert comparison.to_dict()["subtopics"] == table.to_dict()
    for row in table.rows:
        expected = matrix[np.ix_(row.a, row.b)].mean() if row.holder == "both" else None
        assert row.similarity == pytest.approx(expected, abs=1e-6)
    first = encoder.compare(*documents, subtopics="words", receptive_field=5).subtopics
    assert first is not None and [len(side) for side in first.subtopics.sides] == [5, 5] and first.beyond == (7, 7)


def test_a_document_of_one_sentence(encoder: DocumentEncoder, documents: list[Document]) -> None:
    for other in (documents[0], None):
        table = encoder.compare("Rice.", other, subtopics="words").subtopics
        assert table is not None
        assert table.subtopics.first == 1
        assert sum(len(row.a) for row in table.rows) == 1


def test_bad_settings_are_refused(encoder: DocumentEncoder, documents: list[Document]) -> None:
    for name, value in (("subtopics", "topics"), ("cluster_size", 0), ("receptive_field", 0)):
        with pytest.raises(SettingsError) as error:
            encoder.compare(*documents, **{"subtopics": "words", name: value})  # type: ignore[arg-type]
        assert name in str(error.value) and str(value) in str(error.value)
    comparison = encoder.compare(*documents)
    assert comparison.subtopics is None and comparison.to_dict()["subtopics"] is None
    with pytest.raises(SettingsError, match="sentences"):
        pair_subtopics(comparison.a, comparison.b, "en", subtopic_finder("words", "en"))
