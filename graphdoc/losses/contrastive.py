"""Contrastive losses: InfoNCE, of sub-documents, of pairs, and of sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from .gathering import ONE_PROCESS, Gather, LossOutput

Similarity = Literal["cosine", "dot"]
Directions = Literal["both", "one"]
# With less than this, exponents and gradients leave the range of float32.
LEAST_TEMPERATURE = 1e-4


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


@dataclass(frozen=True)
class InfoNCE:
    r"""Separates every anchor's positives from all other candidates.

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

    Raises:
        ValueError: a value is out of range.

    >>> anchors, candidates = torch.eye(2), torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8]])
    >>> contrast = InfoNCE("cosine", temperature=0.1)
    >>> round(contrast(anchors, candidates, positive=torch.tensor([1, 0])).loss.item(), 3)
    0.073
    """

    similarity: Similarity = "dot"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.similarity not in get_args(Similarity):
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

        Raises:
            ValueError: shapes do not fit.
        """
        positive = self._positive(anchors, candidates, positive)
        with torch.autocast(anchors.device.type, enabled=False):
            anchors, candidates = anchors.float(), candidates.float()
            if self.similarity == "cosine":
                anchors, candidates = functional.normalize(anchors, dim=-1), functional.normalize(candidates, dim=-1)
            everything, start = gather.rows(candidates)
            similarity = anchors @ everything.T
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
            left_out = self._left_out(left_out, is_positive)
            is_negative = ~is_positive & ~left_out
            # A finite number for what is no negative: gradients of a sum over none would be no numbers.
            logits = functional.pad(similarity / self.temperature, (0, 1))
            least = torch.finfo(logits.dtype).min / 2
            others = logits.masked_fill(~functional.pad(is_negative, (0, 1)), least).logsumexp(dim=1, keepdim=True)
            losses = functional.softplus(others - logits.gather(1, columns)).masked_fill(~is_given, 0)
            given = is_given.sum(dim=1)
            # The mean over processes must be the mean over anchors, also where processes hold different numbers.
            anchors_of_all = gather.rows((given > 0).sum().reshape(1))[0].sum()
            share = gather.processes / anchors_of_all.clamp(min=1)
            loss = (losses.sum(dim=1) / given.clamp(min=1)).sum() * share
            found = contrast_metrics(similarity.detach(), is_positive, is_negative)
            found["left_out_share"] = left_out.sum(dim=1) / max(left_out.shape[1], 1)
            metrics = {name: values.masked_fill(given == 0, 0).sum() * share for name, values in found.items()}
        return LossOutput(loss, metrics)

    @staticmethod
    def _positive(anchors: Tensor, candidates: Tensor, positive: Tensor | None) -> Tensor:
        """Rows of positives, ``(anchors, positives)``, of vectors whose shapes fit."""
        if anchors.dim() != 2 or candidates.dim() != 2 or anchors.shape[1] != candidates.shape[1]:
            raise ValueError(f"anchors {tuple(anchors.shape)} and candidates {tuple(candidates.shape)} must be "
                             "(anchors, hidden) and (candidates, hidden)")  # fmt: skip
        if positive is None:
            if len(anchors) != len(candidates):
                raise ValueError(f"{len(anchors)} anchors and {len(candidates)} candidates need positive, the row of "
                                 "every anchor's positive among the candidates")  # fmt: skip
            positive = torch.arange(len(anchors), device=anchors.device)
        if positive.shape[:1] != anchors.shape[:1] or positive.dim() > 2:
            raise ValueError(f"positive {tuple(positive.shape)} must be (anchors,) or (anchors, positives) for "
                             f"{len(anchors)} anchors")  # fmt: skip
        if positive.numel() and int(positive.max()) >= len(candidates):
            raise ValueError(f"positive names row {int(positive.max())}, and there are {len(candidates)} candidates")
        return positive if positive.dim() == 2 else positive.unsqueeze(1)

    @staticmethod
    def _left_out(left_out: Tensor | None, is_positive: Tensor) -> Tensor:
        """Which pairs are neither positive nor negative, ``(anchors, candidates of all processes)``."""
        if left_out is None:
            return torch.zeros_like(is_positive)
        if left_out.shape != is_positive.shape:
            raise ValueError(f"left_out {tuple(left_out.shape)} must be (anchors, candidates of all processes), "
                             f"{tuple(is_positive.shape)}")  # fmt: skip
        return left_out & ~is_positive


@dataclass(frozen=True)
class SubDocumentContrast:
    r"""Finds every document's other view among the views of all documents of the batch, by :class:`InfoNCE`.

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
        mask_groups: leave out candidates whose document is of the anchor's group, such as exact copies.

    Raises:
        ValueError: a value is out of range.

    >>> output = SubDocumentContrast("cosine", temperature=0.1)(torch.eye(3), torch.eye(3))
    >>> round(output.loss.item(), 4), output.metrics["accuracy"].item()
    (0.0001, 1.0)
    """

    similarity: Similarity = "dot"
    temperature: float = 1.0
    directions: Directions = "both"
    mask_groups: bool = True

    def __post_init__(self) -> None:
        InfoNCE(self.similarity, self.temperature)
        if self.directions not in get_args(Directions):
            raise ValueError(f"directions {self.directions!r} is unknown; use both or one")

    def __call__(
        self,
        anchors: Tensor,
        candidates: Tensor,
        groups: Tensor | None = None,
        *,
        gather: Gather = ONE_PROCESS,
    ) -> LossOutput:
        """Compute the loss of this process's documents against those of all processes.

        Args:
            anchors: ``(documents, hidden)``, first views.
            candidates: ``(documents, hidden)``, second views, row by row the positives.
            groups: ``(documents,)``, equal numbers for copies of one document.
            gather: how views of other processes are seen.

        Returns:
            The loss and the metrics of :class:`InfoNCE`, means over the directions.

        Raises:
            ValueError: shapes differ.
        """
        if anchors.shape != candidates.shape:
            raise ValueError(f"anchors {tuple(anchors.shape)} and candidates {tuple(candidates.shape)} must have the "
                             "same shape (documents, hidden)")  # fmt: skip
        contrast, left_out = InfoNCE(self.similarity, self.temperature), self._left_out(candidates, groups, gather)
        outputs = [contrast(anchors, candidates, left_out=left_out, gather=gather)]
        if self.directions == "both":
            outputs.append(contrast(candidates, anchors, left_out=left_out, gather=gather))
        names = outputs[0].metrics
        metrics = {name: torch.stack([output.metrics[name] for output in outputs]).mean() for name in names}
        return LossOutput(torch.stack([output.loss for output in outputs]).mean(), metrics)

    @torch.no_grad()
    def _left_out(self, candidates: Tensor, groups: Tensor | None, gather: Gather) -> Tensor | None:
        """Pairs that are no negatives, the same in both directions, ``(documents, documents of all processes)``."""
        if not self.mask_groups or groups is None:
            return None
        return groups.unsqueeze(1) == gather.rows(groups)[0]
