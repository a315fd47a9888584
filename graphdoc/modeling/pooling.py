"""Pooling: how the vectors of the tokens of a passage become its vector."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Pooling(ABC):
    """Makes one vector of the tokens of a passage."""

    @abstractmethod
    def __call__(self, hidden: Tensor, attention_mask: Tensor) -> Tensor:
        """Pool the tokens of passages.

        Args:
            hidden: ``(passages, tokens, encoder hidden)``.
            attention_mask: ``(passages, tokens)``, 1 for tokens and 0 for padding.

        Returns:
            Passage vectors in fp32, ``(passages, encoder hidden)``.
        """


class ClsPooling(Pooling):
    """The first token's vector (Graph-RoBERTa, eq. 1)."""

    def __call__(self, hidden: Tensor, attention_mask: Tensor) -> Tensor:
        """The first token."""
        return hidden[:, 0].float()


class MeanPooling(Pooling):
    """The mean over all tokens."""

    def __call__(self, hidden: Tensor, attention_mask: Tensor) -> Tensor:
        """The mean of tokens that are no padding."""
        weights = attention_mask.to(torch.float32)
        weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1)
        return torch.bmm(weights.unsqueeze(1), hidden.float()).squeeze(1)
