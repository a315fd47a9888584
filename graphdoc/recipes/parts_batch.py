"""Graphs of parts of documents, with the token ids or the vectors of their passages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..corpus.passage_vectors import PassageVectors
from ..graphs.batch import GraphBatch, TokenIds
from ..graphs.joined_graphs import JoinedGraphs
from ..sampling.draws import Rows
from ..training.batch import TrainingExample

VectorsOfDocuments = Sequence[npt.NDArray[np.float32]]


def vectors_at(passage_vectors: PassageVectors | None, rows: Sequence[int]) -> VectorsOfDocuments | None:
    """Vectors of the passages of some documents of a corpus, by their rows; None where there are none."""
    return None if passage_vectors is None else [passage_vectors.vectors_of(row) for row in rows]


def batch_of_parts(
    examples: Sequence[TrainingExample],
    parts: Sequence[tuple[int, Rows]],
    graphs: JoinedGraphs,
    passage_vectors: VectorsOfDocuments | None,
    **sections: Any,
) -> GraphBatch:
    """Put the graphs of parts of documents together.

    Args:
        examples: the documents.
        parts: the number of a document, and some of its passages in the order of the nodes.
        graphs: the graphs of the parts.
        passage_vectors: pooled vectors of every document's passages, ``(passages, encoder hidden)`` each, which then
            go along instead of token ids.
        sections: see :meth:`~graphdoc.graphs.batch.GraphBatch.from_graphs`.
    """
    if passage_vectors is not None:
        vectors = [passage_vectors[number][rows] for number, rows in parts]
        return GraphBatch.from_graphs(graphs, (), passage_vectors=vectors, **sections)
    token_ids: list[TokenIds] = []
    for number, rows in parts:
        token_ids.extend(examples[number].token_ids[row] for row in rows.tolist())
    return GraphBatch.from_graphs(graphs, tuple(token_ids), **sections)
