"""Above the transformer nothing asks an accelerator for an answer, which would make the host wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.document_graph import DocumentGraph, graph_of_sections
from graphdoc.graphs.kinds import JoinedGraphs
from graphdoc.modeling import DocumentModel
from graphdoc.registry import GRAPH_KINDS, READOUTS

ModelFactory = Callable[..., DocumentModel]

# On a CUDA device each of these copies a number or a shape to the host.
WAITING = (
    "aten::_local_scalar_dense",
    "aten::bincount",
    "aten::equal",
    "aten::is_nonzero",
    "aten::masked_scatter",
    "aten::masked_select",
    "aten::nonzero",
    "aten::repeat_interleave",
    "aten::unique",
)
TAKING_INDICES = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")


class NoWaiting(TorchDispatchMode):
    """A mode in which operations fail that make the host wait for a device.

    Args:
        on_host: numbers that lie on the host wherever the model is.
    """

    def __init__(self, on_host: npt.NDArray[np.int64] | None = None) -> None:
        super().__init__()
        self.span = (0, 0) if on_host is None else (on_host.ctypes.data, on_host.ctypes.data + on_host.nbytes)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        indices = args[1] if name in TAKING_INDICES else ()
        by_mask = any(isinstance(index, Tensor) and index.dtype == torch.bool for index in indices)
        is_known = isinstance(args[0], Tensor) and self.span[0] <= args[0].data_ptr() < self.span[1]
        if name.startswith(("aten::_unique", "aten::unique")) or (name in WAITING and not is_known) or by_mask:
            raise AssertionError(f"{name} makes the host wait")
        return func(*args, **(kwargs or {}))


def mixed_batch() -> GraphBatch:
    """All graph kinds, a query, a graph for the sparse form, and documents of several sections."""
    layouts = [[0, 0, 1, 2, 2, 1], [0], [0, 1, 1]]
    graphs = [graph_of_sections(layout, kind) for kind in GRAPH_KINDS for layout in layouts]
    graphs += [
        DocumentGraph.of(JoinedGraphs.of_queries([0])),
        graph_of_sections([number // 25 for number in range(500)], "window"),
    ]
    sections = torch.cat([graph.section_of[graph.node_kind % 2 == 1] for graph in graphs]).numpy()
    batch = GraphBatch.from_graphs(graphs, section_ids=sections)
    assert batch.plan is not None and batch.plan.blocks and len(batch.plan.sparse_edges)
    return batch


MODELS: list[dict[str, Any]] = [
    *({"readout": readout} for readout in READOUTS),
    {"readout": "document_node", "skip": "identity"},
    {"readout": "sections", "section_aggregation": "mean", "chunk_attention_norm": True},
    {"readout": "mean", "labels": ["a", "b"], "normalize_passages": True},
]
models = pytest.mark.parametrize("settings", MODELS, ids=lambda one: " ".join(map(str, one.values())))


def test_the_guard_sees_what_waits() -> None:
    numbers = torch.arange(3)
    for wait in (numbers.max().item, lambda: numbers[numbers > 1], lambda: torch.unique(numbers), numbers.nonzero):
        with pytest.raises(AssertionError, match="makes the host wait"), NoWaiting():
            wait()


@models
def test_graphs_and_readouts_forward_and_backward(tiny_model: ModelFactory, settings: dict[str, Any]) -> None:
    model, batch = tiny_model("bert", **settings).train(), mixed_batch()
    vectors = torch.randn(sum(batch.passage_counts), 24, requires_grad=True)
    with NoWaiting(batch.sections.step_sizes):
        output = model.encode_graphs(vectors, batch)
        output.documents.square().sum().backward()
    assert vectors.grad is not None
