"""Batches of labelled documents, whole or split into sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..batching import GraphBatch, TokenIds
from ..graphs import DocumentGraph, graph_of_sections
from ..sampling import DocumentSections
from .passage_vectors import PassageVectors
from .training_batch import TrainingBatch, TrainingExample


@dataclass(frozen=True)
class LabelledCollator:
    """Makes batches of labelled documents, in the processes that load ahead.

    Args:
        targets: ``(rows, ...)``, what is to be learned of every document of the corpus, by its row.
        graph_kind: kind of the graphs.
        window: reach of the ``window`` kind.
        passage_vectors: vectors of a frozen passage encoder, which then go along instead of tokens.
        sections: how documents are split into sections; None leaves their own.
    """

    targets: npt.NDArray[Any]
    graph_kind: str
    window: int
    passage_vectors: PassageVectors | None = None
    sections: DocumentSections | None = None

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch of documents of one epoch."""
        graphs: list[DocumentGraph] = []
        token_ids: list[TokenIds] = []
        vectors: list[npt.NDArray[np.float32]] = []
        for example, epoch, row in places:
            order, section_ids = np.arange(len(example.sections)), example.sections
            if self.sections is not None:
                split = self.sections.draw(example.id, epoch, example.sections)
                order, section_ids = split.order, split.section_ids
            graphs.append(graph_of_sections(section_ids.tolist(), self.graph_kind, window=self.window))
            if self.passage_vectors is None:
                token_ids.extend(example.token_ids[place] for place in order.tolist())
            else:
                vectors.append(self.passage_vectors.vectors_of(row)[order])
        batch = GraphBatch.from_graphs(graphs, tuple(token_ids))
        if self.passage_vectors is not None:
            batch = replace(batch, passage_vectors=torch.from_numpy(np.concatenate(vectors)))
        rows = [row for _, _, row in places]
        return TrainingBatch(
            batch, tuple(example.id for example, _, _ in places), torch.from_numpy(self.targets[rows])
        )
