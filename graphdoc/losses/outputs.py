"""What every contrastive loss takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class LossOutput:
    """A loss and what is worth knowing about it.

    Args:
        loss: this process's loss; the mean over processes is the loss of the whole batch, as data-parallel training
            wants it.
        metrics: numbers to log, without gradient, each for the whole batch when averaged over processes.
    """

    loss: Tensor
    metrics: Mapping[str, Tensor] = field(default_factory=dict)


class ContrastiveLoss(Protocol):
    """A loss between two views of the same documents."""

    def __call__(self, anchors: Tensor, candidates: Tensor, groups: Tensor | None = None) -> LossOutput:
        """Compute the loss of this process's documents against those of all processes.

        Args:
            anchors: ``(documents, hidden)``.
            candidates: ``(documents, hidden)``, row by row the positives of the anchors.
            groups: ``(documents,)``, documents of one group are no negatives of each other.
        """
        ...
