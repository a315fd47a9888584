"""Documents cut into passages or sentences, counted, and gathered into windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from contextlib import closing, nullcontext
from typing import Any

import torch
from tqdm.auto import tqdm

from ..runtime.progress import progress_bar
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import Coverage, SegmentedDocument
from .inputs import AnyDocument, documents_of
from .segmenting import Workers, segment_in_order, windows_of


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
