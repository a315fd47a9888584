from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typed import Documents, Encoders

from graphdoc.analysis.attention import CSV_COLUMNS, AttentionTable
from graphdoc.analysis.projection import order_of, project, sample_rows
from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import EvaluationError, GraphdocError
from graphdoc.registry import GRAPH_KINDS, READOUTS


@pytest.fixture(scope="module")
def table(tiny_encoder: Encoders, structured: Documents) -> AttentionTable:
    return tiny_encoder(graph_kind="hierarchical", readout="attention", graph_heads=4).attention(structured[0])


def shows_readout(encoder: DocumentEncoder, document: Document) -> bool:
    """Whether the readout weighs passages after the graph, or lets them look at each other."""
    output = encoder.run([encoder.segment(document)], output_attentions=True).output
    weighs = output.readout_weights is not None and not encoder.model.readout.reads_initial_nodes
    return weighs or output.chunk_attention is not None


@pytest.mark.parametrize(
    ("kind", "readout", "layers"),
    [
        *((kind, "attention", 2) for kind in GRAPH_KINDS),
        *(("full", readout, layers) for readout in READOUTS for layers in (0, 1)),
    ],
)
def test_weights_of_one_target_sum_to_one(
    tiny_encoder: Encoders, structured: Documents, kind: str, readout: str, layers: int
) -> None:
    encoder = tiny_encoder(graph_kind=kind, readout=readout, graph_layers=layers)
    for document in structured:
        table = encoder.attention(document)
        frame = table.to_frame()
        np.testing.assert_allclose(frame.groupby(["layer", "head", "target"])["weight"].sum(), 1, atol=1e-5)
        has_readout = not layers or shows_readout(encoder, document)
        assert table.layers == list(range(layers + has_readout))
        assert table.readout_layer == (layers if has_readout else None)
        assert table.graph_layers == list(range(layers))
        assert table.document_weights().sum() == pytest.approx(1, abs=1e-5) and len(table) == len(frame)


def test_dropout_and_training_mode_change_nothing(tiny_encoder: Encoders, structured: Documents) -> None:
    encoder = tiny_encoder()
    expected, vector = encoder.attention(structured[0]), encoder.encode(structured[0])
    encoder.model.train()
    encoder.model.passage_encoder.eval()
    np.testing.assert_array_equal(encoder.attention(structured[0]).weight, expected.weight)
    np.testing.assert_array_equal(encoder.encode(structured[0]), vector)
    comparison = encoder.compare(structured[0], structured[1])
    assert comparison.passage_contributions.sum() == pytest.approx(comparison.document, abs=1e-5)
    assert encoder.model.training and encoder.model.graph.training and not encoder.model.passage_encoder.training


@pytest.mark.parametrize("values", [{}, {"lexical": None}])
def test_without_graph_the_table_is_what_passages_add(structured: Documents, values: dict[str, Any]) -> None:
    encoder = DocumentEncoder.from_pretrained("mini", device="cpu", **values)
    for document in structured:
        table = encoder.attention(document)
        frame = table.to_frame()
        vector = encoder.encode(document).astype(np.float64)
        passages = encoder.encode(document, level="passage").astype(np.float64)
        count = len(passages)
        assert frame["edge_kind"].unique().tolist() == ["contribution"] and table.has_contributions
        assert frame["target"].tolist() == [0] * count and frame["source"].tolist() == list(range(1, count + 1))
        assert table.section_of.tolist()[1:] == [one.section for one in table.segmented.passages]
        assert frame["weight"].sum() == pytest.approx(1, abs=1e-6)
        if not encoder.model.config.lexical:
            by_hand = passages @ vector / count / (vector @ vector)
            np.testing.assert_allclose(frame["weight"], by_hand, atol=1e-6)


class TestTable:
    def test_columns_kinds_and_texts(self, table: AttentionTable, structured: Documents) -> None:
        frame = table.to_frame()
        assert list(frame.columns) == [
            *("layer", "head", "source", "target", "edge_kind", "weight", "source_kind", "target_kind"),
            *("source_heading", "target_heading", "source_text", "target_text"),
        ]
        passages = table.segmented.passages
        kinds = ["document", *["passage"] * len(passages), *["section"] * 3]
        texts = [
            structured[0].title,
            *table.segmented.texts,
            *(structured[0].sections[number].heading for number in (0, 2, 3)),
        ]
        for row in frame.itertuples():
            assert row.source_kind == kinds[row.source] and row.target_kind == kinds[row.target]
            assert row.source_text == texts[row.source] and row.target_text == texts[row.target]
            if row.source_kind == "passage":
                assert row.source_heading == structured[0].sections[passages[row.source - 1].section].heading
            expected = {
                ("document", "section"): "document section",
                ("passage", "section"): "section passage",
                ("passage", "passage"): "within section",
            }.get(tuple(sorted((row.source_kind, row.target_kind))), "")
            if row.edge_kind == "readout":
                assert (row.source_kind, row.target_kind) == ("passage", "document")
            elif row.source == row.target:
                assert row.edge_kind == "self loop"
            else:
                assert row.edge_kind == expected
        assert set(frame["head"][frame["edge_kind"] != "readout"]) == {0, 1, 2, 3}

    def test_matrices_and_weights_of_the_document_node(self, table: AttentionTable) -> None:
        whole = table.matrix(0)
        np.testing.assert_allclose(whole.sum(axis=1), 1, atol=1e-5)
        heads = np.stack([table.matrix(0, head) for head in range(4)])
        np.testing.assert_allclose(whole, heads.mean(axis=0), atol=1e-7)
        for negative, layer in ((-1, 1), (-2, 0)):
            np.testing.assert_array_equal(table.matrix(negative), table.matrix(layer))
        row = (table.layer == 1) & (table.head == 2) & (table.source == 1) & (table.target == 2)
        assert table.matrix(1, 2)[2, 1] == pytest.approx(float(table.weight[row][0]))
        readout = table.weight[table.layer == 2]
        np.testing.assert_allclose(table.document_weights()[: len(readout) + 1], [0, *readout])
        # The readout has no heads, so a head means the last graph layer.
        for layer, number in ((None, 1), (0, 0)):
            np.testing.assert_array_equal(table.document_weights(layer, head=3), table.matrix(number, 3)[0])
        assert (table.document_layer(), table.document_layer(head=1), table.document_layer(0)) == (2, 1, 0)
        for layer, head, named in ((3, None, "layer 3"), (-3, None, "layer -3"), (0, 4, "head 4"), (2, 1, "head 1")):
            for call in (table.matrix, table.document_weights):
                with pytest.raises(GraphdocError, match=named):
                    call(layer, head)

    def test_csv(self, table: AttentionTable, tmp_path: Path) -> None:
        with table.to_csv(tmp_path / "attention.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == CSV_COLUMNS and len(rows) == len(table)
        np.testing.assert_allclose([float(row["weight"]) for row in rows], table.weight, rtol=1e-6)


def test_a_readout_before_the_graph_shows_the_attention_of_the_graph_alone(
    tiny_encoder: Encoders, structured: Documents
) -> None:
    encoder = tiny_encoder(readout="initial_mean", graph_layers=2)
    other = tiny_encoder(readout="document_node", graph_layers=2)
    other.model.load_state_dict(encoder.model.state_dict())
    table = encoder.attention(structured[0])
    assert table.layers == [0, 1] and table.readout_layer is None
    np.testing.assert_array_equal(table.weight, other.attention(structured[0]).weight)


def test_neighbours_stay_together() -> None:
    draw = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 20)
    vectors = (np.eye(3, 10)[labels] * 20 + draw.normal(size=(60, 10))).astype(np.float32)
    points = project(vectors)
    assert points.shape == (60, 2)
    distances = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(60)
    assert (labels[distances.argmin(axis=1)] == labels).all()
    np.testing.assert_array_equal(project(vectors), points)
    with pytest.raises(EvaluationError, match="3 documents at least, there are 2"):
        project(np.ones((2, 4)))


def test_sample() -> None:
    np.testing.assert_array_equal(sample_rows(7), np.arange(7))
    rows = sample_rows(5000)
    assert len(rows) == 1000 and (np.diff(rows) > 0).all() and rows[-1] < 5000
    np.testing.assert_array_equal(rows, sample_rows(5000))
    assert (sample_rows(5000, seed=1) != rows).any() and len(sample_rows(50, 10)) == 10


def test_alike_documents_stand_together() -> None:
    kinds = np.arange(8) % 2
    order = order_of(np.where(kinds[:, None] == kinds, 0.8, 0.1) + 0.2 * np.eye(8))
    assert sorted(order.tolist()) == list(range(8))
    assert len(set((order[:4] % 2).tolist())) == len(set((order[4:] % 2).tolist())) == 1
