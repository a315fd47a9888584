"""The words of documents in a batch: how much each of their terms weighs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TermWeights:
    """The weights of the terms of documents, document after document; a term that is not there has none.

    Args:
        terms: ``(entries,)``, rows of terms in the lexical part of a model.
        weights: ``(entries,)``, what they weigh in their document.
        starts: ``(documents,)``, the first entry of every document.
    """

    terms: Tensor
    weights: Tensor
    starts: Tensor

    @classmethod
    def of(cls, weights: Any, device: torch.device | str = "cpu") -> TermWeights:
        """Those of a sparse matrix of scipy, ``(documents, terms)``, on a device."""
        rows = sparse.csr_matrix(weights)
        parts = rows.indices.astype(np.int64), rows.data.astype(np.float32), rows.indptr[:-1].astype(np.int64)
        return cls(*(torch.from_numpy(part).to(device) for part in parts))
