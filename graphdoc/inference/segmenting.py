"""Documents as callers give them, cut and tokenized ahead of the transformer, and gathered into windows."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise, tee
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from ..documents.document import Document
from ..documents.parsing.formats import split_suffix
from ..documents.section import FURNITURE_CHARACTERS
from ..errors import DocumentError
from ..graphs.batch import GraphBatch
from ..modeling import DocumentOutput
from ..modeling.lexical import Counts, LexicalReader, passage_numbers, summed
from ..runtime.arrays import Vectors
from ..runtime.progress import number_of, progress_bar
from ..runtime.text import described, require_whole
from ..runtime.workers import work_ahead
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import Coverage, SegmentedDocument, Span
from ..similarity.encoded_document import section_vectors
from .precision import as_numpy

AnyDocument = Document | str | Mapping[str, Any]
ManyDocuments = Iterable[AnyDocument | SegmentedDocument]

# Passages are gathered to this number before the transformer runs: enough to sort by length, little to hold.
WINDOW_PASSAGES = 4096
# Passages of a document that an index and an overview encode: nearly no document has more.
MOST_PASSAGES = 1000
# Documents that are tokenized in one call.
BLOCK_DOCUMENTS = 64
# By default worker processes cut ahead from this many documents on.
MANY_DOCUMENTS = 1024
# An accelerator takes more passages a second than several processes cut: 20,000 of MiniLM, a process 1,300 to 3,400.
MOST_WORKERS = 16
# Longer strings are texts; the systems that this runs on have no longer names.
LONGEST_NAME = 1024

Value = TypeVar("Value")


def is_single(value: object) -> bool:
    """Whether a value stands for one document."""
    return isinstance(value, Document | SegmentedDocument | str | Mapping)


def documents_of(value: Any) -> Iterable[Any]:
    """One document or many as an iterable; a pandas table gives its rows."""
    if is_single(value):
        return [value]
    if hasattr(value, "iterrows"):
        rows: list[Any] = value.to_dict("records")
        return rows
    # An array without axes has what an iterable has, and cannot be iterated over.
    has_no_axes = getattr(value, "shape", None) == ()
    if not isinstance(value, Iterable) or isinstance(value, bytes | bytearray | PathLike) or has_no_axes:
        raise _no_document(value)
    return value


def as_document(value: object) -> Document:
    """Take a document, a string without structure, or a row as a document.

    Raises:
        DocumentError: it is something else, a row without text, or a string that can only be the name of a file.
    """
    if isinstance(value, Document):
        return value
    if isinstance(value, str):
        # One word with the suffix of a known type of file, whatever lies on the disk.
        is_word = len(value) <= LONGEST_NAME and not any(map(str.isspace, value))
        if is_word and split_suffix(Path(value))[1]:
            raise DocumentError(
                f"{value!r} looks like the name of a file; read it with Document.from_file, or give "
                "Document.from_text(...) to encode the name itself"
            )
        return Document.from_text(value)
    if isinstance(value, Mapping):
        return Document.from_mapping(value)
    raise _no_document(value)


def _no_document(value: object) -> DocumentError:
    return DocumentError(
        f"{described(value)} is no document; give a Document, a text or a row (Document.from_file and "
        "graphdoc.read_documents read files)"
    )


def require_text(segmented: SegmentedDocument) -> None:
    """Refuse a document that has no passage."""
    if not segmented.passages:
        raise DocumentError(f"document {segmented.document.id!r} has no text to encode; leave it out")


@dataclass(frozen=True, slots=True)
class Workers:
    """Processes that make documents ready ahead of the transformer.

    Args:
        count: how many; 0 for none.
        after: documents that are made ready without them first.
    """

    count: int
    after: int = 0

    @classmethod
    def on(cls, device: torch.device, workers: int | None = None) -> Workers:
        """The workers that were asked for, or those that suit a device.

        By default they begin only with a large number of documents, and only where processes are forked: elsewhere a
        program that starts some has to be written for it. A CPU needs one at most, since its cores are busy with the
        transformer, an accelerator as many as there are cores.
        """
        if workers is not None:
            require_whole("workers", workers, least=0)
            return cls(workers, BLOCK_DOCUMENTS)
        if multiprocessing.get_start_method(allow_none=True) not in (None, "fork") or not hasattr(os, "fork"):
            return cls(0)
        cores = len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        count = int(cores >= 4) if device.type == "cpu" else min(MOST_WORKERS, cores - 1)
        return cls(max(0, count), MANY_DOCUMENTS)


def in_blocks(
    values: Iterable[Value], size: int, size_of: Callable[[Value], int] = lambda value: 1
) -> Iterator[list[Value]]:
    """Cut values, read as they are needed, into blocks; an error is raised after the block of those before it."""
    block: list[Value] = []
    filled = 0
    failure: Exception | None = None
    try:
        for value in values:
            block.append(value)
            filled += size_of(value)
            if filled >= size:
                yield block
                block, filled = [], 0
    except Exception as error:
        failure = error
    if block:
        yield block
    if failure is not None:
        raise failure


_Cut = tuple[tuple[Span, ...], tuple[tuple[int, ...], ...], Coverage]
_Block = Sequence[Document | SegmentedDocument]


def segment_in_order(documents: ManyDocuments, segmenter: Segmenter, workers: Workers) -> Generator[SegmentedDocument]:
    """Cut and tokenize the documents that are not segmented yet, in order; workers do not change the result."""
    ready = (one if isinstance(one, SegmentedDocument) else as_document(one) for one in documents)
    blocks = in_blocks(ready, BLOCK_DOCUMENTS)
    for block in islice(blocks, workers.after // BLOCK_DOCUMENTS if workers.count else None):
        yield from _joined(block, _cut(segmenter, _uncut(block)))
    if workers.count:
        blocks, kept = tee(blocks)
        # Workers end with an error, not when its traceback is forgotten.
        with closing(work_ahead(_cut, segmenter, map(_uncut, blocks), workers.count)) as ahead:
            for cut, block in zip(ahead, kept, strict=True):
                yield from _joined(block, cut)


def _uncut(block: _Block) -> list[Document]:
    """The documents of a block that have to go to a worker process to be cut."""
    return [
        Document(
            one.id,
            one.sections,
            one.title,
            metadata={name: value for name, value in one.metadata.items() if name == FURNITURE_CHARACTERS},
        )
        for one in block
        if isinstance(one, Document)
    ]


def _cut(segmenter: Segmenter, documents: Sequence[Document]) -> list[_Cut]:
    return [(one.passages, one.token_ids, one.coverage) for one in segmenter.segment_many(documents)]


def _joined(block: _Block, cut: list[_Cut]) -> Iterator[SegmentedDocument]:
    parts = iter(cut)
    return (one if isinstance(one, SegmentedDocument) else SegmentedDocument(one, *next(parts)) for one in block)


def windows_of(segmented: Iterable[SegmentedDocument]) -> Iterator[list[SegmentedDocument]]:
    """Gather documents until their passages fill a window; a window does not depend on what follows it."""
    window: list[SegmentedDocument] = []
    passages = 0
    for one in segmented:
        require_text(one)
        window.append(one)
        passages += len(one.passages)
        if passages >= WINDOW_PASSAGES:
            yield window
            window, passages = [], 0
    if window:
        yield window


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

    @property
    def rows(self) -> list[slice]:
        """Where the passages of every document stand among those of the window."""
        starts = np.cumsum([0, *(len(document.passages) for document in self.documents)]).tolist()
        return [slice(start, end) for start, end in pairwise(starts)]

    def pooled(self) -> Iterator[Vectors]:
        """Pooled passage vectors of every document, brought to the CPU together."""
        vectors = as_numpy(self.passage_vectors)
        return (vectors[rows].copy() for rows in self.rows)

    def vectors(
        self,
        level: Literal["document", "section", "passage"],
        lexical: LexicalReader | None = None,
        counts: Counts = None,
    ) -> list[Tensor]:
        """Vectors of every document, brought to the CPU together.

        Args:
            level: for ``section`` documents are split into sections where the model reads them so.
            lexical: reads the words that are appended to these vectors, where the model has a lexical part.
            counts: what it counts in the passages, sparse ``(passages, terms)``.

        Returns:
            For every document ``(1, hidden)``, ``(sections, hidden)`` or ``(passages, node size)``.
        """
        output, documents = self.output, passage_numbers(self.documents)
        assert output.documents is not None and output.passages is not None
        if level == "document":
            vectors, groups, sizes = output.documents.cpu(), documents, [1] * len(self.documents)
        elif level == "passage":
            vectors, groups, sizes = output.passages.cpu(), np.arange(len(documents)), np.bincount(documents).tolist()
        else:
            sections = np.array([span.section for one in self.documents for span in one.passages], np.int64)
            pairs, groups = np.unique(np.stack([documents, sections]), axis=1, return_inverse=True)
            sizes = np.bincount(pairs[0]).tolist()
            if output.sections is not None:
                vectors = output.sections.cpu()
            else:
                weights = output.readout_weights
                shares = np.ones(len(documents), np.float32) if weights is None else as_numpy(weights)
                vectors = torch.from_numpy(section_vectors(as_numpy(output.passages), shares, groups, len(pairs[0])))
        if lexical is not None:
            vectors = lexical.append_to(vectors, summed(counts, groups, len(vectors)))
        return list(torch.split(vectors, sizes))


def cut_windows(
    documents: ManyDocuments | AnyDocument | SegmentedDocument,
    segmenter: Segmenter,
    device: torch.device,
    show_progress_bar: bool | None = None,
    workers: int | None = None,
    totals: Coverage | None = None,
    bar: tqdm[Any] | None = None,
) -> Iterator[tuple[list[SegmentedDocument], tqdm[Any] | None]]:
    """Cut any number of documents, in constant memory.

    Args:
        documents: one document or many, segmented or not.
        segmenter: cuts them.
        device: where their windows are encoded, which the number of workers depends on.
        show_progress_bar: show a bar; None shows it on a terminal when the work is long.
        workers: processes that cut.
        totals: where coverage is added up; logged here without one.
        bar: a bar to show instead of a new one.

    Yields:
        Windows of documents, in their order, with the bar to be advanced by what is encoded; None where none is shown.
    """
    ahead = Workers.on(device, workers)
    documents = documents_of(documents)
    coverage = Coverage() if totals is None else totals
    is_shown = bar is None and (show_progress_bar or (show_progress_bar is None and sys.stderr.isatty()))
    with (
        progress_bar(show_progress_bar, partial(number_of, documents)) if is_shown else nullcontext(bar) as shown,
        closing(segment_in_order(documents, segmenter, ahead)) as segmented,
    ):
        for window in windows_of(segmented):
            for one in window:
                coverage += one.coverage
            yield window, shown
    if totals is None:
        coverage.warn()
