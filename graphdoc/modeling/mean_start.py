"""A start at what the backbone can do already: untrained layers that give the mean of the passages."""

from __future__ import annotations

import torch
from torch import nn
from torch_geometric.nn import GATConv

from ..errors import SettingsError
from .document_model import DocumentModel
from .readouts.sections import SectionReadout

# What a graph layer adds to its nodes at the start, as a share of what it would add with weights of the usual size.
MESSAGE_SHARE = 0.1


@torch.no_grad()
def start_at_mean(model: DocumentModel) -> None:
    """Set all layers above the passage encoder so that document vectors are, nearly, the mean of passage vectors.

    A backbone that was trained by contrast already, such as MiniLM, then loses nothing at the start: the projection
    and the skip connection of the graph layer are the identity, what a node takes from others is scaled down, what
    chunkwise attention adds is nothing, and the projection of sections is the identity.

    Args:
        model: the model, changed in place.

    Raises:
        SettingsError: the model has a layer that cannot be the identity: one that changes the width, an LSTM, a second
            graph layer, or attention as its readout.
    """
    config = model.config
    reasons = []
    if config.projection_size not in (None, config.encoder_config.hidden_size):
        reasons.append(f"projection_size={config.projection_size} (set it to null)")
    if config.graph_layers > 1:
        reasons.append(f"graph_layers={config.graph_layers} (set it to 1 or 0)")
    if config.readout == "attention":
        reasons.append("readout=attention (set it to mean or document_node)")
    if config.readout == "sections":
        if config.section_aggregation == "lstm":
            reasons.append("section_aggregation=lstm (set it to mean)")
        if config.section_projection_size not in (None, config.node_size):
            reasons.append(f"section_projection_size={config.section_projection_size} (set it to {config.node_size})")
    if reasons:
        raise SettingsError(f"a start at the mean of passages is not possible with {' and '.join(reasons)}")
    if model.projection is not None:
        # The tanh of numbers as small as those of unit vectors is nearly these numbers.
        _be_identity(model.projection)
    for module in model.graph.modules():
        if isinstance(module, GATConv):
            assert isinstance(module.res, nn.Module) and isinstance(module.lin, nn.Module)
            _be_identity(module.res)
            module.lin.weight.mul_(MESSAGE_SHARE)  # type: ignore[operator]
            nn.init.zeros_(module.bias)
    if isinstance(model.readout, SectionReadout):
        if model.readout.attention is not None:
            nn.init.zeros_(model.readout.attention.output.weight)
            nn.init.zeros_(model.readout.attention.output.bias)
        if model.readout.projection is not None:
            _be_identity(model.readout.projection)


def _be_identity(layer: nn.Module) -> None:
    nn.init.eye_(layer.weight)  # type: ignore[arg-type]
    if getattr(layer, "bias", None) is not None:
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
