from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pytest
import torch

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import DocumentError, SettingsError

EncoderFactory = Callable[..., DocumentEncoder]


@pytest.mark.parametrize("readout", ["document_node", "mean"])
def test_a_query_is_its_initial_node(tiny_encoder: EncoderFactory, readout: str) -> None:
    """tanh(W x + b) of the pooled passage (eq. 1), which graph attention would change."""
    encoder = tiny_encoder("bert", readout=readout, graph_layers=2)
    queries = ["Clocks drift.", "The tide came over the wall twice in one winter."]
    (window,) = encoder.windows(queries)
    projection = encoder.model.projection
    weight, bias = (value.detach().numpy() for value in (projection.weight, projection.bias))
    expected = np.tanh(window.passage_vectors.numpy() @ weight.T + bias)
    found = encoder.encode_query(queries)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found - encoder.encode(queries)).max() > 1e-2
    np.testing.assert_allclose(encoder.encode_query(queries[0]), expected[0], atol=1e-5)
    np.testing.assert_allclose(encoder.encode_query(Document.from_text(queries[1])), expected[1], atol=1e-5)
    tensor = encoder.encode_query(queries, output="torch", normalize=True)
    np.testing.assert_allclose(tensor.norm(dim=1), 1, atol=1e-6)
    assert encoder.encode_query([]).shape == (0, 16)


def test_what_is_cut_off_is_reported(tiny_encoder: EncoderFactory, caplog: pytest.LogCaptureFixture) -> None:
    encoder = tiny_encoder("bert", passage_tokens=20)
    long = "The tide came over the wall. " * 20
    with caplog.at_level(logging.WARNING, "graphdoc"):
        found = encoder.encode_query(["Clocks drift.", long])
    assert found.shape == (2, 16)
    (record,) = caplog.records
    assert "1 query" in record.getMessage() and "passage_tokens=20" in record.getMessage()


def test_a_query_without_text(tiny_encoder: EncoderFactory) -> None:
    with pytest.raises(DocumentError) as error:
        tiny_encoder("bert").encode_query(["fine", " "])
    assert "query" in str(error.value)


class TestSimilarity:
    @pytest.mark.parametrize("kind", ["cosine", "dot"])
    def test_is_the_models(self, tiny_encoder: EncoderFactory, kind: str) -> None:
        encoder = tiny_encoder("bert", similarity=kind)
        draw = np.random.default_rng(0)
        a, b = draw.normal(size=(3, 16)).astype(np.float32), draw.normal(size=(5, 16)).astype(np.float32)
        expected = a @ b.T
        if kind == "cosine":
            expected = expected / np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))
        np.testing.assert_allclose(encoder.similarity(a, b), expected, atol=1e-5)
        np.testing.assert_allclose(encoder.similarity(a[0], b.tolist()), expected[:1], atol=1e-5)
        tensors = encoder.similarity(torch.from_numpy(a), torch.from_numpy(b))
        assert isinstance(tensors, torch.Tensor)
        np.testing.assert_allclose(tensors, expected, atol=1e-5)
        assert not encoder.similarity(np.zeros((1, 16)), b).any()

    @pytest.mark.parametrize(("a", "b"), [("x", "y"), (None, 5), (np.zeros((2, 3)), np.zeros((2, 4))), ([], [[1.0]])])
    def test_what_cannot_be_compared(self, tiny_encoder: EncoderFactory, a: object, b: object) -> None:
        with pytest.raises(SettingsError) as error:
            tiny_encoder("bert").similarity(a, b)
        assert "\n" not in str(error.value)
