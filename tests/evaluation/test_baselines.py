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
from graphdoc.evaluation.text_chunks import TOKEN_LIMIT, chunk_encoder, first_chunk_encoder

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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "auto"])
def test_chunks_leave_the_encoder_as_it_was(tiny_encoder: EncoderFactory, dtype: str) -> None:
    encoder = tiny_encoder("bert", dtype=dtype)
    texts = ["Rice is steamed. It is cooled before koji is sown.", "Tides rise."]
    chunks = chunk_encoder(encoder, "mean", 1)
    first = chunks.encode(texts)
    assert chunks.precision.dtype == encoder.precision.dtype
    kinds = {weight.dtype for weight in encoder.model.passage_encoder.transformer.parameters()}
    assert kinds == {getattr(torch, encoder.precision.dtype)}
    before = encoder.encode(texts)
    chunk_encoder(encoder, "cls", None).encode(texts)
    np.testing.assert_array_equal(encoder.encode(texts), before)
    np.testing.assert_array_equal(chunks.encode(texts), first)
    assert type(encoder.model.passage_encoder.pooling).__name__ == "ClsPooling"


def test_encoders_that_read_passages_alike(tiny_encoder: EncoderFactory, backbone_folder: BackboneFactory) -> None:
    encoder = tiny_encoder("bert")
    # What lies above the passage encoder plays no part.
    other = tiny_encoder("bert", graph_layers=0, readout="mean")
    assert has_same_passage_vectors(encoder, other)
    first = first_chunk_encoder(backbone_folder("bert"), device="cpu")
    for different in ({"max_passages": 1}, {"pooling": "mean"}):
        assert not has_same_passage_vectors(tiny_encoder("bert", **different), encoder)
    alike = tiny_encoder("bert", pooling="cls", passage_words=100, max_passages=1)
    assert not has_same_passage_vectors(alike, first)
    with torch.no_grad():
        next(other.model.passage_encoder.parameters()).view(-1)[0] += 1e-3
    assert not has_same_passage_vectors(encoder, other)


@pytest.mark.parametrize("name", ["bert", "roberta", "modernbert"])
def test_the_first_chunk(backbone_folder: BackboneFactory, structured: list[Document], name: str) -> None:
    encoder = first_chunk_encoder(backbone_folder(name), device="cpu")
    limit = 80 - 2 * (name == "roberta")
    document = Document.from_text(" ".join(section.text for section in structured[0].sections) + " Rice." * 90)
    segmented = encoder.segment(document)
    (ids,) = segmented.token_ids
    assert 0.75 * limit <= len(ids) <= limit
    assert segmented.texts[0] == document.text[: len(segmented.texts[0])]
    coverage = segmented.coverage
    assert coverage.encoded_characters == len(segmented.texts[0])
    assert coverage.characters - coverage.encoded_characters == coverage.left_out[TOKEN_LIMIT]
    assert (coverage.encoded_passages, coverage.encoded_tokens) == (1, segmented.passages[0].tokens)
    transformer = encoder.model.passage_encoder.transformer
    with torch.no_grad():
        hidden = transformer(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids))).last_hidden_state
    np.testing.assert_allclose(encoder.encode(document), hidden[0, 0].numpy(), atol=1e-5)
    assert encoder.name == f"tiny-{name}, [CLS]"


def test_short_documents_are_taken_across_sections(backbone_folder: BackboneFactory) -> None:
    encoder = first_chunk_encoder(backbone_folder("bert"), device="cpu")
    document = Document.from_markdown("# A\n\nRice is steamed.\n\n# B\n\nVinegar needs air.")
    segmented = encoder.segment(document)
    assert segmented.texts == ("Rice is steamed.\n\nVinegar needs air.",)
    assert segmented.coverage.left_out == {}
    assert segmented.coverage.share == 1
    vectors = encoder.encode([document, Document.from_text("Rice.")])
    np.testing.assert_allclose(vectors[0], encoder.encode(document), atol=1e-5)
