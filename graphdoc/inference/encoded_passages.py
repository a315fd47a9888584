"""Running the passage encoder alone, for several models above it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ..encoder import DocumentEncoder
from ..errors import ModelError
from ..segmentation.coverage import Coverage
from ..segmentation.spans import SegmentedDocument
from .precision import Precision, computed_in
from .stream import AnyDocument, as_numpy, rows_of, stream_windows


def with_passage_vectors(
    encoder: DocumentEncoder,
    documents: Iterable[AnyDocument | SegmentedDocument],
    *,
    dtype: Precision | None = None,
    token_budget: int | None = None,
    show_progress: bool | None = None,
    totals: Coverage | None = None,
) -> Iterator[SegmentedDocument]:
    """Run the passage encoder alone, once for all models above it, such as those trained on a frozen one.

    What this gives can be encoded, predicted and measured like any document, by this encoder and by others whose
    passage encoder is the same, and the transformer does not run again.

    Args:
        encoder: the encoder.
        documents: any number of documents.
        dtype: compute the transformer in this precision.
        token_budget: most tokens (with padding) that go through the transformer at once.
        show_progress: show a bar; None shows it on a terminal when the work is long.
        totals: where coverage is added up; the caller then says what was left out, otherwise it is logged here.

    Returns:
        Every document, cut, tokenised and with the vectors of its passages, in the order given.

    Raises:
        DocumentError: a document has no text, or something is no document.
        ModelError: the model has structural embeddings, with which these vectors depend on the split.
    """
    if encoder.model.structural_embeddings is not None:
        raise ModelError(
            f"{encoder.name} has structural embeddings, with which the vectors of passages depend on how documents "
            "are split; encode the documents themselves"
        )
    windows = stream_windows(
        encoder.model,
        encoder.segmenter,
        documents,
        partial(computed_in, dtype, encoder.model.passage_encoder, encoder.name),
        token_budget=token_budget,
        show_progress=show_progress,
        totals=totals,
    )
    return (
        replace(segmented, passage_vectors=as_numpy(vectors[rows]))
        for window, vectors, _ in windows
        for segmented, rows in zip(window, rows_of(window), strict=True)
    )
