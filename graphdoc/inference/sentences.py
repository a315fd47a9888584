"""Vectors of sentences, without a graph: each by itself, or with a share of its document."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..graphs.batch import GraphBatch
from ..graphs.packing import Packing
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import SegmentedDocument, Span
from ..settings.document import Context
from .levels import passage_numbers, summed
from .precision import Precision, inference, require_finite
from .segmenting import require_text

if TYPE_CHECKING:
    from .pipeline import EncodingPipeline
from collections import deque
from collections.abc import Iterable, Iterator, Sized
from typing import TYPE_CHECKING

from ..runtime.memory import give_back_memory
from ..runtime.progress import Parts
from .segmenting import AnyDocument, cut_windows, documents_of

if TYPE_CHECKING:
    from .pipeline import EncodingPipeline

# Sentences differ more in length than passages: with the padding of these they would be spread over very many
# mini-batches.
SENTENCE_PADDING = 0.3


def sentence_segmenter(pipeline: EncodingPipeline, *, with_context: bool = True) -> Segmenter:
    """A segmenter that cuts documents into all of their sentences, and otherwise is as that of an encoder.

    Args:
        pipeline: the encoder.
        with_context: encode in front of every sentence what the settings of the model say; it is no part of it.
    """
    segmenter = pipeline.segmenter
    context: Context = pipeline.model.config.sentence_context if with_context else "none"
    config = replace(segmenter.config, unit="sentence", max_passages=None, context=context)
    return Segmenter(segmenter.tokenizer, config, segmenter.repeats)


def passage_means(
    pipeline: EncodingPipeline,
    passages: Sequence[SegmentedDocument],
    dtype: Precision | None = None,
    packing: Packing | None = None,
) -> Tensor:
    """The mean of every document's passages as they are before the graph, ``(documents, node size)``.

    Args:
        pipeline: the model.
        passages: the documents, cut into passages; such as have the vectors of these are not encoded.
        dtype: compute the transformer in this precision.
        packing: how passages are packed into mini-batches; None for the rule of the device.

    Raises:
        DocumentError: a document has no passage.
        ModelError: passage vectors are those of another encoder.
    """
    for one in passages:
        require_text(one)
    model, batch = pipeline.model, GraphBatch.from_documents(passages, None).to(pipeline.device)
    if batch.passage_vectors is not None:
        pipeline.require_own_vectors(batch.passage_vectors)
    with inference(model):
        with pipeline.computing_in(dtype):
            vectors = model.encode_passages(batch, packing)
        initial = model.initial_passages(vectors.float())
        return torch.stack([own.mean(dim=0) for own in torch.split(initial, [len(one.passages) for one in passages])])


def sentence_vectors(
    pipeline: EncodingPipeline,
    sentences: Sequence[SegmentedDocument],
    passages: Sequence[SegmentedDocument] | None,
    dtype: Precision | None = None,
    packing: Packing | None = None,
    advance: Callable[[int], None] | None = None,
    *,
    means: Tensor | None = None,
) -> Tensor:
    r"""Encode the sentences of documents: the initial node of each (Graph-RoBERTa, eq. 1; SDR, section 3.3).

    With the share w of the document's mean d (``sentence_document``) the vector of a sentence s is

    .. math:: s' = s / \lVert s \rVert + w \, d / \lVert d \rVert

    brought to unit length. Beside that stand the words, if there is a lexical part: those of the sentence and w times
    those of the document, which is longer than either, so that words count more in sentences than in documents.

    Args:
        pipeline: the model.
        sentences: the documents, cut into sentences.
        passages: the same, cut into passages, whose places the sentences take where the model reads such; None to cut
            the documents here, if they are needed.
        dtype: compute the transformer in this precision.
        packing: how sentences are packed into mini-batches; None for the rule of the device.
        advance: is given the number of sentences of every mini-batch that is done.
        means: ``(documents, node size)``, what :func:`passage_means` gives for ``passages``; None for sentences
            without a share of their document.

    Returns:
        ``(sentences, node size)``, document after document.

    Raises:
        ModelError: a number in them is infinite or none.
    """
    pipeline.require_vectors()
    model, batch = pipeline.model, GraphBatch.from_documents(sentences, None)
    if model.structural_embeddings is not None:
        if passages is None:
            passages = [pipeline.segmenter.segment(one.document) for one in sentences]
        places = [_places(one, other.passages) for one, other in zip(sentences, passages, strict=True)]
        batch = batch.split_into(None, np.concatenate(places))
    with inference(model):
        with pipeline.computing_in(dtype):
            vectors = model.encode_passages(batch.to(pipeline.device), packing, advance)
        initial = model.initial_passages(vectors)
    if means is not None:
        assert passages is not None
        share, document_of = model.config.sentence_document, passage_numbers(sentences)
        whole = share * normalize(means.to(initial.device).float(), dim=-1)
        initial = normalize(normalize(initial.float(), dim=-1) + whole[torch.from_numpy(document_of)], dim=-1)
    require_finite(initial)
    if (lexical := pipeline.lexical) is None:
        return initial
    beside = lexical.beside(initial, lexical.counts(text for one in sentences for text in one.texts))
    if means is not None:
        assert passages is not None
        words = lexical.counts(text for one in passages for text in one.texts)
        of_documents = lexical.vectors(summed(words, passage_numbers(passages), len(passages)))
        beside[:, initial.shape[1] :] += torch.from_numpy(share * of_documents[document_of]).to(beside.device)
    return beside


def _places(sentences: SegmentedDocument, passages: Sequence[Span]) -> Any:
    """The passage that every sentence begins in, ``(sentences,)``; the last for those beyond all."""
    starts = [(passage.section, passage.start) for passage in passages]
    return np.array([bisect_right(starts, (span.section, span.start)) - 1 for span in sentences.passages], np.int64)


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
        **options: see :func:`~graphdoc.inference.segmenting.cut_windows`.

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
