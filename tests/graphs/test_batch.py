from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.document_graph import DocumentGraph, graph_of_sections
from graphdoc.graphs.kinds import EdgeKind, JoinedGraphs
from graphdoc.graphs.layout import Packing, map_tensors
from graphdoc.registry import GRAPH_KINDS

layouts = st.lists(st.integers(0, 4), max_size=9)


def query_graph(section: int) -> DocumentGraph:
    return DocumentGraph.of(JoinedGraphs.of_queries([section]))


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


def test_mini_batches_hold_every_passage_once(random_document) -> None:
    batch = GraphBatch.from_documents([random_document([0] * 20, seed=seed) for seed in range(6)], "full")
    seen: dict[int, tuple[int, ...]] = {}
    for mini_batch in batch.mini_batches(Packing(512), pad_token_id=77):
        assert mini_batch.input_ids.shape == mini_batch.attention_mask.shape
        assert mini_batch.input_ids.numel() <= 512
        assert 1 - mini_batch.attention_mask.float().mean() <= 0.03
        assert bool((mini_batch.input_ids[mini_batch.attention_mask == 0] == 77).all())
        for ids, mask, row in zip(
            mini_batch.input_ids, mini_batch.attention_mask, mini_batch.passage_order.tolist(), strict=True
        ):
            assert mask.tolist() == sorted(mask.tolist(), reverse=True)
            assert row not in seen
            seen[row] = tuple(ids[mask == 1].tolist())
    assert tuple(seen[row] for row in range(len(batch.token_ids))) == batch.token_ids


@settings(max_examples=60)
@given(st.lists(st.tuples(layouts, st.sampled_from(list(GRAPH_KINDS))), min_size=1, max_size=6), st.integers(1, 300))
def test_graphs_come_back_as_they_went_in_whole_or_in_slices(
    drawn: list[tuple[list[int], str]], most_cells: int
) -> None:
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


def test_a_query_is_passage_and_document_in_one() -> None:
    batch = GraphBatch.from_graphs([graph_of_sections([0, 0]), query_graph(4)])

    assert batch.rows.passages.tolist() == [1, 2, 3]
    assert batch.rows.documents.tolist() == [0, 3]
    assert batch.is_query.tolist() == [False, False, False, True]
    assert batch.section_of[3] == 4
    assert query_graph(0).num_passages == 1


def places_by_hand(document_of: list[int], sections: list[int]) -> list[list[int]]:
    seen: dict[tuple[int, int], int] = {}
    places = []
    for key in zip(document_of, sections, strict=True):
        places.append([key[1], seen.setdefault(key, 0)])
        seen[key] += 1
    return places


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=1, max_size=5), st.data())
def test_structure_counts_sections_and_chunks(layouts: list[list[int]], data: st.DataObject) -> None:
    kinds = [
        data.draw(st.sampled_from([*GRAPH_KINDS, "query"] if len(one) == 1 else list(GRAPH_KINDS))) for one in layouts
    ]
    graphs = [
        query_graph(one[0]) if kind == "query" else graph_of_sections(one, kind)
        for one, kind in zip(layouts, kinds, strict=True)
    ]
    batch = GraphBatch.from_graphs(graphs)
    document_of = [number for number, one in enumerate(layouts) for _ in one]
    assert batch.places.tolist() == places_by_hand(document_of, [0] * len(document_of))
    ids = [section for one in layouts for section in one]
    split = batch.split_into(np.array(ids))
    assert split.places.tolist() == places_by_hand(document_of, ids)
    numbered = batch.split_into(np.array(ids), np.arange(len(ids)) + 5)
    assert numbered.places.tolist() == [[a, b + 5] for b, a in enumerate(ids)]
    for whole in (split, numbered):
        parts = [part.places for part in whole.slices([1] * len(layouts), 2)]
        assert len(parts) == -(-len(layouts) // 2)
        assert np.array_equal(np.concatenate(parts), whole.places)


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
