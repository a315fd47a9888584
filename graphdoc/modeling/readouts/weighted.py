"""Readouts: how the nodes of a document become its vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.utils import softmax

from ...graphs.batch import GraphBatch


class Readout(nn.Module):
    """Weighted mean of the passage nodes, or the document node itself.

    Args:
        kind: ``document_node`` takes the document node after the last layer (Graph-RoBERTa, section 2.1); ``mean``
            gives every passage the same weight, as does ``initial_mean``, which is given nodes as they are before the
            graph; ``attention`` learns one score per passage node, softmax over the passages of a document.
        hidden_size: width of a node.
    """

    def __init__(self, kind: str, hidden_size: int) -> None:
        super().__init__()
        self.kind = kind
        self.score = nn.Linear(hidden_size, 1) if kind == "attention" else None

    def forward(self, nodes: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """Read document vectors off the nodes.

        Args:
            nodes: ``(nodes, hidden)``.
            batch: the graphs the nodes belong to; every document has at least one passage.

        Returns:
            Document vectors ``(documents, hidden)``, and the weight of every passage ``(passages,)`` or None.
        """
        if self.kind == "document_node":
            return nodes[batch.is_document], None
        passages = nodes[batch.is_passage]
        document_of = batch.document_of[batch.is_passage]
        if self.score is None:
            weights = 1.0 / torch.bincount(document_of, minlength=len(batch)).to(nodes.dtype)[document_of]
        else:
            weights = softmax(self.score(passages).squeeze(-1), document_of, num_nodes=len(batch))
        return mean_by_group(passages, document_of, len(batch), weights), weights


def mean_by_group(vectors: Tensor, group_of: Tensor, groups: int, weights: Tensor | None = None) -> Tensor:
    """Sum vectors by group under weights that sum to 1 in every group, or take their mean.

    Args:
        vectors: ``(rows, hidden)``.
        group_of: ``(rows,)``.
        groups: number of groups.
        weights: ``(rows,)``; None for the mean.

    Returns:
        ``(groups, hidden)``.
    """
    if weights is None:
        counts = torch.bincount(group_of, minlength=groups).clamp(min=1)
        weights = 1.0 / counts.to(vectors.dtype)[group_of]
    result = torch.zeros(groups, vectors.shape[1], dtype=vectors.dtype, device=vectors.device)
    return result.index_add(0, group_of, vectors * weights.unsqueeze(-1))
