"""What contrastive losses share: the range of temperatures, and what they report of similarities."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from ..settings.sub_documents import LEAST_TEMPERATURE


def require_temperature(temperature: float) -> None:
    """Refuse a temperature that no loss can be computed with.

    Raises:
        ValueError: it is out of range.
    """
    if not LEAST_TEMPERATURE <= temperature < math.inf:
        raise ValueError(
            f"temperature={temperature} must be at least {LEAST_TEMPERATURE:g} and finite (0.05 to 1 is usual)"
        )


def contrast_metrics(similarity: Tensor, is_positive: Tensor, is_negative: Tensor) -> dict[str, Tensor]:
    """What is worth knowing of the similarities of anchors.

    Args:
        similarity: ``(anchors, candidates)``, without gradient.
        is_positive: which pairs are positive, the same shape.
        is_negative: which pairs are negative, the same shape.

    Returns:
        For every anchor, ``(anchors,)``: its mean ``positive_similarity`` and ``negative_similarity``, 0 where it has
        none, and ``accuracy``, whether its nearest positive is nearer than all negatives.
    """

    def mean(chosen: Tensor) -> Tensor:
        return similarity.masked_fill(~chosen, 0).sum(dim=1) / chosen.sum(dim=1).clamp(min=1)

    def nearest(chosen: Tensor) -> Tensor:
        # One more column, since nothing has a maximum in a batch without candidates.
        return functional.pad(similarity.masked_fill(~chosen, -torch.inf), (0, 1), value=-torch.inf).amax(dim=1)

    return {
        "positive_similarity": mean(is_positive),
        "negative_similarity": mean(is_negative),
        "accuracy": (nearest(is_positive) > nearest(is_negative)).float(),
    }
