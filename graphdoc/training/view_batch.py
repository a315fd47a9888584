"""Batches of documents in two views, as contrastive losses compare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..batching import GraphBatch, TokenIds
from ..graphs import DocumentGraph, graph_of_sections, query_graph
from ..sampling import SubDocuments


class TrainingExample(Protocol):
    """What a view is drawn from: a document that was cut into passages and tokenised."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def group(self) -> int:
        """Equal for copies of one text."""
        ...

    @property
    def sections(self) -> npt.NDArray[np.int64]:
        """Section of every passage, ``(passages,)``."""
        ...

    @property
    def token_ids(self) -> Sequence[TokenIds]:
        """Token ids of every passage, special tokens included."""
        ...


@dataclass(frozen=True, slots=True)
class ViewBatch:
    """Anchors and candidates of the same documents.

    Args:
        graphs: the anchors of all documents, then their candidates, in the same order.
        ids: ids of the documents.
        groups: ``(documents,)``, equal for copies of one text.
    """

    graphs: GraphBatch
    ids: tuple[str, ...]
    groups: Tensor

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.ids)

    @property
    def tokens(self) -> int:
        """Number of tokens, special tokens included; 0 where passage vectors are given."""
        return sum(len(ids) for ids in self.graphs.token_ids)

    def to(self, device: torch.device | str) -> ViewBatch:
        """The same batch with its tensors on another device."""
        return replace(self, graphs=self.graphs.to(device), groups=self.groups.to(device))


def sub_document_batch(
    examples: Sequence[TrainingExample],
    sub_documents: SubDocuments,
    epoch: int,
    *,
    graph_kind: str = "full",
    window: int = 2,
    passage_vectors: Sequence[npt.NDArray[np.float32]] | None = None,
) -> ViewBatch:
    """Split documents into sub-documents and build the graphs of both.

    Edges are those of the graph kind over the passages that a sub-document has, in reading order.

    Args:
        examples: the documents, each of two passages at least.
        sub_documents: how they are split.
        epoch: number of the epoch, for the draw.
        graph_kind: kind of the graphs.
        window: reach of the ``window`` kind.
        passage_vectors: pooled vectors of every document's passages, ``(passages, encoder hidden)`` each, which then
            go along instead of token ids.

    Returns:
        The batch; every passage of every document is in it exactly once.
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
                graphs.append(graph_of_sections(example.sections[rows].tolist(), graph_kind, window=window))
            if passage_vectors is None:
                token_ids.extend(example.token_ids[row] for row in rows.tolist())
            else:
                vectors.append(passage_vectors[number][rows])
    batch = GraphBatch.from_graphs(graphs, tuple(token_ids))
    if passage_vectors is not None:
        batch = replace(batch, passage_vectors=torch.from_numpy(np.concatenate(vectors)))
    return ViewBatch(
        graphs=batch,
        ids=tuple(example.id for example in examples),
        groups=torch.tensor([example.group for example in examples], dtype=torch.int64),
    )
