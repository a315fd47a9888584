"""Where a model runs."""

from __future__ import annotations

import os
import textwrap
from typing import Any

import torch

from ..errors import ModelError


def default_device() -> torch.device:
    """The accelerator of this process if there is one, else the CPU."""
    if os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes"):
        return torch.device("cpu")
    if torch.cuda.is_available():
        return own_gpu()
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def own_gpu() -> torch.device:
    """The GPU of this process; a launcher shows every process all GPUs, or each its own."""
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())


def usable_device(device: str | torch.device | None) -> torch.device:
    """A device by its name.

    Args:
        device: name of the device; None takes :func:`default_device`, and ``cuda`` the GPU of this process.

    Raises:
        ModelError: there is no such kind of device.
    """
    try:
        named = torch.device(device) if device is not None else default_device()
    except (RuntimeError, TypeError) as error:
        raise ModelError(
            f"device {str(device)!r} is unknown; use cpu, cuda, cuda:1 or mps, or leave it out"
        ) from error
    if str(named) == "cuda" and torch.cuda.is_available():
        return own_gpu()
    return named


def place(model: Any, device: str | torch.device | None) -> None:
    """Move a model to a device.

    Args:
        model: the model.
        device: name of the device (see :func:`usable_device`).

    Raises:
        ModelError: the device is unknown or not there.
    """
    chosen = usable_device(device)
    try:
        if chosen.type == "meta":
            raise RuntimeError("it computes nothing")
        model.to(chosen)
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        reason = textwrap.shorten(str(error).strip().partition("\n")[0], 120, placeholder=" ...")
        raise ModelError(f"device {str(device)!r} cannot be used here ({reason}); use cpu or leave it out") from error
