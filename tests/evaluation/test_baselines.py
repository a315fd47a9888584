from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError
from graphdoc.evaluation.baselines import has_same_passage_vectors, untrained_mean

EncoderFactory = Callable[..., DocumentEncoder]
BackboneFactory = Callable[[str], Path]


def test_the_untrained_mean_is_that_of_the_backbone(
    tiny_encoder: EncoderFactory, backbone_folder: BackboneFactory, structured: list[Document]
) -> None:
    encoder = tiny_encoder("bert", pooling="mean", passage_words=12, max_passages=3)
    with torch.no_grad():
        for parameter in encoder.model.parameters():
            parameter.add_(0.1)
    baseline = untrained_mean(encoder, backbone_folder("bert"), device="cpu")
    assert baseline.name == "tiny-bert, untrained mean"
    passages = baseline.encode(structured[0], level="passage")
    assert len(passages) == 3
    assert [span.start for span in baseline.segment(structured[0]).passages] == [
        span.start for span in encoder.segment(structured[0]).passages
    ]
    np.testing.assert_allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(baseline.encode(structured[0]), passages.mean(axis=0), atol=1e-6)
    untouched = tiny_encoder("bert", pooling="mean", projection_size=None, graph_layers=0, normalize_passages=True)
    np.testing.assert_allclose(baseline.encode("Rice."), untouched.encode("Rice."), atol=1e-6)


def test_a_backbone_that_is_not_there(tiny_encoder: EncoderFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    encoder = tiny_encoder("bert")
    with pytest.raises(ModelError, match="tiny-bert"):
        untrained_mean(encoder)
    encoder.model.config.backbone = None
    with pytest.raises(ModelError, match="backbone"):
        untrained_mean(encoder)


def test_encoders_that_read_passages_alike(tiny_encoder: EncoderFactory) -> None:
    encoder = tiny_encoder("bert")
    # What lies above the passage encoder plays no part.
    other = tiny_encoder("bert", graph_layers=0, readout="mean")
    assert has_same_passage_vectors(encoder, other)
    for different in ({"max_passages": 1}, {"pooling": "mean"}):
        assert not has_same_passage_vectors(tiny_encoder("bert", **different), encoder)
    with torch.no_grad():
        next(other.model.passage_encoder.parameters()).view(-1)[0] += 1e-3
    assert not has_same_passage_vectors(encoder, other)
