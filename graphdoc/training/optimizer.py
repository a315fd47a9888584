"""Which weights a run trains, and by which optimizer and schedule.

Their state is saved as safetensors and JSON, since that of ``Accelerator.save_state`` is pickled.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from transformers import get_scheduler
from transformers.trainer_pt_utils import get_parameter_names

from ..checkpoints.load import ENCODER, low_rank, without_low_rank
from ..errors import MissingExtraError, ModelError
from ..modeling import DocumentModel
from ..modeling.document_model import TRAINING_PARTS
from ..settings.run import TrainingSettings, Tune

TENSORS_FILE, VALUES_FILE = "optimizer.safetensors", "optimizer.json"

# Weights that do not decay, in addition to those of LayerNorm.
_NO_DECAY = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]


def make_optimizer(model: DocumentModel, settings: TrainingSettings) -> Optimizer:
    """The optimizer of the weights that are trained.

    Biases and norms do not decay; the passage encoder may have a learning rate of its own.
    """
    decaying = set(get_parameter_names(model, [nn.LayerNorm], _NO_DECAY))
    members: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            in_encoder = name.startswith("passage_encoder.")
            members.setdefault((in_encoder, name in decaying), []).append(weight)
    groups = [
        {
            "params": weights,
            "weight_decay": settings.weight_decay if decays else 0.0,
            "lr": (settings.encoder_learning_rate if in_encoder else None) or settings.learning_rate,
        }
        for (in_encoder, decays), weights in sorted(members.items(), key=lambda entry: entry[0])
    ]
    # Adam is AdamW without decay.
    return AdamW(groups, lr=settings.learning_rate)


def make_schedule(optimizer: Optimizer, settings: TrainingSettings, steps: int) -> Any:
    """The course of the learning rate over the steps of a run."""
    # A share of the steps below 1, which leaves one step with the whole rate at least; else their number.
    warmup = settings.warmup_steps
    warmup = int(warmup) if warmup >= 1 else min(math.ceil(steps * warmup), steps - 1)
    return get_scheduler(settings.lr_scheduler_type, optimizer, num_warmup_steps=warmup, num_training_steps=steps)


def save_optimizer(folder: Path, optimizer: Any, schedule: Any, scaler: Any) -> None:
    """Write the state of an optimizer, its schedule, and what scales its gradients."""
    state = optimizer.state_dict()
    entries = {f"{number}.{name}": value for number, of in state["state"].items() for name, value in of.items()}
    content = {"groups": state["param_groups"], "schedule": schedule.state_dict()}
    content["scaler"] = scaler and scaler.state_dict()
    (folder / VALUES_FILE).write_text(json.dumps(content, default=_plain), encoding="utf-8")
    save_file({key: tensor.detach().contiguous().cpu() for key, tensor in entries.items()}, folder / TENSORS_FILE)


def load_optimizer(folder: Path, optimizer: Any, schedule: Any, scaler: Any) -> None:
    """Read what :func:`save_optimizer` wrote; fails in many ways where it is damaged or belongs to other weights."""
    content = json.loads((folder / VALUES_FILE).read_text(encoding="utf-8"))
    state: dict[int, dict[str, Any]] = {}
    for key, tensor in load_file(folder / TENSORS_FILE).items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    groups = [{**group, "betas": tuple(group["betas"])} for group in content["groups"]]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    schedule.load_state_dict(content["schedule"])
    if scaler is not None and content["scaler"]:
        scaler.load_state_dict(content["scaler"])


def _plain(value: object) -> object:
    """Numbers that JSON has no form for."""
    if isinstance(value, Tensor):
        return value.item()
    if isinstance(value, torch.dtype):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


ADAPTER = "default"


def prepare_tuning(model: DocumentModel, tune: Tune, lora_rank: int = 8, *, subtopics: bool = False) -> None:
    """Mark the weights that a run trains; what lies above the passage encoder is always trained.

    Args:
        model: the model, changed in place.
        tune: ``full`` trains the passage encoder, ``lora`` adds low-rank updates to it and trains those, ``frozen``
            leaves it alone, and the structural embeddings that it reads.
        lora_rank: rank of the updates of ``lora``.
        subtopics: whether the loss looks at the head for subtopics, and so at the graph below it.

    Raises:
        MissingExtraError: ``lora`` without the package it needs.
        ModelError: nothing would be trained.
    """
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
        _add_low_rank_updates(model, lora_rank)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ModelError(
            "the model has no weights to train with tune='frozen': no projection, no graph layers that the readout "
            "looks at, no attention readout; set projection_size, graph_layers or another readout, or tune the "
            "passage encoder (lora or full)"
        )


def _add_low_rank_updates(model: DocumentModel, rank: int) -> None:
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise MissingExtraError("peft", "lora", "train low-rank updates (tune: lora)") from error
    transformer: Any = model.passage_encoder.transformer
    targets = [name for name, module in transformer.named_modules() if isinstance(module, nn.Linear)]
    inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets), transformer, ADAPTER)


def _low_rank_layers(model: DocumentModel) -> list[tuple[str, Any]]:
    return [(name, layer) for name, layer in model.named_modules() if hasattr(layer, "get_delta_weight")]


def finish_tuning(model: DocumentModel) -> None:
    """Leave a model as it is used: with its low-rank updates added in, without the parts that training alone uses."""
    for name, layer in _low_rank_layers(model):
        base = layer.get_base_layer()
        with torch.no_grad():
            base.weight += layer.get_delta_weight(ADAPTER).to(base.weight.dtype)
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, base)
    model.training_parts.clear()
    model.requires_grad_(True)
    model.eval()  # type: ignore[no-untyped-call]


def trained_weights(model: DocumentModel) -> dict[str, Tensor]:
    """The weights that a run trains, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def merged_weights(model: DocumentModel) -> dict[str, Tensor]:
    """All weights of a model with its low-rank updates added in, named as in a model without them.

    Those of parts that training alone uses are left out; those without an update are the model's own tensors.
    """
    weights = {name: tensor for name, tensor in without_low_rank(model).items() if not name.startswith(TRAINING_PARTS)}
    for name, layer in _low_rank_layers(model):
        key = f"{name}.weight"
        with torch.no_grad():
            weights[key] = weights[key] + layer.get_delta_weight(ADAPTER).to(weights[key].dtype)
    return weights


def trained_updates(model: DocumentModel) -> dict[str, Tensor]:
    """What a run has trained on top of a backbone: weights above it, and low-rank updates inside it.

    They are stored by checkpoints (see :mod:`graphdoc.checkpoints.load`).
    """
    elsewhere = (ENCODER, TRAINING_PARTS)
    updates = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith(elsewhere)}
    for name, layer in _low_rank_layers(model):
        down, up = layer.lora_A[ADAPTER].weight, layer.lora_B[ADAPTER].weight
        updates |= low_rank(f"{name}.weight", down, up, float(layer.scaling[ADAPTER]))
    return updates
