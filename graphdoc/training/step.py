"""One training step: the gradient of a loss over a batch of any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..graphs.batch import GraphBatch
from ..graphs.packing import Packing
from ..losses import AllProcesses, Gather
from ..modeling import DocumentModel
from .batch import TrainingBatch
from .gradient_cache import GradientCache
from .objectives import Objective

# Numbers of one tensor of a graph layer that are held at once; two layers hold some twenty such tensors. Beside a
# transformer that is trained, graphs are so cheap that computing them twice costs nothing, and memory is what counts.
GRAPH_NUMBERS, GRAPH_NUMBERS_FROZEN = 2**22, 2**26


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What a step found; the gradients are on the parameters.

    Args:
        loss: the loss of this process (see :class:`~graphdoc.losses.LossOutput`), without gradient.
        metrics: numbers to log.
    """

    loss: Tensor
    metrics: Mapping[str, Tensor]


class CachedStep:
    """Computes the gradient of an objective with gradient caching at passage vectors.

    Every passage is encoded once for its vector, in mini-batches and without keeping activations; graphs and loss run
    on all vectors; then every mini-batch is encoded again, to push its share of the gradient through the transformer.
    The gradient is exact, also under dropout, and does not depend on how passages are spread over mini-batches.

    Args:
        model: the model, whose parameters collect the gradients.
        objective: what the loss looks at, and the loss.
        precision: makes the context that the transformer computes in (see :class:`~graphdoc.losses.GradientCache`).
        packing: how passages are packed into mini-batches; None for the rule of the device.
        keep_activations: cells whose activations may be kept, so that they are not encoded twice.
        graph_numbers: numbers of a tensor of a graph layer (nodes by hidden, and adjacency by heads) from which on
            graphs are computed in slices of documents, each of them twice; by default few where passages are encoded
            with gradient, and many where graphs are all there is to do.
        gather: how the loss sees rows of other processes; None for those of all processes that train together.
    """

    def __init__(
        self,
        model: DocumentModel,
        objective: Objective,
        *,
        precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
        packing: Packing | None = None,
        keep_activations: int = 0,
        graph_numbers: int | None = None,
        gather: Gather | None = None,
    ) -> None:
        self.model = model
        self.objective = objective
        self.precision = precision
        self.packing = packing
        self.keep_activations = keep_activations
        self.graph_numbers = graph_numbers
        self.gather = AllProcesses() if gather is None else gather

    def __call__(self, batch: TrainingBatch) -> StepOutput:
        """Add the gradient of the loss over a batch to the parameters' gradients.

        Args:
            batch: this process's share of the batch.

        Returns:
            The loss and what is worth logging.
        """
        moved = batch.to(self.model.device)
        if moved.graphs.passage_vectors is not None or not self.model.trains_passage_vectors:
            with torch.no_grad(), self.precision():
                vectors = self.model.encode_passages(moved.graphs, self.packing)
            return self._graphs_and_loss(vectors, moved)
        mini_batches = list(self.model.mini_batches(moved.graphs, self.packing))
        cache = GradientCache(
            self.model.encode_mini_batch,
            self.keep_activations,
            lambda passages: passages.input_ids.numel(),
            self.precision,
        )
        encoded = cache.forward(mini_batches)
        order = torch.cat([mini_batch.passage_order for mini_batch in mini_batches])
        output = self._graphs_and_loss(encoded[torch.argsort(order).to(encoded.device)], moved)
        cache.backward()
        return output

    def _graphs_and_loss(self, vectors: Tensor, batch: TrainingBatch) -> StepOutput:
        """Everything above the transformer: once and whole where it fits, else in slices of documents."""
        graphs = batch.graphs
        default = GRAPH_NUMBERS if vectors.requires_grad else GRAPH_NUMBERS_FROZEN
        slices = list(graphs.slices(self._costs(graphs), self.graph_numbers or default))
        if len(slices) == 1:
            output = self.objective.loss(self._encode_slice((graphs, vectors)), batch, self.gather)
            output.loss.backward()  # type: ignore[no-untyped-call]
            return StepOutput(output.loss.detach(), output.metrics)
        leaf = vectors.detach().requires_grad_(vectors.requires_grad)
        counts = [int(part.is_passage.sum()) for part in slices]
        inputs = list(zip(slices, torch.split(leaf, counts), strict=True))
        cache = GradientCache(self._encode_slice)
        output = self.objective.loss(cache.forward(inputs), batch, self.gather)
        output.loss.backward()  # type: ignore[no-untyped-call]
        cache.backward()
        if vectors.requires_grad:
            vectors.backward(leaf.grad)  # type: ignore[no-untyped-call]
        return StepOutput(output.loss.detach(), output.metrics)

    def _costs(self, graphs: GraphBatch) -> list[int]:
        """Numbers of a tensor of a graph layer, for every document."""
        config = self.model.config
        return [nodes * config.node_size + nodes * nodes * config.graph_heads for nodes in graphs.node_counts]

    def _encode_slice(self, part: tuple[GraphBatch, Tensor]) -> Tensor:
        graphs, vectors = part
        return self.objective.rows(self.model.encode_graphs(vectors, graphs))
