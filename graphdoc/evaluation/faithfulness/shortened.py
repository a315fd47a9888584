"""Documents with passages taken out, encoded again from passage vectors that are there already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...graphs.batch import GraphBatch
from ...inference.levels import as_numpy
from ...inference.precision import inference
from ...modeling import DocumentModel
from ...segmentation.spans import SegmentedDocument

Floats = npt.NDArray[np.float64]
# ``(passages,)``, which passages of a document are left.
Kept = npt.NDArray[np.bool_]

# Pairs of passages, as many as edges of the full graph, of all shortened documents that are encoded together.
MOST_PAIRS = 2**18


@dataclass(frozen=True)
class CachedDocument:
    """A document whose passages have gone through the transformer.

    Passages are encoded one by one, so that a document without some of them has the passage vectors of the others.
    Where vectors hold the place of their passage in the document (structural embeddings of CoLDE), they keep the place
    that it has in the whole document: what is taken out leaves a gap, and nothing moves up.

    Args:
        segmented: the document; token ids are not needed.
        vectors: ``(passages, encoder hidden)``, pooled passage vectors.
    """

    segmented: SegmentedDocument
    vectors: Tensor

    def __len__(self) -> int:
        """Number of passages."""
        return len(self.segmented.passages)

    def shortened(self, kept: Kept) -> CachedDocument:
        """The document with some of its passages.

        Args:
            kept: ``(passages,)``, which ones; at least one.
        """
        passages = tuple(compress(self.segmented.passages, kept.tolist()))
        if not passages:
            raise ValueError("a document without passages cannot be encoded")
        chosen = torch.from_numpy(np.flatnonzero(kept)).to(self.vectors.device)
        return CachedDocument(replace(self.segmented, passages=passages, token_ids=()), self.vectors[chosen])


def graphs_of(model: DocumentModel, documents: Sequence[CachedDocument], *, shown: bool = False) -> GraphBatch:
    """The graphs of documents as the model sees them, on its device.

    Args:
        model: the model.
        documents: the documents.
        shown: whether attention is to be shown, which needs the whole graph also where vectors do not.
    """
    config = model.config
    graph = config.graph if shown else config.vector_graph
    segmented = [replace(document.segmented, token_ids=()) for document in documents]
    return GraphBatch.from_documents(segmented, graph).to(model.device)


def encode_shortened(
    model: DocumentModel, document: CachedDocument, kept: Sequence[Kept]
) -> tuple[Floats, Floats | None]:
    """Encode a document again and again, each time with some of its passages: new graphs, the same passage vectors.

    Args:
        model: the model.
        document: the document.
        kept: ``(passages,)`` each, which passages are left; at least one.

    Returns:
        Document vectors ``(times, hidden)``; logits ``(times, classes)``, None for a model without head.
    """
    vectors, logits = [], []
    for some in _together(kept):
        parts = [document.shortened(one) for one in some]
        with inference(model):
            passages = torch.cat([part.vectors for part in parts]).to(model.device)
            output = model.encode_graphs(passages, graphs_of(model, parts))
        assert output.documents is not None
        vectors.append(as_numpy(output.documents))
        if output.logits is not None:
            logits.append(as_numpy(output.logits))
    return np.concatenate(vectors).astype(np.float64), np.concatenate(logits).astype(np.float64) if logits else None


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
