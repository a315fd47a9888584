"""Supervised contrastive loss over rows with group labels (CoLDE, section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from .contrastive import contrast_metrics, require_temperature
from .gathering import ONE_PROCESS, Gather, LossOutput


@dataclass(frozen=True)
class SupervisedContrastive:
    r"""Draws rows of one label together and apart from all others.

    With unit vectors :math:`z` of all rows of the batch, :math:`P(i)` the other rows of the label of row :math:`i`,
    and :math:`A` the anchors, which are the rows with at least one of these:

    .. math::
        \ell = \frac{1}{|A|} \sum_{i \in A} \frac{-1}{|P(i)|} \sum_{p \in P(i)}
            \log \frac{e^{z_i \cdot z_p / \tau}}{\sum_{k \ne i} e^{z_i \cdot z_k / \tau}}

    This is the equation of section 3.3, whose :math:`2N_{y_i} - 1` is :math:`|P(i)|`, as a mean over anchors instead
    of a sum, so that the learning rate does not depend on the batch; Khosla et al. 2020 call it "out". Rows of all
    processes take part: every process takes its own rows as anchors. Rows without a positive are no anchors, but
    negatives of others; a batch without any positive has the loss 0 and the gradient 0. Everything is in fp32.

    Args:
        temperature: what cosines are divided by; the paper's is 0.5.

    Raises:
        ValueError: the temperature is out of range.

    >>> vectors = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    >>> round(SupervisedContrastive(temperature=0.5)(vectors, torch.tensor([0, 0, 1])).loss.item(), 3)
    0.348
    """

    temperature: float = 0.5

    def __post_init__(self) -> None:
        require_temperature(self.temperature)

    def __call__(self, vectors: Tensor, labels: Tensor, *, gather: Gather = ONE_PROCESS) -> LossOutput:
        """Compute the loss of this process's rows against those of all processes.

        Args:
            vectors: ``(rows, hidden)``, such as the sections of all documents of a batch; need not be of unit length.
            labels: ``(rows,)``, whole numbers; equal for rows of one group.
            gather: how rows of other processes are seen.

        Returns:
            The loss, with positive and negative similarity (the cosine), accuracy (whether an anchor's nearest row is
            of its label), the number of rows skipped for want of a positive, and whether that is the whole batch.

        Raises:
            ValueError: shapes do not fit.
        """
        if vectors.dim() != 2 or labels.shape != vectors.shape[:1]:
            raise ValueError(f"vectors {tuple(vectors.shape)} and labels {tuple(labels.shape)} must have the shapes "
                             "(rows, hidden) and (rows,)")  # fmt: skip
        with torch.autocast(vectors.device.type, enabled=False):
            unit = functional.normalize(vectors.float(), dim=-1)
            everything, start = gather.rows(unit)
            all_labels, _ = gather.rows(labels)
            same = labels.unsqueeze(1) == all_labels
            # A row is one of its own label.
            anchors = torch.nonzero(same.sum(dim=1) > 1).squeeze(1)
            total = self._anchors_of_all(all_labels)
            # The mean over processes must be the mean over anchors, also where processes hold different numbers. A
            # process without anchors has an empty sum, whose gradient of 0 still takes part in the exchange.
            share = gather.processes / max(total, 1)
            similarity = unit[anchors] @ everything.T
            is_self = torch.zeros_like(similarity, dtype=torch.bool)
            is_self[torch.arange(len(anchors), device=anchors.device), anchors + start] = True
            is_positive = same[anchors] & ~is_self
            logits = similarity / self.temperature
            mean_positive = logits.masked_fill(~is_positive, 0).sum(dim=1) / is_positive.sum(dim=1)
            loss = (logits.masked_fill(is_self, -torch.inf).logsumexp(dim=1) - mean_positive).sum() * share
            found = contrast_metrics(similarity.detach(), is_positive, ~same[anchors])
            metrics = {name: values.sum() * share for name, values in found.items()}
        counts = {"skipped_anchors": len(all_labels) - total, "without_positives": total == 0}
        return LossOutput(loss, metrics | {name: loss.new_tensor(float(count)) for name, count in counts.items()})

    @staticmethod
    def _anchors_of_all(all_labels: Tensor) -> int:
        """Number of rows in all processes that have a positive."""
        counts = torch.unique(all_labels, return_counts=True)[1]
        return int(counts[counts > 1].sum())
