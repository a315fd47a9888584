"""What a forward pass of the document model returns."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from transformers.utils.generic import ModelOutput


@dataclass
class DocumentOutput(ModelOutput):
    """Vectors of a batch of documents.

    Args:
        documents: ``(documents, hidden)``, document vectors.
        passages: ``(passages, hidden)``, passage nodes after the last graph layer, document after document.
        nodes: ``(nodes, hidden)``, all nodes after the last graph layer.
        readout_weights: ``(passages,)``, weight of every passage in its document's readout, summing to 1 over a
            document; None for the document-node readout.
        attention: for every graph layer ``(edges, heads)`` attention weights in the order of the batch's edges,
            summing to 1 over the edges of one target; None unless asked for.
        layer_inputs: ``(nodes, hidden)`` for every graph layer, what went in; None unless attention is asked for.
        logits: ``(documents, classes)`` in fp32; None for a model without head.
    """

    documents: Tensor | None = None
    passages: Tensor | None = None
    nodes: Tensor | None = None
    readout_weights: Tensor | None = None
    attention: tuple[Tensor, ...] | None = None
    layer_inputs: tuple[Tensor, ...] | None = None
    logits: Tensor | None = None
