"""Dropout whose masks are drawn quickly on a processor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.random import SFC64
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

# A random number of 64 bits decides on four elements, each with 16 of them.
ELEMENTS, STEPS = 4, 2**16


def dropout(values: Tensor, share: float) -> Tensor:
    """Set a share of the elements to zero and scale the others, so that their expectation stays.

    Where torch draws one random number after the other for every element (measured on AMD), that is half of the
    forward pass of MiniLM in training. Here torch draws the seed of a faster generator, a draw of which decides on
    four elements. The share is rounded to a multiple of 2⁻¹⁶, and the scale is that of the rounded share.

    Args:
        values: of floating point, any shape.
        share: of elements to set to zero, from 0 to 1.

    Returns:
        A tensor like the values.
    """
    threshold = round(share * STEPS)
    if not 0 < threshold < STEPS:
        return functional.dropout(values, share)
    count = values.numel()
    draws = SFC64(int(torch.randint(2**62, ()))).random_raw(-(-count // ELEMENTS)).view(np.int16)
    is_kept = torch.from_numpy(draws[:count]).view(values.shape)
    torch.ge(is_kept, threshold - STEPS // 2, out=is_kept)
    # What the type of the values makes of the scale, so that the ways below agree to the last bit on finite values.
    scale = float(torch.tensor(STEPS / (STEPS - threshold), dtype=values.dtype))
    if torch.is_grad_enabled():
        return values * is_kept.to(values.dtype).mul_(scale)
    # Fresh memory costs as much as the arithmetic: nothing has to be remembered here, so that one piece will do.
    if values.element_size() == is_kept.element_size():
        return is_kept.neg_().bitwise_and_(values.view(torch.int16)).view(values.dtype).mul_(scale)
    return is_kept.to(values.dtype).mul_(scale).mul_(values)


class QuickDropout(TorchFunctionMode):
    """A context in which dropout, also that inside of attention, is :func:`dropout` for tensors on a processor.

    It reaches every transformer, whatever the modules it is built of.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        options: dict[str, Any] | None = None,
    ) -> Any:
        options = options or {}
        if function is functional.dropout:
            return _dropout(*args, **options)
        if function is functional.scaled_dot_product_attention and options.get("dropout_p"):
            return _attention(*args, **options)
        return function(*args, **options)


def quick_dropout(transformer: nn.Module, device: torch.device) -> AbstractContextManager[Any]:
    """The context to run a transformer in: :class:`QuickDropout` where that is of use.

    Not in evaluation and not on accelerators. Nor with gradient checkpointing, which computes parts a second time
    outside of any context and must draw the same masks, nor for a compiled transformer.
    """
    is_of_use = (
        transformer.training
        and device.type == "cpu"
        and not getattr(transformer, "is_activation_checkpointing", False)
        and transformer._compiled_call_impl is None
    )
    return QuickDropout() if is_of_use else nullcontext()


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``torch.nn.functional.dropout`` with its names of arguments."""
    # Subclasses, such as tensors that only know their shape, have no numbers to draw for.
    if not training or inplace or input.device.type != "cpu" or type(input) not in (Tensor, nn.Parameter):
        return functional.dropout(input, p, training, inplace)
    return dropout(input, p)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``torch.nn.functional.scaled_dot_product_attention`` with its names of arguments."""
    if is_causal or enable_gqa or query.device.type != "cpu" or type(query) not in (Tensor, nn.Parameter):
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (part.to(torch.get_autocast_dtype("cpu")) for part in (query, key, value))
    scores = torch.matmul(query * (query.shape[-1] ** -0.5 if scale is None else scale), key.transpose(-2, -1))
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            # A finite fill keeps rows where everything is masked free of NaN.
            lowest = torch.finfo(scores.dtype).min
            attn_mask = torch.zeros(attn_mask.shape, dtype=scores.dtype).masked_fill_(~attn_mask, lowest)
        scores = scores + attn_mask
    return torch.matmul(dropout(torch.softmax(scores, dim=-1), dropout_p), value)
