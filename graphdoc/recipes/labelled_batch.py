"""Batches of labelled documents, whole or in sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..corpus.passage_vectors import PassageVectors
from ..graphs.joined_graphs import JoinedGraphs
from ..graphs.kinds import GraphKind
from ..sampling import DocumentSections
from ..training.batch import TrainingBatch, TrainingExample
from .parts_batch import VectorsOfDocuments, batch_of_parts, vectors_at

WHOLE = DocumentSections(sections=1)


@dataclass(frozen=True)
class LabelledCollator:
    """Makes batches of labelled documents, in the processes that load ahead.

    Args:
        target: name of what is to be learned, ``class`` or ``group``.
        values: ``(rows, ...)``, what is to be learned of every document of the corpus, by its row.
        graph: kind of the graphs; None where vectors depend on no edges.
        passage_vectors: vectors of a frozen passage encoder, which then go along instead of tokens.
        sections: how documents are split into sections; None leaves them whole.
        most_tokens: most tokens of a section; None for no limit.
    """

    target: str
    values: npt.NDArray[Any]
    graph: GraphKind | None
    passage_vectors: PassageVectors | None = None
    sections: DocumentSections | None = None
    most_tokens: int | None = None

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch of documents of one epoch."""
        rows = [row for _, _, row in places]
        return section_batch(
            [example for example, _, _ in places],
            self.sections,
            places[0][1],
            {self.target: torch.from_numpy(self.values[rows])},
            graph=self.graph,
            passage_vectors=vectors_at(self.passage_vectors, rows),
            most_tokens=self.most_tokens,
        )


def token_counts(example: TrainingExample) -> npt.NDArray[np.int64]:
    """Tokens of every passage of a document, special tokens included, ``(passages,)``."""
    return np.array([len(ids) for ids in example.token_ids], np.int64)


def section_batch(
    examples: Sequence[TrainingExample],
    sections: DocumentSections | None,
    epoch: int,
    targets: Mapping[str, Tensor],
    *,
    graph: GraphKind | str | None = "full",
    passage_vectors: VectorsOfDocuments | None = None,
    most_tokens: int | None = None,
) -> TrainingBatch:
    """Build the graphs of documents, whole or split into sections.

    The graph of a document is that of the whole document with its own sections, as at inference; the sections it is
    split into are those of the readout and of the structural embeddings.

    Args:
        examples: the documents.
        sections: how they are split; None leaves them whole.
        epoch: number of the epoch, for the draw.
        targets: what the objective compares with, ``(documents, ...)`` by name.
        graph: kind of the graphs; None where vectors depend on no edges.
        passage_vectors: pooled vectors of every document's passages, ``(passages, encoder hidden)`` each, which then
            go along instead of token ids.
        most_tokens: most tokens of a section, special tokens included; None for no limit.

    Returns:
        The batch; every passage of every document is in it exactly once, but for those beyond ``most_tokens``.
    """
    how = WHOLE if sections is None else sections
    splits = [how.draw(example.id, epoch, example.sections) for example in examples]
    if most_tokens is not None:
        splits = [
            split.limited(token_counts(example), most_tokens) for example, split in zip(examples, splits, strict=True)
        ]
    batch = batch_of_parts(
        examples,
        [(number, split.order) for number, split in enumerate(splits)],
        JoinedGraphs.of_sections(
            [example.sections[split.order] for example, split in zip(examples, splits, strict=True)], graph
        ),
        passage_vectors,
        section_ids=None if sections is None else np.concatenate([split.section_ids for split in splits]),
        chunk_ids=None if sections is None else np.concatenate([split.chunk_ids for split in splits]),
    )
    return TrainingBatch(graphs=batch, ids=tuple(example.id for example in examples), targets=targets)
