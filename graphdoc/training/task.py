"""What a run trains for: one task, or several whose gradients add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader

from .objectives import Objective


class TaskData:
    """Where the batches of a task come from.

    Attributes:
        loader: gives this process's share of every batch.
        documents: documents to train on.
    """

    loader: DataLoader[Any]
    documents: int

    def record(self) -> dict[str, Any]:
        """What a run writes down about its data."""
        raise NotImplementedError

    def begin_epoch(self, epoch: int) -> None:
        """Prepare the batches of an epoch, such as views or negatives that the model chooses.

        Every process calls it before the first batch of an epoch, and a resumed run before the first batch that is
        left. What a resumed run could not compute again belongs into :meth:`state`.
        """

    def state(self) -> dict[str, Any] | None:
        """The place in the data for a checkpoint; None where the number of the step says it all."""
        return None

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Go on from a place that :meth:`state` gave."""


@dataclass(frozen=True)
class Task:
    """One of the things that a model is trained for.

    Args:
        name: what its metrics are called where there are several tasks: ``name/loss``.
        data: where its batches come from.
        objective: what the loss looks at, and the loss.
        weight: factor of its gradient.
    """

    name: str
    data: TaskData
    objective: Objective
    weight: float = 1.0
