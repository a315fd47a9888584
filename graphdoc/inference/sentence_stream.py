"""Any number of documents cut into sentences, with the vectors of these, in constant memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sized
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..graphs.packing import Packing
from ..runtime.memory import give_back_memory
from ..runtime.progress import Parts
from ..segmentation.spans import SegmentedDocument
from .cutting import cut_windows
from .inputs import AnyDocument, documents_of
from .precision import Precision
from .sentences import SENTENCE_PADDING, passage_means, sentence_segmenter, sentence_vectors

if TYPE_CHECKING:
    from .pipeline import EncodingPipeline


def stream_sentences(
    pipeline: EncodingPipeline,
    documents: Iterable[AnyDocument | SegmentedDocument] | AnyDocument | SegmentedDocument,
    *,
    dtype: Precision | None = None,
    token_budget: int | None = None,
    padding: float | None = None,
    **options: Any,
) -> Iterator[tuple[SegmentedDocument, Tensor]]:
    """Encode the sentences of documents one window after another.

    Args:
        pipeline: the model.
        documents: one document or many; such as are cut into passages are cut anew, but where they bring the vectors
            of their passages these are taken for what sentences have of their document.
        dtype: compute the transformer in this precision.
        token_budget: most tokens of a mini-batch, padding included; None for the rule of the device.
        padding: most of a mini-batch that may be padding; None for the rules for sentences and for passages.
        **options: see :func:`~graphdoc.inference.cutting.cut_windows`.

    Yields:
        Every document, cut into sentences, with their vectors on the CPU, ``(sentences, node size)``.

    Raises:
        DocumentError: a document has no text, or something is no document.
        SettingsError: an option is out of range.
    """
    given = documents_of(documents)
    encoded: deque[SegmentedDocument | None] = deque()

    def documents_only() -> Iterator[AnyDocument]:
        for one in given:
            is_cut = isinstance(one, SegmentedDocument)
            encoded.append(one if is_cut and one.passage_vectors is not None else None)
            yield one.document if is_cut else one

    # A bar knows how many there are.
    whole = list(documents_only()) if isinstance(given, Sized) else documents_only()
    packing = Packing.on(pipeline.device, token_budget, SENTENCE_PADDING if padding is None else padding)
    has_share = bool(pipeline.model.config.sentence_document)
    for window, shown in cut_windows(whole, sentence_segmenter(pipeline), pipeline.device, **options):
        known = [encoded.popleft() for _ in window]
        passages = means = None
        if has_share:
            pairs = list(zip(known, window, strict=True))
            cut = pipeline.segmenter.segment_many(one.document for own, one in pairs if own is None)
            passages = [next(cut) if own is None else own for own, _ in pairs]
            means = passage_means(pipeline, passages, dtype, Packing.on(pipeline.device, token_budget, padding))
        advance = Parts(shown, len(window), sum(len(one.passages) for one in window), "sentences")
        vectors = sentence_vectors(pipeline, window, passages, dtype, packing, advance, means=means).cpu()
        yield from zip(window, torch.split(vectors, [len(one.passages) for one in window]), strict=True)
        give_back_memory()
