"""Documents made ready once, for encoders that are measured many times."""

from __future__ import annotations

from collections.abc import Sequence

from ..coverage_totals import CoverageTotals
from ..devices import Precision
from ..encoder import DocumentEncoder
from .labels import ReadyDocument, plain_document


def ready_documents(
    encoder: DocumentEncoder,
    documents: Sequence[ReadyDocument],
    *,
    encoded: bool = False,
    dtype: Precision | None = None,
    totals: CoverageTotals | None = None,
    show_progress: bool | None = False,
) -> list[ReadyDocument]:
    """Cut and tokenise documents, and encode their passages where that is asked for and can be done once.

    Args:
        encoder: an encoder with the tokenizer and the segmentation of those that will be measured.
        documents: the documents.
        encoded: also encode the passages; with structural embeddings, where vectors depend on the split, this is
            passed over.
        dtype: precision that the transformer computes in; None is that of its weights.
        totals: where coverage is added up.
        show_progress: show a bar while passages are encoded; None shows it on a terminal when that takes long.

    Raises:
        DocumentError: a document has no text to encode.
    """
    plain = [plain_document(document) for document in documents]
    if not encoded or encoder.model.structural_embeddings is not None:
        return list(encoder.segmenter.segment_many(plain))
    totals = CoverageTotals() if totals is None else totals
    return list(encoder.with_passage_vectors(plain, dtype=dtype, totals=totals, show_progress=show_progress))
