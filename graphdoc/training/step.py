"""One training step: the gradient of a loss over a batch of any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import SettingsError
from ..graphs.batch import GraphBatch
from ..graphs.packing import MiniBatch, Packing
from ..losses import AllProcesses, Gather, LossOutput
from ..modeling import DocumentModel
from .batch import TrainingBatch
from .gradient_cache import GradientCache, nothing_drawn
from .objectives import MiniBatchTerm, Objective

# Numbers of one tensor of a graph layer that are held at once; two layers hold some twenty such tensors. Beside a
# transformer that is trained, graphs are so cheap that computing them twice costs nothing, and memory is what counts.
GRAPH_NUMBERS, GRAPH_NUMBERS_FROZEN = 2**22, 2**26


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What a step found; the gradients are on the parameters.

    Args:
        loss: the loss of this process (see :class:`~graphdoc.losses.LossOutput`), without gradient.
        metrics: numbers to log.
        rows: ``(rows, ...)``, what the loss looked at, where it was only measured.
    """

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
        weight: factor of the gradient, where batches of several tasks make one step.
        precision: makes the context that the transformer computes in (see :class:`~graphdoc.training.gradient_cache`).
        packing: how passages are packed into mini-batches; None for the rule of the device.
        keep_activations: cells whose activations may be kept, so that they are not encoded twice, beside those of the
            last mini-batch.
        graph_numbers: numbers of a tensor of a graph layer (nodes by hidden, and adjacency by heads) from which on
            graphs are computed in slices of documents, all but the last of them twice; by default few where passages
            are encoded with gradient, and many where graphs are all there is to do.
        gather: how the loss sees rows of other processes; None for those of all processes that train together.
    """

    def __init__(
        self,
        model: DocumentModel,
        objective: Objective,
        *,
        weight: float = 1.0,
        precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
        packing: Packing | None = None,
        keep_activations: int = 0,
        graph_numbers: int | None = None,
        gather: Gather | None = None,
    ) -> None:
        self.model = model
        self.objective = objective
        self.weight = weight
        self.precision = precision
        self.packing = packing
        self.keep_activations = keep_activations
        self.graph_numbers = graph_numbers
        self.gather: Gather = AllProcesses() if gather is None else gather

    def __call__(self, batch: TrainingBatch) -> StepOutput:
        """Add the gradient of the loss over a batch to the parameters' gradients.

        Args:
            batch: this process's share of the batch.

        Returns:
            The loss and what is worth logging.

        Raises:
            SettingsError: the objective needs tokens, and the batch brings passage vectors.
        """
        moved = batch.to(self.model.device)
        term = self._term(moved)
        if moved.graphs.passage_vectors is not None or (term is None and not self.model.trains_passage_vectors):
            with torch.no_grad(), self.precision():
                vectors = self.model.encode_passages(moved.graphs, self.packing)
            return self._graphs_and_loss(vectors, moved)
        mini_batches = list(self.model.mini_batches(moved.graphs, self.packing))
        terms: list[LossOutput] = []

        def encode_with_term(mini_batch: MiniBatch) -> tuple[Tensor, Tensor]:
            assert term is not None
            vectors, output = self._with_term(mini_batch, term)
            terms.append(LossOutput(output.loss.detach(), output.metrics))
            return vectors, self.weight * output.loss

        cache = GradientCache(
            self.model.encode_mini_batch,
            mini_batches,
            self.model.device,
            keep_activations=self.keep_activations,
            size=lambda mini_batch: mini_batch.input_ids.numel(),
            precision=self.precision,
            encode_with_term=encode_with_term if term is not None else None,
        )
        output = self._graphs_and_loss(_in_order(cache.rows, mini_batches), moved)
        cache.backward()
        return _sum(output, terms)

    @torch.no_grad()
    def measure(self, batch: TrainingBatch) -> StepOutput:
        """Compute the loss over a batch without a gradient, in the mode that the model is in.

        Args:
            batch: this process's share of the batch.

        Returns:
            The loss, its metrics, and the rows that it looked at.
        """
        moved = batch.to(self.model.device)
        term = self._term(moved)
        terms: list[LossOutput] = []
        if term is None:
            with self.precision():
                vectors = self.model.encode_passages(moved.graphs, self.packing)
        else:
            mini_batches = list(self.model.mini_batches(moved.graphs, self.packing))
            with self.precision():
                parts = [self._with_term(mini_batch, term) for mini_batch in mini_batches]
            vectors = _in_order(torch.cat([rows for rows, _ in parts]), mini_batches)
            terms = [output for _, output in parts]
        rows = torch.cat([self._encode_slice(part) for part in self._slices(vectors, moved.graphs)])
        output = self.objective.loss(rows, moved, self.gather)
        return replace(_sum(StepOutput(output.loss, output.metrics), terms), rows=rows)

    def _term(self, batch: TrainingBatch) -> MiniBatchTerm | None:
        term = self.objective.mini_batch_term(batch, self.gather)
        if term is not None and batch.graphs.passage_vectors is not None:
            raise SettingsError(
                f"{type(self.objective).__name__} reads tokens, and model.tune=frozen gives passage vectors made "
                "before; set model.tune to lora or full"
            )
        return term

    def _with_term(self, mini_batch: MiniBatch, term: MiniBatchTerm) -> tuple[Tensor, LossOutput]:
        """Vectors of a mini-batch, and the term of the loss on its tokens."""
        vectors, tokens = self.model.encode_tokens(mini_batch)
        # Mini-batches that follow draw the same numbers, whether this one is encoded once or twice.
        with nothing_drawn(self.model.device):
            return vectors, term(mini_batch, tokens)

    def _graphs_and_loss(self, vectors: Tensor, batch: TrainingBatch) -> StepOutput:
        """Everything above the transformer, in slices of documents."""
        leaf = vectors.detach().requires_grad_(vectors.requires_grad)
        cache = GradientCache(self._encode_slice, self._slices(leaf, batch.graphs), leaf.device)
        output = self.objective.loss(cache.rows, batch, self.gather)
        (self.weight * output.loss).backward()  # type: ignore[no-untyped-call]
        cache.backward()
        if vectors.requires_grad and leaf.grad is not None:
            vectors.backward(leaf.grad)  # type: ignore[no-untyped-call]
        return StepOutput(output.loss.detach(), output.metrics)

    def _slices(self, vectors: Tensor, graphs: GraphBatch) -> list[tuple[GraphBatch, Tensor]]:
        """Slices of documents with the vectors of their passages: one where it fits."""
        config = self.model.config
        costs = [nodes * config.node_size + nodes * nodes * config.graph_heads for nodes in graphs.node_counts]
        default = GRAPH_NUMBERS if vectors.requires_grad else GRAPH_NUMBERS_FROZEN
        slices = list(graphs.slices(costs, self.graph_numbers or default))
        counts = [sum(part.passage_counts) for part in slices]
        return list(zip(slices, torch.split(vectors, counts), strict=True))

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
    names = terms[0].metrics
    metrics = {name: torch.stack([term.metrics[name] for term in terms]).sum() for name in names}
    return StepOutput(output.loss + torch.stack([term.loss for term in terms]).sum(), {**output.metrics, **metrics})
