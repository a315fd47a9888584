"""What a recipe is: what is trained, where its batches come from, and how the model is measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..corpus.document import CorpusReport
from .data import EpochLoader, StreamLoader
from .objectives import Objective

# By fewer documents, pairs or queries chance would choose the checkpoint.
FEWEST_TO_CHOOSE = 50


@dataclass(frozen=True)
class RunEvaluation:
    """How a model is measured while it is trained.

    Args:
        measure: measures the model, called by all processes; the numbers by name, those of the first count.
        best: the number by which the best checkpoint is chosen.
        greater_is_better: whether more of it is better.
        at_start: also measure before the first step.
        size: number of documents, pairs or queries that are measured; None where it is not known.
    """

    measure: Callable[[], Mapping[str, float]]
    best: str
    greater_is_better: bool
    at_start: bool = True
    size: int | None = None

    @property
    def chooses(self) -> bool:
        """Whether there is enough to choose the best checkpoint by; otherwise the last one is the result."""
        return self.size is None or self.size >= FEWEST_TO_CHOOSE


class Recipe(ABC):
    """What a run trains: where its batches come from, what the loss looks at, and how the model is measured.

    Whatever can be refused is refused before :meth:`load`, which does what takes long.

    Attributes:
        objective: what the loss looks at, and the loss.
        evaluation: how the model is measured during training; None for not at all.
        loader: gives this process's share of every batch; there once the data is loaded.
        batch_size: documents, or pairs, of a batch, over all processes.
        steps: steps of the whole run.
        report: what was read, kept and left out.
    """

    # How the model is trained, for its card; and what a batch holds.
    summary: str
    batch_unit: str = "documents"

    objective: Objective
    evaluation: RunEvaluation | None = None
    loader: EpochLoader | StreamLoader
    batch_size: int
    steps: int
    report: CorpusReport

    @abstractmethod
    def load(self) -> None:
        """Make the loader, for which passages may have to be encoded; all processes call it, after the checks."""

    @abstractmethod
    def counts(self) -> dict[str, Any]:
        """What there is to train on and to measure: numbers, numbers by name, and hashes."""

    def record(self) -> dict[str, Any]:
        """What a run writes down about its data."""
        return self.counts()

    def begin_epoch(self, epoch: int) -> None:  # noqa: B027 (a hook)
        """Prepare the batches of an epoch, such as negatives that the model chooses.

        Every process calls it before the first batch of an epoch, and a resumed run before the first batch that is
        left. What a resumed run could not compute again belongs into :meth:`state_dict`, and the loader of such
        batches may not work ahead of the epoch (see :class:`EpochLoader`).
        """

    def finish(self) -> str | None:
        """Do what is left when the run is over, in all processes; the first says in a line what came of it."""
        return None

    def state_dict(self) -> dict[str, Any] | None:
        """The place in the data for a checkpoint; None where it follows from the number of the step."""
        return None

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027 (a hook)
        """Go on from a place that :meth:`state_dict` gave."""
