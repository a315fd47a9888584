"""The loss of pairs with labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from .base import ONE_PROCESS, Gather, LossOutput, label_means, mean_share, require_range


@dataclass(frozen=True)
class PairCosineLoss:
    r"""Draws the two vectors of a pair together if they are similar, and apart if not.

    Task: ``SentencePairs``, ``Groups`` of pairs, or ``PairViews`` of two encoders.
    Call: ``loss(first, second, labels)``, ``(pairs, hidden)``, ``(pairs, hidden)``, ``(pairs,)``.
    Source: SDR, section 3.2, eq. 1, with the margin 1 - m; CoLDE, section 4.5.3.

    .. math::
        \ell = \frac{1}{N} \sum_{i=1}^N
            y_i \, (1 - \cos(a_i, b_i)) + (1 - y_i) \, \max(0, \cos(a_i, b_i) - m)

    CoLDE says "replacing the supervised contrastive loss with cosine similarity" and no more; this is the usual
    loss of the kind, torch's ``CosineEmbeddingLoss`` with labels 1 and 0 (nearest in sentence-transformers:
    ``ContrastiveLoss``, which halves and squares both terms and whose margin is 1 - m). The mean over processes is the
    mean over the pairs of all of them. Everything is in fp32.

    Args:
        margin: cosine up to which documents that are not similar are left where they are.

    >>> first, second = torch.eye(2), torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    >>> round(PairCosineLoss()(first, second, torch.tensor([1, 0])).loss.item(), 3)
    0.4
    """

    margin: float = 0.0

    def __post_init__(self) -> None:
        require_range("margin", self.margin, least=-1, below=1)

    def __call__(self, first: Tensor, second: Tensor, labels: Tensor, *, gather: Gather = ONE_PROCESS) -> LossOutput:
        """Compute the loss of this process's pairs.

        Args:
            first: ``(pairs, hidden)``, one vector of every pair.
            second: ``(pairs, hidden)``, the other.
            labels: ``(pairs,)``, 1 for pairs that are similar, else 0.
            gather: how pairs of other processes are counted.

        Returns:
            The loss, and the mean cosine of similar pairs and of the others.
        """
        with torch.autocast(first.device.type, enabled=False):
            unit = [functional.normalize(vectors.float(), dim=-1) for vectors in (first, second)]
            return self.of_similarities((unit[0] * unit[1]).sum(dim=-1), labels, gather=gather)

    def of_similarities(self, cosine: Tensor, labels: Tensor, *, gather: Gather = ONE_PROCESS) -> LossOutput:
        """Compute the loss of pairs that are compared already, by their cosines ``(pairs,)``."""
        is_similar = labels == 1
        if not bool((is_similar | (labels == 0)).all()):
            raise ValueError("labels must be 0 or 1")
        with torch.autocast(cosine.device.type, enabled=False):
            losses = torch.where(is_similar, 1 - cosine, (cosine - self.margin).clamp(min=0))
            all_similar = gather.rows(is_similar.long())[0]
            loss = losses.sum() * mean_share(all_similar.new_tensor(len(all_similar)), gather)
            similar, other = label_means(cosine, is_similar, all_similar, gather)
        return LossOutput(loss, {"positive_similarity": similar, "negative_similarity": other})
