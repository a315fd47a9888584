"""Tensors inside of dataclasses: changed one by one, and pickled as one block of memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

# Where numbers of any type may begin.
_ALIGNMENT = 16


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
    """Where a tensor stands in a block.

    Args:
        dtype: the type of its numbers.
        start: its first byte.
        shape: its shape.
    """

    dtype: torch.dtype
    start: int
    shape: torch.Size

    @property
    def end(self) -> int:
        """The byte after its last one."""
        return self.start + self.shape.numel() * self.dtype.itemsize


def pack(part: Any) -> tuple[Any, Tensor]:
    """Take the tensors out of a part and put them into one block.

    Workers of a data loader hand over every tensor as a file of its own, of which a process may have only so many, and
    the trained process waits for each.

    Args:
        part: what holds tensors, all on one device.

    Returns:
        The part with places instead of tensors, and the block of bytes, ``(bytes,)``.
    """
    found: list[tuple[Tensor, Place]] = []
    end = 0

    def take(tensor: Tensor) -> Place:
        nonlocal end
        place = Place(tensor.dtype, end, tensor.shape)
        found.append((tensor, place))
        end = -(-place.end // _ALIGNMENT) * _ALIGNMENT
        return place

    skeleton = map_tensors(part, take)
    block = torch.empty(end, dtype=torch.uint8, device=found[0][0].device if found else None)
    for tensor, place in found:
        _at(block, place).copy_(tensor)
    return skeleton, block


def _at(block: Tensor, place: Place) -> Tensor:
    return block[place.start : place.end].view(place.dtype).view(place.shape)


def unpack(skeleton: Any, block: Tensor) -> Any:
    """The part that :func:`pack` took apart; its tensors are views of the block."""
    if isinstance(skeleton, Place):
        return _at(block, skeleton)
    if type(skeleton) is tuple:
        return tuple(unpack(one, block) for one in skeleton) if skeleton and _may_hold(skeleton[0]) else skeleton
    if type(skeleton) is dict:
        return {key: unpack(value, block) for key, value in skeleton.items()}
    if is_dataclass(skeleton) and not isinstance(skeleton, type):
        return type(skeleton)(**{one.name: unpack(getattr(skeleton, one.name), block) for one in fields(skeleton)})
    return skeleton
