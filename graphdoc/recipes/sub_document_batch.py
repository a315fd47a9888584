"""Batches of sub-documents: two views of every document, as contrastive losses compare them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from ..graphs.batch import GraphBatch, TokenIds
from ..graphs.document_graph import DocumentGraph, graph_of_sections, query_graph
from ..graphs.kinds.kind import GraphKind
from ..sampling import SubDocuments
from ..training.batch import TrainingBatch, TrainingExample


def sub_document_batch(
    examples: Sequence[TrainingExample],
    sub_documents: SubDocuments,
    epoch: int,
    *,
    graph: GraphKind | str | None = "full",
    passage_vectors: Sequence[npt.NDArray[np.float32]] | None = None,
) -> TrainingBatch:
    """Split documents into sub-documents and build the graphs of both.

    Edges are those of the graph kind over the passages that a sub-document has, in reading order.

    Args:
        examples: the documents, each of two passages at least.
        sub_documents: how they are split.
        epoch: number of the epoch, for the draw.
        graph: kind of the graphs; None where vectors depend on no edges.
        passage_vectors: pooled vectors of every document's passages, ``(passages, encoder hidden)`` each, which then
            go along instead of token ids.

    Returns:
        The batch, with the roles ``anchor`` and ``candidate`` and the target ``group``; every passage of every
        document is in it exactly once.
    """
    draws = [sub_documents.draw(example.id, epoch, len(example.sections)) for example in examples]
    graphs: list[DocumentGraph] = []
    token_ids: list[TokenIds] = []
    vectors: list[npt.NDArray[np.float32]] = []
    for view in (0, 1):
        for number, (example, draw) in enumerate(zip(examples, draws, strict=True)):
            rows = draw[view]
            if view == 0 and sub_documents.has_queries:
                graphs.append(query_graph(int(example.sections[rows[0]])))
            else:
                graphs.append(graph_of_sections(example.sections[rows].tolist(), graph))
            if passage_vectors is None:
                token_ids.extend(example.token_ids[row] for row in rows.tolist())
            else:
                vectors.append(passage_vectors[number][rows])
    batch = GraphBatch.from_graphs(
        graphs, tuple(token_ids), passage_vectors=None if passage_vectors is None else vectors
    )
    return TrainingBatch(
        graphs=batch,
        ids=tuple(example.id for example in examples),
        targets={"group": torch.tensor([example.group for example in examples], dtype=torch.int64)},
        roles={"anchor": slice(len(examples)), "candidate": slice(len(examples), None)},
    )
