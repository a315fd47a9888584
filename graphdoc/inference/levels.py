"""Vectors of documents, sections and passages from what a model gives for a window of documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..graphs.batch import GraphBatch
from ..modeling import DocumentOutput
from ..segmentation.spans import SegmentedDocument
from ..similarity.encoded_document import Vectors, section_vectors

Level = Literal["document", "section", "passage", "sentence"]
LEVELS: tuple[str, ...] = get_args(Level)


@dataclass(frozen=True, slots=True)
class Window:
    """Documents that went through the model together.

    Args:
        documents: the documents.
        batch: their graphs.
        passage_vectors: ``(passages, encoder hidden)``, pooled passage vectors, document after document.
        output: the model's output.
    """

    documents: Sequence[SegmentedDocument]
    batch: GraphBatch
    passage_vectors: Tensor
    output: DocumentOutput

    def pooled(self) -> Iterator[Vectors]:
        """Pooled passage vectors of every document, brought to the CPU together."""
        vectors = as_numpy(self.passage_vectors)
        return (vectors[rows].copy() for rows in self.rows)

    @property
    def rows(self) -> list[slice]:
        """Where the passages of every document stand among those of the window."""
        starts = np.cumsum([0, *self.passage_counts]).tolist()
        return [slice(start, end) for start, end in pairwise(starts)]

    @property
    def passage_counts(self) -> list[int]:
        """Passages of every document."""
        return [len(segmented.passages) for segmented in self.documents]


def vectors_of(level: Level, window: Window) -> list[Tensor]:
    """Vectors of every document of a window, brought to the CPU together.

    Args:
        level: ``document``, ``section`` or ``passage``; for sentences see :mod:`graphdoc.inference.sentences`.
        window: the window; for ``section`` its documents are split into sections where the model reads them so.

    Returns:
        For every document ``(1, hidden)``, ``(sections, hidden)`` or ``(passages, node size)``.
    """
    output = window.output
    assert output.documents is not None and output.passages is not None
    if level == "document":
        return list(torch.split(output.documents.cpu(), 1))
    if level == "section" and output.sections is not None and output.document_of_section is not None:
        counts = torch.bincount(output.document_of_section.cpu(), minlength=len(window.documents))
        return list(torch.split(output.sections.cpu(), counts.tolist()))
    passages = output.passages.cpu()
    if level == "passage":
        return list(torch.split(passages, window.passage_counts))
    rows, counts_of_sections = _section_rows(window.documents)
    readout = output.readout_weights
    weights = np.ones(len(passages), np.float32) if readout is None else as_numpy(readout)
    sections = section_vectors(as_numpy(passages), weights, rows, sum(counts_of_sections))
    return list(torch.split(torch.from_numpy(sections), counts_of_sections))


def _section_rows(documents: Sequence[SegmentedDocument]) -> tuple[npt.NDArray[np.int64], list[int]]:
    """Section of every passage, counted over all documents, and the number of sections of each."""
    rows: list[npt.NDArray[np.int64]] = []
    counts: list[int] = []
    for segmented in documents:
        sections, own = np.unique([passage.section for passage in segmented.passages], return_inverse=True)
        rows.append(own + sum(counts))
        counts.append(len(sections))
    return np.concatenate(rows), counts


def as_numpy(tensor: Tensor) -> Vectors:
    """The numbers of a tensor in fp32 as an array."""
    return tensor.float().cpu().numpy()
