"""Documents as deletion and insertion curves need them, and what is watched while they are shortened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from ...encoder import DocumentEncoder
from ...graphs.batch import GraphBatch
from ...inference.all_levels import chunkwise_attention
from ...inference.inputs import AnyDocument
from ...inference.levels import as_numpy
from ...inference.precision import Precision, inference
from ...modeling import DocumentModel
from ...modeling.attribution import logit_contributions, passage_terms
from ...prediction.predicting import probabilities_of
from ...segmentation.coverage import Coverage
from ...segmentation.spans import SegmentedDocument
from ...similarity.chunk_attention import ChunkwiseAttention
from ...similarity.cosine import similarity_matrix
from .passage_rankings import passage_attention

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ExplainedDocument:
    """A document with what its passages are ranked by.

    Args:
        segmented: the document, with the vectors of its passages.
        vector: ``(hidden,)``, the document vector.
        attention: ``(passages,)``, see :func:`~graphdoc.evaluation.faithfulness.passage_rankings.passage_attention`.
        terms: ``(passages, hidden)``, the share of every passage in the document vector; None where classes are
            watched.
        chunkwise: chunkwise attention; None where the model has none.
        likeliest: number of the class with the highest logit; None where similarity is watched.
        contributions: ``(passages,)``, what every passage adds to that logit; None where similarity is watched.
    """

    segmented: SegmentedDocument
    vector: Floats
    attention: Floats
    terms: Floats | None = None
    chunkwise: ChunkwiseAttention | None = None
    likeliest: int | None = None
    contributions: Floats | None = None

    def __len__(self) -> int:
        """Number of passages."""
        return len(self.segmented.passages)

    @property
    def id(self) -> str:
        """The document's id."""
        return self.segmented.document.id


def explained_documents(
    encoder: DocumentEncoder,
    documents: list[AnyDocument | SegmentedDocument],
    *,
    classes: bool,
    dtype: Precision | None = None,
    totals: Coverage | None = None,
    show_progress: bool | None = None,
) -> Iterator[ExplainedDocument]:
    """Encode documents, each once, with what explains their similarity or their classes.

    Args:
        encoder: the encoder; for classes its model has a head.
        documents: the documents.
        classes: whether classes are watched, or similarity.
        dtype: precision that the transformer computes in.
        totals: where coverage is added up.
        show_progress: show a bar; None shows it on a terminal when the work is long.

    Raises:
        DocumentError: a document has no text.
    """
    for window in encoder.windows(documents, dtype=dtype, totals=totals, show_progress=show_progress):
        vectors = as_numpy(window.passage_vectors)
        for segmented, rows in zip(window.documents, window.rows, strict=True):
            ready = replace(segmented, token_ids=(), passage_vectors=vectors[rows])
            yield _explained(encoder.model, ready, classes=classes)


def _explained(model: DocumentModel, segmented: SegmentedDocument, *, classes: bool) -> ExplainedDocument:
    # Attention needs the whole graph also where vectors do not.
    batch = GraphBatch.from_documents([segmented], model.config.graph).to(model.device)
    vectors = batch.passage_vectors
    assert vectors is not None
    with inference(model):
        output = model.encode_graphs(vectors, batch, output_attention=True)
        assert output.documents is not None
        document = partial(
            ExplainedDocument,
            segmented,
            as_numpy(output.documents[0]).astype(np.float64),
            passage_attention(model, batch, output),
        )
        if not classes:
            terms = as_numpy(passage_terms(model, vectors, batch, output)).astype(np.float64)
            return document(terms=terms, chunkwise=chunkwise_attention(output, output))
        assert output.logits is not None
        likeliest = int(output.logits[0].argmax())
        parts = logit_contributions(model, vectors, batch, output, [likeliest])[:, 0]
        return document(likeliest=likeliest, contributions=as_numpy(parts).astype(np.float64))


@dataclass(frozen=True)
class SimilarityTo:
    """The similarity of a document that is shortened to another that is not.

    Args:
        document: the document that is shortened.
        other: the other document.
        kind: ``cosine`` or ``dot``.
        words: ``(passages,)``, words that every passage shares with the other document.
    """

    document: ExplainedDocument
    other: ExplainedDocument
    kind: str
    words: Floats

    @property
    def name(self) -> str:
        """The id of the other document."""
        return self.other.id

    def scores(self) -> dict[str, Floats]:
        """What passages are ranked by, ``(passages,)`` by method.

        Contributions to a similarity are dot products of terms with the other document's vector, up to a factor that
        is the same for all. Chunkwise attention is that of the other document's passages to these.
        """
        assert self.document.terms is not None
        own, other = self.document.chunkwise, self.other.chunkwise
        looks = self.document.attention if own is None or other is None else other.to(own).mean(axis=(0, 1))
        return {"contribution": self.document.terms @ self.other.vector, "attention": looks, "words": self.words}

    def values(self, vectors: Floats, logits: Floats | None) -> Floats:
        """The similarity of every shortened document, ``(times,)``."""
        return similarity_matrix(vectors, self.other.vector[None], self.kind)[:, 0]


@dataclass(frozen=True)
class ProbabilityOf:
    """The probability of the class that a whole document most likely belongs to.

    Args:
        document: the document that is shortened.
        name: the class.
        multi_label: whether probabilities are those of a model with several labels.
        words: ``(passages,)``, words that every passage shares with the class.
    """

    document: ExplainedDocument
    name: str
    multi_label: bool
    words: Floats

    def scores(self) -> dict[str, Floats]:
        """What passages are ranked by, ``(passages,)`` by method."""
        assert self.document.contributions is not None
        return {
            "contribution": self.document.contributions,
            "attention": self.document.attention,
            "words": self.words,
        }

    def values(self, vectors: Floats, logits: Floats | None) -> Floats:
        """The probability that every shortened document belongs to the class, ``(times,)``."""
        assert logits is not None and self.document.likeliest is not None
        found = probabilities_of(torch.from_numpy(logits), self.multi_label)
        return found[:, self.document.likeliest].astype(np.float64)
