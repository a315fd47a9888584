"""Collecting rows from all processes of a job, with gradients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn import functional

from ..runtime.processes import exchange

_ALONE: ContextVar[bool] = ContextVar("alone", default=False)


@contextmanager
def alone() -> Iterator[None]:
    """A context in which losses are those of this process alone, for what others do not take part in."""
    token = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(token)


def process_count() -> int:
    """Number of processes that train together."""
    if _ALONE.get():
        return 1
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size()
    return 1


class _Gathered(torch.autograd.Function):
    """Tensors of one size from all processes, ``(processes, ...)``; a gradient is the sum of those of all processes.

    Accelerate's gathering carries no gradient.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        """Collect the tensors."""
        parts = [torch.empty_like(own, memory_format=torch.contiguous_format) for _ in range(process_count())]
        with exchange():
            distributed.all_gather(parts, own.contiguous())
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Add up the gradients, and give each process its own part."""
        total = gradient.clone(memory_format=torch.contiguous_format)
        with exchange():
            distributed.all_reduce(total)
        return total[distributed.get_rank()]


def gather_rows(rows: Tensor) -> tuple[Tensor, int]:
    """Collect the rows of all processes; gradients flow back to the process that a row came from.

    Processes may bring different numbers of rows. Every process has to call it.

    Args:
        rows: ``(rows, ...)``, this process's rows.

    Returns:
        ``(all rows, ...)``, process after process, and the place of this process's first row.

    Raises:
        OutputError: another process has stopped.
    """
    processes = process_count()
    if processes == 1:
        return rows, 0
    counts = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(processes)]
    with exchange():
        distributed.all_gather(counts, torch.tensor([len(rows)], device=rows.device))
    numbers = [int(count) for count in counts]
    # All processes have to bring tensors of one size: gloo aborts otherwise.
    missing = max(numbers) - len(rows)
    padded = functional.pad(rows, (*(0, 0) * (rows.dim() - 1), 0, missing)) if missing else rows
    gathered: Tensor = _Gathered.apply(padded)  # type: ignore[no-untyped-call]
    start = sum(numbers[: distributed.get_rank()])
    return torch.cat([part[:number] for part, number in zip(gathered, numbers, strict=True)]), start
