"""Above the transformer nothing asks an accelerator for an answer, which would make the host wait for it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sections_by_hand import with_plan
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.nn import GATConv
from typed import Models

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.document_graph import DocumentGraph, graph_of_sections
from graphdoc.graphs.kinds import JoinedGraphs
from graphdoc.graphs.layout import Form
from graphdoc.modeling.graph_attention import GraphAttention, GraphAttentionStack
from graphdoc.registry import GRAPH_KINDS, READOUTS
from graphdoc.settings.document import Skip

Floats = npt.NDArray[np.float64]
FORMS: tuple[Form, ...] = ("auto", "dense", "sparse")
HIDDEN = 16


def make_batch(sizes: Sequence[int], kind: str = "section", window: int = 2) -> GraphBatch:
    own = {"window": window} if kind == "window" else {}
    graphs = [graph_of_sections([passage // 4 for passage in range(size)], kind, **own) for size in sizes]
    return GraphBatch.from_graphs(graphs)


def make_layer(heads: int, skip: Skip = "linear") -> GraphAttention:
    layer = GraphAttention(HIDDEN, heads, skip)
    with torch.no_grad():
        layer.conv.bias.normal_()
        # Wide scores make attention far from uniform.
        layer.conv.att_src.mul_(4)
        layer.conv.att_dst.mul_(4)
    return layer


def apply(layer: GraphAttention, nodes: Tensor, batch: GraphBatch, form: Form) -> Tensor:
    return layer(nodes, batch, with_plan(batch, form).plan)[0]


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """Largest difference, on the scale of the largest expected value (at least 1)."""
    actual, expected = actual.detach(), expected.detach()
    return float((actual - expected).abs().max() / expected.abs().max().clamp(min=1))


def layer_by_the_paper(
    layer: GraphAttention, nodes: Floats, edges: list[list[int]], edge_weight: Floats | None = None
) -> tuple[Floats, list[list[float]]]:
    """Velickovic et al. 2017, equations 1 to 5, one node and one head at a time, with skip connection.

    Weights of edges multiply the exponentials.
    """
    conv = {name: value.detach().double().numpy() for name, value in layer.conv.named_parameters()}
    heads, width = conv["att_src"].shape[1:]
    skip, bias = conv.get("res.weight", np.eye(nodes.shape[1])), conv["bias"]
    edge_weight = np.ones(len(edges)) if edge_weight is None else edge_weight
    result = np.zeros_like(nodes)
    weights = [[0.0] * heads for _ in edges]
    for i in range(len(nodes)):
        incoming = [number for number, (_, target) in enumerate(edges) if target == i]
        for head in range(heads):
            rows = slice(head * width, (head + 1) * width)
            projection = conv["lin.weight"][rows]
            a_neighbour, a_self = conv["att_src"][0, head], conv["att_dst"][0, head]
            scores = []
            for number in incoming:
                score = a_self @ (projection @ nodes[i]) + a_neighbour @ (projection @ nodes[edges[number][0]])
                scores.append(score if score > 0 else 0.2 * score)
            exponentials = edge_weight[incoming] * np.exp(np.array(scores) - max(scores))
            for number, exponential in zip(incoming, exponentials, strict=True):
                alpha = exponential / sum(exponentials)
                weights[number][head] = alpha
                result[i, rows] += alpha * (projection @ nodes[edges[number][0]])
        result[i] += skip @ nodes[i] + bias
    return result, weights


def stack_by_the_paper(
    stack: GraphAttentionStack, nodes: Floats, edges: list[list[int]]
) -> tuple[Floats, list[Floats], list[Floats]]:
    attention, inputs = [], []
    for number, layer in enumerate(stack.layers):
        if number:
            nodes = np.where(nodes > 0, nodes, np.exp(nodes) - 1)
        inputs.append(nodes)
        nodes, weights = layer_by_the_paper(layer, nodes, edges)
        attention.append(np.array(weights))
    return nodes, attention, inputs


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kind", "layers", "heads"), [("full", 1, 1), ("section", 2, 2), ("hierarchical", 3, 4)])
def test_equation_3_is_the_papers(kind: str, layers: int, heads: int, form: Form) -> None:
    batch = make_batch([6, 1, 9], kind)
    stack = GraphAttentionStack(HIDDEN, layers, heads)
    stack.layers = torch.nn.ModuleList(make_layer(heads) for _ in range(layers))
    nodes = torch.randn(len(batch.node_kind), HIDDEN)
    actual, attention, inputs = stack(nodes, with_plan(batch, form), True)
    by_paper = stack_by_the_paper(stack, nodes.double().numpy(), batch.edge_index.T.tolist())
    np.testing.assert_allclose(actual.detach().numpy(), by_paper[0], rtol=1e-5, atol=1e-5)
    assert len(attention) == len(inputs) == layers
    for number in range(layers):
        np.testing.assert_allclose(attention[number].detach().numpy(), by_paper[1][number], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(inputs[number].detach().numpy(), by_paper[2][number], rtol=1e-5, atol=1e-5)


def pure_gatconv(layer: GraphAttention) -> GATConv:
    """PyG's own layer, built as the paper has it, with the same weights."""
    heads = layer.conv.heads
    conv = GATConv(HIDDEN, HIDDEN // heads, heads, concat=True, negative_slope=0.2, add_self_loops=False, residual=True)
    conv.load_state_dict(layer.conv.state_dict())
    return conv


def values_and_gradients(module: torch.nn.Module, run, nodes: Tensor) -> dict[str, Tensor]:
    inputs = nodes.clone().requires_grad_()
    result = run(inputs)
    torch.manual_seed(1)
    (result * torch.randn_like(result)).sum().backward()
    gradients = {f"gradient of {name}": value.grad for name, value in module.named_parameters()}
    return {"values": result.detach(), "gradient of nodes": inputs.grad, **gradients}


def assert_equals_gatconv(layer: GraphAttention, batch: GraphBatch, form: Form) -> None:
    nodes = torch.randn(len(batch.node_kind), HIDDEN)
    conv = pure_gatconv(layer)
    expected = values_and_gradients(conv, lambda x: conv(x, batch.edge_index), nodes)
    actual = values_and_gradients(layer.conv, lambda x: apply(layer, x, batch, form), nodes)
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert relative_error(actual[name], value) < 1e-5, name


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_both_forms_equal_gatconv(kind: str, form: Form) -> None:
    for heads, sizes in ((1, [1]), (2, [7, 7, 7]), (4, [1, 60, 17, 2, 59, 33, 8, 50, 1, 41])):
        assert_equals_gatconv(make_layer(heads), make_batch(sizes, kind), form)


def test_plans_that_mix_dense_and_sparse_equal_gatconv() -> None:
    """Short documents next to one of 3,000 passages in a window graph, too sparse for matrices."""
    short = [graph_of_sections([0] * size, kind) for size, kind in [(9, "full"), (30, "section"), (1, "window")]]
    batch = GraphBatch.from_graphs([short[0], graph_of_sections([0] * 3_000, "window"), *short[1:]])
    assert batch.plan.is_sparse_node.tolist() == (batch.document_of == 1).tolist()
    assert len(batch.plan.sparse_edges) == batch.edge_counts[1]
    assert_equals_gatconv(make_layer(2), batch, "auto")


def test_large_scores_stay_finite() -> None:
    batch, layer = make_batch([20, 4], "section"), make_layer(2)
    for form in FORMS:
        trained = copy.deepcopy(layer)
        nodes = (1e4 * torch.randn(len(batch.node_kind), HIDDEN)).requires_grad_()
        result = apply(trained, nodes, batch, form)
        result.sum().backward()
        assert bool(result.isfinite().all())
        assert bool(nodes.grad.isfinite().all())
        assert all(bool(parameter.grad.isfinite().all()) for parameter in trained.parameters())


def weighted(sizes: list[int], seed: int = 0) -> GraphBatch:
    draw = np.random.default_rng(seed)
    similarities = []
    for size in sizes:
        upper = np.triu(draw.random((size, size)) ** 3 * (draw.random((size, size)) < 0.5), 1)
        similarities.append(upper + upper.T)
    return GraphBatch.from_graphs(
        JoinedGraphs.from_similarities([np.zeros(size, np.int64) for size in sizes], similarities)
    )


@pytest.mark.parametrize("skip", ["identity", "linear"])
@pytest.mark.parametrize("sizes", [[7, 1, 4], [0], [12, 0, 5]])
def test_attention_is_that_of_scores_times_weights(sizes: list[int], skip: Skip) -> None:
    batch, layer = weighted(sizes), make_layer(2, skip=skip)
    assert batch.edge_weight is not None
    nodes = torch.randn(len(batch.node_kind), HIDDEN)
    found = {}
    for each in ("dense", "sparse"):
        inputs = nodes.clone().requires_grad_()
        result, attention = layer(inputs, batch, with_plan(batch, each).plan, output_attentions=True)
        result.sin().sum().backward()
        found[each] = result.detach(), attention.detach(), inputs.grad
    for dense, sparse in zip(*found.values(), strict=True):
        torch.testing.assert_close(dense, sparse, rtol=1e-5, atol=1e-5)
    expected, shares = layer_by_the_paper(
        layer, nodes.double().numpy(), batch.edge_index.T.tolist(), batch.edge_weight.double().numpy()
    )
    np.testing.assert_allclose(found["dense"][1].numpy(), shares, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["dense"][0].numpy(), expected, rtol=1e-4, atol=1e-5)


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
        DocumentGraph.from_joined(JoinedGraphs.from_queries([0])),
        graph_of_sections([number // 25 for number in range(500)], "window"),
    ]
    sections = torch.cat([graph.section_of[graph.node_kind % 2 == 1] for graph in graphs]).numpy()
    batch = GraphBatch.from_graphs(graphs, section_ids=sections)
    assert batch.plan is not None and batch.plan.blocks and len(batch.plan.sparse_edges)
    return batch


MODELS: list[dict[str, Any]] = [
    *({"readout": readout} for readout in READOUTS),
    {"readout": "document_node", "skip": "identity"},
    {"readout": "sections", "readout_settings": {"section_aggregation": "mean", "chunk_attention_norm": True}},
    {"readout": "mean", "labels": ["a", "b"], "normalize_passages": True},
]
models = pytest.mark.parametrize("settings", MODELS, ids=lambda one: " ".join(map(str, one.values())))


@models
def test_graphs_and_readouts_forward_and_backward(tiny_model: Models, settings: dict[str, Any]) -> None:
    model, batch = tiny_model("bert", **settings).train(), mixed_batch()
    vectors = torch.randn(sum(batch.passage_counts), 24, requires_grad=True)
    with NoWaiting(batch.sections.step_sizes):
        model.encode_graphs(vectors, batch).documents.square().sum().backward()
    assert vectors.grad is not None
