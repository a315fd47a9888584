"""Documents as deletion and insertion curves need them, and what is watched while they are shortened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from ...encoder import DocumentEncoder
from ...graphs.batch import GraphBatch
from ...inference.all_levels import chunkwise_attention, whole_document, with_words
from ...inference.levels import as_numpy
from ...inference.precision import Precision, inference
from ...inference.segmenting import AnyDocument
from ...modeling.attribution import logit_contributions
from ...prediction.predicting import probabilities_of, word_contributions
from ...segmentation.spans import Coverage, SegmentedDocument
from ...similarity.encoded_document import EncodedDocument
from ...similarity.kinds import similarity_of
from .passage_rankings import passage_attention
from .shortened import Shortened

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ExplainedDocument:
    """A document with what its passages are ranked by.

    Args:
        segmented: the document, with the vectors of its passages.
        attention: ``(passages,)``, see :func:`~graphdoc.evaluation.faithfulness.passage_rankings.passage_attention`.
        encoded: the document with its vectors; None where classes are watched.
        likeliest: number of the class with the highest logit; None where similarity is watched.
        contributions: ``(passages,)``, what every passage adds to that logit; None where similarity is watched.
    """

    segmented: SegmentedDocument
    attention: Floats
    encoded: EncodedDocument | None = None
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
            yield _explained(encoder, ready, classes=classes)


def _explained(encoder: DocumentEncoder, segmented: SegmentedDocument, *, classes: bool) -> ExplainedDocument:
    model = encoder.model
    # Attention needs the whole graph also where vectors do not.
    batch = encoder.add_words(GraphBatch.from_documents([segmented], model.config.graph), [segmented])
    batch = batch.to(model.device)
    vectors = batch.passage_vectors
    assert vectors is not None
    with inference(model):
        output = model.encode_graphs(vectors, batch, output_attention=True)
        attention = passage_attention(model, batch, output)
        if not classes:
            found = whole_document(encoder, segmented, vectors, batch, output)
            found = replace(found, attention=chunkwise_attention(output, output))
            return ExplainedDocument(segmented, attention, with_words(encoder, found))
        assert output.logits is not None
        likeliest = int(output.logits[0].argmax())
        parts = as_numpy(logit_contributions(model, vectors, batch, output, [likeliest]))
    contributions = (parts + word_contributions(encoder, segmented, [likeliest]))[:, 0]
    return ExplainedDocument(segmented, attention, likeliest=likeliest, contributions=contributions)


@dataclass(frozen=True)
class SimilarityTo:
    """The similarity of a document that is shortened to another that is not.

    Args:
        document: the document that is shortened.
        other: the other document.
        kind: how documents are compared.
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

        Contributions are those of the comparison, over all passages of the other document. Chunkwise attention is that
        of the other document's passages to these.
        """
        a, b = self.document.encoded, self.other.encoded
        assert a is not None and b is not None
        looks = self.document.attention
        if a.attention is not None and b.attention is not None:
            looks = b.attention.to(a.attention).mean(axis=(0, 1))
        contributions = similarity_of(self.kind).contributions(a, b).sum(axis=1)
        return {"contribution": contributions, "attention": looks, "words": self.words}

    def values(self, found: Shortened) -> Floats:
        """The similarity of every shortened document, ``(times,)``."""
        other = self.other.encoded
        assert other is not None
        return similarity_of(self.kind).of_changed(found.vectors, found.passages, other)


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

    def values(self, found: Shortened) -> Floats:
        """The probability that every shortened document belongs to the class, ``(times,)``."""
        assert found.logits is not None and self.document.likeliest is not None
        probabilities = probabilities_of(torch.from_numpy(found.logits), self.multi_label)
        return probabilities[:, self.document.likeliest].astype(np.float64)
