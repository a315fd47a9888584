"""Checkpoints that hold only what was trained on top of a pretrained backbone."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ..errors import ModelError
from ..modeling import DocumentModel

UPDATES_FILE = "updates.safetensors"
# A low-rank update of the weight ``NAME`` is stored as two matrices whose product B A is added to it.
DOWN, UP = ".lora_A", ".lora_B"
ENCODER = "passage_encoder."


def apply_updates(model: DocumentModel, path: Path, name: str) -> None:
    """Give a model on its pretrained backbone what was trained.

    Args:
        model: the model, whose passage encoder has the backbone's weights.
        path: file of weights above the passage encoder, and of low-rank updates and weights inside it.
        name: what to call the checkpoint in messages.

    Raises:
        ModelError: the file is damaged, or does not fit the configuration.
    """
    try:
        updates = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path.name} of checkpoint {name} cannot be loaded: {error}; fetch it again") from error
    weights = {key: tensor.to(torch.float32) for key, tensor in updates.items() if not key.endswith((DOWN, UP))}
    own = model.state_dict()
    for key in [key.removesuffix(DOWN) for key in updates if key.endswith(DOWN)]:
        up = updates.get(key + UP)
        if key in own and up is not None and up.shape[1:] == updates[key + DOWN].shape[:1]:
            weights[key] = own[key] + up.float() @ updates[key + DOWN].float()
        else:
            weights[key] = updates[key + DOWN]
    missing = {key for key in own if not key.startswith(ENCODER)} - weights.keys()
    stored = {key.partition(".")[0] for key in weights}
    untrained = sorted({key.partition(".")[0] for key in missing} - stored)
    if untrained:
        raise ModelError(
            f"{name} has no weights for its {' and '.join(untrained)}; leave graph_layers, projection_size, readout "
            f"and labels as they are, or train from DocumentEncoder.from_backbone({model.config.backbone!r}, ...)"
        )
    wrong = missing | {key for key, tensor in weights.items() if key not in own or own[key].shape != tensor.shape}
    if wrong:
        raise ModelError(
            f"{path.name} of checkpoint {name} does not fit its configuration: {len(wrong)} weights are missing, "
            f"foreign or of another shape ({', '.join(sorted(wrong)[:3])}); take both files from the same run, and "
            "leave settings that change shapes as they are"
        )
    model.load_state_dict(weights, strict=False)


def low_rank(key: str, down: Tensor, up: Tensor, scale: float) -> dict[str, Tensor]:
    """A low-rank update as it is stored: ``up @ down * scale`` is added to the weight ``key``."""
    return {key + DOWN: down.detach().clone(), key + UP: up.detach() * scale}
