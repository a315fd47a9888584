"""Tensors inside of dataclasses: changed one by one, and pickled as few blocks of memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor


def map_tensors(part: Any, change: Callable[[Tensor], Any]) -> Any:
    """A copy of a part whose tensors are changed, those of dataclasses, tuples and mappings inside of it too.

    Args:
        part: a tensor, something that holds tensors, or anything else, which stays as it is.
        change: what becomes of a tensor.
    """
    if isinstance(part, Tensor):
        return change(part)
    if type(part) is tuple:
        # Token ids are tuples of numbers by the thousand; a first element says what the others are.
        return tuple(map_tensors(one, change) for one in part) if part and _may_hold(part[0]) else part
    if type(part) is dict:
        return {key: map_tensors(value, change) for key, value in part.items()}
    if is_dataclass(part) and not isinstance(part, type):
        return type(part)(**{one.name: map_tensors(getattr(part, one.name), change) for one in fields(part)})
    return part


def _may_hold(value: Any) -> bool:
    return isinstance(value, Tensor) or is_dataclass(value)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor stands in the block of its type.

    Args:
        dtype: the type.
        start: its first number.
        shape: its shape.
    """

    dtype: torch.dtype
    start: int
    shape: torch.Size


def pack(part: Any) -> tuple[Any, dict[torch.dtype, Tensor]]:
    """Take the tensors out of a part and put those of one type into one block.

    Workers of a data loader hand over every tensor as a file of its own, of which a process may have only so many.

    Returns:
        The part with places instead of tensors, and the blocks.
    """
    found: dict[torch.dtype, list[Tensor]] = {}
    ends: dict[torch.dtype, int] = {}

    def take(tensor: Tensor) -> Place:
        start = ends.get(tensor.dtype, 0)
        found.setdefault(tensor.dtype, []).append(tensor.reshape(-1))
        ends[tensor.dtype] = start + tensor.numel()
        return Place(tensor.dtype, start, tensor.shape)

    skeleton = map_tensors(part, take)
    return skeleton, {dtype: torch.cat(tensors) for dtype, tensors in found.items()}


def unpack(skeleton: Any, blocks: dict[torch.dtype, Tensor]) -> Any:
    """The part that :func:`pack` took apart; its tensors are views of the blocks."""
    if isinstance(skeleton, Place):
        block = blocks[skeleton.dtype]
        return block[skeleton.start : skeleton.start + skeleton.shape.numel()].view(skeleton.shape)
    if type(skeleton) is tuple:
        return tuple(unpack(one, blocks) for one in skeleton) if skeleton and _may_hold(skeleton[0]) else skeleton
    if type(skeleton) is dict:
        return {key: unpack(value, blocks) for key, value in skeleton.items()}
    if is_dataclass(skeleton) and not isinstance(skeleton, type):
        return type(skeleton)(**{one.name: unpack(getattr(skeleton, one.name), blocks) for one in fields(skeleton)})
    return skeleton
