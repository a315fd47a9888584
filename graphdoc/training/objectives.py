"""What a model is trained for: which of its outputs a loss looks at, and the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor
from torch.nn import functional

from ..losses import ContrastiveLoss, LossOutput
from ..modeling import DocumentOutput
from .training_batch import TrainingBatch


class Objective(Protocol):
    """A loss on something that the model gives for every document alone, so that documents can be taken in slices."""

    def rows(self, output: DocumentOutput) -> Tensor:
        """What the loss looks at, ``(rows, ...)``, document after document."""
        ...

    def loss(self, rows: Tensor, batch: TrainingBatch) -> LossOutput:
        """The loss over the rows of all documents of a batch."""
        ...


@dataclass(frozen=True)
class ViewContrast:
    """Tells the two views of a document from those of other documents.

    Args:
        contrast: the loss between anchors and candidates.
    """

    contrast: ContrastiveLoss

    def rows(self, output: DocumentOutput) -> Tensor:
        """Document vectors, ``(documents, hidden)``."""
        assert output.documents is not None
        return output.documents

    def loss(self, rows: Tensor, batch: TrainingBatch) -> LossOutput:
        """The loss between the first half of the rows, the anchors, and the second, their candidates."""
        anchors, candidates = rows.chunk(2)
        output = self.contrast(anchors, candidates, batch.targets)
        return LossOutput(output.loss, {**output.metrics, **describe_vectors(rows.detach())})


def describe_vectors(documents: Tensor) -> dict[str, Tensor]:
    """Length and spread of document vectors, to see a collapse coming.

    Args:
        documents: ``(documents, hidden)``.

    Returns:
        ``embedding_norm``, the mean length; ``spread``, the standard deviation of a coordinate of the unit vectors
        times the root of their width: 1 where directions are evenly spread, 0 where all are the same.
    """
    unit = functional.normalize(documents.float(), dim=-1)
    return {
        "embedding_norm": documents.float().norm(dim=-1).mean(),
        "spread": unit.std(dim=0, correction=0).mean() * documents.shape[1] ** 0.5,
    }
