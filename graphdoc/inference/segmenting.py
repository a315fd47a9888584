"""Documents cut and tokenised ahead of the transformer, and gathered into windows."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import torch

from ..documents.document import Document
from ..documents.metadata import FURNITURE_CHARACTERS
from ..runtime.text import require_whole
from ..runtime.workers import in_blocks, work_ahead
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import Coverage, SegmentedDocument, Span
from .inputs import AnyDocument, as_document, require_text

# Passages are gathered to this number before the transformer runs: enough to sort by length, little to hold.
WINDOW_PASSAGES = 4096
# Documents that are made ready together, so that their passages are tokenised in one call.
BLOCK_DOCUMENTS = 64
# Documents from which on worker processes cut ahead where nothing is said.
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
    blocks = _blocks(documents)
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


def _blocks(documents: Iterable[AnyDocument | SegmentedDocument]) -> Iterator[list[Document | SegmentedDocument]]:
    """Documents in blocks."""
    return in_blocks(
        (value if isinstance(value, SegmentedDocument) else as_document(value) for value in documents), BLOCK_DOCUMENTS
    )


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
