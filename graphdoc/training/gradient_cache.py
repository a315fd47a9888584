"""Gradient caching: the gradient of a loss over a whole batch, in the memory of one mini-batch.

1. Every mini-batch is encoded without keeping its activations; only the vectors stay.
2. The loss is computed on all vectors, and its gradient collects on them.
3. Every mini-batch is encoded again, with gradient and with the same random numbers, and pushes its share of that
   gradient to the weights.
"""

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
    """The vectors of the mini-batches of one step, whose gradient goes back through the mini-batches.

    Making it is the first pass. Then comes anything with a gradient on :attr:`rows`, ``backward`` of that, and
    :meth:`backward`. The gradients are those of a plain backward pass over the same mini-batches, dropout included,
    whatever their number and sizes. All that a step holds is in this object, and goes with it. Source: Gao et al.
    2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", section 3.3.

    The last mini-batch is encoded once: the backward pass begins with it, so that its activations are kept meanwhile.

    Args:
        encode: encodes a mini-batch, ``(rows, ...)``; in training it may draw random numbers of torch.
        inputs: the mini-batches, at least one.
        device: where they are encoded.
        keep_activations: cells of further mini-batches, the last ones, whose activations are kept too.
        size: cells of a mini-batch.
        precision: makes the context that mini-batches are encoded in. A pass over them enters a new one: autocast
            keeps the weights that it has cast until it is left, and those cast without gradient are of no use to the
            second pass.
        encode_with_term: encodes a mini-batch in the same way, and gives its own term of the loss beside the rows; it
            is called once for every mini-batch, and its gradient is added.

    Attributes:
        rows: ``(rows, ...)``, the results one after the other: a leaf that collects gradients.
    """

    def __init__(
        self,
        encode: Callable[[Input], Tensor],
        inputs: Sequence[Input],
        device: torch.device,
        *,
        keep_activations: int = 0,
        size: Callable[[Input], int] = lambda _: 1,
        precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
        encode_with_term: Callable[[Input], tuple[Tensor, Tensor]] | None = None,
    ) -> None:
        self._inputs, self._precision = inputs, precision
        self._encode, self._encode_with_term = encode, encode_with_term
        first_kept = _first_kept([size(mini_batch) for mini_batch in inputs], keep_activations)
        self._states = RandomStates(device, first_kept)
        self._kept: list[tuple[Tensor, Tensor | None]] = []
        self._lengths: list[int] = []
        rows = _Rows()
        with precision(), torch.no_grad():
            for number in range(first_kept):
                self._states.note(number)
                rows.add(encode(inputs[number]))
        with precision(), torch.enable_grad():
            for mini_batch in inputs[first_kept:]:
                self._kept.append(self._with_gradient(mini_batch))
                rows.add(self._kept[-1][0].detach())
        self._lengths = rows.lengths
        self.rows = rows.all().requires_grad_()

    def _with_gradient(self, mini_batch: Input) -> tuple[Tensor, Tensor | None]:
        """Rows of a mini-batch, and its term where it has one."""
        if self._encode_with_term is None:
            return self._encode(mini_batch), None
        return self._encode_with_term(mini_batch)

    def backward(self) -> None:
        """Push the gradient that has reached :attr:`rows` through the mini-batches, once."""
        gradient = self.rows.grad
        ends = list(accumulate(self._lengths))
        with self._precision():
            # Kept activations are those of the last mini-batches, and the first to be given back.
            for number in reversed(range(len(ends))):
                share = None if gradient is None else gradient[ends[number] - self._lengths[number] : ends[number]]
                if self._kept:
                    _push(self._kept.pop(), share)
                    continue
                with self._states.replayed(number):
                    part = self._with_gradient(self._inputs[number])
                _push(part, share)
                # Nothing may stay until the next mini-batch is encoded.
                del part


def _push(part: tuple[Tensor, Tensor | None], gradient: Tensor | None) -> None:
    """Push a gradient of rows, and that of their term, to the weights."""
    rows, term = part
    ends: list[Tensor] = []
    gradients: list[Tensor | None] = []
    if gradient is not None and rows.requires_grad:
        ends.append(rows)
        gradients.append(gradient)
    if term is not None and term.requires_grad:
        ends.append(term)
        gradients.append(None)
    if ends:
        # A backward pass computes as its forward pass did.
        with torch.autocast(rows.device.type, enabled=False):
            torch.autograd.backward(ends, gradients)


def _first_kept(sizes: Sequence[int], keep: int) -> int:
    """Number of the first mini-batch whose activations are kept."""
    for number in reversed(range(len(sizes) - 1)):
        keep -= sizes[number]
        if keep < 0:
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
        self.lengths: list[int] = []

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
        self.lengths.append(len(part))

    def all(self) -> Tensor:
        """All rows, ``(rows, ...)``."""
        assert self._rows is not None, "there is at least one mini-batch"
        return self._rows[: self._count].clone()


class RandomStates:
    """States of torch's random generators before mini-batches, on the processor and on the device that encodes them.

    They are in one tensor from the beginning, for the same reason as :class:`_Rows`.

    Args:
        device: the device, which need not be the current one of its kind.
        count: number of mini-batches.
    """

    def __init__(self, device: torch.device, count: int) -> None:
        self._device = device
        self._noted = [state.new_empty(count, len(state)) for state in _states(device)] if count else []

    def note(self, number: int) -> None:
        """Remember the states now as those before a mini-batch."""
        for noted, state in zip(self._noted, _states(self._device), strict=True):
            noted[number] = state

    @contextmanager
    def replayed(self, number: int) -> Iterator[None]:
        """A context in which random numbers are drawn as they were for a mini-batch; after it, as if nothing was."""
        with nothing_drawn(self._device):
            # Copies, since torch reads a state from the beginning of the memory that it is a part of.
            _set_states(self._device, [noted[number].clone() for noted in self._noted])
            yield


@contextmanager
def nothing_drawn(device: torch.device) -> Iterator[None]:
    """A context after which random numbers go on, on the processor and on a device, as if none had been drawn."""
    before = _states(device)
    try:
        yield
    finally:
        _set_states(device, before)


def _states(device: torch.device) -> list[Tensor]:
    states = [torch.get_rng_state()]
    if device.type != "cpu":
        states.append(torch.get_device_module(device).get_rng_state(device))
    return states


def _set_states(device: torch.device, states: Sequence[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(states[1], device)
