"""Do contributions explain what a model says? Deletion curves: a score while passages are taken out of a document.

If contributions are faithful, a similarity or probability falls faster when the passages that contribute most go first
than when they go at random (Petsiuk et al. 2018, for parts of a picture). Of n passages k are gone at k / (n - 1) of
the axis, until one is left. Passages keep their vectors and their places in the whole document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from ..documents.readers.pair_files import LabelledPair, Pairs
from ..encoder import DocumentEncoder
from ..errors import EvaluationError, ModelError
from ..graphs.batch import BatchTerms, GraphBatch
from ..inference.levels import encode_all_levels
from ..inference.precision import as_numpy, inference
from ..inference.segmenting import ManyDocuments
from ..prediction.predicting import probabilities_of, stream_predictions
from ..runtime.arrays import Floats
from ..runtime.progress import progress_bar
from ..segmentation.spans import Coverage, SegmentedDocument
from ..similarity.encoded_document import EncodedDocument
from ..similarity.kinds import DocumentFeatures, similarity_of
from .labels import plain_document, ready_documents

STEPS, ORDERS = 10, 5
# Pairs of passages, as many as edges of the full graph, of all shortened documents that are encoded together.
_MOST_PAIRS = 2**18


class Shortened(NamedTuple):
    """Outputs of a model for every shortened version of a document; no logits without a head."""

    vectors: Floats  # (times, hidden)
    passages: list[Floats]  # (passages, node size) each, those that are left
    logits: Any  # (times, classes)
    kept: Sequence[npt.NDArray[np.bool_]]  # (passages,) each


Score = Callable[[Shortened], Floats]
"""The score of every shortened document, ``(times,)``."""


def encode_shortened(
    encoder: DocumentEncoder, document: SegmentedDocument, kept: Sequence[npt.NDArray[np.bool_]]
) -> Shortened:
    """Encode a document again and again, each time with some of its passages: new graphs, the same passage vectors.

    ``kept`` says which passages are left, ``(passages,)`` each and at least one.
    """
    assert document.passage_vectors is not None
    model, lexical = encoder.model, encoder.lexical
    words = None if lexical is None else lexical.counts(document.texts)
    outputs = []
    together = max(1, _MOST_PAIRS // len(document.passages) ** 2)
    for start in range(0, len(kept), together):
        some = kept[start : start + together]
        parts = []
        for left in some:
            spans, pooled = tuple(compress(document.passages, left.tolist())), document.passage_vectors[left]
            parts.append(replace(document, passages=spans, token_ids=(), passage_vectors=pooled))
        batch = GraphBatch.from_documents(parts, model.config.vector_graph)
        rows = None if words is None else (sparse.csr_matrix(np.stack(some).astype(np.float32)) @ words).tocsr()
        if lexical is not None and model.head is not None and model.head.words is not None:
            batch = replace(batch, words=BatchTerms.from_matrix(lexical.unit_weights(rows)))
        batch = batch.to(model.device)
        assert batch.passage_vectors is not None
        with inference(model):
            output = model.encode_graphs(batch.passage_vectors, batch)
        assert output.documents is not None and output.passages is not None
        vectors, passages = output.documents, output.passages
        if lexical is not None and words is not None:
            vectors = lexical.append_to(vectors, rows)
            passages = lexical.append_to(passages, words[np.concatenate([np.flatnonzero(left) for left in some])])
        outputs.append((vectors, passages, output.logits))
    joined = [
        None if parts[0] is None else np.concatenate([as_numpy(part) for part in parts]).astype(np.float64)
        for parts in zip(*outputs, strict=True)
    ]
    assert joined[0] is not None and joined[1] is not None
    return Shortened(joined[0], np.split(joined[1], np.cumsum([left.sum() for left in kept])[:-1]), joined[2], kept)


def deletion_curves(
    encoder: DocumentEncoder,
    document: SegmentedDocument,
    importance: npt.ArrayLike,
    score: Score,
    *,
    steps: int = STEPS,
    orders: int = ORDERS,
    seed: int = 0,
) -> Floats:
    """A score while the passages of a document are deleted, the most important first and at random.

    Args:
        encoder: the encoder.
        document: the document, with the vectors of at least two passages.
        importance: ``(passages,)``, such as contributions; equal ones go in random order.
        score: what is watched.
        steps: points of a curve after its first; a shorter document has one for every passage, and lines between.
        orders: number of random orders, whose curves are averaged.
        seed: draws them, for every document others.

    Returns:
        ``(2, steps + 1)``, by importance and at random.
    """
    count = len(document.passages)
    draw = np.random.default_rng([seed, crc32(document.document.id.encode("utf-8", "replace"))])
    random = [draw.permutation(count) for _ in range(orders)]
    by_importance = random[0][np.argsort(-np.asarray(importance, np.float64)[random[0]], kind="stable")]
    axis = np.linspace(0, 1, steps + 1)
    gone = np.unique(np.floor(axis * (count - 1) + 0.5).astype(np.int64))
    kept = [np.argsort(order) >= number for order in (by_importance, *random) for number in gone.tolist()]
    values = score(encode_shortened(encoder, document, kept)).reshape(orders + 1, len(gone))
    curves = np.array([np.interp(axis, gone / (count - 1), points) for points in values])
    return np.stack([curves[0], curves[1:].mean(axis=0)])


def contribution_curves(
    encoder: DocumentEncoder,
    documents: ManyDocuments,
    pairs: Sequence[tuple[str, str, int]] | None = None,
    *,
    steps: int = STEPS,
    orders: int = ORDERS,
) -> dict[str, Floats]:
    """Deletion curves by contribution and at random, of every document that has two passages.

    With pairs, the similarity of two documents is watched while each of them in turn is shortened. Without pairs it is
    the probability of the class that a document most likely belongs to.

    Args:
        encoder: the encoder.
        documents: the documents, with unique ids; those in no pair are passed over.
        pairs: pairs of two documents, whatever their labels; None to watch classes.
        steps: see :func:`deletion_curves`, as for ``orders``.
        orders: see there.

    Returns:
        By id, ``(2, steps + 1)``: the mean over the pairs of the document, by contribution and at random.

    Raises:
        ModelError: there are no pairs, and the model has no head.
        EvaluationError: no document has two passages.
    """
    if pairs is None and encoder.model.head is None:
        raise ModelError(f"{encoder.name} has no classification head, and there are no pairs of documents")
    pairs = None if pairs is None else Pairs.from_sequence(pairs).pairs
    wanted = None if pairs is None else {id for pair in pairs for id in (pair.a, pair.b)}
    chosen = [one for one in ready_documents(documents) if wanted is None or plain_document(one).id in wanted]
    # Not by with_passage_vectors, which refuses structural embeddings: here passages keep their places.
    ready = [
        replace(segmented, passage_vectors=vectors)
        for window in encoder.windows(chosen, totals=Coverage())
        for segmented, vectors in zip(window.documents, window.pooled(), strict=True)
    ]
    cases = _classes(encoder, ready) if pairs is None else _similarities(encoder, ready, pairs)
    curves: dict[str, list[Floats]] = {}
    total = len(ready) if pairs is None else 2 * len(pairs)
    with progress_bar(None, total, "Deleting passages") as bar:
        for document, importance, score in cases:
            if len(document.passages) > 1:
                of_case = deletion_curves(encoder, document, importance, score, steps=steps, orders=orders)
                curves.setdefault(document.document.id, []).append(of_case)
            bar.update()
    if not curves:
        raise EvaluationError(f"no document has two passages for {encoder.name}")
    return {id: np.mean(of_document, axis=0) for id, of_document in curves.items()}


Case = tuple[SegmentedDocument, Floats, Score]


def _classes(encoder: DocumentEncoder, documents: Sequence[SegmentedDocument]) -> Iterator[Case]:
    """Every document with what its passages add to its likeliest class, and the probability of that."""
    multi_label = bool(encoder.model.config.multi_label)
    predictions = stream_predictions(encoder, documents, totals=Coverage(), show_progress_bar=False)
    for document, prediction in zip(documents, predictions, strict=True):
        decision = max(prediction.decisions, key=lambda one: one.logit)

        def probability(shortened: Shortened, column: int = prediction.classes.index(decision.label)) -> Floats:
            return probabilities_of(torch.from_numpy(shortened.logits), multi_label)[:, column].astype(np.float64)

        yield document, decision.contributions.astype(np.float64), probability


def _similarities(
    encoder: DocumentEncoder, documents: Sequence[SegmentedDocument], pairs: Sequence[LabelledPair]
) -> Iterator[Case]:
    """Both documents of every pair with what their passages add to the similarity, and the similarity to the other."""
    similarity = similarity_of(encoder.model.config.similarity).with_reference(encoder.evidence)
    reads_words = encoder.evidence is not None
    encoded = {document.document.id: encode_all_levels(encoder, document) for document in documents}
    for pair in pairs:
        for a, b in ((encoded[pair.a], encoded[pair.b]), (encoded[pair.b], encoded[pair.a])):

            def compare(shortened: Shortened, own: EncodedDocument = a, other: EncodedDocument = b) -> Floats:
                vectors, passages, _, kept = shortened
                # Words are read for evidence alone.
                totals = [own.passage_terms.totals(some) for some in kept] if reads_words else [{}] * len(kept)
                times = [DocumentFeatures(*time) for time in zip(vectors, passages, totals, strict=True)]
                return similarity.scores(times, [other])[:, 0]

            yield a.segmented, similarity.contributions(a, b).sum(axis=1), compare
