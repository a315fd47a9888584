"""One document encoded at all levels at once, with everything that comparisons need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ..graphs.batch import GraphBatch
from ..graphs.layout import section_ids
from ..modeling import DocumentOutput
from ..modeling.attribution import passage_terms
from ..segmentation.context import token_ids
from ..segmentation.segmenter import paragraph_numbers
from ..segmentation.spans import SegmentedDocument
from ..settings.document import Paragraph
from ..similarity.encoded_document import ChunkwiseAttention, EncodedDocument, Vectors
from .levels import as_numpy, summed
from .pipeline import EncodingPipeline
from .precision import Precision, inference
from .sentences import passage_means, sentence_segmenter, sentence_vectors


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
    encoded = whole_document(pipeline, segmented, vectors, window.batch, output)
    if not model.readout.has_sections:
        return with_words(pipeline, encoded)
    split = window.batch.split_into(section_ids([passage.section for passage in segmented.passages]))
    with inference(model):
        if model.structural_embeddings is not None:
            with pipeline.computing_in(dtype):
                vectors = model.encode_passages(split)
        read = model.encode_graphs(vectors, split, output_attention=True)
    assert read.sections is not None
    found = replace(encoded, own_sections=as_numpy(read.sections), attention=chunkwise_attention(read, output))
    return with_words(pipeline, found)


def whole_document(
    pipeline: EncodingPipeline,
    segmented: SegmentedDocument,
    passage_vectors: Tensor,
    batch: GraphBatch,
    output: DocumentOutput,
) -> EncodedDocument:
    """A document in one piece, without words and without vectors of sections that the model itself makes.

    Args:
        pipeline: the model.
        segmented: the document.
        passage_vectors: ``(passages, encoder hidden)``.
        batch: that document alone.
        output: the model's output for it, with attention.
    """
    with inference(pipeline.model):
        terms = passage_terms(pipeline.model, passage_vectors, batch, output)
        mean = pipeline.model.initial_passages(passage_vectors.float()).mean(dim=0)
    assert output.documents is not None and output.passages is not None
    weights, count = output.readout_weights, len(segmented.passages)
    return EncodedDocument(
        segmented,
        as_numpy(output.documents[0]),
        as_numpy(output.passages),
        as_numpy(terms),
        np.full(count, 1 / count, np.float32) if weights is None else as_numpy(weights),
        passage_mean=as_numpy(mean),
        model=pipeline.describe(),
    )


def with_words(pipeline: EncodingPipeline, encoded: EncodedDocument) -> EncodedDocument:
    """Put the words of a document beside all its vectors, where the model has a lexical part."""
    lexical, segmented = pipeline.lexical, encoded.segmented
    if lexical is None:
        return encoded
    counts = lexical.counts(segmented.texts)
    terms, shares = lexical.split(segmented, counts)
    length = float(np.linalg.norm(encoded.vector.astype(np.float64))) or 1.0
    sections = summed(counts, encoded.section_rows, len(encoded.section_numbers))
    return replace(
        encoded,
        vector=np.concatenate([encoded.vector / length, terms.sum(axis=0)]).astype(np.float32),
        passages=lexical.beside(torch.from_numpy(encoded.passages), counts).numpy(),
        terms=np.concatenate([encoded.terms / length, terms], axis=1).astype(np.float32),
        own_sections=lexical.beside(torch.from_numpy(encoded.sections), sections).numpy(),
        lexical=shares,
    )


def chunkwise_attention(read: DocumentOutput, whole: DocumentOutput) -> ChunkwiseAttention | None:
    """The chunkwise attention of a document; None where the readout has none.

    Args:
        read: the output for the document, which may be split, with attention.
        whole: the output for the document in one piece, with attention.
    """
    if read.chunk_pairs is None or read.chunk_attention is None:
        return None
    assert whole.chunk_queries is not None and whole.chunk_keys is not None
    weights, queries, keys = map(as_numpy, (read.chunk_attention, whole.chunk_queries, whole.chunk_keys))
    return ChunkwiseAttention(read.chunk_pairs.cpu().numpy(), weights, queries, keys)


def with_sentences(
    pipeline: EncodingPipeline,
    encoded: EncodedDocument,
    dtype: Precision | None = None,
    *,
    known: Vectors | None = None,
    paragraph: Paragraph | None = None,
    lone: bool = False,
) -> EncodedDocument:
    """Add the sentences of the encoded passages and their vectors, which are without the graph.

    Args:
        pipeline: the model.
        encoded: the document.
        dtype: compute the transformer in this precision.
        known: ``(sentences, node size)``, vectors of all sentences of the document, where they are kept; None encodes.
        paragraph: which sentences belong together; None for what the model's settings say.
        lone: also encode them by themselves, without what is encoded in front of them and without their document.
    """
    segmented = encoded.segmented
    whole = sentence_segmenter(pipeline).segment(segmented.document)
    ends = {passage.section: passage.end for passage in segmented.passages}
    kept = [row for row, span in enumerate(whole.passages) if span.end <= ends.get(span.section, 0)]
    spans = tuple(whole.passages[row] for row in kept)
    chosen = SegmentedDocument(whole.document, spans, tuple(whole.token_ids[row] for row in kept), whole.coverage)
    if known is not None and len(known) == len(whole.passages):
        vectors = known[kept]
    else:
        means = None
        if pipeline.model.config.sentence_document:
            mean = encoded.passage_mean
            means = passage_means(pipeline, [segmented], dtype) if mean is None else torch.from_numpy(mean)[None]
        vectors = as_numpy(sentence_vectors(pipeline, [chosen], [segmented], dtype, means=means))
    paragraphs = paragraph_numbers(chosen, paragraph or pipeline.model.config.paragraph, pipeline.segmenter)
    by_themselves = None
    if lone and pipeline.model.config.sentences_stand_alone:
        by_themselves = vectors
    elif lone:
        alone = replace(chosen, token_ids=tuple(map(tuple, token_ids(pipeline.tokenizer, chosen.texts))))
        by_themselves = as_numpy(sentence_vectors(pipeline, [alone], [segmented], dtype))
    return replace(
        encoded,
        sentences=spans,
        sentence_vectors=vectors,
        lone_sentence_vectors=by_themselves,
        paragraph_rows=paragraphs,
    )
