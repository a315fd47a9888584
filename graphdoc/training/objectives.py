"""What a model is trained for: which of its outputs a loss looks at, and the loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor
from torch.nn import functional

from ..losses import Gather, Loss, LossOutput, SupervisedContrastive
from ..modeling import DocumentOutput
from .batch import TrainingBatch


class Objective(Protocol):
    """A loss on something that the model gives for every document alone, so that documents can be taken in slices."""

    def rows(self, output: DocumentOutput) -> Tensor:
        """What the loss looks at, ``(rows, ...)``, document after document."""
        ...

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss over the rows of all documents of a batch."""
        ...


@dataclass(frozen=True)
class ViewContrast:
    """Tells the two views of a document from those of other documents.

    Args:
        contrast: the loss between anchors and candidates.
    """

    contrast: Loss

    def rows(self, output: DocumentOutput) -> Tensor:
        """Document vectors, ``(documents, hidden)``."""
        assert output.documents is not None
        return output.documents

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss between the first half of the rows, the anchors, and the second, their candidates."""
        anchors, candidates = rows.chunk(2)
        output = self.contrast(anchors, candidates, batch.targets, gather=gather)
        return LossOutput(output.loss, {**output.metrics, **describe_vectors(rows.detach())})


@dataclass(frozen=True)
class Classification:
    """Tells the classes of documents, by the logits of a model with a head.

    Args:
        classes: the loss of logits.
    """

    classes: Loss

    def rows(self, output: DocumentOutput) -> Tensor:
        """Logits, ``(documents, classes)``."""
        assert output.logits is not None, "the model has no head"
        return output.logits

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss of the logits against the classes in the batch's targets."""
        return self.classes(rows, batch.targets, gather=gather)


@dataclass(frozen=True)
class SectionContrast:
    """Draws sections of documents of one group together, and apart from those of others (CoLDE, section 3.3).

    The targets of a batch are the groups of its documents; the label of a section is the group of its document.

    Args:
        contrast: the loss over rows with labels.
    """

    contrast: Loss = field(default_factory=SupervisedContrastive)

    def rows(self, output: DocumentOutput) -> Tensor:
        """Section vectors, ``(sections, hidden)``; document vectors for a readout that gives no others."""
        rows = output.documents if output.sections is None else output.sections
        assert rows is not None
        return rows

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss over the sections of all documents."""
        labels = batch.targets
        if len(rows) != len(batch):
            labels = labels[batch.graphs.document_of_section]
        output = self.contrast(rows, labels, gather=gather)
        return LossOutput(output.loss, {**output.metrics, **describe_vectors(rows.detach())})


@dataclass(frozen=True)
class PairSimilarity:
    """Makes documents of a pair alike or not; a batch holds the first of all pairs, then the second in the same order.

    Args:
        similarity: the loss of two vectors and their label.
    """

    similarity: Loss

    def rows(self, output: DocumentOutput) -> Tensor:
        """Document vectors, ``(documents, hidden)``."""
        assert output.documents is not None
        return output.documents

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss of all pairs, whose labels are the batch's targets."""
        first, second = rows.chunk(2)
        return self.similarity(first, second, batch.targets, gather=gather)


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
