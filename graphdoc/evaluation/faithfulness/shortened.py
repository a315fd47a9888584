"""Documents with passages taken out, encoded again from passage vectors that are there already.

Passages are encoded one by one, so that a document without some of them has the passage vectors of the others. Where
vectors hold the place of their passage in the document (structural embeddings of CoLDE), they keep the place that it
has in the whole document: what is taken out leaves a gap, and nothing moves up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ...graphs.batch import GraphBatch, TermWeights
from ...inference.levels import LexicalReader, as_numpy
from ...inference.precision import inference
from ...modeling import DocumentModel
from ...segmentation.spans import SegmentedDocument

Floats = npt.NDArray[np.float64]
# ``(passages,)``, which passages of a document are left.
Kept = npt.NDArray[np.bool_]

# Pairs of passages, as many as edges of the full graph, of all shortened documents that are encoded together.
MOST_PAIRS = 2**18


class Shortened(NamedTuple):
    """What a model gives for a document that is shortened, every time.

    Args:
        vectors: ``(times, hidden)``.
        passages: ``(passages, node size)``, those that are left.
        logits: ``(times, classes)``; None for a model without head.
    """

    vectors: Floats
    passages: list[Floats]
    logits: Floats | None


def shortened(document: SegmentedDocument, kept: Kept) -> SegmentedDocument:
    """A document with some of its passages.

    Args:
        document: the document, with the vectors of its passages.
        kept: ``(passages,)``, which ones; at least one.
    """
    assert document.passage_vectors is not None
    if not kept.any():
        raise ValueError("a document without passages cannot be encoded")
    passages = tuple(compress(document.passages, kept.tolist()))
    return replace(document, passages=passages, token_ids=(), passage_vectors=document.passage_vectors[kept])


def encode_shortened(
    model: DocumentModel, document: SegmentedDocument, kept: Sequence[Kept], lexical: LexicalReader | None = None
) -> Shortened:
    """Encode a document again and again, each time with some of its passages: new graphs, the same passage vectors.

    Args:
        model: the model.
        document: the document, with the vectors of its passages.
        kept: ``(passages,)`` each, which passages are left; at least one.
        lexical: reads the words of passages, where the model has a lexical part.

    Returns:
        What the model gives for it, every time.
    """
    vectors, logits, passages = list[npt.NDArray[np.float32]](), list[npt.NDArray[np.float32]](), list[Floats]()
    words = None if lexical is None else lexical.counts(document.texts)
    for some in _together(kept):
        parts = [shortened(document, one) for one in some]
        batch = GraphBatch.from_documents(parts, model.config.vector_graph)
        rows = None if words is None else (sparse.csr_matrix(np.stack(some).astype(np.float32)) @ words).tocsr()
        if lexical is not None and rows is not None and model.head is not None and model.head.words is not None:
            batch = replace(batch, words=TermWeights.of(lexical.unit_weights(rows)))
        batch = batch.to(model.device)
        assert batch.passage_vectors is not None
        with inference(model):
            output = model.encode_graphs(batch.passage_vectors, batch)
        assert output.documents is not None and output.passages is not None
        found, nodes = output.documents, output.passages
        if lexical is not None and words is not None and rows is not None:
            found = lexical.beside(found, rows)
            nodes = lexical.beside(nodes, words[np.concatenate([np.flatnonzero(one) for one in some])])
        vectors.append(as_numpy(found))
        ends = np.cumsum([int(one.sum()) for one in some])[:-1]
        passages += [one.astype(np.float64) for one in np.split(as_numpy(nodes), ends)]
        if output.logits is not None:
            logits.append(as_numpy(output.logits))
    every = np.concatenate(logits).astype(np.float64) if logits else None
    return Shortened(np.concatenate(vectors).astype(np.float64), passages, every)


def _together(kept: Sequence[Kept]) -> Iterator[list[Kept]]:
    """Cut the times into runs whose graphs have room together."""
    some: list[Kept] = []
    used = 0
    for one in kept:
        cost = int(one.sum()) ** 2
        if some and used + cost > MOST_PAIRS:
            yield some
            some, used = [], 0
        some.append(one)
        used += cost
    if some:
        yield some
