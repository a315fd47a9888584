"""Pairs of documents as graphs of similar sentences, as models that learn subtopics take them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..graphs.batch import GraphBatch
from ..graphs.joined_graphs import JoinedGraphs
from ..settings.clustering import ClusteringSettings
from .clustering import number_of_subtopics
from .similarities import vector_similarity

Vectors = npt.NDArray[np.float32]


def pair_graphs(pairs: Sequence[tuple[Vectors, Vectors]], neighbours: int | None) -> GraphBatch:
    """Put pairs into one batch, each as one graph whose edges join similar sentences (SST, eq. 3).

    Args:
        pairs: vectors of the sentences of both documents of every pair, ``(sentences, encoder hidden)`` each.
        neighbours: similar sentences that a sentence keeps; None for all.

    Returns:
        The batch; the "sections" of a pair are its documents, 0 for the first and 1 for the second.
    """
    vectors = [np.concatenate(pair) for pair in pairs]
    sections = [np.repeat(np.arange(2, dtype=np.int64), [len(first), len(second)]) for first, second in pairs]
    graphs = JoinedGraphs.of_similarities(sections, [vector_similarity(one, neighbours) for one in vectors])
    return GraphBatch.from_graphs(graphs, passage_vectors=vectors)


def columns_of(sentences: int, settings: ClusteringSettings, cluster_size: int | None = None) -> int:
    """How many subtopics a pair of some sentences can have, no more than a model has columns.

    Args:
        sentences: sentences of both documents.
        settings: those of the model.
        cluster_size: sentences of a subtopic, about; None for those that the model was trained with.
    """
    return min(number_of_subtopics(sentences, cluster_size or settings.cluster_size), settings.columns)
