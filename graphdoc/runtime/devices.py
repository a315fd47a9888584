"""Where a model runs."""

from __future__ import annotations

import os
import textwrap
from typing import Any

import torch

from ..errors import ModelError


def default_device() -> torch.device:
    """The accelerator of this process if there is one, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def usable_device(device: str | torch.device | None) -> torch.device:
    """A device by its name.

    Args:
        device: name of the device; None takes :func:`default_device`.

    Raises:
        ModelError: there is no such kind of device.
    """
    try:
        return torch.device(device) if device is not None else default_device()
    except RuntimeError as error:
        raise ModelError(
            f"device {str(device)!r} is unknown; use cpu, cuda, cuda:1 or mps, or leave it out"
        ) from error


def place(model: Any, device: str | torch.device | None) -> None:
    """Move a model to a device.

    Args:
        model: the model.
        device: name of the device; None takes :func:`default_device`.

    Raises:
        ModelError: the device is unknown or not there.
    """
    try:
        place = torch.device(device) if device is not None else default_device()
        if place.type == "meta":
            raise RuntimeError("it computes nothing")
        model.to(place)
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        reason = textwrap.shorten(str(error).strip().partition("\n")[0], 120, placeholder=" ...")
        if reason.startswith("Expected one of"):  # the names of twenty kinds follow
            reason = "torch knows no such device"
        raise ModelError(f"device {str(device)!r} cannot be used here ({reason}); use cpu or leave it out") from error
