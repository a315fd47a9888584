"""Losses over pairs with labels: the cosine of a pair, and its contrast to all other pairs of the batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from .base import ONE_PROCESS, Gather, LossOutput, label_means, mean_share
from .contrastive import InfoNCELoss, mean_outputs, require_temperature


@dataclass(frozen=True)
class PairCosineLoss:
    r"""Draws the two documents of a pair together if they are similar, and apart if not (CoLDE, section 4.5.3).

    .. math::
        \ell = \frac{1}{N} \sum_{i=1}^N
            y_i \, (1 - \cos(a_i, b_i)) + (1 - y_i) \, \max(0, \cos(a_i, b_i) - m)

    The paper says "replacing the supervised contrastive loss with cosine similarity" and no more; this is the usual
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
        if not -1 <= self.margin < 1:
            raise ValueError(f"margin={self.margin} must be at least -1 and below 1")

    def __call__(self, first: Tensor, second: Tensor, labels: Tensor, *, gather: Gather = ONE_PROCESS) -> LossOutput:
        """Compute the loss of this process's pairs ``(pairs, hidden)``; their labels are 1 if similar, else 0."""
        with torch.autocast(first.device.type, enabled=False):
            unit = [functional.normalize(vectors.float(), dim=-1) for vectors in (first, second)]
            return self.of_similarities((unit[0] * unit[1]).sum(dim=-1), labels, gather=gather)

    def of_similarities(self, cosine: Tensor, labels: Tensor, *, gather: Gather = ONE_PROCESS) -> LossOutput:
        """Compute the loss of pairs that are compared already, by their cosines ``(pairs,)``."""
        is_similar = _is_similar(labels)
        with torch.autocast(cosine.device.type, enabled=False):
            losses = torch.where(is_similar, 1 - cosine, (cosine - self.margin).clamp(min=0))
            all_similar = gather.rows(is_similar.long())[0]
            loss = losses.sum() * mean_share(all_similar.new_tensor(len(all_similar)), gather)
            similar, other = label_means(cosine, is_similar, all_similar, gather)
        return LossOutput(loss, {"positive_similarity": similar, "negative_similarity": other})


@dataclass(frozen=True)
class PairContrastiveLoss:
    r"""Finds the partner of every row that has one among the other rows of all pairs of the batch, in both directions.

    In sentence-transformers: ``MultipleNegativesRankingLoss`` in both directions; here groups and dissimilar pairs
    count too.

    With :math:`a_i` and :math:`b_i` the two rows of pair :math:`i`, :math:`y_i` whether they belong together,
    :math:`s` their cosine, and sums over the partner and the rows :math:`j` of other groups:

    .. math::
        \ell = \frac{1}{2 \sum_i y_i} \sum_{i: y_i = 1} \left[
            -\log \frac{e^{s(a_i, b_i) / \tau}}{\sum_j e^{s(a_i, b_j) / \tau}}
            -\log \frac{e^{s(b_i, a_i) / \tau}}{\sum_j e^{s(b_i, a_j) / \tau}} \right]

    This is :class:`InfoNCELoss` in both directions, as in eq. 5-6 of Graph-RoBERTa. :class:`PairCosineLoss` (SDR's)
    compares a row with the one that was drawn for it; this compares it with those of the whole batch. Pairs that do
    not belong together are no anchors, and their rows are negatives of others.

    Args:
        temperature: what cosines are divided by; 0.05 to 0.1 are usual.

    >>> rows, groups = torch.eye(3), torch.arange(3)
    >>> output = PairContrastiveLoss(0.1)(rows, rows, torch.tensor([1, 1, 0]), groups, groups)
    >>> round(output.loss.item(), 4), output.metrics["accuracy"].item()
    (0.0001, 1.0)
    """

    temperature: float = 0.05

    def __post_init__(self) -> None:
        require_temperature(self.temperature)

    def __call__(
        self,
        first: Tensor,
        second: Tensor,
        labels: Tensor,
        first_groups: Tensor,
        second_groups: Tensor,
        *,
        gather: Gather = ONE_PROCESS,
    ) -> LossOutput:
        """Compute the loss of this process's pairs against those of all processes.

        Args:
            first: ``(pairs, hidden)``, one row of every pair.
            second: ``(pairs, hidden)``, the other one.
            labels: ``(pairs,)``, 1 for pairs that belong together, else 0.
            first_groups: ``(pairs,)``, equal numbers for rows that are no negatives of each other, such as sentences
                of one document.
            second_groups: ``(pairs,)``, the same for the other rows.
            gather: how rows of other processes are seen.
        """
        positive = torch.where(_is_similar(labels), torch.arange(len(labels), device=labels.device), -1)
        contrast = InfoNCELoss("cosine", self.temperature)
        return mean_outputs(
            [
                contrast(anchors, candidates, positive, groups.unsqueeze(1) == gather.rows(others)[0], gather=gather)
                for anchors, candidates, groups, others in (
                    (first, second, first_groups, second_groups),
                    (second, first, second_groups, first_groups),
                )
            ]
        )


def _is_similar(labels: Tensor) -> Tensor:
    is_similar = labels == 1
    if not bool((is_similar | (labels == 0)).all()):
        raise ValueError("labels must be 0 or 1")
    return is_similar
