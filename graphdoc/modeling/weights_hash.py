"""Knowing weights again by a hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def weights_hash(weights: Mapping[str, Tensor], made_of: bytes = b"") -> str:
    """Hash of names, types, shapes and values of weights, in whatever order they come.

    Args:
        weights: the weights by name.
        made_of: what else counts, such as a configuration.
    """
    digest = hashlib.blake2b(made_of, digest_size=16)
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
