"""Which weights a run trains: all of them, low-rank updates of the passage encoder, or none of it."""

from __future__ import annotations

from typing import Any, get_args

import torch
from torch import Tensor

from ..checkpoints.updates import ENCODER, low_rank, without_low_rank
from ..errors import MissingExtraError, ModelError
from ..modeling import DocumentModel
from ..modeling.document_model import TRAINING_PARTS
from ..settings.model import LoraSettings, Tune

ADAPTER = "default"


def prepare_tuning(
    model: DocumentModel, tune: Tune, lora: LoraSettings | None = None, *, subtopics: bool = False
) -> None:
    """Mark the weights that a run trains; what lies above the passage encoder is always trained.

    Args:
        model: the model, changed in place.
        tune: ``full`` trains the passage encoder, ``lora`` adds low-rank updates to it and trains those, ``frozen``
            leaves it alone, with the structural embeddings that it is given.
        lora: settings for ``lora``.
        subtopics: whether the loss looks at the head for subtopics, and so at the graph below it.

    Raises:
        MissingExtraError: ``lora`` without the package it needs.
        ModelError: nothing would be trained, or no layer has such a name.
        ValueError: ``tune`` is unknown.
    """
    if tune not in get_args(Tune):
        raise ValueError(f"tune {tune!r} is unknown; use one of {', '.join(get_args(Tune))}")
    model.requires_grad_(True)
    if tune != "full":
        model.passage_encoder.requires_grad_(False)
    if tune == "frozen" and model.structural_embeddings is not None:
        model.structural_embeddings.requires_grad_(False)
    if model.reads_initial_nodes and not subtopics:
        # Nothing that a loss looks at comes out of the graph.
        model.graph.requires_grad_(False)
    if model.subtopic_head is not None and not subtopics:
        model.subtopic_head.requires_grad_(False)
    if tune == "lora":
        _add_low_rank_updates(model, lora or LoraSettings())
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ModelError(
            "the model has no weights to train with tune='frozen': no projection, no graph layers that the readout "
            "looks at, no attention readout; set projection_size, graph_layers or another readout, or tune the "
            "passage encoder (lora or full)"
        )


def _add_low_rank_updates(model: DocumentModel, settings: LoraSettings) -> None:
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise MissingExtraError("peft", "lora", "train low-rank updates (tune: lora)") from error
    transformer: Any = model.passage_encoder.transformer
    targets = [name for name, module in transformer.named_modules() if isinstance(module, torch.nn.Linear)]
    if settings.targets:
        known = sorted({name.rpartition(".")[2] for name in targets})
        targets = [name for name in targets if name.endswith(tuple(settings.targets))]
        if not targets:
            raise ModelError(
                f"no linear layer of the passage encoder ends in {' or '.join(settings.targets)}; "
                f"there are {', '.join(known)}"
            )
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,  # type: ignore[arg-type]
        lora_dropout=settings.dropout,
        target_modules=targets,
    )
    inject_adapter_in_model(config, transformer, ADAPTER)


def trained_weights(model: DocumentModel) -> dict[str, Tensor]:
    """The weights that a run trains, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def fixed_weights(model: DocumentModel) -> dict[str, Tensor]:
    """The weights that a run takes from where it starts and leaves as they are, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if not parameter.requires_grad}


def merged_weights(model: DocumentModel) -> dict[str, Tensor]:
    """All weights of a model with its low-rank updates added in, named as in a model without them.

    Those of parts that training alone uses are left out.

    Returns:
        Weights by name; those without an update are the model's own tensors.
    """
    weights = {name: tensor for name, tensor in without_low_rank(model).items() if not name.startswith(TRAINING_PARTS)}
    for name, module in model.named_modules():
        update = getattr(module, "get_delta_weight", None)
        if update is not None:
            key = f"{name}.weight"
            with torch.no_grad():
                weights[key] = weights[key] + update(ADAPTER).to(weights[key].dtype)
    return weights


def trained_updates(model: DocumentModel) -> dict[str, Tensor]:
    """What a run has trained on top of a frozen or low-rank-updated backbone, as a checkpoint stores it.

    Returns:
        Weights above the passage encoder, and low-rank updates inside it (see :mod:`graphdoc.checkpoints.updates`).
    """
    elsewhere = (ENCODER, TRAINING_PARTS)
    updates = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith(elsewhere)}
    for name, module in model.named_modules():
        layer: Any = module
        if hasattr(layer, "get_delta_weight"):
            down, up = layer.lora_A[ADAPTER].weight, layer.lora_B[ADAPTER].weight
            updates |= low_rank(f"{name}.weight", down, up, float(layer.scaling[ADAPTER]))
    return updates
