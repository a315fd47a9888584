"""Graphs whose edges come from similarities and have weights."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.joined_graphs import DocumentGraph, JoinedGraphs, graph_of_sections, normalised_adjacency
from graphdoc.graphs.kinds import EdgeKind, NodeKind


def similarity(size: int, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    upper = np.triu(draw.random((size, size)) * (draw.random((size, size)) < 0.4), 1)
    return upper + upper.T


def graphs(sizes: list[tuple[int, int]]) -> JoinedGraphs:
    sections = [np.repeat([0, 1], size) for size in sizes]
    return JoinedGraphs.of_similarities(sections, [similarity(sum(size), seed) for seed, size in enumerate(sizes)])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), min_size=1, max_size=5))
@hypothesis_settings(deadline=None, max_examples=60)
def test_weights_are_the_normalised_adjacency_and_1_on_self_loops(sizes: list[tuple[int, int]]) -> None:
    joined = graphs(sizes)
    assert joined.edge_weights is not None
    first_node = first_edge = 0
    for seed, size in enumerate(sizes):
        count, edges = int(joined.node_counts[seed]), int(joined.edge_counts[seed])
        assert count == sum(size) + 1
        given_by_hand = similarity(sum(size), seed)
        degrees = given_by_hand.sum(1)
        expected = np.eye(count)
        for i, j in zip(*np.nonzero(given_by_hand), strict=True):
            expected[i + 1, j + 1] = given_by_hand[i, j] / np.sqrt(degrees[i] * degrees[j])
        own = slice(first_edge, first_edge + edges)
        source, target = joined.edge_index[:, own] - first_node
        found = np.zeros((count, count))
        found[target, source] = joined.edge_weights[own]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        # Sorted as the edges of all graphs are.
        assert np.all(np.diff(target * count + source) > 0)
        first_node, first_edge = first_node + count, first_edge + edges
    is_loop = joined.edge_index[0] == joined.edge_index[1]
    assert np.array_equal(joined.edge_kind == EdgeKind.SELF_LOOP, is_loop)
    kinds = joined.node_kind[joined.edge_index[:, ~is_loop]]
    assert np.all(kinds == NodeKind.PASSAGE)


def test_the_diagonal_does_not_count_and_nodes_alone_have_rows_of_0() -> None:
    given_here = np.array([[5.0, 1, 0], [1, 5, 0], [0, 0, 5]])
    np.testing.assert_allclose(normalised_adjacency(given_here), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_weights_go_with_graphs_wherever_they_go() -> None:
    joined = graphs([(3, 4), (1, 1), (5, 2)])
    batch = GraphBatch.from_graphs(joined)
    assert batch.edge_weights is not None and joined.edge_weights is not None
    np.testing.assert_array_equal(batch.edge_weights.numpy(), joined.edge_weights)
    parts = list(batch.slices([1, 1, 1], 1))
    assert [len(part) for part in parts] == [1, 1, 1]
    assert torch.equal(torch.cat([part.edge_weights for part in parts]), batch.edge_weights)  # type: ignore[misc]
    there_and_back = pickle.loads(pickle.dumps(batch))
    assert torch.equal(there_and_back.edge_weights, batch.edge_weights)
    for form in ("dense", "sparse"):
        plan = batch.with_plan(form).plan
        assert plan is not None
        assert all(block.log_weights is not None for block in plan.blocks)
    one = DocumentGraph.of(graphs([(3, 4)]))
    np.testing.assert_array_equal(one.joined().edge_weights, one.edge_weight.numpy())


def test_graphs_without_weights_have_none_and_count_1_beside_others() -> None:
    plain = graph_of_sections([0, 0, 1]).joined()
    assert plain.edge_weights is None
    assert "edge_weight" not in graph_of_sections([0])
    batch = GraphBatch.from_graphs([graph_of_sections([0, 0])])
    assert batch.edge_weights is None
    assert batch.plan is not None and batch.plan.blocks[0].log_weights is None
    both = JoinedGraphs.join([plain, graphs([(2, 2)])])
    assert both.edge_weights is not None
    assert both.edge_weights[: plain.edge_index.shape[1]].tolist() == [1.0] * plain.edge_index.shape[1]


@pytest.mark.parametrize("edge", [2, 5])
def test_edges_are_of_one_document_or_across(edge: int) -> None:
    joined = JoinedGraphs.of_similarities([np.array([0, 0, 1, 1])], [np.ones((4, 4))])
    expected = {2: EdgeKind.WITHIN_SECTION, 5: EdgeKind.ACROSS_SECTIONS}
    source, target = {2: (2, 1), 5: (3, 1)}[edge]
    place = np.flatnonzero((joined.edge_index[0] == source) & (joined.edge_index[1] == target))
    assert joined.edge_kind[place].tolist() == [expected[edge]]
