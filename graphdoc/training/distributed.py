"""Keeping the processes of a training run together: one reduction of all gradients a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, distributed, nn

from ..runtime.processes import exchange, process_count


def reduce_gradients(parameters: Iterable[nn.Parameter]) -> int:
    """Replace every gradient by its mean over all processes, all gradients of one type in one reduction.

    A step with gradient caching has many backward passes; reducing here, once, instead of after each of them costs
    one exchange whatever the batch. Parameters without gradient count as zero, so that processes whose documents did
    not reach a parameter fit those whose did.

    Args:
        parameters: the parameters; those that need no gradient are passed over.

    Returns:
        Number of reductions, 0 in a single process.
    """
    if process_count() == 1:
        return 0
    by_type: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = defaultdict(list)
    for parameter in parameters:
        if parameter.requires_grad:
            by_type[parameter.dtype, parameter.device].append(parameter)
    for group in by_type.values():
        flat = torch.cat(
            [(torch.zeros_like(entry) if entry.grad is None else entry.grad).flatten() for entry in group]
        )
        with exchange():
            distributed.all_reduce(flat)
        flat /= process_count()
        for parameter, part in zip(group, flat.split([entry.numel() for entry in group]), strict=True):  # type: ignore[no-untyped-call]
            if parameter.grad is None:
                parameter.grad = part.view_as(parameter).clone()
            else:
                parameter.grad.copy_(part.view_as(parameter))
    return len(by_type)


def broadcast_weights(model: nn.Module) -> None:
    """Give all processes the weights and buffers of the first one."""
    if process_count() > 1:
        with exchange():
            for tensor in model.state_dict().values():
                distributed.broadcast(tensor, 0)


def mean_over_processes(values: Tensor) -> Tensor:
    """The mean of a tensor over all processes; every process has to call it."""
    if process_count() > 1:
        values = values.clone()
        with exchange():
            distributed.all_reduce(values)
        values /= process_count()
    return values
