"""Contrast between pairs with labels and all other pairs of their batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .contract import LossOutput
from .contrast import require_temperature
from .gathering import ONE_PROCESS, Gather
from .info_nce import InfoNCE


@dataclass(frozen=True)
class PairContrast:
    r"""Finds the partner of every row that has one among the other rows of all pairs of the batch, in both directions.

    With :math:`a_i` and :math:`b_i` the two rows of pair :math:`i`, :math:`y_i` whether they belong together,
    :math:`s` their cosine, and sums over the partner and the rows :math:`j` of other groups:

    .. math::
        \ell = \frac{1}{2 \sum_i y_i} \sum_{i: y_i = 1} \left[
            -\log \frac{e^{s(a_i, b_i) / \tau}}{\sum_j e^{s(a_i, b_j) / \tau}}
            -\log \frac{e^{s(b_i, a_i) / \tau}}{\sum_j e^{s(b_i, a_j) / \tau}} \right]

    This is :class:`InfoNCE` in both directions, as in eq. 5-6 of Graph-RoBERTa. :class:`PairCosine`, which is SDR's,
    compares a row with the one that was drawn for it; this compares it with those of the whole batch. Pairs that do
    not belong together are no anchors, and their rows are negatives of others.

    Args:
        temperature: what cosines are divided by; 0.05 to 0.1 are usual.

    Raises:
        ValueError: the temperature is out of range.

    >>> rows, groups = torch.eye(3), torch.arange(3)
    >>> output = PairContrast(0.1)(rows, rows, torch.tensor([1, 1, 0]), groups, groups)
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

        Returns:
            The loss and the metrics of :class:`InfoNCE`, means over both directions.

        Raises:
            ValueError: shapes differ, or a label is neither 0 nor 1.
        """
        given = (labels, first_groups, second_groups)
        if first.shape != second.shape or first.dim() != 2 or any(one.shape != first.shape[:1] for one in given):
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (first, second, *given))
            raise ValueError(f"first, second, labels and groups must be (pairs, hidden), the same, and (pairs,) each, "
                             f"not {shapes}")  # fmt: skip
        is_pair = labels == 1
        if not bool((is_pair | (labels == 0)).all()):
            raise ValueError("labels must be 0 or 1")
        places = torch.arange(len(labels), device=labels.device)
        positive = torch.where(is_pair, places, -1)
        contrast = InfoNCE("cosine", self.temperature)
        outputs = [
            contrast(anchors, candidates, positive, groups.unsqueeze(1) == gather.rows(others)[0], gather=gather)
            for anchors, candidates, groups, others in (
                (first, second, first_groups, second_groups),
                (second, first, second_groups, first_groups),
            )
        ]
        metrics = {name: torch.stack([one.metrics[name] for one in outputs]).mean() for name in outputs[0].metrics}
        return LossOutput(torch.stack([one.loss for one in outputs]).mean(), metrics)
