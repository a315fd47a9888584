"""CoLDE in the user's hands: the readout of sections on real documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typed import Backbones, Documents, Encoders

from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import SettingsError
from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.document_graph import graph_of_sections
from graphdoc.graphs.kinds import EdgeKind
from graphdoc.graphs.layout import section_ids

COLDE: dict[str, Any] = {
    "readout": "sections",
    "graph_layers": 0,
    "projection_size": None,
    "structural_embeddings": True,
    "structural_sections": 3,
    "structural_chunks": 6,
    "readout_settings": {"section_lstm_size": 10, "section_projection_size": 8},
}
ON_A_GRAPH: dict[str, Any] = {**COLDE, "graph_layers": 1, "projection_size": 16, "structural_embeddings": False}


@pytest.fixture(scope="module")
def make(tiny_encoder: Encoders) -> Encoders:
    """Makes CoLDE on a tiny backbone, with tables and weights that show."""

    def make(backbone: str = "bert", **settings: Any) -> DocumentEncoder:
        own = COLDE["readout_settings"] | settings.pop("readout_settings", {})
        encoder = tiny_encoder(backbone, **{**COLDE, **settings, "readout_settings": own})
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
def colde(make: Encoders) -> DocumentEncoder:
    return make()


@pytest.mark.parametrize(
    "settings", [{}, ON_A_GRAPH, {"readout_settings": {"section_aggregation": "mean"}, "unit": "chunk"}]
)
@torch.no_grad()
def test_levels_and_that_everything_survives_saving(
    make: Encoders, structured: Documents, tmp_path: Path, settings: dict[str, Any]
) -> None:
    encoder, width = make(**settings), settings.get("projection_size") or 24
    levels = {level: encoder.encode(structured, level=level) for level in ("document", "section", "passage")}  # type: ignore[call-overload]
    documents, sections = levels["document"], levels["section"]
    assert documents.shape == (3, 8) == (3, encoder.hidden_size) and encoder.encode([]).shape == (0, 8)
    np.testing.assert_allclose(np.linalg.norm(documents, axis=1), 1, atol=1e-6)
    assert [one.shape for one in sections] == [(3, 8), (2, 8), (1, 8)]
    assert [encoder.vector_size(level) for level in levels] == [8, 8, width]  # type: ignore[arg-type]
    # Documents are one section, and sections are their own; a document of one section is that section.
    segmented = [encoder.segment(document) for document in structured]
    whole, split = (
        encoder.model(GraphBatch.from_documents(segmented, encoder.model.config.graph, split=flag))
        for flag in (False, True)
    )
    np.testing.assert_allclose(documents, whole.documents.numpy(), atol=1e-5)
    np.testing.assert_allclose(np.concatenate(sections), split.sections.numpy(), atol=1e-5)
    np.testing.assert_allclose(sections[2][0], documents[2], atol=1e-6)
    assert float((split.documents - whole.documents).abs().max()) > 1e-2
    for number, document in enumerate(structured):
        np.testing.assert_allclose(encoder.encode(document), documents[number], atol=1e-5)
        np.testing.assert_allclose(encoder.encode(document, level="section"), sections[number], atol=1e-5)

    encoder.save_pretrained(tmp_path / "model")
    loaded = DocumentEncoder.from_pretrained(tmp_path / "model", device="cpu")
    assert loaded.model.config.describe() == encoder.model.config.describe()
    for level, expected in levels.items():
        for one, other in zip(loaded.encode(structured, level=level), expected, strict=True):  # type: ignore[call-overload]
            assert (one == other).all()
    theirs, own = loaded.compare(*structured[:2]).to_dict(), encoder.compare(*structured[:2]).to_dict()
    assert {**theirs, "model": None} == {**own, "model": None}
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert ("| unit | chunk |" in card) == ("unit" in settings)
    assert ("| structural_embeddings | true |" in card) == (settings is not ON_A_GRAPH)


class TestComparison:
    @torch.no_grad()
    def test_attention_between_documents_is_that_between_sections(self, make: Encoders, structured: Documents) -> None:
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
        self, colde: DocumentEncoder, structured: Documents
    ) -> None:
        encoded = colde.encode_levels(structured[0])
        assert encoded.attention is not None
        segmented = colde.segment(structured[0])
        output = colde.model(GraphBatch.from_documents([segmented], "full", split=True), output_attentions=True)
        matrix = encoded.attention.within()
        found = matrix[:, output.chunk_pairs[1], output.chunk_pairs[0]]
        np.testing.assert_allclose(found, output.chunk_attention.T.numpy(), atol=1e-6)
        np.testing.assert_allclose(matrix.sum(-1), 1, atol=1e-6)
        ids = section_ids([passage.section for passage in segmented.passages])
        looks = (ids[:, None] + 1) % 3 == ids[None]
        assert ((matrix[0] > 0) == looks).all()

    def test_as_json_and_tables(self, colde: DocumentEncoder, structured: Documents, tmp_path: Path) -> None:
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

    def test_models_without_it(self, tiny_encoder: Encoders, make: Encoders, structured: Documents) -> None:
        for encoder in (tiny_encoder("bert"), make(readout_settings={"chunk_attention_heads": 0})):
            comparison = encoder.compare(structured[0], structured[1])
            assert comparison.attention_to_b is None and comparison.attention_to_a is None
            assert comparison.to_dict()["attention"] is None
            assert "attention_to_b" not in comparison.to_frame()
        with pytest.raises(SettingsError, match="chunk_attention_heads"):
            make(readout_settings={"chunk_attention_heads": 0}).attention(structured[0])


class TestAttention:
    @pytest.mark.parametrize("layers", [0, 2])
    def test_chunkwise_attention_is_the_last_layer(
        self, make: Encoders, structured: Documents, layers: int, tmp_path: Path
    ) -> None:
        encoder = make(graph_layers=layers, projection_size=16)
        table = encoder.attention(structured[0])
        assert table.layers == list(range(layers + 1))
        assert table.readout_layer == layers
        assert table.is_chunkwise
        frame = table.to_frame()
        np.testing.assert_allclose(frame.groupby(["layer", "head", "target"])["weight"].sum(), 1, atol=1e-5)
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


def test_chunks_fill_what_the_encoder_reads(make: Encoders, structured: Documents, backbone_folder: Backbones) -> None:
    encoder = make(unit="chunk", passage_tokens=40)
    segmented = encoder.segment(structured[0])
    assert segmented.passages == encoder.segmenter.chunks(structured[0], 40).passages
    assert max(len(ids) for ids in segmented.token_ids) > 36
    # As many tokens as the paper has unless told otherwise.
    usual = DocumentEncoder.from_backbone(backbone_folder("bert"), device="cpu", **COLDE, unit="chunk")
    assert usual.model.config.passage_tokens == 80
