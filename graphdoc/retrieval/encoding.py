"""Documents encoded for an index, of which only passages that are not known yet go through the transformer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graphs.batch import GraphBatch
from ..graphs.packing import Packing
from ..inference.all_levels import encode_all_levels, with_sentences
from ..inference.levels import as_numpy
from ..inference.pipeline import EncodingPipeline
from ..inference.precision import inference
from ..runtime.memory import give_back_memory
from ..runtime.processes import survive_forks
from ..segmentation.spans import SegmentedDocument
from ..settings.document import Paragraph
from ..similarity.encoded_document import EncodedDocument, Vectors
from .lance import LanceStore
from .record import paragraph_of
from .rows import tokens_hash
from .sentences import COLUMNS, Sentences, encode_sentences, stored_sentences

Known = Mapping[str, Vectors]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A document with its vectors, and how many of its passages were encoded for it.

    Args:
        document: the document with its vectors.
        pooled: ``(passages, encoder hidden)``, pooled passage vectors; None where they depend on the whole document.
        new_passages: passages that went through the transformer.
        sentences: its sentences, where they are kept.
    """

    document: EncodedDocument
    pooled: Vectors | None
    new_passages: int
    sentences: Sentences | None = None


def encode_for_index(
    encoder: EncodingPipeline,
    documents: Sequence[SegmentedDocument],
    known: Known,
    paragraph: Paragraph | None = None,
) -> Iterator[Encoded]:
    """Encode documents together for an index (see :func:`encode_with_known`).

    Args:
        encoder: the model.
        documents: the documents, each with a passage at least.
        known: pooled vectors by the hash of a passage's tokens.
        paragraph: which sentences belong together, where the index keeps sentences; None where it does not.

    Yields:
        Every document, in the order given.
    """
    found = encode_with_known(encoder, documents, known)
    if paragraph is None:
        yield from found
        return
    encoded = list(found)
    with_vectors = [replace(one, passage_vectors=own.pooled) for one, own in zip(documents, encoded, strict=True)]
    sentences = encode_sentences(encoder, with_vectors, paragraph)
    for one, own in zip(encoded, sentences, strict=True):
        yield replace(one, sentences=own)


def encode_with_known(
    encoder: EncodingPipeline,
    documents: Sequence[SegmentedDocument],
    known: Known,
    packing: Packing | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Encoded]:
    """Encode documents together, with the pooled vectors of passages that are known.

    A passage is known by its tokens. Its pooled vector depends on nothing else, so what comes out is the same as
    without known vectors. With structural embeddings it depends on the passage's place as well: then all are encoded.

    Args:
        encoder: the model.
        documents: the documents, each with a passage at least.
        known: pooled vectors by the hash of a passage's tokens.
        packing: how passages are packed into mini-batches.
        progress: called with the number of passages done after every mini-batch.

    Yields:
        Every document, in the order given.
    """
    if encoder.model.structural_embeddings is not None:
        for segmented in documents:
            yield Encoded(encode_all_levels(encoder, segmented), None, len(segmented.passages))
            if progress is not None:
                progress(len(segmented.passages))
        return
    hashes = [[tokens_hash(ids) for ids in segmented.token_ids] for segmented in documents]
    new: dict[str, tuple[int, ...]] = {}
    counts = []
    for segmented, own in zip(documents, hashes, strict=True):
        before = len(new)
        for token_ids, name in zip(segmented.token_ids, own, strict=True):
            if name not in known:
                new.setdefault(name, token_ids)
        counts.append(len(new) - before)
    vectors: dict[str, Vectors] = dict(known)
    if new:
        vectors.update(zip(new, _pooled(encoder, tuple(new.values()), packing, progress), strict=True))
    for segmented, own, count in zip(documents, hashes, counts, strict=True):
        pooled = np.stack([vectors[name] for name in own])
        yield Encoded(encode_all_levels(encoder, replace(segmented, passage_vectors=pooled)), pooled, count)


def _pooled(
    encoder: EncodingPipeline,
    token_ids: tuple[tuple[int, ...], ...],
    packing: Packing | None,
    progress: Callable[[int], object] | None,
) -> Vectors:
    """Pooled vectors of passages, ``(passages, encoder hidden)``."""
    survive_forks()
    batch = GraphBatch.of_passages(token_ids).to(encoder.device)
    with inference(encoder.model), encoder.computing_in(None):
        found = as_numpy(encoder.model.encode_passages(batch, packing, progress))
    give_back_memory()
    return found


def with_kept_sentences(store: LanceStore, encoder: EncodingPipeline, document: EncodedDocument) -> EncodedDocument:
    """Add the sentences of a document of an index, with the vectors that it keeps of them, if it does."""
    paragraph = paragraph_of(store.record)
    known = None
    if paragraph is not None:
        rows = store.select(["id", *COLUMNS], "level = 'document'", ids=[document.segmented.document.id])
        known = stored_sentences(rows)[1].astype(np.float32)
    return with_sentences(encoder, document, known=known, paragraph=paragraph)


def known_vectors(store: LanceStore, ids: Sequence[str]) -> dict[str, Vectors]:
    """Pooled vectors of the passages that documents have in an index, by the hash of their tokens."""
    if not ids:
        return {}
    rows = store.select(["content_hash", "encoder_vector"], "encoder_vector IS NOT NULL", ids=ids)
    if not len(rows):
        return {}
    vectors = rows.column("encoder_vector").combine_chunks()
    numbers = np.asarray(vectors.flatten().to_numpy(), np.float32).reshape(len(vectors), -1)
    return dict(zip(rows.column("content_hash").to_pylist(), numbers, strict=True))
