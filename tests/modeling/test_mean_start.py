"""A start at the mean of the passages: the vectors of the untrained backbone, nearly."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from graphdoc.errors import SettingsError
from graphdoc.graphs.batch import GraphBatch
from graphdoc.modeling import DocumentModel
from graphdoc.modeling.document_model import start_at_mean
from graphdoc.modeling.readouts import mean_by_group
from graphdoc.segmentation.spans import SegmentedDocument

ModelFactory = Callable[..., DocumentModel]
DocumentFactory = Callable[..., SegmentedDocument]

HIDDEN = 24
PARTS = ([0, 0, 0, 1, 1, 2, 2, 2, 2], [0, 0], [0, 1, 1, 2, 2])
SHAPES = [
    {"projection_size": None, "graph_layers": 1, "readout": "mean"},
    {"projection_size": None, "graph_layers": 1, "readout": "document_node"},
    {"projection_size": HIDDEN, "graph_layers": 1, "readout": "document_node"},
    {"projection_size": None, "graph_layers": 0, "readout": "sections", "section_projection_size": HIDDEN},
    {"projection_size": None, "graph_layers": 1, "readout": "sections", "section_projection_size": None},
]


def batch_of(random_document: DocumentFactory) -> GraphBatch:
    return GraphBatch.from_documents(
        [random_document(sections, seed=n) for n, sections in enumerate(PARTS)], "section"
    )


@pytest.mark.parametrize("settings", SHAPES)
@torch.no_grad()
def test_vectors_are_nearly_the_mean_of_passages(
    tiny_model: ModelFactory, random_document: DocumentFactory, settings: dict[str, object]
) -> None:
    kept = {"section_aggregation": "mean", "chunk_attention_heads": 2} if settings["readout"] == "sections" else {}
    model = tiny_model("bert", normalize_passages=True, **settings, **kept)
    batch = batch_of(random_document)
    vectors = functional.normalize(torch.randn(sum(batch.passage_counts), HIDDEN), dim=-1) * 0.3
    means = mean_by_group(functional.normalize(vectors, dim=-1), batch.rows.document_of, batch.rows.counts)

    def cosine() -> float:
        documents = model.encode_graphs(vectors, batch).documents
        assert documents is not None
        return float(functional.cosine_similarity(documents, means).min())

    before = cosine()
    start_at_mean(model)
    assert before < 0.8 < 0.97 < cosine()
    if not settings["graph_layers"]:
        assert cosine() == pytest.approx(1, abs=1e-5)


@torch.no_grad()
def test_with_the_identity_as_skip_connection_there_is_nothing_to_set(
    tiny_model: ModelFactory, random_document: DocumentFactory
) -> None:
    model = tiny_model("bert", projection_size=None, graph_layers=1, readout="mean", skip="identity")
    batch = batch_of(random_document)
    vectors = torch.randn(sum(batch.passage_counts), HIDDEN)
    start_at_mean(model)
    means = mean_by_group(vectors, batch.rows.document_of, batch.rows.counts)
    assert float(functional.cosine_similarity(model.encode_graphs(vectors, batch).documents, means).min()) > 0.97


def test_all_of_it_is_trained_away_from_there(tiny_model: ModelFactory, random_document: DocumentFactory) -> None:
    model = tiny_model(
        "bert", projection_size=HIDDEN, graph_layers=1, readout="sections", section_aggregation="mean",
        section_projection_size=HIDDEN, chunk_attention_heads=2,
    )  # fmt: skip
    start_at_mean(model)
    batch = batch_of(random_document)
    optimizer = torch.optim.Adam([weight for weight in model.parameters() if weight.requires_grad], lr=1e-3)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    for _ in range(2):
        documents = model(batch).documents
        assert documents is not None
        (documents @ documents.T).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    above = [name for name in before if not name.startswith("passage_encoder")]
    moved = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    # What is added to all keys alike changes no softmax.
    assert {name for name in above if name not in moved} <= {"readout.attention.key.bias"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"projection_size": 16}, r"projection_size=16 \(set it to null\)"),
        ({"projection_size": None, "graph_layers": 2}, r"graph_layers=2 \(set it to 1 or 0\)"),
        ({"projection_size": None, "graph_layers": 1, "readout": "attention"}, "readout=attention"),
        (
            {"projection_size": None, "graph_layers": 0, "readout": "sections", "section_projection_size": 8},
            r"section_aggregation=lstm \(set it to mean\) and section_projection_size=8 \(set it to 24\)",
        ),
    ],
)
def test_what_cannot_be_the_identity_is_named(
    tiny_model: ModelFactory, settings: dict[str, object], reason: str
) -> None:
    with pytest.raises(SettingsError, match=f"a start at the mean of passages is not possible with .*{reason}"):
        start_at_mean(tiny_model("bert", **settings))
