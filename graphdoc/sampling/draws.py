"""Random draws that depend on what is drawn for alone: not on the order of draws, or on the process that draws."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]


def random_generator(*key: int | str) -> np.random.Generator:
    """A random generator that depends on nothing but its key."""
    digest = hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
