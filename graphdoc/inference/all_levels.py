"""One document encoded at all levels at once, with everything that comparisons need."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

import numpy as np
import torch

from ..graphs.batch import GraphBatch, section_ids
from ..modeling.attribution import passage_terms
from ..modeling.readouts.sections import SectionReadout
from ..segmentation.spans import SegmentedDocument
from ..similarity.chunk_attention import ChunkwiseAttention
from ..similarity.encoded_document import EncodedDocument
from .levels import as_numpy
from .pipeline import EncodingPipeline
from .precision import Precision, inference


def encode_all_levels(
    pipeline: EncodingPipeline, segmented: SegmentedDocument, dtype: Precision | None = None
) -> EncodedDocument:
    """Encode one document with everything that comparisons need, but sentences.

    For the readout ``sections`` the document vector, the passages and their terms are those of the document in one
    piece; section vectors and the attention between sections are those of the document split into its own sections.

    Args:
        pipeline: the model.
        segmented: the document.
        dtype: compute the transformer in this precision.
    """
    model = pipeline.model
    window = pipeline.run([segmented], attention=True, dtype=dtype)
    vectors, output = window.passage_vectors, window.output
    with inference(model):
        terms = passage_terms(model, vectors, window.batch, output)
    assert output.documents is not None and output.passages is not None
    weights, count = output.readout_weights, len(segmented.passages)
    encoded = EncodedDocument(
        segmented,
        as_numpy(output.documents[0]),
        as_numpy(output.passages),
        as_numpy(terms),
        np.full(count, 1 / count, np.float32) if weights is None else as_numpy(weights),
        model=pipeline.describe(),
    )
    if not isinstance(model.readout, SectionReadout):
        return encoded
    own = torch.from_numpy(section_ids([passage.section for passage in segmented.passages])).to(model.device)
    split = replace(window.batch, section_ids=own)
    with inference(model):
        if model.structural_embeddings is not None:
            with pipeline.computing_in(dtype):
                vectors = model.encode_passages(split)
        read = model.encode_graphs(vectors, split, output_attention=True)
        assert read.sections is not None
        encoded = replace(encoded, own_sections=as_numpy(read.sections))
        if model.readout.attention is None or read.chunk_pairs is None or read.chunk_attention is None:
            return encoded
        queries, keys = (as_numpy(part) for part in model.readout.attention.queries_and_keys(output.passages))
    pairs, looks = read.chunk_pairs.cpu().numpy(), as_numpy(read.chunk_attention)
    return replace(encoded, attention=ChunkwiseAttention(pairs, looks, queries, keys))


def with_sentences(
    pipeline: EncodingPipeline, encoded: EncodedDocument, dtype: Precision | None = None
) -> EncodedDocument:
    """Add the sentences of the encoded passages and their vectors; a sentence is seen by itself, without the graph.

    Args:
        pipeline: the model.
        encoded: the document.
        dtype: compute the transformer in this precision.
    """
    segmented, model = encoded.segmented, pipeline.model
    whole = pipeline.segmenter.sentences(segmented.document)
    ends = {passage.section: passage.end for passage in segmented.passages}
    kept = [row for row, span in enumerate(whole.passages) if span.end <= ends.get(span.section, 0)]
    spans = tuple(whole.passages[row] for row in kept)
    chosen = SegmentedDocument(whole.document, spans, tuple(whole.token_ids[row] for row in kept), whole.coverage)
    # Where the model reads the place of a passage, a sentence has that of its passage.
    starts = [(passage.section, passage.start) for passage in segmented.passages]
    places = [bisect_right(starts, (span.section, span.start)) - 1 for span in spans]
    chunk_ids = torch.tensor(places, dtype=torch.int64)
    batch = replace(GraphBatch.from_documents([chosen], None), chunk_ids=chunk_ids)
    with inference(model):
        with pipeline.computing_in(dtype):
            vectors = model.encode_passages(batch)
        return replace(encoded, sentences=spans, sentence_vectors=as_numpy(model.initial_passages(vectors)))
