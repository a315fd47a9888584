"""Queries: one passage each, whose vector is its initial node."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import islice

import torch
from torch import Tensor

from ..errors import DocumentError
from ..graphs.batch import GraphBatch
from ..graphs.joined_graphs import JoinedGraphs
from ..runtime.text import counted
from ..segmentation.segmenter import SegmentationConfig, Segmenter
from ..segmentation.spans import SegmentedDocument
from .inputs import AnyDocument, as_document
from .pipeline import EncodingPipeline
from .precision import Precision
from .segmenting import WINDOW_PASSAGES

logger = logging.getLogger("graphdoc")


def encode_queries(
    pipeline: EncodingPipeline, queries: Iterable[AnyDocument], *, dtype: Precision | None = None
) -> Tensor:
    """Encode queries as they are in training: a graph of one node, read before graph attention.

    A query is one passage. What exceeds ``passage_tokens`` is cut off and reported. Source: Graph-RoBERTa, 3.3.

    Args:
        pipeline: the model.
        queries: the queries.
        dtype: compute the transformer in this precision.

    Returns:
        ``(queries, hidden)`` on the CPU.

    Raises:
        DocumentError: a query has no text.
    """
    return encode_segmented_queries(pipeline, segment_queries(pipeline, queries), dtype=dtype)


def encode_segmented_queries(
    pipeline: EncodingPipeline, queries: Iterable[SegmentedDocument], *, dtype: Precision | None = None
) -> Tensor:
    """Encode queries that :func:`segment_queries` cut; see :func:`encode_queries`."""
    segmented, vectors = iter(queries), [torch.zeros(0, pipeline.hidden_size)]
    while window := list(islice(segmented, WINDOW_PASSAGES)):
        batch = GraphBatch.from_graphs(
            JoinedGraphs.of_queries([0] * len(window)), tuple(one.token_ids[0] for one in window)
        )
        documents = pipeline.run_batch(window, batch, dtype=dtype).output.documents
        assert documents is not None
        found = documents.cpu()
        if (lexical := pipeline.lexical) is not None:
            found = lexical.beside(found, lexical.counts(one.texts[0] for one in window))
        vectors.append(found)
    return torch.cat(vectors)


def segment_queries(pipeline: EncodingPipeline, queries: Iterable[AnyDocument]) -> Iterator[SegmentedDocument]:
    """Cut queries to one passage each, and tokenise them; at the end it is said how many were longer.

    Args:
        pipeline: the model.
        queries: the queries.

    Raises:
        DocumentError: a query has no text.
    """
    config = pipeline.model.config
    segmenter = Segmenter(
        pipeline.segmenter.tokenizer,
        SegmentationConfig(max_tokens=config.passage_tokens, max_passages=1, language=config.language, unit="chunk"),
    )
    cut = left_out = 0
    for one in segmenter.segment_many(map(as_document, queries)):
        if not one.passages:
            raise DocumentError(f"query {one.document.text!r} has no text to encode; leave it out")
        cut += one.coverage.documents_not_whole
        left_out += sum(one.coverage.left_out.values())
        yield one
    if cut:
        logger.warning(
            "%s cut at passage_tokens=%d (%s left out); shorten them, or encode them as documents",
            f"{counted(cut, 'query').replace('querys', 'queries')} {'was' if cut == 1 else 'were'}",
            config.passage_tokens,
            counted(left_out, "character"),
        )
