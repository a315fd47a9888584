from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.similarity.encoded_document import section_vectors

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
