"""Gradient caching: the gradient of a loss over a whole batch, in the memory of one mini-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch
from torch import Tensor

Input = TypeVar("Input")


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
    """

    def __init__(
        self,
        encode: Callable[[Input], Tensor],
        keep_activations: int = 0,
        size: Callable[[Input], int] = lambda _: 1,
    ) -> None:
        self._encode = encode
        self._keep = keep_activations
        self._size = size
        self._inputs: Sequence[Input] = ()
        self._parts: list[Tensor] = []
        self._states: list[RandomState | None] = []
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
        self._parts, self._states = [], []
        for number, mini_batch in enumerate(inputs):
            if number >= first_kept:
                self._states.append(None)
                self._parts.append(self._encode(mini_batch))
                continue
            self._states.append(RandomState())
            with torch.no_grad():
                self._parts.append(self._encode(mini_batch))
        self._vectors = torch.cat([part.detach() for part in self._parts]).requires_grad_()
        return self._vectors

    def backward(self) -> None:
        """Push the gradient that has reached the result of :meth:`forward` through the mini-batches."""
        assert self._vectors is not None, "forward comes first"
        gradient = self._vectors.grad
        parts, states, inputs = self._parts, self._states, self._inputs
        self._parts, self._states, self._inputs, self._vectors = [], [], (), None
        if gradient is None:
            return
        ends = torch.tensor([len(part) for part in parts]).cumsum(0).tolist()
        # Kept activations are the last ones, and the first to be given back.
        for number in reversed(range(len(parts))):
            share = gradient[ends[number] - len(parts[number]) : ends[number]]
            state = states[number]
            if state is None:
                part = parts.pop()
            else:
                parts.pop()
                with state.replayed():
                    part = self._encode(inputs[number])
            if part.requires_grad:
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


class RandomState:
    """The state of torch's random generators, on the processor and on the accelerators in use."""

    def __init__(self) -> None:
        self._processor = torch.get_rng_state()
        self._accelerator = torch.cuda.get_rng_state() if torch.cuda.is_available() else None

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """A context in which random numbers are drawn as they were from this state on; after it, as if nothing was."""
        devices = [torch.cuda.current_device()] if self._accelerator is not None else []
        with torch.random.fork_rng(devices=devices):
            torch.set_rng_state(self._processor)
            if self._accelerator is not None:
                torch.cuda.set_rng_state(self._accelerator)
            yield
