"""Gradient caching: the gradient of a loss over a whole batch, in the memory of one mini-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import accumulate
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

Input = TypeVar("Input")

FIRST_ROWS = 1024


class GradientCache(Generic[Input]):
    """Encodes mini-batches without keeping their activations, and pushes the gradient of the loss through them later.

    A step is: :meth:`forward`, anything with a gradient on its result, ``backward`` of that, and then
    :meth:`backward`, which encodes every mini-batch again, now with gradient and the same random numbers, so that
    dropout is that of the first pass. The gradients are those of a plain backward pass over the same mini-batches,
    whatever their number and sizes. Source: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under
    Memory Limited Setup", section 3.3.

    Args:
        encode: encodes a mini-batch, ``(rows, ...)``; in training it may draw random numbers of torch.
        keep_activations: cells of mini-batches whose activations are kept, so that they are not encoded twice; the
            last mini-batches are those kept.
        size: cells of a mini-batch.
        precision: makes the context that mini-batches are encoded in. A pass over them enters a new one: autocast
            keeps the weights that it has cast until it is left, and those cast without gradient are of no use to the
            second pass.
    """

    def __init__(
        self,
        encode: Callable[[Input], Tensor],
        keep_activations: int = 0,
        size: Callable[[Input], int] = lambda _: 1,
        precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self._encode = encode
        self._keep = keep_activations
        self._size = size
        self._precision = precision
        self._inputs: Sequence[Input] = ()
        self._parts: list[Tensor | None] = []
        self._lengths: list[int] = []
        self._states = RandomStates(0)
        self._vectors: Tensor | None = None

    def forward(self, inputs: Sequence[Input]) -> Tensor:
        """Encode all mini-batches.

        Args:
            inputs: the mini-batches, at least one.

        Returns:
            ``(rows, ...)``, their results one after the other: a leaf that collects gradients.
        """
        self._inputs = inputs
        first_kept = self._first_kept(inputs)
        self._parts, self._states, self._lengths = [], RandomStates(first_kept), []
        rows = _Rows()
        for is_kept, numbers in ((False, range(first_kept)), (True, range(first_kept, len(inputs)))):
            with self._precision(), torch.set_grad_enabled(is_kept):
                for number in numbers:
                    if not is_kept:
                        self._states.note(number)
                    part = self._encode(inputs[number])
                    self._parts.append(part if is_kept else None)
                    self._lengths.append(len(part))
                    rows.add(part.detach())
                    # Nothing that is made on the way may stay (see _Rows), not even until the next mini-batch.
                    del part
        self._vectors = rows.all().requires_grad_()
        return self._vectors

    def backward(self) -> None:
        """Push the gradient that has reached the result of :meth:`forward` through the mini-batches."""
        assert self._vectors is not None, "forward comes first"
        gradient = self._vectors.grad
        parts, states, inputs, lengths = self._parts, self._states, self._inputs, self._lengths
        self._parts, self._states, self._inputs, self._lengths, self._vectors = [], RandomStates(0), (), [], None
        if gradient is None:
            return
        ends = list(accumulate(lengths))
        with self._precision():
            # Kept activations are the last ones, and the first to be given back.
            for number in reversed(range(len(parts))):
                share = gradient[ends[number] - lengths[number] : ends[number]]
                part = parts.pop()
                if part is None:
                    with states.replayed(number):
                        part = self._encode(inputs[number])
                if part.requires_grad:
                    # A backward pass computes as its forward pass did.
                    with torch.autocast(part.device.type, enabled=False):
                        part.backward(share)  # type: ignore[no-untyped-call]
                del part

    def _first_kept(self, inputs: Sequence[Input]) -> int:
        """Number of the first mini-batch whose activations are kept."""
        left = self._keep
        for number in reversed(range(len(inputs))):
            left -= self._size(inputs[number])
            if left < 0:
                return number + 1
        return 0


class _Rows:
    """Rows that come a few at a time, in one tensor from the beginning.

    As tensors of their own they would lie scattered among the large ones that come and go with every mini-batch, and
    the C library could not give those back.
    """

    def __init__(self) -> None:
        self._rows: Tensor | None = None
        self._count = 0

    def add(self, part: Tensor) -> None:
        """Take over some rows."""
        needed = self._count + len(part)
        if self._rows is None:
            self._rows = part.new_empty(max(needed, FIRST_ROWS), *part.shape[1:])
        elif needed > len(self._rows):
            larger = self._rows.new_empty(max(needed, 2 * len(self._rows)), *self._rows.shape[1:])
            larger[: self._count] = self._rows[: self._count]
            self._rows = larger
        self._rows[self._count : needed] = part
        self._count = needed

    def all(self) -> Tensor:
        """All rows, ``(rows, ...)``."""
        assert self._rows is not None, "there is at least one mini-batch"
        return self._rows[: self._count].clone()


class RandomStates:
    """States of torch's random generators before mini-batches, on the processor and on the accelerator in use.

    They are in one tensor from the beginning, for the same reason as :class:`_Rows`.

    Args:
        count: number of mini-batches.
    """

    def __init__(self, count: int) -> None:
        self._processor = torch.get_rng_state().new_empty(count, len(torch.get_rng_state())) if count else None
        has_accelerator = count and torch.cuda.is_available()
        self._accelerator = (
            torch.cuda.get_rng_state().new_empty(count, len(torch.cuda.get_rng_state())) if has_accelerator else None
        )

    def note(self, number: int) -> None:
        """Remember the state now as that before a mini-batch."""
        assert self._processor is not None
        self._processor[number] = torch.get_rng_state()
        if self._accelerator is not None:
            self._accelerator[number] = torch.cuda.get_rng_state()

    @contextmanager
    def replayed(self, number: int) -> Iterator[None]:
        """A context in which random numbers are drawn as they were for a mini-batch; after it, as if nothing was."""
        assert self._processor is not None
        devices = [torch.cuda.current_device()] if self._accelerator is not None else []
        with torch.random.fork_rng(devices=devices):
            # Copies, since torch reads a state from the beginning of the memory that it is a part of.
            torch.set_rng_state(self._processor[number].clone())
            if self._accelerator is not None:
                torch.cuda.set_rng_state(self._accelerator[number].clone())
            yield
