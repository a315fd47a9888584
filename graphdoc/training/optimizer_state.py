"""The state of an optimiser and its schedule in a folder, as safetensors and JSON instead of pickles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..errors import ModelError

TENSORS_FILE, VALUES_FILE = "optimizer.safetensors", "optimizer.json"


def save_optimizer(folder: Path, optimizer: Any, scheduler: Any) -> None:
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
    content = {"groups": state["param_groups"], "values": values, "schedule": scheduler.state_dict()}
    (folder / VALUES_FILE).write_text(json.dumps(content, default=_plain), encoding="utf-8")
    save_file(tensors, folder / TENSORS_FILE)


def way_out(checkpoint: Path) -> str:
    """What to do about a checkpoint that cannot be used."""
    return f"remove {checkpoint} to resume from the one before, or start anew"


def load_optimizer(folder: Path, optimizer: Any, scheduler: Any) -> None:
    """Read what :func:`save_optimizer` wrote.

    Raises:
        ModelError: a file is missing or damaged, or belongs to other weights.
    """
    try:
        content = json.loads((folder / VALUES_FILE).read_text(encoding="utf-8"))
        tensors = load_file(folder / TENSORS_FILE)
        state: dict[int, dict[str, Any]] = {int(number): dict(entry) for number, entry in content["values"].items()}
        for key, tensor in tensors.items():
            number, _, name = key.partition(".")
            state.setdefault(int(number), {})[name] = tensor
        groups = [
            {**group, "betas": tuple(group["betas"])} if "betas" in group else group for group in content["groups"]
        ]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
        scheduler.load_state_dict(content["schedule"])
    except Exception as error:  # safetensors, json and torch raise kinds of their own
        raise ModelError(
            f"the optimiser's state in {folder} cannot be used ({str(error).partition(chr(10))[0][:200]}); "
            f"{way_out(folder.parent)}"
        ) from error


def _plain(value: object) -> object:
    """Numbers that JSON has no form for."""
    if isinstance(value, Tensor):
        return value.item()
    if isinstance(value, torch.dtype):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
