"""Checkpoints that hold only what was trained on top of a pretrained backbone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import Module

from ..errors import ModelError
from ..modeling import DocumentModel
from ..modeling.document_model import weights_hash
from .fitted import is_fitted, require_fitted

# Key of a file's metadata: hash of the weights of the backbone that the updates were trained on.
BACKBONE_HASH = "backbone_hash"
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
        ModelError: the file is damaged, was trained on another backbone, or does not fit the configuration.
    """
    try:
        with safe_open(path, framework="pt") as file:
            trained_on = (file.metadata() or {}).get(BACKBONE_HASH)
            updates = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path.name} of checkpoint {name} cannot be loaded: {error}; fetch it again") from error
    # Files of version 0.1 do not say what they were trained on.
    if trained_on is not None and trained_on != (found := _backbone_hash(model)):
        raise ModelError(
            f"{path.name} of checkpoint {name} was trained on weights of backbone {model.config.backbone} with hash "
            f"{trained_on}, and those found here have {found}; take the revision that it was trained on"
        )
    weights = {key: tensor.to(torch.float32) for key, tensor in updates.items() if not key.endswith((DOWN, UP))}
    own = model.state_dict()
    # A model may be loaded without what it was fitted to.
    weights = {key: tensor for key, tensor in weights.items() if key in own or not is_fitted(key)}
    for key in [key.removesuffix(DOWN) for key in updates if key.endswith(DOWN)]:
        up = updates.get(key + UP)
        if key in own and up is not None and up.shape[1:] == updates[key + DOWN].shape[:1]:
            weights[key] = own[key] + up.float() @ updates[key + DOWN].float()
        else:
            weights[key] = updates[key + DOWN]
    missing = {key for key in own if not key.startswith(ENCODER)} - weights.keys()
    stored = {key.partition(".")[0] for key in weights}
    require_fitted(missing, name)
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


def save_updates(model: DocumentModel, updates: Mapping[str, Tensor], path: Path) -> None:
    """Write what was trained on top of a model's backbone, with the hash of the backbone's weights.

    Args:
        model: the model in training.
        updates: what was trained, by name.
        path: the file.

    Raises:
        OSError: the file cannot be written.
        SafetensorError: the same.
    """
    # One entry alone: several would be written in an order that changes from time to time.
    metadata = {BACKBONE_HASH: _backbone_hash(model)}
    save_file({key: tensor.contiguous() for key, tensor in updates.items()}, path, metadata)


def without_low_rank(model: Module) -> dict[str, Tensor]:
    """The weights of a model as they are below its low-rank updates, named as in a model without any."""
    return {
        name.replace(".base_layer.", "."): tensor
        for name, tensor in model.state_dict().items()
        if ".lora_" not in name
    }


def _backbone_hash(model: DocumentModel) -> str:
    return weights_hash(without_low_rank(model.passage_encoder.transformer))
