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
from .lexical import LexicalReader, Unknown, passage_numbers, summed

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


def vectors_of(
    level: Level, window: Window, lexical: LexicalReader | None = None, unknown: Unknown | None = None
) -> list[Tensor]:
    """Vectors of every document of a window, brought to the CPU together.

    Args:
        level: ``document``, ``section`` or ``passage``; for sentences see :mod:`graphdoc.inference.sentences`.
        window: the window; for ``section`` its documents are split into sections where the model reads them so.
        lexical: reads the words that stand beside these vectors, where the model has a lexical part.
        unknown: counts documents without a known word.

    Returns:
        For every document ``(1, hidden)``, ``(sections, hidden)`` or ``(passages, node size)``.
    """
    vectors, counts = _dense(level, window)
    if lexical is None:
        return list(torch.split(vectors, counts))
    words = lexical.counts(text for one in window.documents for text in one.texts)
    own = passage_numbers(window.documents)
    if unknown is not None:
        unknown.add(words, own)
    if level == "document":
        words = summed(words, own, len(window.documents))
    elif level == "section":
        rows, sections = _section_rows(window.documents)
        words = summed(words, rows, sum(sections))
    return list(torch.split(lexical.beside(vectors, words), counts))


def _dense(level: Level, window: Window) -> tuple[Tensor, list[int]]:
    """Vectors of all documents of a window without a lexical part, and how many each has."""
    output = window.output
    assert output.documents is not None and output.passages is not None
    if level == "document":
        return output.documents.cpu(), [1] * len(window.documents)
    if level == "section" and output.sections is not None and output.document_of_section is not None:
        numbers = torch.bincount(output.document_of_section.cpu(), minlength=len(window.documents))
        return output.sections.cpu(), numbers.tolist()
    passages = output.passages.cpu()
    if level == "passage":
        return passages, window.passage_counts
    rows, counts = _section_rows(window.documents)
    readout = output.readout_weights
    weights = np.ones(len(passages), np.float32) if readout is None else as_numpy(readout)
    return torch.from_numpy(section_vectors(as_numpy(passages), weights, rows, sum(counts))), counts


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
