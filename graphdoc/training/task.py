"""What a run trains for: one task, or several whose gradients add up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from .loading import Loader
from .objectives import Objective


class TaskData(ABC):
    """Where the batches of a task come from.

    Attributes:
        loader: gives this process's share of every batch.
        documents: documents to train on.
    """

    loader: Loader
    documents: int

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """What a run writes down about its data."""

    def begin_epoch(self, epoch: int) -> None:  # noqa: B027 (a hook)
        """Prepare the batches of an epoch, such as views or negatives that the model chooses.

        Every process calls it before the first batch of an epoch, and a resumed run before the first batch that is
        left. What a resumed run could not compute again belongs into :meth:`state`; and the loader of such batches may
        not work ahead of the epoch (see :class:`~graphdoc.training.loading.EpochLoader`).
        """

    def state(self) -> dict[str, Any] | None:
        """The place in the data for a checkpoint; None where the number of the step says it all."""
        return None

    def go_on(self, state: Mapping[str, Any]) -> None:  # noqa: B027 (a hook)
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

    def batches(self, first: int) -> Iterator[Any]:
        """This process's share of every batch from a step of the run on; epochs begin on the way."""
        loader = self.data.loader
        length, batches = loader.epoch_steps, loader.batches(first)
        for step in count(first):
            if step == first or (length is not None and step % length == 0):
                self.data.begin_epoch(step // length if length is not None else 0)
            if (batch := next(batches, None)) is None:
                return
            yield batch
