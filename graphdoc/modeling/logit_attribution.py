"""How much of a logit stems from each passage."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..graphs.batch import GraphBatch
from .attribution import node_terms, passage_terms
from .document_model import DocumentModel
from .outputs import DocumentOutput

# Readouts whose document vectors split into passages exactly: weighted sums of nodes, and CoLDE's, whose weights and
# gates are held still for it.
LINEAR_READOUTS = ("document_node", "mean", "initial_mean", "attention", "sections")
STEPS = 32


def splits_exactly(model: DocumentModel) -> bool:
    """Whether contributions of passages to a logit are exact, and add up to it but for the head's bias."""
    return model.config.readout in LINEAR_READOUTS


def logit_contributions(
    model: DocumentModel, passage_vectors: Tensor, batch: GraphBatch, output: DocumentOutput, classes: Sequence[int]
) -> Tensor:
    r"""Split logits of a document into one contribution per passage.

    A logit is linear in the document vector. For all readouts of this package the document vector is a sum of one term
    per passage (see :func:`~graphdoc.modeling.attribution.passage_terms`), and a contribution is the dot product of a
    passage's term with the weights of the class: exact, and with the bias they add up to the logit.

    Other readouts may be no sums. There the logit is followed on a straight line from nodes that are all zero to the
    nodes :math:`v` that the graph gives (integrated gradients, Sundararajan et al. 2017),

    .. math::
        g = \int_0^1 \nabla z(\alpha v) \, d\alpha \approx \frac{1}{m} \sum_{k=1}^m
            \nabla z\left(\tfrac{k - 1/2}{m} v\right),

    and a contribution is the dot product of :math:`g` with the terms of the passage in all nodes. They add up to the
    logit less that of zero nodes, up to the error of the sum over m = 32 steps.

    Args:
        model: the model with its head, in eval mode.
        passage_vectors: pooled passage vectors of one document, ``(passages, encoder hidden)``.
        batch: that document alone.
        output: the model's output for it, with attention.
        classes: numbers of the classes whose logits are split.

    Returns:
        ``(passages, classes)``.
    """
    assert model.head is not None, "a model without head has no logits"
    weights = model.head.linear.weight[list(classes)]
    if splits_exactly(model):
        return passage_terms(model, passage_vectors, batch, output) @ weights.T
    assert output.nodes is not None
    gradients = _path_gradients(model, output.nodes, batch, weights)
    passages = model.initial_passages(passage_vectors.float())
    terms = node_terms(model, passages, batch, output)
    return torch.cat([torch.einsum("onh,cnh->oc", states, gradients) for states in terms])


def _path_gradients(model: DocumentModel, nodes: Tensor, batch: GraphBatch, weights: Tensor) -> Tensor:
    """Gradients of logits at the nodes, averaged on the way from zero, ``(classes, nodes, hidden)``."""
    total = nodes.new_zeros(len(weights), *nodes.shape)
    # cuDNN's recurrent layers have no backward pass in eval mode.
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        for step in range(STEPS):
            scaled = ((step + 0.5) / STEPS * nodes.detach()).requires_grad_()
            documents, *_ = model.readout(scaled, batch)
            logits = (documents @ weights.T).sum(dim=0)
            for row, logit in enumerate(logits):
                (gradient,) = torch.autograd.grad(logit, scaled, retain_graph=row + 1 < len(logits))
                total[row] += gradient / STEPS
    return total.detach()
