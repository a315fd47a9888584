"""A start at what the backbone can do already: untrained layers that give the mean of the passages."""

from __future__ import annotations

from typing import cast

import torch
from torch import nn

from .document_model import DocumentModel
from .graph_attention import GraphAttention
from .readouts.readout import no_start_at_mean

# What a graph layer adds to its nodes at the start, as a share of what it would add with weights of the usual size.
MESSAGE_SHARE = 0.1


@torch.no_grad()
def start_at_mean(model: DocumentModel) -> None:
    """Set all layers above the passage encoder so that document vectors are, nearly, the mean of passage vectors.

    A backbone that was trained by contrast already, such as MiniLM, then loses nothing at the start: the projection
    and the skip connection of the graph layer are the identity, what a node takes from others is scaled down, and the
    readout starts as its :meth:`~graphdoc.modeling.readouts.readout.Readout.start_at_mean` says.

    Args:
        model: the model, changed in place.

    Raises:
        SettingsError: the model has a layer that cannot be the identity: one that changes the width, a second graph
            layer, or what a readout names.
    """
    config = model.config
    reasons = []
    if config.projection_size not in (None, config.passage_size):
        reasons.append(f"projection_size={config.projection_size} (set it to null)")
    if config.graph_layers > 1:
        reasons.append(f"graph_layers={config.graph_layers} (set it to 1 or 0)")
    if reasons:
        raise no_start_at_mean(reasons)
    model.readout.start_at_mean()
    if model.projection is not None:
        # The tanh of numbers as small as those of unit vectors is nearly these numbers.
        nn.init.eye_(model.projection.weight)
        nn.init.zeros_(model.projection.bias)
    for layer in model.graph.layers:
        cast(GraphAttention, layer).start_at_skip(MESSAGE_SHARE)
