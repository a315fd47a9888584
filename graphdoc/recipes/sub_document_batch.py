"""Batches of sub-documents: two views of every document, as contrastive losses compare them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..graphs.joined_graphs import JoinedGraphs
from ..graphs.kinds import GraphKind
from ..sampling import DocumentSplit
from ..sampling.draws import Rows
from ..training.batch import TrainingBatch, TrainingExample
from .parts_batch import VectorsOfDocuments, batch_of_parts


def sub_document_batch(
    examples: Sequence[TrainingExample],
    split: DocumentSplit,
    epoch: int,
    *,
    graph: GraphKind | str | None = "full",
    passage_vectors: VectorsOfDocuments | None = None,
) -> TrainingBatch:
    """Split documents into sub-documents and build the graphs of both.

    Edges are those of the graph kind over the passages that a sub-document has, in reading order.

    Args:
        examples: the documents, each of two passages at least.
        split: how they are split.
        epoch: number of the epoch, for the draw.
        graph: kind of the graphs; None where vectors depend on no edges.
        passage_vectors: pooled vectors of every document's passages, ``(passages, encoder hidden)`` each, which then
            go along instead of token ids.

    Returns:
        The batch, with the roles ``anchor`` and ``candidate`` and the target ``group``.
    """
    draws = [split.draw(example.id, epoch, len(example.sections)) for example in examples]
    parts: list[tuple[int, Rows]] = []
    graphs: list[JoinedGraphs] = []
    for view in (0, 1):
        parts += [(number, draw[view]) for number, draw in enumerate(draws)]
        sections = [example.sections[draw[view]] for example, draw in zip(examples, draws, strict=True)]
        if view == 0 and split.has_queries:
            graphs.append(JoinedGraphs.of_queries([one[0] for one in sections]))
        else:
            graphs.append(JoinedGraphs.of_sections(sections, graph))
    return TrainingBatch(
        graphs=batch_of_parts(examples, parts, JoinedGraphs.join(graphs), passage_vectors),
        ids=tuple(example.id for example in examples),
        targets={"group": torch.tensor([example.group for example in examples], dtype=torch.int64)},
        roles={"anchor": slice(len(examples)), "candidate": slice(len(examples), None)},
    )
