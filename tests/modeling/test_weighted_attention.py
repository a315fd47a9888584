"""Graph attention on edges with weights, in both forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.joined_graphs import JoinedGraphs, graph_of_sections
from graphdoc.graphs.layout import Form
from graphdoc.modeling.graph_attention import GraphAttention
from graphdoc.settings.document import Skip

HIDDEN = 16


def weighted(sizes: list[int], seed: int = 0) -> GraphBatch:
    draw = np.random.default_rng(seed)
    similarities = []
    for size in sizes:
        upper = np.triu(draw.random((size, size)) ** 3 * (draw.random((size, size)) < 0.5), 1)
        similarities.append(upper + upper.T)
    return GraphBatch.from_graphs(
        JoinedGraphs.of_similarities([np.zeros(size, np.int64) for size in sizes], similarities)
    )


def layer_of(skip: Skip = "identity", heads: int = 2) -> GraphAttention:
    layer = GraphAttention(HIDDEN, heads, skip=skip)
    with torch.no_grad():
        layer.conv.bias.normal_()
        layer.conv.att_src.mul_(4)
        layer.conv.att_dst.mul_(4)
    return layer


def run(layer: GraphAttention, nodes: Tensor, batch: GraphBatch, form: Form) -> tuple[Tensor, Tensor]:
    plan = batch.with_plan(form).plan
    assert plan is not None
    result, attention = layer(nodes, batch, plan, return_attention=True)
    return result, attention


@given(st.lists(st.integers(0, 12), min_size=1, max_size=5), st.integers(0, 1000))
@hypothesis_settings(deadline=None, max_examples=40)
def test_both_forms_are_the_same_with_their_gradients(sizes: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    batch, layer = weighted(sizes, seed), layer_of()
    found = []
    for form in ("dense", "sparse"):
        nodes = torch.randn(len(batch.node_kind), HIDDEN, generator=torch.Generator().manual_seed(seed))
        nodes.requires_grad_()
        result, attention = run(layer, nodes, batch, form)  # type: ignore[arg-type]
        (result.sin().sum()).backward()
        assert nodes.grad is not None
        found.append((result.detach(), attention.detach(), nodes.grad))
    for dense, sparse in zip(*found, strict=True):
        torch.testing.assert_close(dense, sparse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("skip", ["identity", "linear"])
def test_attention_is_that_of_scores_times_weights(form: Form, skip: Skip) -> None:
    torch.manual_seed(0)
    batch, layer = weighted([7, 1, 4]), layer_of(skip)
    assert batch.edge_weights is not None
    nodes = torch.randn(len(batch.node_kind), HIDDEN)
    result, attention = run(layer, nodes, batch, form)

    conv = {name: value.detach().double().numpy() for name, value in layer.conv.named_parameters()}
    values = nodes.double().numpy() @ conv["lin.weight"].T
    own = nodes.double().numpy() if skip == "identity" else nodes.double().numpy() @ conv["res.weight"].T
    expected = own + conv["bias"]
    width = HIDDEN // 2
    for target in range(len(nodes)):
        edges = np.flatnonzero(batch.edge_index[1].numpy() == target)
        sources = batch.edge_index[0].numpy()[edges]
        for head in range(2):
            columns = slice(head * width, (head + 1) * width)
            scores = np.array(
                [
                    values[source, columns] @ conv["att_src"][0, head]
                    + values[target, columns] @ conv["att_dst"][0, head]
                    for source in sources
                ]
            )
            shares = batch.edge_weights.double().numpy()[edges] * np.exp(np.where(scores > 0, scores, 0.2 * scores))
            shares = shares / shares.sum()
            expected[target, columns] += shares @ values[sources][:, columns]
            np.testing.assert_allclose(attention.detach()[edges, head].numpy(), shares, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_weights_of_1_change_nothing(form: Form) -> None:
    torch.manual_seed(0)
    plain = graph_of_sections([0, 0, 1, 1, 2], "section").joined()
    with_weights = JoinedGraphs.join([plain, JoinedGraphs.of_similarities([np.zeros(3, np.int64)], [np.ones((3, 3))])])
    without, beside = GraphBatch.from_graphs(plain), GraphBatch.from_graphs(with_weights)
    assert without.edge_weights is None and beside.edge_weights is not None
    layer, nodes = layer_of(), torch.randn(len(beside.node_kind), HIDDEN)
    count = len(without.node_kind)
    expected, _ = run(layer, nodes[:count], without, form)
    found, _ = run(layer, nodes, beside, form)
    torch.testing.assert_close(found[:count], expected, rtol=1e-5, atol=1e-6)


def test_dropout_acts_on_weighted_attention_too() -> None:
    torch.manual_seed(0)
    batch, layer = weighted([9]), GraphAttention(HIDDEN, 2, dropout=0.5, skip="identity")
    nodes = torch.randn(len(batch.node_kind), HIDDEN)
    for form in ("dense", "sparse"):
        quiet = run(layer.eval(), nodes, batch, form)[0]  # type: ignore[arg-type]
        layer.train()
        drawn = torch.stack([run(layer, nodes, batch, form)[0] for _ in range(400)]).mean(0)  # type: ignore[arg-type]
        torch.testing.assert_close(drawn, quiet, rtol=0.2, atol=0.2)
        assert not torch.equal(run(layer, nodes, batch, form)[0], quiet)  # type: ignore[arg-type]
