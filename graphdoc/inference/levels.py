"""One document encoded at all levels, with everything that comparisons need, and the sentences of documents."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..graphs.batch import GraphBatch, Packing
from ..graphs.layout import section_ids
from ..modeling.attribution import passage_attributions
from ..modeling.lexical import passage_numbers, summed
from ..runtime.arrays import Vectors
from ..runtime.memory import give_back_memory
from ..runtime.progress import PartProgress
from ..segmentation.segmenter import Segmenter, paragraphs_of
from ..segmentation.spans import SegmentedDocument, token_ids
from ..settings.document import Context, Paragraph
from ..similarity.encoded_document import ChunkwiseAttention, EncodedDocument
from .precision import Precision, as_numpy, inference, require_finite
from .segmenting import AnyDocument, ManyDocuments, cut_windows, documents_of, require_text

if TYPE_CHECKING:
    from .pipeline import EncodingPipeline

# Sentences differ more in length than passages: with their padding they would fill very many mini-batches.
SENTENCE_PADDING = 0.3


def encode_all_levels(
    pipeline: EncodingPipeline, segmented: SegmentedDocument, dtype: Precision | None = None
) -> EncodedDocument:
    """Encode one document with everything that comparisons need, but sentences.

    For the readout ``sections`` the document vector, the passages and their parts are those of the document in one
    piece; section vectors and the attention between sections are those of the document split into its own sections.
    """
    model, split = pipeline.model, None
    window = pipeline.run([segmented], output_attentions=True, dtype=dtype)
    output, vectors = window.output, window.passage_vectors
    with inference(model):
        parts = as_numpy(passage_attributions(model, vectors, window.batch, output))
        mean = model.initial_passages(vectors.float()).mean(dim=0)
        if model.readout.has_sections:
            batch = window.batch.split_into(section_ids([passage.section for passage in segmented.passages]))
            if model.structural_embeddings is not None:
                with pipeline.computing_in(dtype):
                    vectors = model.encode_passages(batch)
            split = model.encode_graphs(vectors, batch, output_attentions=True)
    assert output.documents is not None and output.passages is not None
    weights, count = output.readout_weights, len(segmented.passages)
    read, attention = output if split is None else split, None
    if read.chunk_pairs is not None and read.chunk_attention is not None:
        assert output.chunk_queries is not None and output.chunk_keys is not None
        numbers = map(as_numpy, (read.chunk_attention, output.chunk_queries, output.chunk_keys))
        attention = ChunkwiseAttention(read.chunk_pairs.cpu().numpy(), *numbers)
    encoded = EncodedDocument(
        segmented,
        as_numpy(output.documents[0]),
        as_numpy(output.passages),
        parts,
        np.full(count, 1 / count, np.float32) if weights is None else as_numpy(weights),
        passage_mean=as_numpy(mean),
        own_sections=None if split is None or split.sections is None else as_numpy(split.sections),
        attention=attention,
        model=pipeline.describe(),
    )
    if (lexical := pipeline.lexical) is None:
        return encoded
    counts = lexical.counts(segmented.texts)
    lexical_parts, shares = lexical.split(segmented, counts)
    length = float(np.linalg.norm(encoded.vector.astype(np.float64))) or 1.0
    attributions = np.concatenate([encoded.passage_attributions / length, lexical_parts], axis=1)
    sections = summed(counts, encoded.section_rows, len(encoded.section_numbers))
    return replace(
        encoded,
        vector=np.concatenate([encoded.vector / length, lexical_parts.sum(axis=0)]).astype(np.float32),
        passages=lexical.append_to(torch.from_numpy(encoded.passages), counts).numpy(),
        passage_attributions=attributions.astype(np.float32),
        own_sections=lexical.append_to(torch.from_numpy(encoded.sections), sections).numpy(),
        lexical=shares,
    )


def with_sentences(
    pipeline: EncodingPipeline,
    encoded: EncodedDocument,
    dtype: Precision | None = None,
    *,
    known: Vectors | None = None,
    paragraph: Paragraph | None = None,
    context_free: bool = False,
) -> EncodedDocument:
    """Add the sentences of the encoded passages and their vectors, which are without the graph.

    Args:
        pipeline: the model.
        encoded: the document.
        dtype: compute the transformer in this precision.
        known: ``(sentences, node size)``, vectors of all sentences of the document, where they are kept; None encodes.
        paragraph: which sentences belong together; None for what the model's settings say.
        context_free: also encode them without what is encoded in front of them and without their document.
    """
    segmented, config = encoded.segmented, pipeline.model.config
    whole = sentence_segmenter(pipeline).segment(segmented.document)
    ends = {passage.section: passage.end for passage in segmented.passages}
    rows = [row for row, span in enumerate(whole.passages) if span.end <= ends.get(span.section, 0)]
    spans = tuple(whole.passages[row] for row in rows)
    chosen = replace(whole, passages=spans, token_ids=tuple(whole.token_ids[row] for row in rows))
    if known is not None and len(known) == len(whole.passages):
        vectors = known[rows]
    else:
        means = None
        if config.sentence_document:
            mean = encoded.passage_mean
            means = passage_means(pipeline, [segmented], dtype) if mean is None else torch.from_numpy(mean)[None]
        vectors = as_numpy(sentence_vectors(pipeline, [chosen], [segmented], dtype, means=means))
    lone_vectors = None
    if context_free and config.sentences_stand_alone:
        lone_vectors = vectors
    elif context_free:
        alone = replace(chosen, token_ids=tuple(map(tuple, token_ids(pipeline.tokenizer, chosen.texts))))
        lone_vectors = as_numpy(sentence_vectors(pipeline, [alone], [segmented], dtype))
    return replace(
        encoded,
        sentences=spans,
        sentence_vectors=vectors,
        context_free_sentence_vectors=lone_vectors,
        paragraph_rows=paragraphs_of(chosen, paragraph or config.paragraph, pipeline.segmenter),
    )


def sentence_segmenter(pipeline: EncodingPipeline, *, with_context: bool = True) -> Segmenter:
    """A segmenter that cuts into all sentences; what stands in front of each, if wanted, is no part of it."""
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
        return torch.stack([part.mean(dim=0) for part in torch.split(initial, [len(one.passages) for one in passages])])


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

    L2-normalized. With a lexical part, its numbers follow: those of the sentence plus w times those of the document.

    Args:
        pipeline: the model.
        sentences: the documents, cut into sentences.
        passages: the same, cut into passages, whose places the sentences take where the model reads such.
        dtype: compute the transformer in this precision.
        packing: how sentences are packed into mini-batches; None for the rule of the device.
        advance: is given the number of sentences of every mini-batch that is done.
        means: ``(documents, node size)`` of :func:`passage_means`; None for no share of the document.

    Returns:
        ``(sentences, node size)``, document after document.
    """
    pipeline.require_vectors()
    model, batch = pipeline.model, GraphBatch.from_documents(sentences, None)
    if model.structural_embeddings is not None:
        if passages is None:
            passages = [pipeline.segmenter.segment(one.document) for one in sentences]
        # The passage that every sentence begins in; the last for those beyond all.
        places = list[Any]()
        for one, other in zip(sentences, passages, strict=True):
            starts = [(passage.section, passage.start) for passage in other.passages]
            places.append([bisect_right(starts, (span.section, span.start)) - 1 for span in one.passages])
        batch = batch.split_into(None, np.concatenate(places).astype(np.int64))
    with inference(model):
        with pipeline.computing_in(dtype):
            vectors = model.encode_passages(batch.to(pipeline.device), packing, advance)
        initial = model.initial_passages(vectors)
    share, document_of = model.config.sentence_document, passage_numbers(sentences)
    if means is not None:
        whole = share * normalize(means.to(initial.device).float(), dim=-1)
        initial = normalize(normalize(initial.float(), dim=-1) + whole[torch.from_numpy(document_of)], dim=-1)
    require_finite(initial)
    if (lexical := pipeline.lexical) is None:
        return initial
    with_words = lexical.append_to(initial, lexical.counts(text for one in sentences for text in one.texts))
    if means is not None:
        assert passages is not None
        words = lexical.counts(text for one in passages for text in one.texts)
        of_documents = lexical.vectors(summed(words, passage_numbers(passages), len(passages)))
        with_words[:, initial.shape[1] :] += torch.from_numpy(share * of_documents[document_of]).to(with_words.device)
    return with_words


def stream_sentences(
    pipeline: EncodingPipeline,
    documents: ManyDocuments | AnyDocument | SegmentedDocument,
    *,
    dtype: Precision | None = None,
    token_budget: int | None = None,
    padding: float | None = None,
    **options: Any,
) -> Iterator[tuple[SegmentedDocument, Tensor]]:
    """Encode the sentences of documents one window after another (options: ``EncodingPipeline.windows``).

    Documents that are cut into passages are cut again, but where they bring the vectors of their passages these are
    taken for what sentences have of their document.

    Yields:
        Every document, cut into sentences, with their vectors on the CPU, ``(sentences, node size)``.
    """
    coming = documents_of(documents)
    ready: deque[SegmentedDocument | None] = deque()

    def plain() -> Iterator[AnyDocument]:
        for one in coming:
            is_cut = isinstance(one, SegmentedDocument)
            ready.append(one if is_cut and one.passage_vectors is not None else None)
            yield one.document if is_cut else one

    # A bar knows how many there are.
    uncut = list(plain()) if isinstance(coming, Sized) else plain()
    packing = Packing.on(pipeline.device, token_budget, SENTENCE_PADDING if padding is None else padding)
    for window, bar in cut_windows(uncut, sentence_segmenter(pipeline), pipeline.device, **options):
        known = [ready.popleft() for _ in window]
        passages = means = None
        if pipeline.model.config.sentence_document:
            pairs = list(zip(known, window, strict=True))
            cut = pipeline.segmenter.segment_many(one.document for passages, one in pairs if passages is None)
            passages = [next(cut) if passages is None else passages for passages, _ in pairs]
            means = passage_means(pipeline, passages, dtype, Packing.on(pipeline.device, token_budget, padding))
        sizes = [len(one.passages) for one in window]
        advance = None if bar is None else PartProgress(bar, len(window), sum(sizes), "sentences")
        vectors = sentence_vectors(pipeline, window, passages, dtype, packing, advance, means=means).cpu()
        yield from zip(window, torch.split(vectors, sizes), strict=True)
        give_back_memory()
