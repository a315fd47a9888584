"""In which precision and in which mode a model computes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from ..errors import ModelError, SettingsError
from ..runtime.arrays import Vectors

Precision = Literal["float32", "bfloat16", "float16"]
LoadPrecision = Literal["float32", "bfloat16", "float16", "auto"]
PRECISIONS: dict[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

# How many times as fast as float32 a product in bfloat16 has to be, for bfloat16 to be taken.
LEAST_GAIN = 1.3


def training_precision(device: torch.device) -> Precision | None:
    """Precision that a transformer is trained in on a device; None for the precision of its weights, float32.

    That is bfloat16 on a GPU that has it, float16 on another one, and float32 elsewhere, unless ``accelerate launch
    --mixed_precision`` says otherwise.

    Raises:
        SettingsError: it says something else.
    """
    asked = os.environ.get("ACCELERATE_MIXED_PRECISION", "")
    if asked not in ("", "no", "bf16", "fp16"):
        raise SettingsError(
            f"mixed precision {asked!r} cannot be trained in (ACCELERATE_MIXED_PRECISION); use bf16 or fp16"
        )
    if asked == "bf16":
        return "bfloat16"
    # Accelerate scales no gradients of float16 on a processor.
    if asked == "fp16" and device.type != "cpu":
        return "float16"
    if asked == "no" or device.type != "cuda":
        return None
    return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float16"


def require_precision(dtype: object, *, may_be_auto: bool = False) -> None:
    """Refuse anything but a precision, or ``auto`` where it is allowed."""
    choices = [*PRECISIONS, "auto"] if may_be_auto else list(PRECISIONS)
    if not isinstance(dtype, str) or dtype not in choices:
        raise ModelError(f"dtype {dtype!r} is unknown; use one of {', '.join(choices)}")


def faster_precision(module: nn.Module, width: int) -> str:
    """``bfloat16`` where a matrix product in it is clearly faster on the device of a module, else ``float32``.

    The product is as large as one of a feed-forward layer on vectors of some width.
    """
    device = next(module.parameters()).device
    rows = 256 if device.type == "cpu" else 16_384
    seconds = {"float32": float("inf"), "bfloat16": float("inf")}
    # The first turn prepares more than it computes.
    for dtype in list(seconds) * 4:
        a, b = (torch.ones(size, width, device=device, dtype=PRECISIONS[dtype]) for size in (rows, 4 * width))

        def product(a: Tensor = a, b: Tensor = b) -> float:
            return float((a @ b.T)[0, 0])

        try:
            seconds[dtype] = min(seconds[dtype], seconds_of(product))
        except (RuntimeError, NotImplementedError, TypeError):
            return "float32"
    return "bfloat16" if seconds["float32"] >= LEAST_GAIN * seconds["bfloat16"] else "float32"


def seconds_of(function: Callable[[], object]) -> float:
    """How long a call takes; nothing else looks at the clock."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


@contextmanager
def computed_in(dtype: Precision | None, module: nn.Module, name: str) -> Iterator[None]:
    """A context in which a module computes in another precision than its weights have; None changes nothing.

    Raises:
        ModelError: the precision is unknown, the weights have less, or the transformer does not compute in it.
    """
    if dtype is not None:
        require_precision(dtype)
    weight = next(module.parameters())
    if dtype is None or PRECISIONS[dtype] == weight.dtype:
        yield
        return
    if dtype == "float32":
        raise ModelError(f"the weights of {name} are in half precision; load it with dtype='float32'")
    try:
        with torch.autocast(weight.device.type, dtype=PRECISIONS[dtype]):
            yield
    except RuntimeError as error:
        # Some transformers, such as DeBERTa, cast parts of their attention themselves.
        if not any(sign in str(error) for sign in ("dtype", "scalar type", "cannot be converted to type")):
            raise
        raise ModelError(f"the transformer of {name} does not compute in {dtype} ({error}); use float32") from error


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


def require_finite(*parts: Tensor | None) -> None:
    """Refuse vectors with a number that is infinite or NaN."""
    if not torch.stack([torch.isfinite(part).all() for part in parts if part is not None]).all():
        raise ModelError(
            "the model produced NaN or infinite vectors: its weights contain NaN (fetch or train it again), or "
            "float16 is too narrow (use bfloat16 or float32)"
        )


def as_numpy(tensor: Tensor) -> Vectors:
    """The numbers of a tensor in fp32 as an array."""
    return tensor.float().cpu().numpy()
