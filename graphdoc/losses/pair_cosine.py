"""Cosine loss over pairs with labels: CoLDE without contrastive loss (section 4.5.3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from .gathering import ONE_PROCESS, Gather, LossOutput


@dataclass(frozen=True)
class PairCosine:
    r"""Draws the two documents of a pair together if they are similar, and apart if they are not.

    .. math::
        \ell = \frac{1}{N} \sum_{i=1}^N
            y_i \, (1 - \cos(a_i, b_i)) + (1 - y_i) \, \max(0, \cos(a_i, b_i) - m)

    The paper says "replacing the supervised contrastive loss with cosine similarity" and no more; this is the usual
    loss of the kind, torch's ``CosineEmbeddingLoss`` with labels 1 and 0. Pairs do not see each other. The mean over
    processes is the mean over the pairs of all of them. Everything is in fp32.

    Args:
        margin: cosine up to which documents that are not similar are left where they are.

    Raises:
        ValueError: the margin is out of range.

    >>> first, second = torch.eye(2), torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    >>> round(PairCosine()(first, second, torch.tensor([1, 0])).loss.item(), 3)
    0.4
    """

    margin: float = 0.0

    def __post_init__(self) -> None:
        if not -1 <= self.margin < 1:
            raise ValueError(f"margin={self.margin} must be at least -1 and below 1")

    def __call__(self, first: Tensor, second: Tensor, labels: Tensor, *, gather: Gather = ONE_PROCESS) -> LossOutput:
        """Compute the loss of this process's pairs.

        Args:
            first: ``(pairs, hidden)``, first documents.
            second: ``(pairs, hidden)``, second documents.
            labels: ``(pairs,)``, 1 for pairs that are similar, else 0.
            gather: how pairs of other processes are counted.

        Returns:
            The loss, with the cosine of similar pairs and of the others.

        Raises:
            ValueError: shapes differ, or a label is neither 0 nor 1.
        """
        if first.shape != second.shape or first.dim() != 2 or labels.shape != first.shape[:1]:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (first, second, labels))
            raise ValueError(f"first, second and labels must be (pairs, hidden), the same, and (pairs,), not {shapes}")
        with torch.autocast(first.device.type, enabled=False):
            unit = [functional.normalize(vectors.float(), dim=-1) for vectors in (first, second)]
            return self.of_similarities((unit[0] * unit[1]).sum(dim=-1), labels, gather=gather)

    def of_similarities(self, cosine: Tensor, labels: Tensor, *, gather: Gather = ONE_PROCESS) -> LossOutput:
        """Compute the loss of pairs that are compared already.

        Args:
            cosine: ``(pairs,)``, their similarities.
            labels: see :meth:`__call__`.
            gather: see there.

        Raises:
            ValueError: a label is neither 0 nor 1.
        """
        is_similar = labels == 1
        if not bool((is_similar | (labels == 0)).all()):
            raise ValueError("labels must be 0 or 1")
        with torch.autocast(cosine.device.type, enabled=False):
            losses = torch.where(is_similar, 1 - cosine, (cosine - self.margin).clamp(min=0))
            all_similar = gather.rows(is_similar.long())[0] == 1
            # The mean over processes must be the mean over pairs, also where processes hold different numbers.
            loss = losses.sum() * (gather.processes / max(len(all_similar), 1))
            metrics = {}
            for name, chosen, total in (
                ("positive_similarity", is_similar, all_similar.sum()),
                ("negative_similarity", ~is_similar, (~all_similar).sum()),
            ):
                metrics[name] = cosine.detach()[chosen].sum() * gather.processes / total.clamp(min=1)
        return LossOutput(loss, metrics)
