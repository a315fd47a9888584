"""Linear layers with weights and inputs of 8 bits, on a CPU."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn


class Int8Linear(nn.Module):
    r"""A linear layer whose product is one of whole numbers of 8 bits.

    .. math:: y = s_x \, Q(x / s_x) \, Q(W)^T + b

    Weights have one scale for every output, inputs one for every token, computed as they come (dynamic quantization).
    Torch's own dynamic layers have one scale for all tokens, which a single large number spoils for the others: on
    ``mini`` their passage vectors had a cosine of .95 to those in fp32, these .994.

    Args:
        linear: the layer; it is left as it is.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        scales = (weight.abs().amax(dim=1) / 127).clamp(min=1e-12)
        with warnings.catch_warnings():
            # Torch will drop its quantized tensors one day; these are its fastest products of whole numbers.
            warnings.simplefilter("ignore")
            quantized = torch.quantize_per_channel(
                weight, scales.double(), torch.zeros(len(weight), dtype=torch.int64), 0, torch.qint8
            )
            self._packed = torch.ops.quantized.linear_prepack(quantized, None)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """The product, ``(..., outputs)``, of ``(..., inputs)``."""
        scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-12)
        # Without the last bit of the inputs no sum of two products overflows on processors without VNNI.
        product: Tensor = torch.ops.quantized.linear_dynamic(x / scale, self._packed, True) * scale
        return product if self.bias is None else product + self.bias

    def get_extra_state(self) -> Tensor:
        """The weights as they are computed with, so that a hash of the state sees them."""
        weight, _ = torch.ops.quantized.linear_unpack(self._packed)
        return torch.as_tensor(weight.dequantize())

    def set_extra_state(self, state: object) -> None:
        """Refuse other weights: a layer is made from one in fp32."""
        raise RuntimeError("weights of 8 bits cannot be loaded; load them in float32")


def quantize(module: nn.Module) -> None:
    """Replace all linear layers within a module."""
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            setattr(module, name, Int8Linear(child))
        else:
            quantize(child)


def is_int8(module: nn.Module) -> bool:
    """Whether linear layers within a module were replaced."""
    return any(isinstance(part, Int8Linear) for part in module.modules())
