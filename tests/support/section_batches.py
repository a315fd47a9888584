"""Batches of documents that are split into sections, for the tests of graphs and readouts."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.document_graph import graph_of_sections

documents = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=5)


def batch_of(ids: list[list[int]], places: list[list[int]] | None = None) -> GraphBatch:
    """Documents with the given section id and chunk id for every passage."""
    chunk_ids = None if places is None else np.array([place for one in places for place in one])
    graphs = [graph_of_sections(one) for one in ids]
    return GraphBatch.from_graphs(graphs, section_ids=np.array([id for one in ids for id in one]), chunk_ids=chunk_ids)
