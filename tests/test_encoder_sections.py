"""CoLDE in the user's hands: the readout of sections on real documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import SettingsError
from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.document_graph import graph_of_sections
from graphdoc.graphs.kinds import EdgeKind
from graphdoc.graphs.layout import section_ids
from graphdoc.vectors.folder import Manifest, read_vectors

EncoderFactory = Callable[..., DocumentEncoder]
COLDE: dict[str, Any] = {
    "readout": "sections",
    "graph_layers": 0,
    "projection_size": None,
    "structural_embeddings": True,
    "structural_sections": 3,
    "structural_chunks": 6,
    "section_lstm_size": 10,
    "section_projection_size": 8,
}
ON_A_GRAPH: dict[str, Any] = {**COLDE, "graph_layers": 1, "projection_size": 16, "structural_embeddings": False}


@pytest.fixture(scope="module")
def make(tiny_encoder: EncoderFactory) -> EncoderFactory:
    """Makes CoLDE on a tiny backbone, with tables and weights that show."""

    def make(backbone: str = "bert", **settings: Any) -> DocumentEncoder:
        encoder = tiny_encoder(backbone, **{**COLDE, **settings})
        draw = torch.Generator().manual_seed(2)
        with torch.no_grad():
            for table in (
                encoder.model.structural_embeddings.parameters() if encoder.model.structural_embeddings else ()
            ):
                table.copy_(torch.randn(table.shape, generator=draw))
            for parameter in encoder.model.readout.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.4)
        return encoder

    return make


@pytest.fixture(scope="module")
def colde(make: EncoderFactory) -> DocumentEncoder:
    return make()


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a @ b.T) / np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))


class TestEncoding:
    @pytest.mark.parametrize("settings", [{}, ON_A_GRAPH, {"chunk_attention_heads": 0, "section_aggregation": "mean"}])
    def test_levels(self, make: EncoderFactory, structured: list[Document], settings: dict[str, Any]) -> None:
        encoder = make(**settings)
        width = settings.get("projection_size") or 24
        documents = encoder.encode(structured)
        assert documents.shape == (3, 8) == (3, encoder.hidden_size)
        assert encoder.encode([]).shape == (0, 8)
        np.testing.assert_allclose(np.linalg.norm(documents, axis=1), 1, atol=1e-6)
        sections = encoder.encode(structured, level="section")
        assert [one.shape for one in sections] == [(3, 8), (2, 8), (1, 8)]
        passages = encoder.encode(structured, level="passage")
        assert [one.shape[1] for one in passages] == [width] * 3
        assert [encoder.vector_size(level) for level in ("document", "section", "passage")] == [8, 8, width]
        # A document of one section is that section, in training as at inference.
        np.testing.assert_allclose(sections[2][0], documents[2], atol=1e-6)
        for number, document in enumerate(structured):
            np.testing.assert_allclose(encoder.encode(document), documents[number], atol=1e-5)
            np.testing.assert_allclose(encoder.encode(document, level="section"), sections[number], atol=1e-5)

    @torch.no_grad()
    def test_documents_are_one_section_and_sections_are_their_own(
        self, colde: DocumentEncoder, structured: list[Document]
    ) -> None:
        segmented = [colde.segment(document) for document in structured]
        whole = colde.model(GraphBatch.from_documents(segmented, "full"))
        np.testing.assert_allclose(colde.encode(structured), whole.documents.numpy(), atol=1e-6)
        split = colde.model(GraphBatch.from_documents(segmented, "full", split=True))
        found = np.concatenate(colde.encode(structured, level="section"))
        np.testing.assert_allclose(found, split.sections.numpy(), atol=1e-6)
        assert float((split.documents - whole.documents).abs().max()) > 1e-2

    @pytest.mark.parametrize(("level", "width"), [("section", 8), ("passage", 24)])
    def test_in_bulk(
        self, colde: DocumentEncoder, structured: list[Document], tmp_path: Path, level: Any, width: int
    ) -> None:
        manifest = colde.encode_to_disk(structured, tmp_path / "vectors", level=level)
        assert manifest.hidden_size == width
        assert manifest.model["readout"] == "sections"
        _, vectors = read_vectors(tmp_path / "vectors")
        parts = colde.encode(structured, level=level)
        np.testing.assert_allclose(vectors, np.concatenate(parts), atol=1e-6)
        assert Manifest.read(tmp_path / "vectors").model == manifest.model

    def test_what_is_said_of_it(
        self, colde: DocumentEncoder, make: EncoderFactory, tiny_encoder: EncoderFactory
    ) -> None:
        described = colde.describe()
        assert described["chunk_attention_heads"] == 4
        assert described["structural_chunks"] == 6
        plain = tiny_encoder().describe()
        assert not {"section_lstm_size", "structural_embeddings", "unit"} & plain.keys()
        assert make(unit="chunk", passage_tokens=40).describe()["unit"] == "chunk"


class TestSaving:
    @pytest.mark.parametrize("settings", [{}, ON_A_GRAPH, {"section_aggregation": "mean", "unit": "chunk"}])
    def test_everything_survives(
        self, make: EncoderFactory, structured: list[Document], tmp_path: Path, settings: dict[str, Any]
    ) -> None:
        encoder = make(**settings)
        encoder.save_pretrained(tmp_path / "model")
        loaded = DocumentEncoder.from_pretrained(tmp_path / "model", device="cpu")
        assert loaded.model.config.describe() == encoder.model.config.describe()
        for level in ("document", "section", "passage"):
            for found, expected in zip(
                loaded.encode(structured, level=level), encoder.encode(structured, level=level), strict=True
            ):
                assert (found == expected).all()
        theirs, own = loaded.compare(*structured[:2]).to_dict(), encoder.compare(*structured[:2]).to_dict()
        assert {**theirs, "model": None} == {**own, "model": None}
        card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
        assert f"| section_aggregation | {settings.get('section_aggregation', 'lstm')} |" in card
        assert "| chunk_attention_heads | 4 |" in card
        assert ("| unit | chunk |" in card) == ("unit" in settings)
        assert ("| structural_embeddings | true |" in card) == (settings is not ON_A_GRAPH)
        assert "| vector | 8 numbers |" in card


class TestComparison:
    @pytest.mark.parametrize("settings", [ON_A_GRAPH, {"section_aggregation": "mean"}])
    def test_three_levels(self, make: EncoderFactory, structured: list[Document], settings: dict[str, Any]) -> None:
        encoder = make(**settings)
        comparison = encoder.compare(structured[0], structured[1])
        documents = encoder.encode(structured[:2])
        assert comparison.document == pytest.approx(cosine(documents[:1], documents[1:])[0, 0], abs=1e-5)
        for level, scores in (("section", comparison.sections), ("passage", comparison.passages)):
            a, b = encoder.encode(structured[:2], level=level)  # type: ignore[arg-type]
            np.testing.assert_allclose(scores, cosine(a, b), atol=1e-5)
        for contributions in (comparison.passage_contributions, comparison.section_contributions):
            assert contributions.sum() == pytest.approx(comparison.document, abs=1e-5)
        assert comparison.passages.shape != comparison.sections.shape

    @torch.no_grad()
    def test_attention_between_documents_is_that_between_sections(
        self, make: EncoderFactory, structured: list[Document]
    ) -> None:
        """Two documents in one, as consecutive sections: the layer itself gives what the comparison shows."""
        encoder = make(structural_embeddings=False)
        comparison = encoder.compare(structured[0], structured[1])
        a, b = (encoder.encode(document, level="passage") for document in structured[:2])
        ids = [0] * len(a) + [1] * len(b)
        batch = GraphBatch.from_graphs([graph_of_sections(ids)], section_ids=np.array(ids))
        passages = torch.from_numpy(np.concatenate([a, b]))
        read = encoder.model.readout(passages, passages, batch, True)
        matrix = np.zeros((4, len(ids), len(ids)))
        matrix[:, read.chunk_pairs[1], read.chunk_pairs[0]] = read.chunk_attention.T.numpy()
        np.testing.assert_allclose(comparison.attention_to_b, matrix[:, : len(a), len(a) :], atol=1e-5)
        np.testing.assert_allclose(comparison.attention_to_a, matrix[:, len(a) :, : len(a)], atol=1e-5)
        np.testing.assert_allclose(comparison.attention_to_b.sum(-1), 1, atol=1e-9)
        assert float(comparison.attention_to_b.std()) > 0.02

    @torch.no_grad()
    def test_attention_within_a_document_is_between_its_consecutive_sections(
        self, colde: DocumentEncoder, structured: list[Document]
    ) -> None:
        encoded = colde.encode_levels(structured[0])
        assert encoded.attention is not None
        segmented = colde.segment(structured[0])
        output = colde.model(GraphBatch.from_documents([segmented], "full", split=True), output_attention=True)
        matrix = encoded.attention.within()
        found = matrix[:, output.chunk_pairs[1], output.chunk_pairs[0]]
        np.testing.assert_allclose(found, output.chunk_attention.T.numpy(), atol=1e-6)
        np.testing.assert_allclose(matrix.sum(-1), 1, atol=1e-6)
        ids = section_ids([passage.section for passage in segmented.passages])
        looks = (ids[:, None] + 1) % 3 == ids[None]
        assert ((matrix[0] > 0) == looks).all()

    def test_as_json_and_tables(self, colde: DocumentEncoder, structured: list[Document], tmp_path: Path) -> None:
        comparison = colde.compare(structured[0], structured[1])
        path = comparison.to_json(tmp_path / "comparison.json")
        attention = json.loads(path.read_text(encoding="utf-8"))["attention"]
        assert attention["heads"] == 4
        a, b = (len(encoded.segmented.passages) for encoded in (comparison.a, comparison.b))
        shapes = {"a": (4, a, a), "b": (4, b, b), "a_to_b": (4, a, b), "b_to_a": (4, b, a)}
        assert {name: np.shape(attention[name]) for name in shapes} == shapes
        assert attention.keys() == shapes.keys() | {"heads"}
        np.testing.assert_allclose(attention["a_to_b"], comparison.attention_to_b, atol=1e-6)
        np.testing.assert_allclose(attention["b"], comparison.b.attention.within(), atol=1e-6)

        pairs = comparison.to_frame("passage")
        chosen = pairs[(pairs["a"] == 1) & (pairs["b"] == 2)].iloc[0]
        assert chosen["attention_to_b"] == pytest.approx(comparison.attention_to_b[:, 1, 2].mean())
        assert chosen["attention_to_a"] == pytest.approx(comparison.attention_to_a[:, 2, 1].mean())
        assert "attention_to_b" not in comparison.to_frame("section")
        assert "<html" in comparison.to_html()
        within = colde.compare(structured[0])
        assert within.document == pytest.approx(1) and within.to_dict()["attention"].keys() == {"heads", "a"}

    def test_models_without_it(
        self, tiny_encoder: EncoderFactory, make: EncoderFactory, structured: list[Document]
    ) -> None:
        for encoder in (tiny_encoder("bert"), make(chunk_attention_heads=0)):
            comparison = encoder.compare(structured[0], structured[1])
            assert comparison.attention_to_b is None and comparison.attention_to_a is None
            assert comparison.to_dict()["attention"] is None
            assert "attention_to_b" not in comparison.to_frame()
        with pytest.raises(SettingsError, match="chunk_attention_heads"):
            make(chunk_attention_heads=0).attention(structured[0])

    def test_sentences_have_the_place_of_their_passage(
        self, colde: DocumentEncoder, structured: list[Document]
    ) -> None:
        encoded = colde.encode_levels(structured[0], sentences=True)
        segmented = encoded.segmented
        assert encoded.sentences is not None and encoded.sentence_vectors is not None
        # A passage of one sentence is that sentence, in the same place.
        same = [
            (row, segmented.passages.index(passage))
            for row, span in enumerate(encoded.sentences)
            for passage in segmented.passages
            if (passage.section, passage.start, passage.end) == (span.section, span.start, span.end)
        ]
        assert any(passage > 0 for _, passage in same)
        for row, passage in same:
            np.testing.assert_allclose(encoded.sentence_vectors[row], encoded.passages[passage], atol=1e-5)


class TestAttention:
    @pytest.mark.parametrize("layers", [0, 2])
    def test_chunkwise_attention_is_the_last_layer(
        self, make: EncoderFactory, structured: list[Document], layers: int, tmp_path: Path
    ) -> None:
        encoder = make(graph_layers=layers, projection_size=16)
        table = encoder.attention(structured[0])
        assert table.layers == list(range(layers + 1))
        assert table.readout_layer == layers
        assert table.is_chunkwise
        frame = table.to_frame()
        sums = frame.groupby(["layer", "head", "target"])["weight"].sum()
        np.testing.assert_allclose(sums, 1, atol=1e-5)
        last = frame[frame["layer"] == layers]
        assert set(last["edge_kind"]) == {EdgeKind.CHUNKWISE.label} == {"chunkwise"}
        assert set(last["head"]) == {0, 1, 2, 3}
        assert set(last["target_kind"]) == set(last["source_kind"]) == {"passage"}
        within = encoder.encode_levels(structured[0]).attention.within()
        np.testing.assert_allclose(table.matrix(layers, 1)[1:, 1:], within[1], atol=1e-6)
        weights = table.document_weights()
        assert weights.sum() == pytest.approx(1)
        np.testing.assert_allclose(weights[1:], within.mean(axis=(0, 1)), atol=1e-6)
        table.plot(tmp_path / "attention.png")
        assert (tmp_path / "attention.png").stat().st_size > 5_000


def test_chunks_fill_what_the_encoder_reads(
    make: EncoderFactory, structured: list[Document], backbone_folder: Callable[[str], Path]
) -> None:
    encoder = make(unit="chunk", passage_tokens=40)
    segmented = encoder.segment(structured[0])
    assert segmented.passages == encoder.segmenter.chunks(structured[0], 40).passages
    assert max(len(ids) for ids in segmented.token_ids) > 36
    # As many tokens as the paper has unless told otherwise.
    usual = DocumentEncoder.from_backbone(backbone_folder("bert"), device="cpu", **COLDE, unit="chunk")
    assert usual.model.config.passage_tokens == 80


def test_classes_are_told_from_the_vector_of_the_whole_document(
    make: EncoderFactory, structured: list[Document], tmp_path: Path
) -> None:
    encoder = make()
    head = encoder.model.add_head(["air", "water"])
    torch.nn.init.normal_(head.linear.weight)
    vectors = encoder.encode(structured)
    encoder.save_pretrained(tmp_path / "model")
    for one in (encoder, DocumentEncoder.from_pretrained(tmp_path / "model", device="cpu")):
        for prediction, vector in zip(one.predict(structured), vectors, strict=True):
            logits = vector @ head.linear.weight.detach().numpy().T + head.linear.bias.detach().numpy()
            np.testing.assert_allclose(prediction.logits, logits, atol=1e-5)
            (decision,) = prediction.decisions
            place = int(logits.argmax())
            assert decision.label == ["air", "water"][place]
            bias = head.linear.bias[place].item()
            assert float(np.sum(decision.contributions)) == pytest.approx(logits[place] - bias, abs=1e-4)
