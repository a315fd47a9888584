"""One training step: the gradient of a loss over a batch of any size, by gradient caching."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from ..graphs.batch import GraphBatch, MiniBatch, Packing
from ..inference.precision import Precision, computed_in, training_precision
from ..losses import Gather, LossOutput
from ..modeling import DocumentModel
from ..settings.run import TrainingSettings
from .objectives import MiniBatchTerm, Objective, TrainingBatch

Input = TypeVar("Input")

FIRST_ROWS = 1024


class GradientCache(Generic[Input]):
    """The vectors of the mini-batches of one step, whose gradient goes back through the mini-batches.

    Making it is the first pass. Then comes anything with a gradient on :attr:`rows`, ``backward`` of that, and
    :meth:`backward`. The gradients are those of a plain backward pass over the same mini-batches, dropout included,
    whatever their number and sizes. All that a step holds is in this object, and goes with it. Source: Gao et al.
    2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", section 3.3.

    The last mini-batch is encoded once: the backward pass begins with it, so that its activations are kept until then.

    Args:
        encode: encodes a mini-batch, ``(rows, ...)``; in training it may draw random numbers of torch.
        inputs: the mini-batches, at least one.
        device: where they are encoded.
        keep_activations: cells of further mini-batches, the last ones, whose activations are kept too.
        size: cells of a mini-batch.
        precision: makes the context of a pass, a new one for each: autocast keeps the weights that it has cast until
            it is left, and those cast without gradient are of no use to the second pass.
        encode_with_term: encodes a mini-batch in the same way, once; gives its own term of the loss with the rows.

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
        self._with_gradient: Callable[[Input], tuple[Tensor, Tensor | None]] = (
            (lambda mini_batch: (encode(mini_batch), None)) if encode_with_term is None else encode_with_term
        )
        first_kept = _first_kept([size(mini_batch) for mini_batch in inputs], keep_activations)
        self._states = RandomStates(device, first_kept)
        self._kept: list[tuple[Tensor, Tensor | None]] = []
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

    def backward(self) -> None:
        """Push the gradient that has reached :attr:`rows` through the mini-batches, once."""
        shares: Sequence[Tensor | None] = [None] * len(self._lengths)
        if self.rows.grad is not None:
            shares = self.rows.grad.split(self._lengths)  # type: ignore[no-untyped-call]
        with self._precision():
            # Kept activations are those of the last mini-batches, and the first to be given back.
            for number in reversed(range(len(shares))):
                if self._kept:
                    _push(self._kept.pop(), shares[number])
                    continue
                with self._states.replayed(number):
                    part = self._with_gradient(self._inputs[number])
                _push(part, shares[number])
                # Nothing may stay until the next mini-batch is encoded.
                del part


def _push(part: tuple[Tensor, Tensor | None], gradient: Tensor | None) -> None:
    """Push a gradient of rows, and that of their term, to the weights."""
    rows, term = part
    ends = [(rows, gradient)] if gradient is not None and rows.requires_grad else []
    if term is not None and term.requires_grad:
        ends.append((term, None))  # type: ignore[arg-type]
    if ends:
        # A backward pass computes as its forward pass did.
        with torch.autocast(rows.device.type, enabled=False):
            torch.autograd.backward([end for end, _ in ends], [given for _, given in ends])


def _first_kept(sizes: Sequence[int], keep: int) -> int:
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
        assert self._rows is not None, "there is at least one mini-batch"
        return self._rows[: self._count].clone()


class RandomStates:
    """States of torch's random generators before mini-batches, on the processor and on the device that encodes them.

    They are in one tensor from the beginning, for the same reason as :class:`_Rows`. The device need not be the
    current one of its kind.
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
        with preserve_rng_state(self._device):
            # Copies, since torch reads a state from the beginning of the memory that it is a part of.
            _set_states(self._device, [noted[number].clone() for noted in self._noted])
            yield


@contextmanager
def preserve_rng_state(device: torch.device) -> Iterator[None]:
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


# Numbers of one tensor of a graph layer that are held at once; two layers hold some twenty such tensors. Beside a
# transformer that is trained, graphs are so cheap that computing them twice costs nothing, and memory is what counts.
GRAPH_NUMBERS, GRAPH_NUMBERS_FROZEN = 2**22, 2**26


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The loss of this process, numbers to log, and what the loss looked at, where it was only measured."""

    loss: Tensor
    metrics: Mapping[str, Tensor]
    rows: Tensor | None = None


class CachedStep:
    """Computes the gradient of an objective with gradient caching at passage vectors.

    Every passage is encoded once for its vector, in mini-batches and without keeping activations; graphs and loss run
    on all vectors; then every mini-batch is encoded again, to push its share of the gradient through the transformer.
    The gradient is exact, also under dropout, and does not depend on how passages are spread over mini-batches. A step
    leaves gradients on the parameters and nothing here.

    Args:
        model: the model, whose parameters collect the gradients.
        objective: what the loss looks at, and the loss.
        precision: what the transformer computes in; None for the precision of its weights.
        packing: how passages are packed into mini-batches; None for the rule of the device.
        keep_activations: cells whose activations may be kept, in addition to those of the last mini-batch.
        graph_numbers: numbers of a tensor of a graph layer (nodes by hidden, and adjacency by heads) from which on
            graphs are computed in slices of documents, all but the last of them twice; None decides by the model.
        gather: how the loss sees rows of other processes; None for those of all processes that train together.

    Attributes:
        scale: factor of the gradient, as float16 needs it.
    """

    def __init__(
        self,
        model: DocumentModel,
        objective: Objective,
        *,
        precision: Precision | None = None,
        packing: Packing | None = None,
        keep_activations: int = 0,
        graph_numbers: int | None = None,
        gather: Gather | None = None,
    ) -> None:
        self.model, self.objective = model, objective
        self.precision: Callable[[], AbstractContextManager[Any]] = nullcontext
        if precision is not None:
            self.precision = partial(computed_in, precision, model.passage_encoder, "the model")
        self.packing, self.keep_activations, self.graph_numbers = packing, keep_activations, graph_numbers
        self.gather = Gather() if gather is None else gather
        self.scale: Tensor | float = 1.0
        self._node_size, self._graph_heads = model.config.node_size, model.config.graph_heads

    @classmethod
    def from_settings(cls, model: DocumentModel, objective: Objective, run: TrainingSettings, **options: Any) -> Self:
        """The step of a run, with further arguments of the class by name."""
        packing = Packing.on(model.device, run.token_budget, run.padding)
        return cls(model, objective, precision=training_precision(model.device), packing=packing, **options)

    def __call__(self, batch: TrainingBatch) -> StepOutput:
        """Add the gradient of the loss over this process's share of a batch to the parameters' gradients."""
        batch = batch.to(self.model.device)
        term = self.objective.mini_batch_term(batch, self.gather)
        if batch.graphs.passage_vectors is not None or (term is None and not self.model.trains_passage_vectors):
            with torch.no_grad(), self.precision():
                vectors = self.model.encode_passages(batch.graphs, self.packing)
            return self._graphs_and_loss(vectors, batch)
        mini_batches = list(self.model.mini_batches(batch.graphs, self.packing))
        terms: list[LossOutput] = []

        def encode_with_term(mini_batch: MiniBatch) -> tuple[Tensor, Tensor]:
            assert term is not None
            vectors, output = self._with_term(mini_batch, term)
            terms.append(LossOutput(output.loss.detach(), output.metrics))
            return vectors, self.scale * output.loss

        cache = GradientCache(
            self.model.encode_mini_batch, mini_batches, self.model.device, keep_activations=self.keep_activations,
            size=lambda mini_batch: mini_batch.input_ids.numel(), precision=self.precision,
            encode_with_term=encode_with_term if term is not None else None,
        )  # fmt: skip
        output = self._graphs_and_loss(_in_order(cache.rows, mini_batches), batch)
        cache.backward()
        return _sum(output, terms)

    @torch.no_grad()
    def measure(self, batch: TrainingBatch) -> StepOutput:
        """Compute the loss over a batch without a gradient, in the mode that the model is in, with its rows."""
        batch = batch.to(self.model.device)
        term = self.objective.mini_batch_term(batch, self.gather)
        terms: list[LossOutput] = []
        with self.precision():
            if term is None:
                vectors = self.model.encode_passages(batch.graphs, self.packing)
            else:
                mini_batches = list(self.model.mini_batches(batch.graphs, self.packing))
                parts = [self._with_term(mini_batch, term) for mini_batch in mini_batches]
                vectors = _in_order(torch.cat([rows for rows, _ in parts]), mini_batches)
                terms = [output for _, output in parts]
        rows = torch.cat([self._encode_slice(part) for part in self._slices(vectors, batch.graphs)])
        output = self.objective.loss(rows, batch, self.gather)
        return replace(_sum(StepOutput(output.loss, output.metrics), terms), rows=rows)

    def _with_term(self, mini_batch: MiniBatch, term: MiniBatchTerm) -> tuple[Tensor, LossOutput]:
        """Vectors of a mini-batch, and the term of the loss on its tokens."""
        vectors, tokens = self.model.encode_tokens(mini_batch)
        # Mini-batches that follow draw the same numbers, whether this one is encoded once or twice.
        with preserve_rng_state(self.model.device):
            return vectors, term(mini_batch, tokens)

    def _graphs_and_loss(self, vectors: Tensor, batch: TrainingBatch) -> StepOutput:
        """Everything above the transformer, in slices of documents."""
        leaf = vectors.detach().requires_grad_(vectors.requires_grad)
        cache = GradientCache(self._encode_slice, self._slices(leaf, batch.graphs), leaf.device)
        output = self.objective.loss(cache.rows, batch, self.gather)
        (self.scale * output.loss).backward()  # type: ignore[no-untyped-call]
        cache.backward()
        if vectors.requires_grad and leaf.grad is not None:
            vectors.backward(leaf.grad)  # type: ignore[no-untyped-call]
        return StepOutput(output.loss.detach(), output.metrics)

    def _slices(self, vectors: Tensor, graphs: GraphBatch) -> list[tuple[GraphBatch, Tensor]]:
        """Slices of documents with the vectors of their passages: one where it fits."""
        costs = [nodes * self._node_size + nodes * nodes * self._graph_heads for nodes in graphs.node_counts]
        default = GRAPH_NUMBERS if vectors.requires_grad else GRAPH_NUMBERS_FROZEN
        slices = list(graphs.slices(costs, self.graph_numbers or default))
        return list(zip(slices, torch.split(vectors, [sum(part.passage_counts) for part in slices]), strict=True))

    def _encode_slice(self, part: tuple[GraphBatch, Tensor]) -> Tensor:
        graphs, vectors = part
        return self.objective.rows(self.model.encode_graphs(vectors, graphs))


def _in_order(vectors: Tensor, mini_batches: Sequence[MiniBatch]) -> Tensor:
    """Vectors of mini-batches in the order of the passages of the batch."""
    order = torch.cat([mini_batch.passage_order for mini_batch in mini_batches])
    return vectors.index_select(0, torch.argsort(order).to(vectors.device, non_blocking=True))


def _sum(output: StepOutput, terms: Sequence[LossOutput]) -> StepOutput:
    """A loss with the terms of its mini-batches, and the metrics of both."""
    if not terms:
        return output
    metrics = {name: torch.stack([term.metrics[name] for term in terms]).sum() for name in terms[0].metrics}
    return StepOutput(output.loss + torch.stack([term.loss for term in terms]).sum(), {**output.metrics, **metrics})
