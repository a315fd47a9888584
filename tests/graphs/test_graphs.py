from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sections_by_hand import with_plan
from typed import Patch

from graphdoc.errors import DocumentError, SettingsError
from graphdoc.graphs.batch import GraphBatch, Packing, map_tensors, sent
from graphdoc.graphs.document_graph import DocumentGraph, build_graph, graph_of_sections
from graphdoc.graphs.kinds import EdgeKind, GraphKind, JoinedGraphs, NodeKind, normalized_adjacency
from graphdoc.modeling import DocumentConfig
from graphdoc.registry import GRAPH_KINDS

layouts = st.lists(st.integers(0, 6), min_size=0, max_size=14)
kinds = st.sampled_from(list(GRAPH_KINDS))


def pairs_by_definition(sections: list[int], kind: str, window: int) -> set[frozenset[int]]:
    """The connected pairs of nodes, written down from the definitions of the graph kinds."""
    passages = range(1, len(sections) + 1)
    section = dict(zip(passages, sections, strict=True))
    in_order = list(dict.fromkeys(sections))
    first = [min(p for p in passages if section[p] == number) for number in in_order]
    section_node = {number: len(sections) + 1 + rank for rank, number in enumerate(in_order)}
    same_section = {frozenset(pair) for pair in combinations(passages, 2) if section[pair[0]] == section[pair[1]]}
    if kind == "full":
        return {frozenset(pair) for pair in combinations([0, *passages], 2)}
    if kind == "section":
        return same_section | {frozenset(pair) for pair in combinations([0, *first], 2)}
    if kind == "window":
        near = {frozenset(pair) for pair in combinations(passages, 2) if abs(pair[0] - pair[1]) <= window}
        return near | {frozenset({0, p}) for p in passages}
    assert kind == "hierarchical", f"write the definition of graph kind {kind!r} down here"
    members = {frozenset({p, section_node[section[p]]}) for p in passages}
    return same_section | members | {frozenset({0, node}) for node in section_node.values()}


def edge_kind_by_definition(graph: DocumentGraph, source: int, target: int) -> EdgeKind:
    if source == target:
        return EdgeKind.SELF_LOOP
    ends = {NodeKind(int(graph.node_kind[source])), NodeKind(int(graph.node_kind[target]))}
    if ends == {NodeKind.DOCUMENT, NodeKind.PASSAGE}:
        return EdgeKind.DOCUMENT_PASSAGE
    if ends == {NodeKind.DOCUMENT, NodeKind.SECTION}:
        return EdgeKind.DOCUMENT_SECTION
    if ends == {NodeKind.SECTION, NodeKind.PASSAGE}:
        return EdgeKind.SECTION_PASSAGE
    assert ends == {NodeKind.PASSAGE}
    same = bool(graph.section_of[source] == graph.section_of[target])
    return EdgeKind.WITHIN_SECTION if same else EdgeKind.ACROSS_SECTIONS


@settings(max_examples=200)
@given(layouts, kinds, st.integers(1, 5))
def test_edges_are_those_of_the_definition(sections: list[int], kind: str, window: int) -> None:
    graph = graph_of_sections(sections, kind, **({"window": window} if kind == "window" else {}))
    edges = [tuple(edge) for edge in graph.edge_index.T.tolist()]
    assert len(edges) == len(set(edges))
    assert {frozenset(edge) for edge in edges if edge[0] != edge[1]} == pairs_by_definition(sections, kind, window)
    assert all((target, source) in set(edges) for source, target in edges)
    assert sorted(edge[0] for edge in edges if edge[0] == edge[1]) == list(range(graph.num_nodes))
    assert edges == sorted(edges, key=lambda edge: (edge[1], edge[0]))
    # The document, its passages and, where edges lead to them, its sections.
    in_order = list(dict.fromkeys(sections)) if any(max(edge) > len(sections) for edge in edges) else []
    assert graph.node_kind.tolist() == [0] + [1] * len(sections) + [2] * len(in_order)
    assert graph.section_of.tolist() == [-1, *sections, *in_order]
    assert graph.edge_kind.tolist() == [edge_kind_by_definition(graph, *edge) for edge in edges]


def test_the_passages_of_a_document_with_and_without_a_kind(random_document) -> None:
    document = random_document([0, 0, 2, 2, 5])
    built, bare = build_graph(document, "section"), build_graph(document, None)
    assert torch.equal(built.edge_index, graph_of_sections([0, 0, 2, 2, 5], "section").edge_index)
    assert built.section_of.tolist() == bare.section_of.tolist() == [-1, 0, 0, 2, 2, 5]
    assert bare.edge_index.shape == (2, 0) and bare.node_kind.tolist() == [0, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("sections", "kind", "settings", "error", "named"),
    [
        ([0], "no_kind", {}, SettingsError, "no_kind"),
        ([0], "window", {"window": 0}, SettingsError, "window=0"),
        ([0], "window", {"windw": 3}, SettingsError, "windw"),
        ([0], "window", {"window": 2.5}, SettingsError, "window=2.5"),
        ([0] * 7_000, "full", {}, DocumentError, "7,00"),
        ([0] * 7_000, "section", {}, DocumentError, "7,00"),
        (list(range(7_000)), "section", {}, DocumentError, "7,00"),
        ([0] * 7_000, "hierarchical", {}, DocumentError, "7,00"),
    ],
)
def test_what_cannot_be_built_is_refused(
    sections: list[int], kind: str, settings: dict[str, int], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        graph_of_sections(sections, kind, **settings)


def test_long_documents_of_many_sections_are_built() -> None:
    graph = graph_of_sections(np.repeat(np.arange(20_000), 2).tolist(), "hierarchical")
    assert graph.num_nodes == 1 + 40_000 + 20_000
    assert graph.edge_index.shape[1] == 2 * (20_000 + 40_000 + 20_000) + 60_001


@dataclass(frozen=True, slots=True)
class PathGraph(GraphKind):
    """A kind that the package does not have."""

    step: int = 1

    def pairs(self, section_of: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        nodes = np.arange(len(section_of) + 1)
        return np.stack([nodes[: -self.step], nodes[self.step :]])


def test_a_kind_is_one_class_and_one_line(monkeypatch: Patch) -> None:
    monkeypatch.setitem(GRAPH_KINDS, "path", f"{__name__}:PathGraph")
    assert DocumentConfig(graph_kind="path", graph_settings={"step": 2}).graph == PathGraph(2)
    edges = {tuple(edge) for edge in graph_of_sections([0, 0, 1], "path").edge_index.T.tolist()}
    assert {(0, 1), (1, 2), (3, 2), (3, 3)} <= edges
    assert (0, 2) not in edges


def similarity(size: int, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    upper = np.triu(draw.random((size, size)) * (draw.random((size, size)) < 0.4), 1)
    return upper + upper.T


def graphs(sizes: list[tuple[int, int]]) -> JoinedGraphs:
    sections = [np.repeat([0, 1], size) for size in sizes]
    return JoinedGraphs.from_similarities(sections, [similarity(sum(size), seed) for seed, size in enumerate(sizes)])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), min_size=1, max_size=5))
@hypothesis_settings(deadline=None, max_examples=60)
def test_weights_are_the_normalized_adjacency_and_1_on_self_loops(sizes: list[tuple[int, int]]) -> None:
    joined = graphs(sizes)
    assert joined.edge_weight is not None
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
        found[target, source] = joined.edge_weight[own]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        # Sorted as the edges of all graphs are.
        assert np.all(np.diff(target * count + source) > 0)
        first_node, first_edge = first_node + count, first_edge + edges
    is_loop = joined.edge_index[0] == joined.edge_index[1]
    assert np.array_equal(joined.edge_kind == EdgeKind.SELF_LOOP, is_loop)
    assert np.all(joined.node_kind[joined.edge_index[:, ~is_loop]] == NodeKind.PASSAGE)


def test_the_diagonal_does_not_count_and_nodes_alone_have_rows_of_0() -> None:
    given_here = np.array([[5.0, 1, 0], [1, 5, 0], [0, 0, 5]])
    np.testing.assert_allclose(normalized_adjacency(given_here), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_weights_go_with_graphs_wherever_they_go_and_are_1_beside_others() -> None:
    joined = graphs([(3, 4), (1, 1), (5, 2)])
    batch = GraphBatch.from_graphs(joined)
    assert batch.edge_weight is not None and joined.edge_weight is not None
    np.testing.assert_array_equal(batch.edge_weight.numpy(), joined.edge_weight)
    parts = list(batch.slices([1, 1, 1], 1))
    assert torch.equal(torch.cat([part.edge_weight for part in parts]), batch.edge_weight)  # type: ignore[misc]
    assert torch.equal(pickle.loads(pickle.dumps(batch)).edge_weight, batch.edge_weight)
    for form in ("dense", "sparse"):
        plan = with_plan(batch, form).plan
        assert plan is not None and all(block.log_weights is not None for block in plan.blocks)
    one, plain = DocumentGraph.from_joined(graphs([(3, 4)])), graph_of_sections([0, 0, 1]).joined()
    np.testing.assert_array_equal(one.joined().edge_weight, one.edge_weight.numpy())
    assert plain.edge_weight is GraphBatch.from_graphs([graph_of_sections([0, 0])]).edge_weight is None
    both = JoinedGraphs.join([plain, graphs([(2, 2)])])
    assert both.edge_weight is not None
    assert both.edge_weight[: plain.edge_index.shape[1]].tolist() == [1.0] * plain.edge_index.shape[1]


def graphs_of(batch: GraphBatch) -> list[dict[str, torch.Tensor]]:
    """The graphs of a batch, taken apart by hand."""
    graphs = []
    node = edge = 0
    for nodes, edges in zip(batch.node_counts, batch.edge_counts, strict=True):
        graphs.append(
            {
                "edge_index": batch.edge_index[:, edge : edge + edges] - node,
                "edge_kind": batch.edge_kind[edge : edge + edges],
                "node_kind": batch.node_kind[node : node + nodes],
                "section_of": batch.section_of[node : node + nodes],
            }
        )
        node, edge = node + nodes, edge + edges
    return graphs


def test_a_batch_numbers_nodes_through(random_document) -> None:
    documents = [random_document([0, 0, 1], seed=1), random_document([0], seed=2)]
    batch = GraphBatch.from_documents(documents, "hierarchical")
    assert len(batch) == 2
    assert batch.node_counts == (6, 3)
    assert batch.document_of.tolist() == [0] * 6 + [1] * 3
    assert batch.rows.documents.tolist() == [0, 6]
    assert batch.rows.passages.tolist() == [1, 2, 3, 7]
    assert batch.rows.document_of.tolist() == [0, 0, 0, 1]
    assert batch.rows.sections.tolist() == [4, 5, 8]
    assert batch.rows.section_of.tolist() == [0, 0, 1, 2]
    assert (batch.passage_counts, batch.rows.section_counts.tolist()) == ((3, 1), [2, 1, 1])
    assert batch.section_of.tolist() == [-1, 0, 0, 1, 0, 1, -1, 0, 0]
    assert torch.equal(batch.document_of[batch.edge_index[0]], batch.document_of[batch.edge_index[1]])
    assert torch.bincount(batch.document_of[batch.edge_index[0]]).tolist() == list(batch.edge_counts)
    assert bool((batch.edge_kind == EdgeKind.SELF_LOOP).any())
    assert batch.token_ids == documents[0].token_ids + documents[1].token_ids


@settings(max_examples=60)
@given(st.lists(st.tuples(layouts, st.sampled_from(list(GRAPH_KINDS))), min_size=1, max_size=6), st.integers(1, 300))
def test_graphs_come_back_as_they_went_in_or_in_slices(drawn: list[tuple[list[int], str]], most_cells: int) -> None:
    before = [graph_of_sections(*one) for one in drawn]
    batch = GraphBatch.from_graphs(before)
    parts = list(batch.slices([nodes * nodes for nodes in batch.node_counts], most_cells))
    assert all(sum(n * n for n in part.node_counts) <= most_cells or len(part) == 1 for part in parts)
    for after in (graphs_of(batch), [graph for part in parts for graph in graphs_of(part)]):
        for a, b in zip(before, after, strict=True):
            assert all(torch.equal(a[name], b[name]) for name in b)
    for part in parts:
        assert part.document_of.tolist() == sorted(part.document_of.tolist())
        assert set(part.document_of.tolist()) == set(range(len(part)))


def tensors_of(part: object) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    map_tensors(part, found.append)
    return found


def test_a_batch_goes_through_pickle_in_one_block(random_document) -> None:
    documents = [random_document([0] * count, seed=count) for count in (1, 3, 9, 30, 31)]
    batch = GraphBatch.from_documents(documents, "hierarchical", split=True)
    _, (block,) = batch.__reduce__()
    assert isinstance(block, torch.Tensor) and block.ndim == 1
    back = pickle.loads(pickle.dumps(batch))
    assert back.token_ids == batch.token_ids
    assert np.array_equal(back.places, batch.places)
    assert len({tensor.dtype for tensor in tensors_of(batch)}) > 1
    for a, b in zip(tensors_of(back), tensors_of(batch), strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


def test_what_is_moved_is_cut_and_split_from_where_it_came(random_document) -> None:
    batch = GraphBatch.from_documents([random_document([0, 1]), random_document([0])], "section")
    moved = batch.to("meta")
    assert {tensor.device.type for tensor in tensors_of(replace(moved, origin=None))} == {"meta"}
    assert moved.to("meta") is moved
    for part in (*moved.slices([1, 1], 1), moved.split_into(np.array([0, 1, 0]))):
        assert {tensor.device.type for tensor in tensors_of(replace(part, origin=None))} == {"meta"}
    assert [part.passage_counts for part in moved.slices([1, 1], 1)] == [(2,), (1,)]
    assert moved.token_ids == batch.token_ids
    mini_batch = next(batch.mini_batches(Packing(512), 1)).to("meta")
    assert {tensor.device.type for tensor in tensors_of(mini_batch)} == {"meta"}


def test_a_gpu_fetches_what_is_pinned(monkeypatch: Patch) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor + 1)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device, non_blocking: (tensor.tolist(), non_blocking))
    assert [sent(torch.device(to), torch.tensor([1])) for to in ("cuda", "cpu")] == [([2], True), ([1], True)]


lengths = st.lists(st.integers(1, 400), max_size=300)
budgets = st.integers(1, 5_000)
shares = st.sampled_from([0.0, 0.03, 0.2])


def cells_of(tokens: list[int]) -> int:
    return len(tokens) * max(tokens)


@given(lengths, budgets, shares, st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_it_is_a_partition_longest_first_that_keeps_to_budget_and_padding(
    lengths: list[int], budget: int, padding: float, filled: float
) -> None:
    packed = [positions.tolist() for positions in Packing(budget, padding, filled).pack(lengths)]
    assert packed == [found.tolist() for found in Packing(budget, padding, filled).pack(np.asarray(lengths))]
    flat = [position for positions in packed for position in positions]
    assert flat == sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))
    tokens = [[lengths[position] for position in positions] for positions in packed]
    assert all(cells_of(held) <= budget or len(held) == 1 for held in tokens)
    if filled == 0:
        assert all(cells_of(held) - sum(held) <= padding * cells_of(held) for held in tokens)
    # Padding closes a mini-batch only once it is filled.
    for held, following in pairwise(tokens):
        more = [*held, following[0]]
        is_padded = cells_of(more) - sum(more) > padding * cells_of(more)
        assert cells_of(more) > budget or (is_padded and cells_of(held) >= filled * budget)
