"""Vectors of documents, sections and passages out of what a model gives, and their words beside these."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor
from torch.nn.functional import normalize

from ..graphs.batch import GraphBatch
from ..modeling import DocumentOutput
from ..modeling.lexical import Counts, LexicalPart
from ..runtime.text import counted
from ..segmentation.spans import SegmentedDocument
from ..similarity.encoded_document import LexicalShares, Vectors, section_vectors
from ..subtopics.terms import TermMaker

Floats = npt.NDArray[np.float64]
logger = logging.getLogger("graphdoc")

# Words whose rows are remembered; a word is reduced to its stem once.
_MOST_REMEMBERED = 1_000_000
_NOWHERE = -1


class LexicalReader:
    """Reads the words of texts for a model.

    Args:
        part: the lexical part of the model.
        weight: what lexical vectors of unit length are multiplied by.
    """

    def __init__(self, part: LexicalPart, weight: float) -> None:
        self.part, self.weight = part, weight
        self._maker = TermMaker(part.settings.language)
        self._known: dict[str, int] = {}

    @property
    def numbers(self) -> int:
        """Numbers of a lexical vector."""
        return self.part.settings.numbers

    def counts(self, texts: Iterable[str]) -> Counts:
        """How often texts have every term, sparse ``(texts, terms)``."""
        columns: list[int] = []
        ends = [0]
        for text in texts:
            columns += self._rows_of(text)
            ends.append(len(columns))
        shape = len(ends) - 1, self.part.settings.terms
        found = sparse.csr_matrix((np.ones(len(columns), np.float32), columns, ends), shape, np.float32)
        found.sum_duplicates()
        return found

    def vectors(self, counts: Counts) -> Vectors:
        """Lexical vectors of the length ``weight``, ``(texts, numbers)``; zeros for a text without a known word."""
        found = self.part.project(self.part.weights(counts))
        return np.asarray(found * (self.weight / _lengths(found))[:, None], np.float32)

    def unit_weights(self, counts: Counts) -> Counts:
        """The tf-idf weights of terms brought to the length 1, sparse ``(texts, terms)``, which heads read."""
        found = self.part.weights(counts)
        lengths = np.sqrt(np.asarray(found.multiply(found).sum(axis=1)).ravel())
        return (sparse.diags(1 / np.where(lengths > 0, lengths, 1.0)) @ found).tocsr()

    def of_documents(self, documents: Sequence[SegmentedDocument]) -> Counts:
        """The same of whole documents, sparse ``(documents, terms)``."""
        counts = self.counts(text for one in documents for text in one.texts)
        return self.unit_weights(summed(counts, passage_numbers(documents), len(documents)))

    def beside(self, vectors: Tensor, counts: Counts) -> Tensor:
        """Vectors of unit length with the lexical vectors of their texts behind, ``(rows, hidden + numbers)``.

        Args:
            vectors: ``(rows, hidden)``.
            counts: sparse ``(rows, terms)``.
        """
        lexical = torch.from_numpy(self.vectors(counts)).to(vectors.device)
        return torch.cat([normalize(vectors.float(), dim=-1), lexical], dim=-1)

    def split(self, segmented: SegmentedDocument, counts: Counts) -> tuple[Floats, LexicalShares]:
        """The lexical vector of a document, split by passages and terms.

        The weight of a term in the document is split over the passages in proportion to its counts there.

        Args:
            segmented: the document.
            counts: sparse ``(passages, terms)``.

        Returns:
            ``(passages, numbers)``, which adds up to the lexical vector of the document; its terms.
        """
        rows, of_document = self._split_weights(counts)
        table = self.part.vectors_of(rows)
        of_document *= self.weight / float(_lengths(of_document.sum(axis=0) @ table)[0])
        of_passages = counts[:, rows].astype(np.float64)
        of_passages.data = (1 + np.log(of_passages.data)) * self.part.idf.cpu().numpy()[rows][of_passages.indices]
        scales = self.weight / _lengths(of_passages @ table)
        of_passages = of_passages.multiply(scales[:, None]).tocsr()
        words = self.written(segmented.texts, rows)
        shares = LexicalShares(words, rows, table, of_document, of_passages)
        return np.asarray(of_document @ table, np.float64), shares

    def unit_shares(self, counts: Counts) -> tuple[npt.NDArray[np.int64], Counts]:
        """The tf-idf weights of a document, of the length 1, split by passages as its lexical vector is.

        Args:
            counts: sparse ``(passages, terms)``.

        Returns:
            ``(terms,)``, the rows of its terms; their weights, sparse ``(passages, terms)``.
        """
        rows, found = self._split_weights(counts)
        return rows, found / float(_lengths(found.sum(axis=0))[0])

    def written(self, texts: Iterable[str], rows: npt.NDArray[np.int64]) -> tuple[str, ...]:
        """Terms that occur in texts, by their rows, each as it is first written there."""
        words = self._words(texts, set(rows.tolist()))
        return tuple(words[row] for row in rows.tolist())

    def _split_weights(self, counts: Counts) -> tuple[npt.NDArray[np.int64], Counts]:
        """The rows of the terms of a document, and their tf-idf weights in it, sparse ``(passages, terms)``."""
        rows = np.unique(counts.indices).astype(np.int64)
        own = counts[:, rows].astype(np.float64)
        totals = np.maximum(np.asarray(own.sum(axis=0)).ravel(), 1)
        weights = (1 + np.log(totals)) * self.part.idf.cpu().numpy()[rows]
        return rows, own.multiply((weights / totals)[None]).tocsr()

    def _rows_of(self, text: str) -> Iterator[int]:
        return (row for term in self._maker.occurrences(text) if (row := self._row_of(term)) != _NOWHERE)

    def _row_of(self, term: str) -> int:
        row = self._known.get(term)
        if row is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            found = self.part.row_of(term)
            row = self._known[term] = _NOWHERE if found is None else found
        return row

    def _words(self, texts: Iterable[str], wanted: set[int]) -> dict[int, str]:
        """Every wanted row with the word as it is first written."""
        found: dict[int, str] = {}
        for text in texts:
            for term, word in self._maker.placed(text):
                if (row := self._row_of(term)) in wanted:
                    found.setdefault(row, word)
        return found


class Unknown:
    """Counts documents of which the lexical part knows no word, and says so.

    Args:
        name: what to call the model.
        reader: its lexical part.
    """

    def __init__(self, name: str, reader: LexicalReader) -> None:
        self._name, self._language = name, reader.part.settings.language
        self._documents = self._unknown = 0

    def add(self, counts: Counts, group_of: npt.NDArray[np.int64]) -> None:
        """Count documents, ``group_of`` the rows of their counts."""
        sizes = np.asarray(counts.sum(axis=1)).ravel()
        totals = np.bincount(group_of, sizes)
        self._documents += len(totals)
        self._unknown += int((totals == 0).sum())

    def warn(self) -> None:
        """Say how many there were, if any."""
        if self._unknown:
            logger.warning(
                "%s of %s %s no word that the lexical part of %s knows (language %r), and so no lexical vector; fit "
                "the model to such documents (graphdoc fit, or encoder.fit)",
                f"{self._unknown:,}",
                counted(self._documents, "document"),
                "has" if self._unknown == 1 else "have",
                self._name,
                self._language,
            )


def passage_numbers(documents: Sequence[SegmentedDocument]) -> npt.NDArray[np.int64]:
    """The document of every passage, ``(passages,)``."""
    return np.repeat(np.arange(len(documents)), [len(one.passages) for one in documents])


def summed(counts: Counts, group_of: npt.NDArray[np.int64], groups: int) -> Counts:
    """Counts of groups of texts, sparse ``(groups, terms)``.

    Args:
        counts: sparse ``(texts, terms)``.
        group_of: ``(texts,)``.
        groups: number of groups.
    """
    members: Any = sparse.csr_matrix(
        (np.ones(len(group_of), np.float32), (group_of, np.arange(len(group_of)))), (groups, len(group_of))
    )
    return (members @ counts).tocsr()


def _lengths(vectors: npt.NDArray[Any]) -> Floats:
    """The lengths of rows, ``(rows,)``; 1 for those of zeros."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    return np.asarray(np.where(lengths > 0, lengths, 1.0))


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
