"""Documents as callers give them, cut and tokenised ahead of the transformer, and gathered into windows."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing, nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from ..documents.document import Document
from ..documents.parsing.formats import split_suffix
from ..documents.section import FURNITURE_CHARACTERS
from ..errors import DocumentError
from ..runtime.progress import progress_bar
from ..runtime.text import described, require_whole
from ..runtime.workers import in_blocks, work_ahead
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import Coverage, SegmentedDocument, Span

AnyDocument = Document | str | Mapping[str, Any]

# Longer strings are texts; the systems that this runs on have no longer names.
_LONGEST_NAME = 1024


def is_single(value: object) -> bool:
    """Whether a value stands for one document."""
    return isinstance(value, Document | SegmentedDocument | str | Mapping)


def documents_of(value: Any) -> Iterable[Any]:
    """One document or many as an iterable; a pandas table gives its rows.

    Raises:
        DocumentError: it is something else.
    """
    if is_single(value):
        return [value]
    if hasattr(value, "iterrows"):
        return _Rows(value)
    # An array without axes has what an iterable has, and cannot be iterated over.
    has_no_axes = getattr(value, "shape", None) == ()
    if not isinstance(value, Iterable) or isinstance(value, bytes | bytearray | PathLike) or has_no_axes:
        raise _no_document(value)
    return value


class _Rows:
    """The rows of a pandas table, as often as they are asked for."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (row.to_dict() for _, row in self._table.iterrows())


def as_document(value: object) -> Document:
    """Take a document, a string without structure, or a row as a document.

    Raises:
        DocumentError: it is something else, a row without text, or a string that can only be the name of a file.
    """
    if isinstance(value, Document):
        return value
    if isinstance(value, str):
        if _is_file_name(value):
            raise DocumentError(
                f"{value!r} looks like the name of a file, not like a text; read it with Document.from_file, or give "
                "Document.from_text(...) to encode the name itself"
            )
        return Document.from_text(value)
    if isinstance(value, Mapping):
        return Document.from_mapping(value)
    raise _no_document(value)


def require_text(segmented: SegmentedDocument) -> None:
    """Refuse a document that has no passage.

    Raises:
        DocumentError: there is nothing to encode.
    """
    if not segmented.passages:
        raise DocumentError(f"document {segmented.document.id!r} has no text to encode; leave it out")


def _is_file_name(text: str) -> bool:
    """Whether a string is one word with the suffix of a known type of file, whatever lies on the disk."""
    if len(text) > _LONGEST_NAME or any(map(str.isspace, text)):
        return False
    return bool(split_suffix(Path(text))[1])


def _no_document(value: object) -> DocumentError:
    reading = "read it with Document.from_file or graphdoc.read_documents"
    fix = reading if isinstance(value, PathLike) else "give a Document, a text or a row"
    return DocumentError(f"{described(value)} is no document; {fix}")


# Passages are gathered to this number before the transformer runs: enough to sort by length, little to hold.
WINDOW_PASSAGES = 4096
# Documents that are made ready together, so that their passages are tokenised in one call.
BLOCK_DOCUMENTS = 64
# By default worker processes cut ahead from this many documents on.
MANY_DOCUMENTS = 1024
# An accelerator takes more passages a second than several processes cut.
MOST_WORKERS = 8

Parts = tuple[tuple[Span, ...], tuple[tuple[int, ...], ...], Coverage]


@dataclass(frozen=True, slots=True)
class Workers:
    """Processes that make documents or pairs of them ready ahead of the transformer.

    Args:
        count: how many; 0 for none.
        after: documents or pairs that are made ready without them first.
    """

    count: int
    after: int = 0

    @classmethod
    def on(cls, device: torch.device, workers: int | None = None, *, after: int = MANY_DOCUMENTS) -> Workers:
        """The workers that were asked for, or those that suit a device.

        Of their own accord they begin only with a large number of documents, and only where processes are forked:
        elsewhere a program that starts some has to be written for it. A CPU needs one at most, since its cores are
        busy with the transformer, an accelerator as many as there are cores.

        Args:
            device: where the transformer computes.
            workers: how many were asked for; None for nothing.
            after: what is a large number, where nothing was.

        Raises:
            SettingsError: the number is negative or no whole number.
        """
        require_whole("workers", workers, least=0)
        if workers is not None:
            return cls(workers, BLOCK_DOCUMENTS)
        if multiprocessing.get_start_method(allow_none=True) not in (None, "fork") or not hasattr(os, "fork"):
            return cls(0)
        own = len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        count = int(own >= 4) if device.type == "cpu" else min(MOST_WORKERS, own - 1)
        return cls(max(0, count), after)


def segment_in_order(
    documents: Iterable[AnyDocument | SegmentedDocument], segmenter: Segmenter, workers: Workers
) -> Generator[SegmentedDocument]:
    """Cut and tokenise documents; what comes out does not depend on the workers.

    Args:
        documents: any number of documents; such as are segmented already are taken as they are.
        segmenter: cuts and tokenises.
        workers: processes that do so.

    Yields:
        Every document, in the order given.

    Raises:
        DocumentError: something is no document.
        GraphdocError: a worker was ended from outside.
    """
    ready = (one if isinstance(one, SegmentedDocument) else as_document(one) for one in documents)
    blocks = in_blocks(ready, BLOCK_DOCUMENTS)
    waiting: deque[list[Document | SegmentedDocument]] = deque()

    def fresh(blocks: Iterable[list[Document | SegmentedDocument]]) -> Iterator[list[Document]]:
        for block in blocks:
            waiting.append(block)
            # Only what is cut has to travel to a process.
            yield [_travelling(one) for one in block if isinstance(one, Document)]

    first = islice(blocks, workers.after // BLOCK_DOCUMENTS) if workers.count else blocks
    for parts in chain(
        work_ahead(_cut, segmenter, fresh(first), 0),
        work_ahead(_cut, segmenter, fresh(blocks), workers.count),
    ):
        cut = iter(parts)
        for one in waiting.popleft():
            yield one if isinstance(one, SegmentedDocument) else SegmentedDocument(one, *next(cut))


def _travelling(document: Document) -> Document:
    """What has to be known of a document to cut it and to count what was left out."""
    counted = {name: document.metadata[name] for name in (FURNITURE_CHARACTERS,) if name in document.metadata}
    return Document(document.id, document.sections, document.title, metadata=counted)


def windows_of(segmented: Iterable[SegmentedDocument]) -> Iterator[list[SegmentedDocument]]:
    """Gather documents until their passages fill a window; a window does not depend on what follows it.

    Raises:
        DocumentError: a document has no text.
    """
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


def _cut(segmenter: Segmenter, documents: Sequence[Document]) -> list[Parts]:
    return [(one.passages, one.token_ids, one.coverage) for one in segmenter.segment_many(documents)]


def cut_windows(
    documents: Iterable[AnyDocument | SegmentedDocument] | AnyDocument | SegmentedDocument,
    segmenter: Segmenter,
    device: torch.device,
    show_progress: bool | None = None,
    workers: int | None = None,
    totals: Coverage | None = None,
    bar: tqdm[Any] | None = None,
) -> Iterator[tuple[list[SegmentedDocument], tqdm[Any]]]:
    """Cut any number of documents, in constant memory.

    Args:
        documents: one document or many, also such as are cut.
        segmenter: cuts them.
        device: where their windows are encoded, which the number of workers depends on.
        show_progress: show a bar; None shows it on a terminal when the work is long.
        workers: see :class:`~graphdoc.inference.segmenting.Workers`.
        totals: where coverage is added up; the caller then says what was left out, otherwise it is logged here.
        bar: a bar to show instead of one of this call's own.

    Yields:
        Windows of documents, in their order, with the bar, which is to be advanced by what is encoded.

    Raises:
        DocumentError: a document has no text, or something is no document.
        SettingsError: an option is out of range.
    """
    cut_by = Workers.on(device, workers)
    given = documents_of(documents)
    total = len(given) if isinstance(given, Sized) else None
    counted = Coverage() if totals is None else totals
    with (
        progress_bar(show_progress, total) if bar is None else nullcontext(bar) as shown,
        # Workers end with an error, not when its traceback is forgotten.
        closing(segment_in_order(given, segmenter, cut_by)) as segmented_documents,
    ):
        for window in windows_of(segmented_documents):
            for segmented in window:
                counted += segmented.coverage
            yield window, shown
    if totals is None:
        counted.warn()
