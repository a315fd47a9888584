"""The contract of a loss, and gathering of vectors over processes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, distributed
from torch.nn import functional

from ..runtime.processes import exchange, process_count


@dataclass(frozen=True, slots=True)
class LossOutput:
    """A loss and what is worth knowing about it.

    Args:
        loss: this process's loss; the mean over processes is the loss of the whole batch.
        metrics: numbers to log, without gradient, each for the whole batch when averaged over processes.
    """

    loss: Tensor
    metrics: Mapping[str, Tensor] = field(default_factory=dict)


class Loss(Protocol):
    """A loss: any function or module that takes this process's tensors and returns the loss, alone or with metrics.

    One that takes the keyword ``gather`` also sees rows of other processes (see :class:`~graphdoc.losses.Gather`), so
    that the mean over processes of losses, metrics and gradients is that of one process with all rows, however many of
    them each has, also none. Those of this package do, in fp32, also under autocast. Rows of one label may lie in
    different processes; the two vectors of a pair, or an anchor and its positives, lie in one.
    """

    def __call__(self, *tensors: Any, **options: Any) -> Tensor | LossOutput:
        """Compute the loss of this process's rows."""
        ...


# Torch 2.13 renamed it, and warns of the old name.
_all_gather: Callable[[Tensor, Tensor], Any] = (
    getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
)


@dataclass(frozen=True, slots=True)
class Gather:
    """How a loss sees the rows of other processes, by default of all that train together."""

    processes: int = field(default_factory=process_count)

    def rows(self, rows: Tensor) -> tuple[Tensor, int]:
        """Collect the rows of all processes; gradients flow back to the process that a row came from.

        Processes may bring different numbers of rows, of one shape and type. Every process has to call it.

        Returns:
            ``(all rows, ...)``, process after process, and the place of this process's first row.
        """
        if self.processes == 1:
            return rows, 0
        counts = rows.new_zeros(self.processes, dtype=torch.int64)
        with exchange():
            _all_gather(counts, torch.tensor([len(rows)], device=rows.device))
        numbers: list[int] = counts.tolist()
        # All processes have to bring tensors of one size: gloo aborts otherwise.
        missing = max(numbers) - len(rows)
        padded = functional.pad(rows, (*(0, 0) * (rows.dim() - 1), 0, missing)) if missing else rows
        gathered: Tensor = _Gathered.apply(padded)  # type: ignore[no-untyped-call]
        start = sum(numbers[: distributed.get_rank()])
        return torch.cat([part[:number] for part, number in zip(gathered, numbers, strict=True)]), start


# For what other processes take no part in.
ONE_PROCESS = Gather(processes=1)


def require_range(name: str, *values: float, least: float = 0, below: float = math.inf) -> None:
    """Refuse values of a loss, called by the name of their field, that would train something else."""
    for value in values:
        if not least <= value < below:
            raise ValueError(f"{name}={value} must be at least {least:g} and below {below:g}")


def call_loss(loss: Loss, *tensors: Any, gather: Gather) -> LossOutput:
    """Call a loss, with ``gather`` if it takes that; a tensor that it returns has no metrics."""
    parameters = inspect.signature(getattr(loss, "forward", loss)).parameters.values()
    takes_gather = any(one.name == "gather" or one.kind is one.VAR_KEYWORD for one in parameters)
    output = loss(*tensors, gather=gather) if takes_gather else loss(*tensors)
    return output if isinstance(output, LossOutput) else LossOutput(output)


def mean_share(count: Tensor, gather: Gather) -> Tensor:
    """Factor for the sum over this process's rows that makes the mean over processes the mean over all rows."""
    return gather.processes / count.clamp(min=1)


def label_means(values: Tensor, is_similar: Tensor, all_similar: Tensor, gather: Gather) -> tuple[Tensor, Tensor]:
    """Means to log of what similar pairs have, and of what the others have, 0 where there are none.

    Args:
        values: ``(pairs,)``, of the pairs of this process.
        is_similar: ``(pairs,)``, whether they are similar.
        all_similar: 1 for the similar pairs of all processes, 0 for the others.
        gather: how pairs of other processes are counted.
    """
    similar, values = all_similar.sum(), values.detach()
    chosen = ((is_similar, similar), (~is_similar, len(all_similar) - similar))
    first, second = ((values * rows).sum() * gather.processes / count.clamp(min=1) for rows, count in chosen)
    return first, second


class _Gathered(torch.autograd.Function):
    """Tensors of one size from all processes, ``(processes, ...)``; a gradient is the sum of those of all processes.

    Accelerate's gathering carries no gradient.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        """Collect the tensors."""
        processes = process_count()
        everything = own.new_empty(processes * len(own), *own.shape[1:])
        with exchange():
            _all_gather(everything, own.contiguous())
        return everything.view(processes, *own.shape)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Add up the gradients, and give each process its own part."""
        total = gradient.clone(memory_format=torch.contiguous_format)
        with exchange():
            distributed.all_reduce(total)
        return total[distributed.get_rank()]
