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
        passages: ``(passages, node size)``, passage nodes after the last graph layer, document after document.
        nodes: ``(nodes, node size)``, all nodes after the last graph layer.
        readout_weights: ``(passages,)``, weight of every passage in its document's readout, not negative and summing
            to 1 over a document: shown as attention, and what section vectors are means under. Weights of every
            number of a passage are condensed to their mean. None for readouts whose vector without graph layers is the
            plain mean of the passages, so that each counts the same, and for those that make section vectors.
        attention: for every graph layer ``(edges, heads)`` attention weights in the order of the batch's edges,
            summing to 1 over the edges of one target; None unless asked for.
        layer_inputs: ``(nodes, node size)`` for every graph layer, what went in; None unless attention is asked for.
        sections: ``(sections, hidden)``, section vectors, document after document; None for readouts that make none.
        document_of_section: ``(sections,)``, position of every section's document in the batch.
        chunk_pairs: ``(2, pairs)``, passages that chunkwise attention looks at, above those that look; None unless
            attention is asked for and the readout has it, like what follows.
        chunk_attention: ``(pairs, heads)``, its weights, summing to 1 over the pairs of one passage that looks.
        chunk_queries: ``(passages, heads, width)``, what passages look for in chunkwise attention.
        chunk_keys: ``(passages, heads, width)``, what passages are found by.
        logits: ``(documents, classes)`` in fp32; None for a model without head.
        subtopics: ``(passages, columns)`` in fp32, logits of subtopics of every sentence, where the model has
            learned them and documents are pairs, with their graphs; else None.
    """

    documents: Tensor | None = None
    passages: Tensor | None = None
    nodes: Tensor | None = None
    readout_weights: Tensor | None = None
    attention: tuple[Tensor, ...] | None = None
    layer_inputs: tuple[Tensor, ...] | None = None
    sections: Tensor | None = None
    document_of_section: Tensor | None = None
    chunk_pairs: Tensor | None = None
    chunk_attention: Tensor | None = None
    chunk_queries: Tensor | None = None
    chunk_keys: Tensor | None = None
    logits: Tensor | None = None
    subtopics: Tensor | None = None
