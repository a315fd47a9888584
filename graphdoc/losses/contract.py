"""What every loss takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

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


class Loss(Protocol):
    """A loss: a frozen dataclass of its settings, called with this process's tensors.

    It takes vectors, and what is known of them, as tensors; ``gather``, how rows of other processes are seen (see
    :class:`~graphdoc.losses.Gather`), none by default; and computes in fp32, also under autocast.

    The mean over processes of losses, metrics and gradients is that of one process with all rows, however many of them
    each process has, also none. Rows that belong together by a label may lie in different processes. Rows that belong
    together by their places lie in one, as the two vectors of a pair, or an anchor and positives given by their rows.
    """

    def __call__(self, *tensors: Any, **options: Any) -> LossOutput:
        """Compute the loss of this process's rows."""
        ...
