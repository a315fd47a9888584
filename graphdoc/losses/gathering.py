"""Collecting rows from all processes of a job, with gradients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, distributed
from torch.nn import functional

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


def gather_rows(rows: Tensor) -> tuple[Tensor, int]:
    """Collect the rows of all processes; gradients flow back to the process that a row came from.

    Processes may bring different numbers of rows. Every process has to call it.

    Args:
        rows: ``(rows, ...)``, this process's rows.

    Returns:
        ``(all rows, ...)``, process after process, and the place of this process's first row.
    """
    processes = process_count()
    if processes == 1:
        return rows, 0
    from torch.distributed.nn.functional import all_gather

    counts = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(processes)]
    distributed.all_gather(counts, torch.tensor([len(rows)], device=rows.device))
    numbers = [int(count) for count in counts]
    # All processes have to bring tensors of one size: gloo aborts otherwise.
    missing = max(numbers) - len(rows)
    padded = functional.pad(rows, (*(0, 0) * (rows.dim() - 1), 0, missing)) if missing else rows
    if rows.requires_grad:
        gathered = all_gather(padded.contiguous())  # type: ignore[no-untyped-call]
    else:
        gathered = [torch.empty_like(padded) for _ in range(processes)]
        distributed.all_gather(gathered, padded.contiguous())
    start = sum(numbers[: distributed.get_rank()])
    return torch.cat([part[:number] for part, number in zip(gathered, numbers, strict=True)]), start
