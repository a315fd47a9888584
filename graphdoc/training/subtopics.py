"""The objective of learned subtopics: clusters of the sentences of pairs (SST, eq. 4-6)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..graphs.batch import GraphBatch
from ..graphs.kinds import EdgeKind
from ..losses import Gather, LossOutput, PairedSentences, SubtopicLoss
from ..modeling import DocumentOutput
from .batch import TrainingBatch
from .objectives import Objective


@dataclass(frozen=True)
class SubtopicClusters(Objective):
    """Finds clusters of sentences that are connected, alike for both documents of a pair that is similar.

    Args:
        clusters: the loss of logits of clusters.
    """

    clusters: SubtopicLoss = field(default_factory=SubtopicLoss)

    def rows(self, output: DocumentOutput) -> Tensor:
        """Logits of subtopics, ``(sentences, columns)``."""
        assert output.subtopics is not None, "the model has no head for subtopics"
        return output.subtopics

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss of all pairs, against the target ``label``; ``columns`` is how many clusters each has."""
        pairs = paired_sentences(batch.graphs, batch.targets["columns"])
        return self.clusters(rows, pairs, batch.targets["label"], gather=gather)


def paired_sentences(graphs: GraphBatch, columns: Tensor) -> PairedSentences:
    """The sentences of a batch of pairs, as the loss takes them.

    Args:
        graphs: see :func:`~graphdoc.subtopics.pair_graphs.pair_graphs`.
        columns: ``(pairs,)``, clusters of every pair.
    """
    assert graphs.edge_weights is not None, "edges of similar sentences have weights"
    # Every graph has one node that is no sentence, its first; of its only edge, the self-loop, nothing is left.
    edges = (graphs.edge_index - graphs.document_of[graphs.edge_index] - 1).clamp(min=0)
    weights = torch.where(graphs.edge_kind == EdgeKind.SELF_LOOP, 0.0, graphs.edge_weights)
    is_second = graphs.section_of[graphs.rows.passages] == 1
    return PairedSentences(graphs.rows.document_of, is_second, columns, edges, weights)
