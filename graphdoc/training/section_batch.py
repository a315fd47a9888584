"""Batches of documents in sections, as supervised contrastive losses compare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..batching import GraphBatch, TokenIds
from ..graphs import graph_of_sections
from ..sampling import DocumentSections
from .training_batch import TrainingBatch, TrainingExample


def section_batch(
    examples: Sequence[TrainingExample],
    sections: DocumentSections,
    epoch: int,
    targets: Tensor,
    *,
    graph_kind: str = "full",
    window: int = 2,
    passage_vectors: Sequence[npt.NDArray[np.float32]] | None = None,
) -> TrainingBatch:
    """Split documents into sections and build their graphs.

    The graph of a document is that of the whole document with its own sections, as at inference; the sections it is
    split into are those of the readout and of the structural embeddings.

    Args:
        examples: the documents.
        sections: how they are split.
        epoch: number of the epoch, for the draw.
        targets: ``(documents, ...)``, what the objective compares with, such as the group of a document.
        graph_kind: kind of the graphs.
        window: reach of the ``window`` kind.
        passage_vectors: pooled vectors of every document's passages, ``(passages, encoder hidden)`` each, which then
            go along instead of token ids.

    Returns:
        The batch; every passage of every document is in it exactly once.
    """
    splits = [sections.draw(example.id, epoch, example.sections) for example in examples]
    graphs, token_ids, vectors = [], list[TokenIds](), []
    for number, (example, split) in enumerate(zip(examples, splits, strict=True)):
        graphs.append(graph_of_sections(example.sections[split.order].tolist(), graph_kind, window=window))
        if passage_vectors is None:
            token_ids.extend(example.token_ids[row] for row in split.order.tolist())
        else:
            vectors.append(passage_vectors[number][split.order])
    batch = replace(
        GraphBatch.from_graphs(graphs, tuple(token_ids)),
        section_ids=torch.from_numpy(np.concatenate([split.section_ids for split in splits])),
        chunk_ids=torch.from_numpy(np.concatenate([split.chunk_ids for split in splits])),
        passage_vectors=None if passage_vectors is None else torch.from_numpy(np.concatenate(vectors)),
    )
    return TrainingBatch(graphs=batch, ids=tuple(example.id for example in examples), targets=targets)
