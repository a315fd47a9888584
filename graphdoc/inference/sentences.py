"""Vectors of sentences, each by itself and without a graph."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from ..graphs.batch import GraphBatch
from ..graphs.packing import Packing
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import SegmentedDocument, Span
from ..settings.document import Context
from .precision import Precision, inference, require_finite

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


def sentence_vectors(
    pipeline: EncodingPipeline,
    sentences: Sequence[SegmentedDocument],
    passages: Sequence[Sequence[Span]] | None,
    dtype: Precision | None = None,
    packing: Packing | None = None,
    advance: Callable[[int], None] | None = None,
) -> Tensor:
    """Encode the sentences of documents: the initial node of each (Graph-RoBERTa, eq. 1; SDR, section 3.3).

    Args:
        pipeline: the model.
        sentences: the documents, cut into sentences.
        passages: passages of the documents, whose places the sentences take where the model reads such; None to cut
            the documents here, if they are needed.
        dtype: compute the transformer in this precision.
        packing: how sentences are packed into mini-batches; None for the rule of the device.
        advance: is given the number of sentences of every mini-batch that is done.

    Returns:
        ``(sentences, node size)``, document after document.

    Raises:
        ModelError: a number in them is infinite or none.
    """
    pipeline.require_vectors()
    model, batch = pipeline.model, GraphBatch.from_documents(sentences, None)
    if model.structural_embeddings is not None:
        if passages is None:
            passages = [pipeline.segmenter.segment(one.document).passages for one in sentences]
        batch = batch.split_into(
            None, np.concatenate([_places(*pair) for pair in zip(sentences, passages, strict=True)])
        )
    with inference(model):
        with pipeline.computing_in(dtype):
            vectors = model.encode_passages(batch.to(pipeline.device), packing, advance)
        initial = model.initial_passages(vectors)
    require_finite(initial)
    if (lexical := pipeline.lexical) is not None:
        return lexical.beside(initial, lexical.counts(text for one in sentences for text in one.texts))
    return initial


def _places(sentences: SegmentedDocument, passages: Sequence[Span]) -> Any:
    """The passage that every sentence begins in, ``(sentences,)``; the last for those beyond all."""
    starts = [(passage.section, passage.start) for passage in passages]
    return np.array([bisect_right(starts, (span.section, span.start)) - 1 for span in sentences.passages], np.int64)
