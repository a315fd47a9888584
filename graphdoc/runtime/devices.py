"""Where a model runs, in which precision and in which mode."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

import torch
from torch import nn

from ..errors import ModelError

Precision = Literal["float32", "bfloat16", "float16"]
PRECISIONS: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


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


def computed_in(dtype: Precision | None, module: nn.Module, name: str) -> AbstractContextManager[Any]:
    """A context in which a module computes in another precision than its weights have.

    Args:
        dtype: the precision; None or that of the weights changes nothing.
        module: the module.
        name: name of the model, for messages.

    Raises:
        ModelError: the precision is unknown, or the weights have less.
    """
    weight = next(module.parameters())
    if dtype is None or PRECISIONS.get(dtype) == weight.dtype:
        return nullcontext()
    if dtype not in PRECISIONS:
        raise ModelError(f"dtype {dtype!r} is unknown; use one of {', '.join(PRECISIONS)}")
    if dtype == "float32":
        raise ModelError(f"the weights of {name} are in half precision; load it with dtype='float32'")
    return _autocast(weight.device.type, dtype, name)


@contextmanager
def _autocast(device: str, dtype: Precision, name: str) -> Iterator[None]:
    """Autocast that tells in one line of a transformer that mixes types of its own."""
    try:
        with torch.autocast(device, dtype=PRECISIONS[dtype]):
            yield
    except RuntimeError as error:
        reason = textwrap.shorten(str(error).partition("\n")[0], 120, placeholder=" ...")
        if not any(sign in reason for sign in ("dtype", "scalar type", "cannot be converted to type")):
            raise
        raise ModelError(
            f"the transformer of {name} does not compute in {dtype} on {device} ({reason}); use float32"
        ) from error


@contextmanager
def inference(model: nn.Module) -> Iterator[None]:
    """A context without gradients and dropout; modules that were being trained are in training mode again after it."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True
