"""Split a document vector exactly into what stems from each passage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor
from torch.nn import Module

from ..graphs.batch import GraphBatch
from .document_model import DocumentModel
from .graph_attention import GraphAttention
from .readouts import DocumentOutput, WeightedReadout

# Cells of one (passages, nodes, hidden) block of states that are carried through the layers together.
BLOCK_CELLS = 2**25


def passage_attributions(
    model: DocumentModel, passage_vectors: Tensor, batch: GraphBatch, output: DocumentOutput
) -> Tensor:
    """Split a document's vector into one part per passage, ``(passages, hidden)``; they add up to the vector.

    Without graph layers, or where vectors are read before them, a part is the passage's vector times its readout
    weight. Through graph layers every node's state is carried as a sum over the passages it stems from: attention
    weights are held at their values, ELU multiplies each part by the ratio ELU(x) / x of the whole, and biases are
    shared equally. This is the function the network computes, written as a sum. What the readout adds is its
    :meth:`~graphdoc.modeling.readouts.Readout.attribute`.

    Args:
        model: the model, in eval mode.
        passage_vectors: pooled passage vectors of one document, ``(passages, encoder hidden)``.
        batch: that document alone.
        output: the model's output for it, with attention.
    """
    if len(batch) != 1:
        raise ValueError(f"attributions are computed for one document at a time, not for {len(batch)}")
    passages = model.initial_passages(passage_vectors.float())
    if isinstance(model.readout, WeightedReadout) and (not output.attention or model.reads_initial_nodes):
        assert output.readout_weights is not None
        return passages * output.readout_weights.unsqueeze(-1)
    assert output.attention is not None and output.layer_inputs is not None
    count, hidden = passages.shape
    block = max(1, BLOCK_CELLS // (len(batch.node_kind) * hidden))
    layers = [] if model.reads_initial_nodes else list(zip(model.graph.layers, output.attention, strict=True))
    # What ELU multiplied every node's state by before every layer but the first. What went into it is computed again:
    # where it saturates, nothing can be read off what came out.
    ratios = []
    for number, after in enumerate(output.layer_inputs[1 : len(layers)]):
        before = _attend(*layers[number], output.layer_inputs[number].unsqueeze(0), batch, 1.0).squeeze(0)
        ratios.append(torch.where(before.abs() > 1e-12, after / before, torch.ones_like(after)))
    parts = []
    for start in range(0, count, block):
        origins = torch.arange(start, min(start + block, count), device=passages.device)
        states = _initial_states(origins, passages, batch)
        for number, (layer, weights) in enumerate(layers):
            if number:
                states = states * ratios[number - 1]
            states = _attend(layer, weights, states, batch, 1.0 / count)
        parts.append(model.readout.attribute(states, batch, output))
    return torch.cat(parts)


def logit_contributions(
    model: DocumentModel, passage_vectors: Tensor, batch: GraphBatch, output: DocumentOutput, classes: Sequence[int]
) -> Tensor:
    """Split logits of a document into one contribution per passage, ``(passages, classes)``.

    A logit is linear in the document vector, so a contribution is the dot product of a passage's part (see
    :func:`passage_attributions`, also for the arguments) with the class's weights. They and the bias make the logit.
    """
    assert model.head is not None, "a model without head has no logits"
    return passage_attributions(model, passage_vectors, batch, output) @ model.head.linear.weight[list(classes)].T


def _attend(layer: Module, weights: Tensor, states: Tensor, batch: GraphBatch, bias_share: float) -> Tensor:
    """A graph layer with attention ``weights`` held still, a linear map of ``(origins, nodes, hidden)``."""
    layer = cast(GraphAttention, layer)
    conv = layer.conv
    source, target = batch.edge_index
    nodes = len(batch.node_kind)
    values = conv.lin(states).unflatten(-1, (conv.heads, -1))
    mixing = states.new_zeros(conv.heads, nodes, nodes)
    mixing[:, target, source] = weights.T
    messages = torch.einsum("hts,oshc->othc", mixing, values).flatten(-2)
    return torch.as_tensor(messages + layer.skip(states) + conv.bias * bias_share)


def _initial_states(origins: Tensor, passages: Tensor, batch: GraphBatch) -> Tensor:
    """Initial nodes as sums over origins, ``(origins, nodes, hidden)``: the linear part of equations 1 and 2."""
    rows, places = batch.rows, torch.arange(len(origins), device=passages.device)
    states = passages.new_zeros(len(origins), len(batch.node_kind), passages.shape[1])
    states[places, rows.passages[origins]] = passages[origins]
    states[:, rows.documents[0]] = passages[origins] / len(passages)
    for node, section in enumerate(rows.sections):
        members = rows.members[rows.section_of == node]
        is_member = torch.isin(origins, members)
        states[:, section] = passages[origins] * (is_member / len(members)).unsqueeze(-1)
    return states
