"""A weighted mean of the passage nodes with learned weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from ...graphs.batch import GraphBatch
from ..grouped_softmax import softmax_by_group
from .mean import WeightedReadout

if TYPE_CHECKING:
    from ..configuration import DocumentConfig


class AttentionReadout(WeightedReadout):
    """Learns one score for every passage node; weights are the softmax over the passages of a document."""

    description: ClassVar[str] = "a mean of the passages after the graph, with weights that the readout learned"

    def __init__(self, config: DocumentConfig) -> None:
        super().__init__(config)
        self.score = nn.Linear(config.node_size, 1)

    @property
    def own_attention(self) -> str:
        """Its weights."""
        return "the weights of the readout"

    def weights(self, passages: Tensor, batch: GraphBatch) -> Tensor:
        """The softmax of the scores, ``(passages,)``."""
        scores: Tensor = self.score(passages).squeeze(-1)
        return softmax_by_group(scores, batch.rows.document_of, len(batch))
