"""Contrastive losses: InfoNCE, and that of rows with labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor
from torch.nn import functional

from ..registry import LEAST_TEMPERATURE, Directions, VectorSimilarity
from .base import ONE_PROCESS, Gather, LossOutput, mean_share, require_range


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

    Task: ``SubDocuments``, ``Queries``, ``SentencePairs``, or ``PairViews`` of two encoders.
    Call: ``loss(anchors, candidates, groups, candidate_groups, positive)``, ``(anchors, hidden)``, ``(candidates,
    hidden)``, ``(anchors,)``, ``(candidates,)``, ``(anchors,)``; the last three may be left out.
    Source: Graph-RoBERTa, section 2.2, eq. 5-6, and section 3.3. In sentence-transformers:
    ``MultipleNegativesRankingLoss``, whose defaults are ``similarity="cosine"`` and ``temperature=0.05``.

    With :math:`P(i)` the positives of anchor :math:`i`, :math:`N(i)` the candidates that are neither its positives nor
    of its groups, and :math:`A` the anchors with a positive:

    .. math::
        \ell = \frac{1}{|A|} \sum_{i \in A} \frac{1}{|P(i)|} \sum_{p \in P(i)}
            -\log \frac{e^{s(a_i, c_p) / \tau}}{e^{s(a_i, c_p) / \tau} + \sum_{n \in N(i)} e^{s(a_i, c_n) / \tau}}

    With several positives, every one counts as if it were the only one. With both directions it is the mean of this and
    of the same for candidates that look for their anchors; with the dot product, a temperature of 1 and one positive
    each, that is exactly eq. 5-6 of Graph-RoBERTa, and one direction of it is what is used for queries with sampled
    negatives (section 3.3). Candidates of all processes are negatives: every process takes its own anchors, whose
    positives are its own candidates. Softmax and sums are in fp32.

    Args:
        similarity: ``dot`` (the paper's) or ``cosine``.
        temperature: what similarities are divided by; with cosine 0.02 to 0.5 are usual, with dot 1.
        directions: ``one``: anchors look for their positives; or ``both``: candidates look for their anchors, too,
            where they are pairs row by row.

    >>> anchors, candidates = torch.eye(2), torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8]])
    >>> contrast = InfoNCELoss("cosine", temperature=0.1)
    >>> round(contrast(anchors, candidates, positive=torch.tensor([1, 0])).loss.item(), 3)
    0.073
    """

    similarity: VectorSimilarity = "dot"
    temperature: float = 1.0
    directions: Directions = "one"

    def __post_init__(self) -> None:
        for name, choices in (("similarity", VectorSimilarity), ("directions", Directions)):
            if getattr(self, name) not in get_args(choices):
                raise ValueError(f"{name}={getattr(self, name)!r} is unknown; use {' or '.join(get_args(choices))}")
        require_range("temperature", self.temperature, least=LEAST_TEMPERATURE)

    def __call__(
        self,
        anchors: Tensor,
        candidates: Tensor,
        groups: Tensor | None = None,
        candidate_groups: Tensor | None = None,
        positive: Tensor | None = None,
        *,
        gather: Gather = ONE_PROCESS,
    ) -> LossOutput:
        """Compute the loss of this process's anchors against the candidates of all processes.

        Args:
            anchors: ``(anchors, hidden)``.
            candidates: ``(candidates, hidden)``; those that are nobody's positive are negatives of all anchors.
            groups: numbers of an anchor's groups, such as that of the document that it is a part of, whose candidates
                are no negatives of it, ``(anchors,)``; or of several, ``(anchors, groups)``, filled up with -1, where
                those of the candidates are given and anchors alone look for their positives.
            candidate_groups: ``(candidates,)``, the group of every candidate, -1 for one that is nobody's negative;
                None where these are the groups of the anchors row by row.
            positive: row of every anchor's positive among this process's candidates, ``(anchors,)``, or of each of
                several, ``(anchors, positives)``; -1 for none. None where candidates are the positives row by row.
            gather: how rows of other processes are seen.

        Returns:
            The loss, with positive and negative similarity (before the temperature), accuracy (whether the nearest
            candidate is a positive), and the share of pairs that are neither positive nor negative.
        """
        by_row, is_both = torch.arange(len(anchors), device=anchors.device), self.directions == "both"
        if (is_both or positive is None) and anchors.shape != candidates.shape:
            raise ValueError(f"anchors {tuple(anchors.shape)} and candidates {tuple(candidates.shape)} are no pairs")
        if is_both and positive is not None and not bool(((positive == by_row) | (positive == -1)).all()):
            raise ValueError("directions='both' needs the positive of every anchor in its own row")
        positive = by_row if positive is None else positive
        candidate_groups = groups if candidate_groups is None else candidate_groups
        for own in (candidate_groups, groups if is_both else None):
            if own is not None and own.shape != candidates.shape[:1]:
                raise ValueError(f"groups {list(own.shape)}: candidates have one each; give theirs, and one direction")
        outputs = [self._one_way(anchors, candidates, groups, candidate_groups, positive, gather)]
        if is_both:
            outputs.append(self._one_way(candidates, anchors, candidate_groups, groups, positive, gather))
        metrics = {name: torch.stack([one.metrics[name] for one in outputs]).mean() for name in outputs[0].metrics}
        return LossOutput(torch.stack([one.loss for one in outputs]).mean(), metrics)

    def _one_way(
        self,
        anchors: Tensor,
        candidates: Tensor,
        groups: Tensor | None,
        candidate_groups: Tensor | None,
        positive: Tensor,
        gather: Gather,
    ) -> LossOutput:
        with torch.autocast(anchors.device.type, enabled=False):
            anchors, candidates = anchors.float(), candidates.float()
            if self.similarity == "cosine":
                anchors, candidates = functional.normalize(anchors, dim=-1), functional.normalize(candidates, dim=-1)
            everything, start = gather.rows(candidates)
            similarity = anchors @ everything.T
        left_out = None
        if groups is not None and candidate_groups is not None:
            left_out = in_groups(groups, gather.rows(candidate_groups)[0])
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
            left_out: ``(anchors, candidates of all processes)``, True for pairs that are no negatives (see
                :func:`in_groups`); positives stay what they are.
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


def in_groups(groups: Tensor, candidate_groups: Tensor) -> Tensor:
    """Whether candidates are of an anchor's groups, or nobody's negative, ``(anchors, candidates)``.

    Args:
        groups: ``(anchors,)``, or several of an anchor, ``(anchors, groups)``.
        candidate_groups: ``(candidates of all processes,)``, -1 for one that is nobody's negative.
    """
    result = (candidate_groups == -1).expand(len(groups), -1)
    for column in groups.unbind(1) if groups.dim() == 2 else (groups,):
        result = result | (column.unsqueeze(1) == candidate_groups)
    return result


@dataclass(frozen=True)
class SupervisedContrastiveLoss:
    r"""Draws rows of one label together and apart from all others.

    Task: ``Groups``.
    Call: ``loss(vectors, labels)``, ``(rows, hidden)``, ``(rows,)``.
    Source: CoLDE, section 3.3.

    With unit vectors :math:`z` of all rows of the batch, :math:`P(i)` the other rows of the label of row :math:`i`,
    and :math:`A` the anchors, which are the rows with at least one of these:

    .. math::
        \ell = \frac{1}{|A|} \sum_{i \in A} \frac{-1}{|P(i)|} \sum_{p \in P(i)}
            \log \frac{e^{z_i \cdot z_p / \tau}}{\sum_{k \ne i} e^{z_i \cdot z_k / \tau}}

    In the paper's equation :math:`2N_{y_i} - 1` is :math:`|P(i)|`; here it is a mean over anchors instead
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
        require_range("temperature", self.temperature, least=LEAST_TEMPERATURE)

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
