"""Contrastive losses: InfoNCE, of sub-documents, and of rows with group labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor
from torch.nn import functional

from ..registry import LEAST_TEMPERATURE, Directions, VectorSimilarity
from .base import ONE_PROCESS, Gather, LossOutput, mean_share


def require_temperature(temperature: float) -> None:
    """Refuse a temperature that no loss can be computed with."""
    if not LEAST_TEMPERATURE <= temperature < math.inf:
        raise ValueError(f"temperature={temperature} must be at least {LEAST_TEMPERATURE:g} and finite")


def contrast_metrics(similarity: Tensor, is_positive: Tensor, is_negative: Tensor) -> dict[str, Tensor]:
    """Metrics of the similarities ``(anchors, candidates)``, without gradient.

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


@dataclass(frozen=True)
class InfoNCELoss:
    r"""Separates every anchor's positives from all other candidates.

    In sentence-transformers: ``MultipleNegativesRankingLoss``, whose defaults are ``similarity="cosine"`` and
    ``temperature=0.05``; here there may be several positives, and candidates that are left out.

    With :math:`P(i)` the positives of anchor :math:`i`, :math:`N(i)` the candidates that are neither its positives nor
    left out, and :math:`A` the anchors with a positive:

    .. math::
        \ell = \frac{1}{|A|} \sum_{i \in A} \frac{1}{|P(i)|} \sum_{p \in P(i)}
            -\log \frac{e^{s(a_i, c_p) / \tau}}{e^{s(a_i, c_p) / \tau} + \sum_{n \in N(i)} e^{s(a_i, c_n) / \tau}}

    With one positive each, this is one direction of eq. 5-6 of Graph-RoBERTa, as it is used for queries with sampled
    negatives (section 3.3); with several, every one counts as if it were the only one. Candidates of all processes
    are negatives: every process takes its own anchors, whose positives are its own candidates. Softmax and sums are in
    fp32.

    Args:
        similarity: ``dot`` (the paper's) or ``cosine``.
        temperature: what similarities are divided by; with cosine 0.05 to 0.35 are usual, with dot 1.

    >>> anchors, candidates = torch.eye(2), torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8]])
    >>> contrast = InfoNCELoss("cosine", temperature=0.1)
    >>> round(contrast(anchors, candidates, positive=torch.tensor([1, 0])).loss.item(), 3)
    0.073
    """

    similarity: VectorSimilarity = "dot"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.similarity not in get_args(VectorSimilarity):
            raise ValueError(f"similarity {self.similarity!r} is unknown; use dot or cosine")
        require_temperature(self.temperature)

    def __call__(
        self,
        anchors: Tensor,
        candidates: Tensor,
        positive: Tensor | None = None,
        left_out: Tensor | None = None,
        *,
        gather: Gather = ONE_PROCESS,
    ) -> LossOutput:
        """Compute the loss of this process's anchors against the candidates of all processes.

        Args:
            anchors: ``(anchors, hidden)``.
            candidates: ``(candidates, hidden)``; those that are nobody's positive are negatives of all anchors.
            positive: row of every anchor's positive among this process's candidates, ``(anchors,)``, or of each of
                several, ``(anchors, positives)``; -1 for none. None where candidates are the positives row by row.
            left_out: ``(anchors, candidates of all processes)``, True for pairs that are no negatives, such as an
                anchor and a copy of its positive; positives stay what they are.
            gather: how candidates of other processes are seen.

        Returns:
            The loss, with positive and negative similarity (before the temperature), accuracy (whether the nearest
            candidate is a positive), and the share of pairs left out.
        """
        if positive is None:
            if len(anchors) != len(candidates):
                raise ValueError(f"{len(anchors)} anchors and {len(candidates)} candidates need positive")
            positive = torch.arange(len(anchors), device=anchors.device)
        with torch.autocast(anchors.device.type, enabled=False):
            anchors, candidates = anchors.float(), candidates.float()
            if self.similarity == "cosine":
                anchors, candidates = functional.normalize(anchors, dim=-1), functional.normalize(candidates, dim=-1)
            everything, start = gather.rows(candidates)
            similarity = anchors @ everything.T
        positive = positive.unsqueeze(1) if positive.dim() == 1 else positive
        return self.of_similarities(similarity, positive, left_out, start=start, gather=gather)

    def of_similarities(
        self,
        similarity: Tensor,
        positive: Tensor,
        left_out: Tensor | None = None,
        *,
        start: int = 0,
        gather: Gather = ONE_PROCESS,
    ) -> LossOutput:
        """Compute the loss of similarities that were computed otherwise, such as those of the best passages.

        Args:
            similarity: ``(anchors, candidates of all processes)``, before the temperature.
            positive: place of every anchor's positives among this process's candidates, ``(anchors, positives)``, -1
                for none.
            left_out: see :meth:`__call__`.
            start: place of this process's first candidate among those of all.
            gather: how the anchors of other processes are counted.
        """
        with torch.autocast(similarity.device.type, enabled=False):
            similarity = similarity.float()
            is_given = positive >= 0
            # One more column, for positives that are not there and for batches without candidates.
            columns = torch.where(is_given, positive + start, similarity.shape[1])
            is_positive = functional.pad(torch.zeros_like(similarity, dtype=torch.bool), (0, 1))
            is_positive = is_positive.scatter(1, columns, True)[:, :-1]
            is_left_out = torch.zeros_like(is_positive) if left_out is None else left_out & ~is_positive
            is_negative = ~is_positive & ~is_left_out
            # A finite number masks what is not a negative: without negatives, the gradient would be NaN otherwise.
            logits = functional.pad(similarity / self.temperature, (0, 1))
            least = torch.finfo(logits.dtype).min / 2
            others = logits.masked_fill(~functional.pad(is_negative, (0, 1)), least).logsumexp(dim=1, keepdim=True)
            losses = functional.softplus(others - logits.gather(1, columns)).masked_fill(~is_given, 0)
            positives = is_given.sum(dim=1)
            share = mean_share(gather.rows((positives > 0).sum().reshape(1))[0].sum(), gather)
            loss = (losses.sum(dim=1) / positives.clamp(min=1)).sum() * share
            of_anchors = contrast_metrics(similarity.detach(), is_positive, is_negative)
            of_anchors["left_out_share"] = is_left_out.sum(dim=1) / max(is_left_out.shape[1], 1)
            metrics = {name: values.masked_fill(positives == 0, 0).sum() * share for name, values in of_anchors.items()}
        return LossOutput(loss, metrics)


def mean_outputs(outputs: Sequence[LossOutput]) -> LossOutput:
    """The mean of losses with the same metrics, such as those of both directions."""
    metrics = {name: torch.stack([output.metrics[name] for output in outputs]).mean() for name in outputs[0].metrics}
    return LossOutput(torch.stack([output.loss for output in outputs]).mean(), metrics)


@dataclass(frozen=True)
class SubDocumentLoss:
    r"""Finds every document's other view among the views of all documents of the batch, by :class:`InfoNCELoss`.

    .. math::
        \ell(D) = \frac{1}{2N} \sum_{i=1}^N \left[
            -\log \frac{e^{s(a_i, c_i) / \tau}}{\sum_j e^{s(a_i, c_j) / \tau}}
            -\log \frac{e^{s(a_i, c_i) / \tau}}{\sum_j e^{s(a_j, c_i) / \tau}} \right]

    With ``similarity="dot"``, ``temperature=1`` and both directions this is exactly eq. 5-6 of the paper.

    Args:
        similarity: ``dot`` (the paper's) or ``cosine``.
        temperature: what similarities are divided by; with cosine 0.05 to 0.35 are usual, with dot 1.
        directions: ``both`` views look for the other, or ``one``: only the anchors look for their candidate, as when
            anchors are queries (section 3.3).

    >>> output = SubDocumentLoss("cosine", temperature=0.1)(torch.eye(3), torch.eye(3))
    >>> round(output.loss.item(), 4), output.metrics["accuracy"].item()
    (0.0001, 1.0)
    """

    similarity: VectorSimilarity = "dot"
    temperature: float = 1.0
    directions: Directions = "both"

    def __post_init__(self) -> None:
        InfoNCELoss(self.similarity, self.temperature)
        if self.directions not in get_args(Directions):
            raise ValueError(f"directions {self.directions!r} is unknown; use both or one")

    def __call__(
        self, anchors: Tensor, candidates: Tensor, groups: Tensor | None = None, *, gather: Gather = ONE_PROCESS
    ) -> LossOutput:
        """Compute the loss of this process's documents against those of all processes.

        Args:
            anchors: ``(documents, hidden)``, first views.
            candidates: ``(documents, hidden)``, second views, row by row the positives.
            groups: ``(documents,)``, equal numbers for copies of one document, which are no negatives.
            gather: how views of other processes are seen.
        """
        if anchors.shape != candidates.shape:
            raise ValueError(f"anchors {tuple(anchors.shape)} and candidates {tuple(candidates.shape)} differ")
        contrast, left_out = InfoNCELoss(self.similarity, self.temperature), None
        if groups is not None:
            # The same in both directions.
            left_out = groups.unsqueeze(1) == gather.rows(groups)[0]
        outputs = [contrast(anchors, candidates, left_out=left_out, gather=gather)]
        if self.directions == "both":
            outputs.append(contrast(candidates, anchors, left_out=left_out, gather=gather))
        return mean_outputs(outputs)


@dataclass(frozen=True)
class SupervisedContrastiveLoss:
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

    >>> vectors = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    >>> round(SupervisedContrastiveLoss(temperature=0.5)(vectors, torch.tensor([0, 0, 1])).loss.item(), 3)
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
        """
        with torch.autocast(vectors.device.type, enabled=False):
            unit = functional.normalize(vectors.float(), dim=-1)
            everything, start = gather.rows(unit)
            all_labels, _ = gather.rows(labels)
            same = labels.unsqueeze(1) == all_labels
            # A row counts itself.
            anchors = torch.nonzero(same.sum(dim=1) > 1).squeeze(1)
            counts = torch.unique(all_labels, return_counts=True)[1]
            total = counts[counts > 1].sum()
            # A process without anchors has an empty sum, whose gradient of 0 still takes part in the exchange.
            share = mean_share(total, gather)
            similarity = unit[anchors] @ everything.T
            is_self = torch.zeros_like(similarity, dtype=torch.bool)
            is_self[torch.arange(len(anchors), device=anchors.device), anchors + start] = True
            is_positive = same[anchors] & ~is_self
            logits = similarity / self.temperature
            mean_positive = logits.masked_fill(~is_positive, 0).sum(dim=1) / is_positive.sum(dim=1)
            loss = (logits.masked_fill(is_self, -torch.inf).logsumexp(dim=1) - mean_positive).sum() * share
            of_anchors = contrast_metrics(similarity.detach(), is_positive, ~same[anchors])
            metrics = {name: values.sum() * share for name, values in of_anchors.items()}
        counted = {"skipped_anchors": len(all_labels) - total, "without_positives": total == 0}
        return LossOutput(loss, metrics | {name: count.float() for name, count in counted.items()})
