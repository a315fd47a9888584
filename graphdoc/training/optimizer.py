"""Optimiser and schedule of a run, and their state in a folder: safetensors and JSON instead of pickles."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from transformers import get_scheduler
from transformers.optimization import Adafactor
from transformers.trainer_pt_utils import get_parameter_names

from ..modeling import DocumentModel
from ..settings.training import TrainingSettings

TENSORS_FILE, VALUES_FILE = "optimizer.safetensors", "optimizer.json"

# Share of the steps in which ``warmup_stable_decay`` comes down, as in the paper that proposed it (Hu et al. 2024).
DECAY_SHARE = 0.1

# Weights that do not decay, beside those of LayerNorm.
_NO_DECAY = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]

# Encoders of transformers call them ``layer`` or ``layers``.
_LAYER = re.compile(r"\.layers?\.(\d+)\.")


def make_optimizer(model: DocumentModel, settings: TrainingSettings) -> Optimizer:
    """The optimiser of the weights that are trained.

    Biases and norms do not decay; the passage encoder, or each of its layers, may have a learning rate of its own.

    Args:
        model: the model in training.
        settings: how it is trained.
    """
    decaying = set(get_parameter_names(model, [nn.LayerNorm], _NO_DECAY))
    layers = int(model.config.encoder_config.num_hidden_layers)
    members: dict[tuple[bool, int, bool], list[nn.Parameter]] = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            in_encoder = name.startswith("passage_encoder.")
            below = layers_below(name, layers) if in_encoder and settings.layer_decay is not None else 0
            members.setdefault((in_encoder, below, name in decaying), []).append(weight)
    groups = [
        {
            "params": weights,
            "weight_decay": settings.weight_decay if decays else 0.0,
            "lr": ((settings.encoder_learning_rate if in_encoder else None) or settings.learning_rate)
            * (settings.layer_decay or 1.0) ** below,
        }
        for (in_encoder, below, decays), weights in sorted(members.items(), key=lambda entry: entry[0])
    ]
    if settings.optimizer == "adafactor":
        return Adafactor(groups, lr=settings.learning_rate, scale_parameter=False, relative_step=False)
    # Adam is AdamW without decay.
    return AdamW(groups, lr=settings.learning_rate)


def layers_below(name: str, layers: int) -> int:
    """How many layers of the passage encoder lie between a weight and the top; embeddings lie below the first layer.

    Args:
        name: name of the weight, such as ``passage_encoder.transformer.encoder.layer.3.output.dense.weight``.
        layers: number of layers.
    """
    number = _LAYER.search(name)
    if number is not None:
        return layers - 1 - int(number[1])
    return layers if "embed" in name else 0


def make_schedule(optimizer: Optimizer, settings: TrainingSettings, steps: int) -> Any:
    """The course of the learning rate over the steps of a run."""
    # A share of the steps below 1, which leaves one step with the whole rate at least; else their number.
    warmup = int(settings.warmup) if settings.warmup >= 1 else min(math.ceil(steps * settings.warmup), steps - 1)
    options = {"num_decay_steps": max(1, round(DECAY_SHARE * steps))}
    return get_scheduler(
        settings.schedule,
        optimizer,
        num_warmup_steps=warmup,
        num_training_steps=steps,
        scheduler_specific_kwargs=options if settings.schedule == "warmup_stable_decay" else None,
    )


def save_optimizer(folder: Path, optimizer: Any, schedule: Any) -> None:
    """Write the state of an optimiser and its schedule."""
    state = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    values: dict[str, dict[str, Any]] = {}
    for number, entries in state["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{number}.{name}"] = value.detach().contiguous().cpu()
            else:
                values.setdefault(str(number), {})[name] = value
    content = {"groups": state["param_groups"], "values": values, "schedule": schedule.state_dict()}
    (folder / VALUES_FILE).write_text(json.dumps(content, default=_plain), encoding="utf-8")
    save_file(tensors, folder / TENSORS_FILE)


def load_optimizer(folder: Path, optimizer: Any, schedule: Any) -> None:
    """Read what :func:`save_optimizer` wrote; fails in many ways where it is damaged or belongs to other weights."""
    content = json.loads((folder / VALUES_FILE).read_text(encoding="utf-8"))
    state: dict[int, dict[str, Any]] = {int(number): dict(entry) for number, entry in content["values"].items()}
    for key, tensor in load_file(folder / TENSORS_FILE).items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    groups = [{**group, "betas": tuple(group["betas"])} if "betas" in group else group for group in content["groups"]]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    schedule.load_state_dict(content["schedule"])


def _plain(value: object) -> object:
    """Numbers that JSON has no form for."""
    if isinstance(value, Tensor):
        return value.item()
    if isinstance(value, torch.dtype):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
