"""What passages can be ranked by besides their contribution: attention, and the words they share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...graphs.batch import GraphBatch
from ...graphs.kinds import NodeKind
from ...inference.levels import as_numpy
from ...modeling import DocumentModel, DocumentOutput
from ...segmentation.spans import SegmentedDocument
from ..baselines import fitted_vectors

Floats = npt.NDArray[np.float64]


def attention_source(model: DocumentModel) -> str | None:
    """Whose weights :func:`passage_attention` takes, in words; None for a model without attention.

    Args:
        model: the model.
    """
    of_graph = "attention of the document node in the last graph layer, mean over heads"
    return model.readout.own_attention or (of_graph if model.config.graph_layers else None)


def passage_attention(model: DocumentModel, batch: GraphBatch, output: DocumentOutput) -> Floats:
    """How much attention every passage of a document gets where its vector is formed.

    Where the readout has weights or chunkwise attention of its own, it is these. Else it is the attention of the
    document node in the last graph layer (Graph-RoBERTa, figure 6); in graphs with section nodes, through which it
    sees passages, the weight of a section node is shared out as the section node looks at its passages.

    Args:
        model: the model.
        batch: the document alone, with the graph that the model's attention runs on.
        output: the output for it, with attention.

    Returns:
        ``(passages,)``, not negative; all the same for a model without attention.
    """
    passages = batch.rows.passages.cpu().numpy()
    count = len(passages)
    if output.chunk_pairs is not None and output.chunk_attention is not None:
        weights = as_numpy(output.chunk_attention).mean(axis=1, dtype=np.float64)
        return np.bincount(output.chunk_pairs[0].cpu().numpy(), weights, count) / count
    if model.readout.own_attention is not None and output.readout_weights is not None:
        return as_numpy(output.readout_weights).astype(np.float64)
    if not output.attention:
        return np.full(count, 1 / count)
    source, target = batch.edge_index.cpu().numpy()
    weights = as_numpy(output.attention[-1]).mean(axis=1, dtype=np.float64)
    kinds, nodes = batch.node_kind.cpu().numpy(), len(batch.node_kind)
    from_document = kinds[target] == NodeKind.DOCUMENT
    of_document = np.bincount(source[from_document], weights[from_document], nodes)
    from_section = kinds[target] == NodeKind.SECTION
    through = weights[from_section] * of_document[target[from_section]]
    return np.asarray((of_document + np.bincount(source[from_section], through, nodes))[passages])


class WordOverlap:
    """Words that passages share with documents and classes, by TF-IDF over the whole texts of some documents.

    Args:
        documents: the documents.
    """

    def __init__(self, documents: Sequence[SegmentedDocument]) -> None:
        self._fitted = fitted_vectors([segmented.document.text for segmented in documents])

    def with_document(self, segmented: SegmentedDocument, other: int) -> Floats:
        """The cosine of every passage with another document.

        Args:
            segmented: the document whose passages they are.
            other: place of the other among the documents.

        Returns:
            ``(passages,)``; 0 for a passage that shares no word.
        """
        if self._fitted is None:
            return np.zeros(len(segmented.passages))
        vectorizer, vectors = self._fitted
        return self._products(vectorizer.transform(segmented.texts), vectors[other].toarray().ravel())

    def with_class(self, segmented: SegmentedDocument, own: int, members: npt.NDArray[np.bool_]) -> Floats:
        r"""How much more every passage is like a class than like the other documents, by words.

        That is :math:`x \cdot (c^+ - c^-)` with the TF-IDF vector x of the passage, the mean :math:`c^+` of the other
        documents of the class and the mean :math:`c^-` of all that are not of it: Rocchio's classifier, to which the
        document itself is unknown.

        Args:
            segmented: the document whose passages they are.
            own: its place among the documents.
            members: ``(documents,)``, which of them are of the class.

        Returns:
            ``(passages,)``.
        """
        if self._fitted is None:
            return np.zeros(len(segmented.passages))
        vectorizer, vectors = self._fitted
        weights = np.zeros(len(members))
        for sign, chosen in ((1.0, members.copy()), (-1.0, ~members)):
            chosen[own] = False
            weights[chosen] = sign / max(int(chosen.sum()), 1)
        return self._products(vectorizer.transform(segmented.texts), vectors.T @ weights)

    @staticmethod
    def _products(passages: object, vector: Floats) -> Floats:
        return np.asarray(passages @ vector, np.float64).ravel()  # type: ignore[operator]
