"""Documents of an evaluation made ready once, for encoders that are measured many times."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Self

from ..encoder import DocumentEncoder
from ..inference.precision import Precision
from ..segmentation.coverage import CoverageTotals
from .labels import ReadyDocument, plain_document


class MadeReady:
    """What all evaluations are that encode documents.

    Attributes:
        documents: the documents that are encoded, segmented or not, with the vectors of their passages or not.
        dtype: precision that the transformer computes in; None is that of its weights.
    """

    documents: Sequence[ReadyDocument]
    dtype: Precision | None

    def segmented(
        self,
        encoder: DocumentEncoder,
        *,
        encoded: bool = False,
        totals: CoverageTotals | None = None,
        show_progress: bool | None = False,
    ) -> Self:
        """The same evaluation with documents cut and tokenised once, and encoded as far as that can be done once.

        Args:
            encoder: an encoder with the tokenizer and the segmentation of those that will be measured.
            encoded: also encode the passages, where all of those have this passage encoder; with structural
                embeddings, where vectors depend on how documents are split, this is passed over.
            totals: where coverage is added up.
            show_progress: show a bar while passages are encoded; None shows it on a terminal when that takes long.

        Raises:
            DocumentError: a document has no text to encode.
        """
        result = copy.copy(self)
        plain = [plain_document(document) for document in self.documents]
        if not encoded or encoder.model.structural_embeddings is not None:
            result.documents = list(encoder.segmenter.segment_many(plain))
            return result
        totals = CoverageTotals() if totals is None else totals
        stream = encoder.with_passage_vectors(plain, dtype=self.dtype, totals=totals, show_progress=show_progress)
        result.documents = list(stream)
        return result
