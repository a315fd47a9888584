"""InfoNCE: anchors look for their positives among the candidates of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor
from torch.nn import functional

from ..settings.document import Similarity
from .contract import LossOutput
from .contrast import contrast_metrics, require_temperature
from .gathering import ONE_PROCESS, Gather


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
